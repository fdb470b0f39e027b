package render

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/inspect"
	"signalbox/internal/show"
	"signalbox/internal/text"
)

// Log prints the sessions of a work item, one after the other.
type Log struct {
	b    *box.Box
	work string
	out  io.Writer
	o    LogOptions

	// The position: the session and the turn that are printed now, and how many bytes of the turn
	// were printed.
	epoch uint64
	turn  int
	at    int64

	printer  io.WriteCloser // of the turn; nil between turns
	live     *os.File       // the output of the running turn; nil if there is none
	unlisted bool           // it was said that the output of the running turn cannot be read yet
}

// LogOptions are options of a Log.
type LogOptions struct {
	Options
	// Raw prints the output of agents as it is, and nothing else.
	Raw bool
	// Full prints everything that agents wrote, also what is usually shortened.
	Full bool
	// Flush is called when something was printed and nothing more is there yet; nil does nothing.
	Flush func() error
	// Poll is how often the output of a running agent is read; 0 means every 200 milliseconds.
	Poll time.Duration
	// Tail limits how much of the output of a turn that is already there is printed: the last
	// bytes, from the start of a line. 0 prints all.
	Tail int64
}

// NewLog returns the log of a work item.
func NewLog(w io.Writer, b *box.Box, work string, o LogOptions) *Log {
	if o.Flush == nil {
		o.Flush = func() error { return nil }
	}
	if o.Poll == 0 {
		o.Poll = 200 * time.Millisecond
	}
	return &Log{b: b, work: work, out: w, o: o}
}

// Print prints the sessions with the given indexes. Of a running agent it prints what there is.
func (l *Log) Print(ctx context.Context, indexes []int) error {
	w := l.workItem()
	for _, i := range indexes {
		s, err := inspect.ReadSession(ctx, l.b.Journal, w, i, time.Now())
		if err == nil {
			err = l.session(ctx, w, &s)
		}
		if err == nil {
			err = l.endTurn(nil) // what is running is not followed
		}
		if err != nil {
			return err
		}
	}
	return l.o.Flush()
}

