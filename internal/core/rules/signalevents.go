package rules

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"signalbox/internal/text"

	"signalbox"
)

// The types of events about signals, accepted and refused.
const (
	TypeSignalHeard           = "SignalHeard"
	TypeSignalRefused         = "SignalRefused"
	TypeAgentSessionCompleted = "AgentSessionCompleted"
	TypeTurnSignalHeard       = "TurnSignalHeard"
	TypeUnknownSignalRecovery = "UnknownSignalRecovery"
	TypeAgentSignalFailure    = "AgentSignalFailure"
)

// SignalHeard records an accepted signal, and where it was read.
type SignalHeard struct {
	Dialect signalbox.Dialect `json:"dialect"`
	Signal  string            `json:"signal"`
	Epoch   uint64            `json:"epoch"`
	Blob    signalbox.Hash    `json:"blob,omitzero"`
	Offset  int64             `json:"offset"`
	// Handler is the coordinator's action for a line signal.
	Handler string `json:"handler,omitempty"`
	// Body is the blob with the signal's fields.
	Body signalbox.Hash `json:"body,omitzero"`
	// Ref is the branch, tag or commit that has the work, if it was named with the signal.
	Ref string `json:"ref,omitempty"`
}

func (b SignalHeard) fault(s *State, e *signalbox.Event) string {
	return s.workFault(e, func(w *Work) string { return liveFault(e, w, b.Epoch) })
}

// apply resets the counts of turns without a signal and of failures, and remembers the signal, so
// that a repeated one is recognized.
func (b SignalHeard) apply(s *State, e *signalbox.Event) {
	if b.Ref != "" {
		s.changeWork(e.Work, func(w *Work) { w.Ref = b.Ref })
	}
	w, _ := s.Work(e.Work)
	s.noteAgentWorks(w)
	row, _ := signalbox.LineSignalNamed(b.Signal)
	if w.Task == nil || row.Urgent { // the result of the turn is still open
		return
	}
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Counts.Unknown, t.Counts.Confirms = 0, 0
		if b.Signal == signalbox.NameReadyForReview {
			t.Claimed = b.Body
		}
		if t.Timeouts[w.Lease.Role] > 0 {
			t.Timeouts = cloneCounts(t.Timeouts)
			delete(t.Timeouts, w.Lease.Role)
		}
	})
	if b.Dialect != signalbox.DialectLine { // exit signals are remembered by AgentSessionCompleted
		return
	}
	s.changeSession(e.Session, func(session *Session) {
		session.Exits = append(session.Exits,
			ExitRecord{Epoch: b.Epoch, Digest: sha256.Sum256(e.Data), Seq: e.Seq, Next: w.Phase})
	})
}

func (b SignalHeard) describe(d *Describer, _ *signalbox.Event) (text, detail string) {
	switch b.Signal {
	case signalbox.NameReadyForReview:
		return "ready for review" + d.checksRun(), ""
	case signalbox.NameReviewPassed:
		return "review passed", ""
	case signalbox.NameAuditPassed:
		return "audit passed", ""
	case signalbox.NameRemediationComplete:
		return "remediation complete" + d.checksRun(), ""
	}
	return "", ""
}

// SignalRefused records a signal that was refused: once for each session, reason and signal, and
// again only when it was sent ten times as often.
type SignalRefused struct {
	// Said is the name of the signal, or "renew" or "release".
	Said   string           `json:"said"`
	Reason signalbox.Reason `json:"reason"`
	Detail string           `json:"detail"`
	// Epoch is the epoch it was sent under, 0 if it named none.
	Epoch uint64         `json:"epoch"`
	Count int            `json:"count"`
	Blob  signalbox.Hash `json:"blob,omitzero"`
}

func (b SignalRefused) fault(s *State, e *signalbox.Event) string {
	if _, known := s.Session(e.Session); !known || b.Count < 1 {
		return "there is no such session, or the count is not positive"
	}
	return ""
}

