package transcript

import (
	"bytes"
	"math"

	"signalbox"
	"signalbox/transcript/internal/envelope"
	"signalbox/transcript/internal/lines"
)

// textScanner finds signals in the agent's own text, which an envelope passes to it message by
// message. The text passes through these stages:
//
//	lineAssembler             splits the text into lines and skips ordinary ones
//	region                    tracks code fences, delegation prompts and thinking
//	lineSignal                recognizes line signals, and near misses
//	exitFinder, fencedExit    find exit signals
//	turnFinder                finds turn signals
//	trailer                   finds text after a verdict
//	signalQueue               orders the signals, collects bodies, applies limits
//
// It is an envelope.Sink and a lineHandler.
type textScanner struct {
	key string // the session's key, "" if it has none

	lines       lineAssembler
	region      region
	atFence     bool       // the line opens or closes a fence, so it contains no signals
	turns       turnFinder // outside fences
	fencedTurns turnFinder // inside the open fence
	exits       exitFinder
	fencedExit  fencedExit
	trailer     trailer
	queue       signalQueue
	excerpt     excerpt
	keepsOutput bool
	output      []byte // the text so far, if it is kept
	places      places

	// The finder of turn signals must know where code spans are, also in the lines that are
	// skipped. It is told lazily, because most text is not in the same paragraph as a tag.
	piece      []byte // the piece of text being pushed
	pieceStart int64
	// the finder has been told the text before this offset, or it is in untold, or it does not
	// matter any more
	keptUpTo int64
	untold   []byte // the end of that text, at most maxUntold bytes

	firstTurn *signalbox.Signal // the turn signal that counts in this message
	exitSeen  bool              // this turn has an exit signal outside fences
	// thoughtUntil is where the last text ended that the agent thought, 0 if there is none.
	thoughtUntil int64
	// where the last valid one ended that was found in the part of a line, 0 if there is none
	exitEnd int64
}

func newTextScanner(key string) *textScanner {
	return &textScanner{key: key, lines: newLineAssembler(), fencedTurns: turnFinder{fenced: true}}
}

// take returns the signals released since the last call.
func (s *textScanner) take() []signalbox.Signal {
	s.queue.release(s.barrier())
	return s.queue.take()
}

// Push implements envelope.Sink.
func (s *textScanner) Push(p []byte) {
	if len(p) == 0 {
		return
	}
	s.excerpt.push(p)
	if s.keepsOutput {
		s.output = append(s.output, p...)
	}
	s.places.startPiece(s.lines.offset)
	s.queue.body.startPiece(p, s.lines.offset)
	s.piece, s.pieceStart = p, s.lines.offset
	s.lines.push(p, s)
	end := s.lines.offset
	if len(s.lines.partial) > 0 {
		end = s.lines.lineStart // the handler gets the rest later
	}
	s.keepSkipped(end)
	s.piece, s.pieceStart = nil, s.lines.offset
	s.queue.body.endPiece()
	s.queue.closeFullBody(s.lines.offset, s.barrier())
	if s.places.wanted {
		s.places.forget(s.barrier())
	}
}

// Locate implements envelope.Sink.
func (s *textScanner) Locate(p []envelope.Place) { s.places.next = p }

// add queues a signal that has the offsets up to end, and reports whether it was kept.
func (s *textScanner) add(sig signalbox.Signal, end int64) bool {
	sig.From, sig.To = s.places.find(sig.Offset, end)
	return s.queue.add(sig)
}

// startLine implements lineHandler.
func (s *textScanner) startLine(line []byte, at int64, number int) {
	if len(s.queue.waiting) >= releaseAt {
		s.queue.release(s.barrier())
	}
	s.region.thoughts.startLine()
	mayMatter := len(line) > 0 && line[0] != '{' && suspicious(line)
	edge := noBoundary
	if mayMatter {
		edge = s.region.advance(line)
	}
	s.atFence = edge == fenceOpened || edge == fenceClosed
	context := lineContext{at: at, number: number,
		fenced: s.atFence || s.region.inFence(), fenceOpens: edge == fenceOpened,
		inExit: s.exits.active() || s.fencedExit.possible || s.fencedExit.found}
	switch edge {
	case fenceOpened:
		s.exits.end(s.exitFound)
		s.refuseFencedExit()
		s.fencedExit = newFencedExit(s.region.fence, at)
	case fenceClosed:
		s.exits.end(s.exitFound)
		s.fencedTurns.end(s.fencedTurnFound)
		s.fencedExit.closeFence()
	}
	context.alien = edge == delegationMarker || s.trailer.looking && hasTag(line)
	if edge != noBoundary || !mayMatter {
		s.textFollows(s.trailer.startLine(line, context))
		return
	}
	s.matchLine(line, context)
}