// Follow prints the sessions from the index on, and then what running agents write and the next
// sessions, until the work is done or ctx is done.
func (l *Log) Follow(ctx context.Context, from int) error {
	observing, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- l.b.Engine.Observe(observing) }()
	for {
		seq, w := l.b.Engine.Tail().Seq, l.workItem()
		if err := l.advance(ctx, w, &from); err != nil {
			return err
		}
		if w.Done() && w.Lease == nil {
			return l.o.Flush()
		}
		if err := l.await(ctx, seq, failed); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// advance prints the sessions from an index on, as far as they have come, and moves the index to
// the one that is not over.
func (l *Log) advance(ctx context.Context, w *rules.Work, from *int) error {
	sessions := len(w.View(time.Now()).Sessions)
	for ; *from < sessions; *from++ {
		s, err := inspect.ReadSession(ctx, l.b.Journal, w, *from, time.Now())
		if err == nil {
			err = l.session(ctx, w, &s)
		}
		if err != nil {
			return err
		}
		if s.To == nil {
			break
		}
		if err := l.endTurn(nil); err != nil { // of an agent that was killed
			return err
		}
	}
	return l.o.Flush()
}

// await waits until the ledger has more than seq events. Meanwhile it prints what the agent writes.
func (l *Log) await(ctx context.Context, seq uint64, failed <-chan error) error {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	advanced := make(chan error, 1)
	go func() { advanced <- l.b.Engine.Wait(waiting, seq) }()
	ticker := time.NewTicker(l.o.Poll)
	defer ticker.Stop()
	for {
		select {
		case err := <-advanced:
			if ctx.Err() != nil || errors.Is(err, engine.ErrClosed) {
				return nil
			}
			return err
		case err := <-failed:
			if ctx.Err() != nil {
				return nil
			}
			return err
		case <-ticker.C:
			if err := l.copyLive(); err != nil {
				return err
			}
		}
	}
}

func (l *Log) workItem() (w *rules.Work) {
	l.b.Engine.View(func(s *rules.State) { w, _ = s.Work(l.work) })
	return w
}

// session prints a session from the current position on.
func (l *Log) session(ctx context.Context, w *rules.Work, s *inspect.Session) error {
	if s.To == nil && len(s.Turns) == 0 && inspect.RunsAgent(s.Role) {
		return nil // its agent starts in a moment
	}
	if l.epoch != s.Epoch {
		l.epoch, l.turn, l.at, l.unlisted = s.Epoch, 0, 0, false
		if err := l.heading(w, s); err != nil {
			return err
		}
	}
	for ; l.turn < len(s.Turns); l.turn++ {
		turn := &s.Turns[l.turn]
		if turn.Ended == nil && l.turn == len(s.Turns)-1 {
			if s.To != nil { // its process was killed
				return l.endTurn(nil)
			}
			return l.running(w, s, turn)
		}
		if err := l.ended(ctx, w, s, turn); err != nil {
			return err
		}
	}
	return nil
}

// heading prints who works on the task, and when.
func (l *Log) heading(w *rules.Work, s *inspect.Session) error {
	if l.o.Raw {
		return nil
	}
	who := string(s.Role)
	if name := s.Agent(); name != "" {
		who += " " + name
	}
	if n := len(s.Turns); n > 0 && s.Turns[n-1].Attempt > 1 {
		who += ", " + text.Ordinal(s.Turns[n-1].Attempt) + " agent of its role"
	}
	when := s.From.In(l.o.zone()).Format(time.DateTime)
	if s.To != nil {
		when += " to " + l.o.clock(*s.To)
	}
	_, err := fmt.Fprintln(l.out,
		l.o.Paint.Strong(show.OnScreen(fmt.Sprintf("━━ %s  %s  %s  session %s", w.ID, who, when,
			s.Session))))
	if err == nil && len(s.Turns) == 0 {
		err = l.withoutAgent(s)
	}
	return err
}

// withoutAgent prints what became of a session that ran no agent.
func (l *Log) withoutAgent(s *inspect.Session) error {
	if s.Failure != "" {
		_, err := fmt.Fprintln(l.out, l.o.Paint.Bad("  ! "+clip(s.Failure)))
		return err
	}
	ended := "running"
	if s.Ended != nil {
		ended = clip(cmp.Or(s.Outcome, string(*s.Ended)))
	}
	more := ""
	if s.Role == signalbox.RoleCI {
		more = "; see signalbox work show " + l.work
	}
	_, err := fmt.Fprintln(l.out, l.o.Paint.Faint("  "+ended+more))
	return err
}

// start makes the printer of a turn. ended is what the ledger says about the turn, nil while it is
// running.
func (l *Log) start(w *rules.Work, s *inspect.Session, turn, ended *inspect.Turn) {
	if l.printer != nil {
		return
	}
	if l.o.Raw {
		l.printer = unchanged{l.out}
		return
	}
	l.printer = NewTranscript(l.out,
		TranscriptOptions{Options: l.o.Options, Full: l.o.Full, Format: cmp.Or(turn.Format, signalbox.FormatAuto),
			Role: s.Role, Work: w.ID, Name: w.Name(), Turn: ended})
}

// ended prints the rest of a turn that has ended.
func (l *Log) ended(ctx context.Context, w *rules.Work, s *inspect.Session,
	turn *inspect.Turn) error {
	l.start(w, s, turn, turn)
	if t, ok := l.printer.(*Transcript); ok {
		t.o.Turn = turn // it may have started before the turn ended
	}
	if turn.Output != (signalbox.Hash{}) {
		if err := l.copyBlob(ctx, turn.Output); err != nil {
			return err
		}
	}
	return l.endTurn(turn)
}

// copyBlob prints a transcript from the current position on.
func (l *Log) copyBlob(ctx context.Context, digest signalbox.Hash) error {
	blob, err := l.b.Blob(ctx, digest)
	if signalbox.CodeOf(err) == signalbox.CodeNotFound { // redacted
		_, err := fmt.Fprintln(l.out, l.o.Paint.Warn(show.OnScreen(err.Error())))
		return err
	}
	if err != nil {
		return err
	}
	defer blob.Close()
	if seeker, ok := blob.(io.ReadSeeker); ok {
		if err = l.skip(seeker); err == nil {
			_, err = seeker.Seek(l.at, io.SeekStart)
		}
	} else {
		_, err = io.CopyN(io.Discard, blob, l.at)
	}
	if err != nil {
		return err
	}
	return l.copy(ctx, blob)
}

// skip moves the position of a turn that was not printed yet, so that only the end of its output is
// printed.
func (l *Log) skip(output io.ReadSeeker) error {
	if l.o.Tail == 0 || l.at > 0 {
		return nil
	}
	size, err := output.Seek(0, io.SeekEnd)
	if err != nil || size <= l.o.Tail {
		return err
	}
	if _, err = output.Seek(size-l.o.Tail, io.SeekStart); err != nil {
		return err
	}
	// of a line; if it is very long, printing starts in it
	rest, err := bufio.NewReader(io.LimitReader(output, l.o.Tail)).ReadSlice('\n')
	if err != nil && err != bufio.ErrBufferFull && err != io.EOF {
		return err
	}
	l.at = size - l.o.Tail + int64(len(rest))
	if t, ok := l.printer.(*Transcript); ok {
		t.o.Tail = true
		_, err = fmt.Fprintln(l.out,
			l.o.Paint.Faint(fmt.Sprintf("… %.1f MB before this: signalbox logs %s",
				float64(l.at)/1e6, l.work)))
		return err
	}
	return nil
}

// firstPieces is how many pieces are printed at once, so that the first screen appears quickly.
const firstPieces = 16

func (l *Log) copy(ctx context.Context, r io.Reader) error {
	buf := make([]byte, 64<<10)
	for pieces := 0; ctx.Err() == nil; pieces++ {
		n, err := r.Read(buf)
		if n > 0 {
			l.at += int64(n)
			if _, err := l.printer.Write(buf[:n]); err != nil {
				return err
			}
		}
		if pieces < firstPieces {
			if err := l.o.Flush(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// running prints what a running agent has written so far.
func (l *Log) running(w *rules.Work, s *inspect.Session, turn *inspect.Turn) error {
	l.start(w, s, turn, nil)
	if l.live == nil {
		file, err := os.Open(agent.LiveTranscript(l.b.Dir, s.Session))
		if err != nil {
			if !l.unlisted && !l.o.Raw {
				l.unlisted = true
				_, err := fmt.Fprintln(l.out,
					l.o.Paint.Faint("  (running; its output can be read here when its turn ends)"))
				return err
			}
			return nil
		}
		l.live = file
		err = l.skip(file)
		if err == nil {
			_, err = file.Seek(l.at, io.SeekStart)
		}
		if err != nil {
			return err
		}
	}
	return l.copyLive()
}

// copyLive prints what was written to the output of the running turn.
func (l *Log) copyLive() error {
	if l.live == nil || l.printer == nil {
		return nil
	}
	before := l.at
	err := l.copy(context.Background(), l.live)
	if t, ok := l.printer.(*Transcript); err == nil && ok && l.at == before {
		err = t.Flush()
	}
	if err == nil {
		err = l.o.Flush()
	}
	return err
}

// endTurn prints how a turn ended, nil if it is not known.
func (l *Log) endTurn(turn *inspect.Turn) error {
	if l.live != nil {
		l.live.Close()
		l.live = nil
	}
	l.at, l.unlisted = 0, false
	if l.printer == nil {
		return nil
	}
	err := l.printer.Close()
	l.printer = nil
	if err != nil || turn == nil || l.o.Raw {
		return err
	}
	_, more, _ := strings.Cut(turn.Failure, "\n")
	for line := range strings.Lines(more) {
		if _, err := fmt.Fprintln(l.out, l.o.Paint.Bad("  ! "+clip(line))); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(l.out, l.o.Paint.Faint("── "+show.OnScreen(Outcome(turn))))
	return err
}

// loginRefused introduces what a program changed in its copy of the user's login.
const loginRefused = "not copied back to your login"

// Outcome returns how a turn ended, in words.
func Outcome(t *inspect.Turn) string {
	var parts []string
	switch {
	case t.Failure != "":
		first, _, _ := strings.Cut(t.Failure, "\n")
		parts = append(parts, "failed: "+first)
	case t.Cap != "":
		parts = append(parts, "ended by signalbox: "+t.Cap.Reason())
	case t.Interrupted:
		parts = append(parts, "interrupted")
	case t.Unknown:
		parts = append(parts, "no valid signal; asked again")
	case len(t.Signals) > 0:
		parts = append(parts, "accepted "+signalName(t.Signals[len(t.Signals)-1].Name))
	case t.Exit != 0: // it could not continue its session, or signalbox ended it after its turn
		parts = append(parts, fmt.Sprintf("end of turn, exit status %d", t.Exit))
	default:
		parts = append(parts, "end of turn")
	}
	if t.Usage.Tokens > 0 {
		parts = append(parts, show.Sum(show.Tokens(t.Usage.Tokens)+" tokens",
			t.Usage.UnknownTokens))
	}
	if t.Usage.CostMicros > 0 {
		parts = append(parts, show.Sum(show.Dollars(t.Usage.CostMicros), t.Usage.UnknownCost))
	}
	parts = append(parts, text.Duration(time.Duration(t.Usage.Seconds*float64(time.Second))))
	if len(t.LoginRefused) > 0 {
		parts = append(parts, loginRefused+": "+strings.Join(t.LoginRefused, ", "))
	}
	return strings.Join(parts, " · ")
}

// signalName returns a signal as agents write it.
func signalName(name string) string {
	if row, known := signalbox.LineSignalNamed(name); known {
		return row.Text
	}
	return strings.ToUpper(name)
}

// unchanged is a printer that prints its input.
type unchanged struct{ io.Writer }

func (unchanged) Close() error { return nil }