func (b SignalRefused) apply(s *State, e *signalbox.Event) {
	s.changeSession(e.Session, func(session *Session) {
		same := func(r RefusalRecord) bool { return r.Reason == b.Reason && r.Said == b.Said }
		refused := slices.DeleteFunc(slices.Clone(session.Refused), same)
		session.Refused = append(refused, RefusalRecord{b.Reason, b.Said, e.Seq, b.Count})
	})
}

func (b SignalRefused) describe(d *Describer, e *signalbox.Event) (text, detail string) {
	signal := b.Said
	if row, known := signalbox.LineSignalNamed(signal); known {
		signal = row.Text
	}
	if b.Count > 1 {
		signal += fmt.Sprintf(" (%d times)", b.Count)
	}
	return "refused " + signal + ": " + b.why(d, e), ""
}

func (b SignalRefused) why(d *Describer, e *signalbox.Event) string {
	switch b.Reason {
	case signalbox.ReasonOutOfRole:
		return text.WithArticle(d.role(e)) + " must not send it"
	case signalbox.ReasonWrongWork:
		if named := namedWork(b.Detail); named != "" {
			return "it names " + named + ", but the session works on " + e.Work
		}
		return "it does not name " + e.Work
	case signalbox.ReasonFenced:
		return "inside a code block"
	case signalbox.ReasonDelegated:
		return "inside a prompt for another agent"
	case signalbox.ReasonNearMiss:
		if wrong, instead, ok := strings.Cut(b.Detail, ": "); ok {
			return "near miss (" + wrong + "): " + instead
		}
		return "near miss: " + b.Detail
	case signalbox.ReasonMalformed:
		return withDetail("malformed", b.Detail)
	case signalbox.ReasonTooLarge:
		return "too large"
	case signalbox.ReasonUnknownType:
		return withDetail("unknown signal", b.Detail)
	case signalbox.ReasonWrongKey:
		return "wrong session key"
	case signalbox.ReasonAmbiguous:
		return withDetail("the turn contradicts itself", b.Detail)
	case signalbox.ReasonDuplicate:
		return "already sent"
	case signalbox.ReasonSuperseded:
		return "replaced by another signal of the same turn"
	}
	if b.Detail == "" {
		return strings.ReplaceAll(string(b.Reason), "_", " ")
	}
	return b.Detail // for a stale lease or a phase mismatch it is complete
}

// namedWork finds the work that a refused signal names, as the crew and the rules write it: after
// "about", perhaps in quotes. It returns "" if there is none.
func namedWork(detail string) string {
	for {
		before, after, found := strings.Cut(detail, "about ")
		named := strings.TrimPrefix(after, "'")
		end := strings.IndexAny(named+" ", "', \t\n\f\r")
		switch {
		case !found:
			return ""
		case end > 0 && !endsInWord(before):
			return named[:end]
		}
		detail = after
	}
}