// matchLine adds the line's signal, if it is one or almost one.
func (s *textScanner) matchLine(line []byte, context lineContext) {
	at, refused := context.at, s.region.refusal()
	sig, ok := lineSignal(line, s.key, refused)
	if !ok && refused == "" && len(line) <= maxLine && !s.queue.refusedFull() {
		sig, ok = nearMissSignal(line, s.key)
	}
	context.alien = context.alien || ok && !context.fenced
	if ok && sig.Taken() && s.trailer.turnOver {
		s.trailer.looking = false // Resolve sees it
	}
	s.textFollows(s.trailer.startLine(line, context))
	if !ok {
		return
	}
	sig.Offset, sig.Line = at, context.number
	if sig.Taken() {
		s.trailer.heard(&sig)
	}
	if s.add(sig, at+int64(len(lines.TrimEnd(line)))) && sig.Taken() {
		s.queue.openBody(at, at+int64(len(line))+1)
	}
}

// lineBytes implements lineHandler.
func (s *textScanner) lineBytes(part []byte, at int64, number int) {
	if s.atFence {
		s.turns.addOpaque(part, s.turnFound)
		s.forgetSkipped(at + int64(len(part)))
		return
	}
	s.textFollows(at, number, s.trailer.lineBytes(part))
	if s.fencedExit.awaitsTurnEnd() && !lines.Blank(part) {
		s.refuseFencedExit()
	}
	for len(part) > 0 {
		refused, closes := s.region.textRefusal(), s.region.thoughts.closes
		n := s.region.advanceIn(part)
		if refused == signalbox.ReasonThinking || s.region.thoughts.closes > closes {
			s.thoughtUntil = at + int64(n)
		}
		s.exitEnd = 0
		s.findBlocks(part[:n], at, number, refused)
		if s.exitEnd > at {
			s.textFollows(s.exitEnd, number, s.trailer.lineBytes(part[s.exitEnd-at:n]))
		}
		part, at = part[n:], at+int64(n)
		if s.region.thoughts.closes > closes {
			s.queue.add(thoughtBefore(at, number))
		}
	}
}

// findBlocks looks for signals of several lines in a part of a line. refused is why one that starts
// there does not count.
func (s *textScanner) findBlocks(part []byte, at int64, number int, refused signalbox.Reason) {
	inFence := s.region.inFence()
	context := exitContext{inFence: inFence, mayIndent: inFence && s.fencedExit.possible,
		refused: refused}
	if other := s.exits.feed(part, at, number, context, s.exitFound); other && inFence {
		s.refuseFencedExit()
	}
	if inFence {
		s.turns.addOpaque(part, s.turnFound)
		s.fencedTurns.feed(part, at, number, refused, s.fencedTurnFound)
		s.untold = s.untold[:0]
	} else if s.turns.active() || bytes.IndexByte(part, '<') >= 0 {
		s.keepSkipped(at)
		s.tellSkipped()
		s.turns.feed(part, at, number, refused, s.turnFound)
	} else if at < s.pieceStart { // it will not be there later
		s.keep(part)
	} else {
		return
	}
	s.keptUpTo = at + int64(len(part))
}

// skippedLine implements lineHandler.
func (s *textScanner) skippedLine(line []byte, at int64) {
	if at < s.pieceStart {
		s.keep(line)
		s.keptUpTo = at + int64(len(line))
	}
}

// maxUntold is how much text is kept for the finder of turn signals before it is told. Most
// messages are shorter.
const maxUntold = 4 << 10

// keepSkipped keeps the text of the piece, up to the offset end, that has not been kept.
func (s *textScanner) keepSkipped(end int64) {
	if s.keptUpTo < end {
		s.keep(s.piece[s.keptUpTo-s.pieceStart : end-s.pieceStart])
		s.keptUpTo = end
	}
}

// keep keeps text for the finder of turn signals, which must not be active.
func (s *textScanner) keep(text []byte) {
	if s.region.inFence() {
		return // the fence ends all spans
	}
	if len(s.untold)+len(text) <= maxUntold {
		s.untold = append(s.untold, text...)
		return
	}
	if blank := lastBlankLine(text); blank >= 0 {
		s.turns.spans.Reset()
		s.untold, text = s.untold[:0], text[blank+len("\n\n"):]
	}
	s.tellSkipped()
	s.turns.skip(text)
}

// tellSkipped tells the finder of turn signals the text that was kept.
func (s *textScanner) tellSkipped() {
	text := s.untold
	if blank := lastBlankLine(text); blank >= 0 {
		s.turns.spans.Reset()
		text = text[blank+len("\n\n"):]
	}
	s.turns.skip(text)
	s.untold = s.untold[:0]
}

// forgetSkipped is called when the text so far does not matter any more to the finder of turn
// signals.
func (s *textScanner) forgetSkipped(at int64) { s.keptUpTo, s.untold = at, s.untold[:0] }

// lastBlankLine returns the index of the last "\n\n", -1 if there is none. Other blank lines end a
// paragraph too; this one is fast to find. (bytes.LastIndex takes a third of the time of a whole
// scan.)
func lastBlankLine(text []byte) int {
	for i := len(text); ; {
		i = bytes.LastIndexByte(text[:i], '\n')
		switch {
		case i < 1:
			return -1
		case text[i-1] == '\n':
			return i - 1
		}
	}
}

// canSkip implements lineHandler. Inside an object, a block or a fence that may contain an exit
// signal every line matters, and after a verdict the next one.
func (s *textScanner) canSkip() bool {
	return !s.turns.active() && !s.fencedTurns.active() && !s.exits.active() &&
		!s.fencedExit.possible && !s.trailer.looking
}

// barrier returns the offset before which no more signals can be found, and all is known about
// them.
func (s *textScanner) barrier() int64 {
	barrier := int64(math.MaxInt64)
	if s.turns.active() {
		barrier = min(barrier, s.turns.start())
	}
	if s.fencedTurns.active() {
		barrier = min(barrier, s.fencedTurns.start())
	}
	if s.exits.active() {
		barrier = min(barrier, s.exits.start())
	}
	if len(s.lines.partial) > 0 {
		barrier = min(barrier, s.lines.lineStart)
	}
	if s.fencedExit.found {
		barrier = min(barrier, s.fencedExit.object.at)
	}
	if s.trailer.looking && !s.trailer.turnOver {
		barrier = min(barrier, s.trailer.first())
	}
	return barrier
}

// turnFound handles a block outside fences.
func (s *textScanner) turnFound(b turnBlock) {
	if b.kind != blockComplete && s.queue.refusedFull() {
		return
	}
	if b.kind == blockQuoted {
		s.addQuotedTurn(b, signalbox.ReasonQuoted)
		return
	}
	sig, problems := turnSignal(b, s.key, s.firstTurn)
	end := b.at + int64(len(b.raw))
	s.add(sig, end)
	if sig.Taken() {
		s.firstTurn = &sig
	}
	for _, problem := range problems {
		s.add(problem, end)
	}
}

// fencedTurnFound handles a block inside a fence. Incomplete blocks there are not worth reporting.
func (s *textScanner) fencedTurnFound(b turnBlock) {
	if b.kind == blockComplete {
		s.addQuotedTurn(b, signalbox.ReasonFenced)
	}
}

// addQuotedTurn adds a complete block that is refused because of where it is. An invalid one is not
// worth reporting.
func (s *textScanner) addQuotedTurn(b turnBlock, refused signalbox.Reason) {
	if sig, ok := quotedTurnSignal(b, refused); ok {
		s.add(sig, b.at+int64(len(b.raw)))
	}
}

// exitFound handles a JSON object that may be an exit signal.
func (s *textScanner) exitFound(o exitObject) {
	switch named := o.namesProtocol(); {
	case !named && o.inFence:
		s.refuseFencedExit()
	case !named:
	case o.inFence:
		s.fencedExitFound(o)
	default:
		s.exitSeen = s.exitSeen || o.refused == ""
		sig := exitSignal(o, s.key)
		if sig.Taken() {
			s.trailer.heardExit(&sig, o.at)
			s.exitEnd = o.end()
		}
		s.add(sig, o.end())
	}
}

// fencedExitFound handles an exit signal inside a fence.
func (s *textScanner) fencedExitFound(o exitObject) {
	if !s.fencedExit.set(o) {
		s.refuseFencedExit()
		s.add(fencedExitSignal(o), o.end())
	}
}

// refuseFencedExit gives up on an exit signal in the last fence.
func (s *textScanner) refuseFencedExit() {
	if s.fencedExit.found {
		s.add(fencedExitSignal(s.fencedExit.object), s.fencedExit.object.end())
	}
	s.fencedExit = fencedExit{}
	if end := s.queue.body.messageEnd; end != 0 {
		s.queue.closeBody(end)
	}
}