// endsInWord reports whether a text ends with a character of a word.
func endsInWord(text string) bool {
	return strings.TrimRight(text, "_0123456789"+
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != text
}

// withDetail appends a detail, unless it only names the work of the signal.
func withDetail(text, detail string) string {
	if detail == "" || strings.HasPrefix(detail, "about ") {
		return text
	}
	return text + ": " + detail
}

// AgentSessionCompleted records an accepted exit signal.
type AgentSessionCompleted struct {
	signalbox.AgentSessionCompleted
}

// fault validates the next phase too. Before rules version 3, the one of planned work was always
// that of the exit protocol, even if the work stayed elsewhere.
func (b AgentSessionCompleted) fault(s *State, e *signalbox.Event) string {
	return s.workFault(e, func(w *Work) string {
		if fault := liveFault(e, w, b.LeaseEpoch); fault != "" {
			return fault
		}
		signal := signalbox.ExitSignal{PhaseCompleted: w.Phase, ExitReason: b.ExitReason}
		next, moves := signal.NextPhase()
		agrees := b.WorkID == e.Work && b.SessionID == e.Session && b.ActorID == e.Actor &&
			b.PhaseCompleted == w.Phase
		if !agrees || !moves || b.NextPhase == nil || *b.NextPhase != next &&
			(w.Task == nil || *b.NextPhase != s.phaseAfterExit(w, w.Lease.Role, b.ExitReason)) {
			return "its fields do not agree with the work"
		}
		return ""
	})
}

func (b AgentSessionCompleted) apply(s *State, e *signalbox.Event) {
	s.changeWork(e.Work, func(w *Work) {
		if b.ExitReason != signalbox.ExitCompleted && b.Notes != nil {
			w.Notes, w.NotesBlob = *b.Notes, b.NotesBlob
		}
		present := *w.Present
		present.Ended = Ending(b.ExitReason)
		w.Present = &present
	})
	s.changeSession(e.Session, func(session *Session) {
		session.Exits = append(session.Exits, ExitRecord{
			Epoch: b.LeaseEpoch, Digest: sha256.Sum256(e.Data), Seq: e.Seq, Next: *b.NextPhase,
		})
	})
}

func (b AgentSessionCompleted) describe(d *Describer, e *signalbox.Event) (text, detail string) {
	return d.role(e) + " exits", string(b.ExitReason)
}

// TurnSignalHeard records a turn signal in a model's reply to a behaviour tree. It belongs to no
// work item and no session.
type TurnSignalHeard struct {
	Run  string `json:"run"`
	Tree string `json:"tree"`
	Node string `json:"node"`
	// Turn is the number of the signal within the run, from 1.
	Turn       uint64  `json:"turn"`
	Signal     string  `json:"signal"`
	Confidence float64 `json:"confidence"`
	// Reason is the explanation in the signal.
	Reason string `json:"reason,omitempty"`
	// Body is the blob with all fields and the block as the model wrote it.
	Body signalbox.Hash `json:"body,omitzero"`
}

// fault accepts unknown signals, because they change no state and later versions may add some.
func (b TurnSignalHeard) fault(s *State, _ *signalbox.Event) string {
	last, known := s.TurnSignals(b.Run)
	switch {
	case b.Turn == 0 || known && b.Turn != last+1:
		return fmt.Sprintf("turn %d does not follow turn %d", b.Turn, last)
	case !isConfidence(b.Confidence):
		return fmt.Sprintf("invalid confidence %v", b.Confidence)
	}
	return idFault(b.Run)
}

func (b TurnSignalHeard) apply(s *State, e *signalbox.Event) {
	s.addTurn(turnRun{b.Run, b.Turn, e.Seq})
}

func (b TurnSignalHeard) describe(*Describer, *signalbox.Event) (text, detail string) {
	return fmt.Sprintf("tree %s says %s", b.Tree, strings.ReplaceAll(b.Signal, "_", " ")), b.Reason
}

// UnknownSignalRecovery records that an agent's turn contained no valid signal, and that the agent
// is prompted again. Its level is question if a reviewer wrote more after a verdict and is asked
// whether that is its verdict; this counts as no attempt.
type UnknownSignalRecovery struct {
	Attempt int    `json:"attempt"`
	Level   string `json:"level"`
	Preview string `json:"output_preview"`
	Advice  string `json:"advice,omitempty"`
}

func (b UnknownSignalRecovery) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Counts.Unknown = b.Attempt
		if b.Level == LevelQuestion {
			t.Counts.Confirms++
		}
	})
	w, _ := s.Work(e.Work)
	s.noteAgentWorks(w)
}

func (b UnknownSignalRecovery) describe(d *Describer, e *signalbox.Event) (text, detail string) {
	text = d.role(e) + " sent no valid signal" + nthTime(b.Attempt) + "; asking again"
	if b.Level == LevelQuestion {
		text = d.role(e) + " wrote more after its verdict; asking whether it stands"
	}
	return text, d.Activity(b.Preview)
}

// AgentSignalFailure records that an agent failed to send a valid signal too often.
type AgentSignalFailure struct {
	Reason string `json:"reason"`
}

func (AgentSignalFailure) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) { t.Counts.Unknown, t.Counts.Confirms = 0, 0 })
}