// acceptFencedExit decides at the end of the turn whether an exit signal in the last fence counts.
func (s *textScanner) acceptFencedExit() {
	if s.exitSeen || !s.fencedExit.awaitsTurnEnd() {
		s.refuseFencedExit()
		return
	}
	sig, end := exitSignal(s.fencedExit.object, s.key), s.fencedExit.object.end()
	if sig.Taken() {
		s.trailer.heardExit(&sig, s.fencedExit.fenceStart)
		s.queue.closeBody(s.fencedExit.fenceStart)
	}
	s.fencedExit = fencedExit{}
	s.add(sig, end)
	s.queue.closeBody(s.lines.offset)
}

// Skip implements envelope.Sink.
func (s *textScanner) Skip(n int) {
	s.lines.offset += int64(n)
	s.forgetSkipped(s.lines.offset)
}

// StartLine implements envelope.Sink.
func (s *textScanner) StartLine() {
	if s.lines.last != '\n' {
		s.Push([]byte{'\n'})
	}
}

// Pause implements envelope.Sink.
func (s *textScanner) Pause() {
	s.StartLine()
	s.trailer.endBody()
	if !s.fencedExit.awaitsTurnEnd() {
		s.queue.closeBody(s.lines.offset)
	}
}

// StartMessage implements envelope.Sink.
func (s *textScanner) StartMessage() {
	s.EndMessage()
	s.excerpt.startLine()
	if n := len(s.output); n > 0 && s.output[n-1] != '\n' {
		s.output = append(s.output, '\n')
	}
	s.lines.startNewLine()
	s.forgetSkipped(s.lines.offset)
}

// EndMessage implements envelope.Sink.
func (s *textScanner) EndMessage() {
	s.lines.endLine(s)
	s.exits.end(s.exitFound)
	s.turns.end(s.turnFound)
	s.fencedTurns.end(s.fencedTurnFound)
	if s.region.inFence() {
		s.refuseFencedExit()
		s.textFollows(s.lines.offset, s.lines.number, s.trailer.endInFence())
	}
	s.region = region{thoughts: s.region.thoughts}
	s.trailer.endBody()
	s.firstTurn = nil
	s.forgetSkipped(s.lines.offset)
	if s.fencedExit.awaitsTurnEnd() {
		s.queue.body.endMessage(s.lines.offset)
	} else {
		s.queue.closeBody(s.lines.offset)
	}
}

// EndTurn implements envelope.Sink.
func (s *textScanner) EndTurn() {
	s.EndMessage()
	s.acceptFencedExit()
	s.exitSeen = false
	s.textFollows(s.trailer.decide())
	s.trailer.turnOver = true
	s.region = region{}
}

// textFollows notes that text follows the last verdict, if it was found.
func (s *textScanner) textFollows(at int64, number int, found bool) {
	switch {
	case !found:
	case s.trailer.turnOver:
		s.queue.add(textAfter(at, number))
	default:
		s.queue.markFollowed(s.trailer.line)
		s.queue.markFollowed(s.trailer.exit)
	}
}

// Remark implements envelope.Sink.
func (s *textScanner) Remark(reason signalbox.Reason, raw, detail string) {
	sig := signalbox.Signal{Offset: s.lines.offset, Line: s.lines.number, Raw: raw, Refused: reason,
		Detail: detail}
	sig.From, sig.To = s.places.take()
	s.queue.add(sig)
}

// Snapshot implements envelope.Sink.
func (s *textScanner) Snapshot() (restore func()) {
	s.queue.release(s.barrier()) // so that there is little to copy
	saved := *s
	saved.lines, saved.queue = s.lines.clone(), s.queue.clone()
	saved.untold, saved.excerpt, saved.places = bytes.Clone(s.untold), s.excerpt.clone(),
		s.places.clone()
	saved.turns, saved.fencedTurns, saved.exits = s.turns.clone(), s.fencedTurns.clone(),
		s.exits.clone()
	if !s.queue.tentative {
		s.queue.tentative, s.queue.tentativeBytes = true, 0
	}
	return func() {
		// before the snapshot; some may have been taken since, and must not be taken again
		released := s.queue.released
		*s = saved
		s.queue.released = released
	}
}

// Commit implements envelope.Sink.
func (s *textScanner) Commit() { s.queue.tentative = false }
