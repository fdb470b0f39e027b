package progress

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/inspect"
	"signalbox/internal/show"
	"signalbox/internal/text"
)

// screen shows a run on a terminal.
type screen struct {
	b       *box.Box
	o       Options
	environ []string
	colours bool
	dark    bool
	began   time.Time

	reporter reporter
	// the last event in the story; only the goroutine that follows the ledger uses it and the
	// reporter
	reported uint64

	mu    sync.Mutex // guards what follows
	live  map[string]inspect.Activity
	story []event
}

func newScreen(b *box.Box, o Options) *screen {
	s := &screen{b: b, o: o, reporter: newReporter(b), reported: o.From - min(o.From, o.Recent),
		began: time.Now(), dark: true, colours: o.Getenv("NO_COLOR") == "",
		live: map[string]inspect.Activity{}}
	if o.Recent > 0 && b != nil { // the screen shows how the run stands: do not repeat it
		b.Engine.View(func(state *rules.State) {
			s.reporter.standing = state.Status(s.began).Standing
		})
	}
	for _, name := range []string{"TERM", "COLORTERM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE",
		"TERM_PROGRAM", "TMUX", "STY", "WT_SESSION", "SSH_TTY", "GOOGLE_CLOUD_SHELL",
		"ConEmuANSI"} {
		if value := o.Getenv(name); value != "" {
			s.environ = append(s.environ, name+"="+value)
		}
	}
	return s
}

// Live records what an agent does. The screen shows it at its next tick.
func (s *screen) Live(a agent.Activity) {
	s.mu.Lock()
	if a.Text == "" {
		delete(s.live, a.Session)
	} else {
		s.live[a.Session] = s.live[a.Session].Next(a.Text)
	}
	s.mu.Unlock()
}

// maxBacklog is how many events a screen reads at most, more than any shows.
const maxBacklog = 256

// catchUp adds new events to the story.
func (s *screen) catchUp(ctx context.Context) error {
	tail := s.b.Engine.Tail().Seq
	if tail > s.reported+maxBacklog {
		s.reported = tail - maxBacklog
	}
	return s.b.ReadTo(ctx, &s.reported, tail, func(events []signalbox.Event) error {
		lastLines := s.reporter.lastLines(events)
		var story []report
		s.b.Engine.View(func(
			state *rules.State) {
			story = s.reporter.reports(state, events, lastLines)
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, t := range story {
			text := t.text
			if t.detail != "" {
				text += "  " + t.detail
			}
			s.story = append(s.story, event{t.at.In(s.reporter.zone).Format(time.TimeOnly),
				onScreen(t.work), onScreen(text)})
		}
		s.story = slices.Clone(s.story[max(0, len(s.story)-maxStory):])
		return nil
	})
}

// view returns the view of this moment.
func (s *screen) view() (v view, seq uint64) {
	s.b.Engine.View(func(state *rules.State) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for session := range s.live {
			if known, ok := state.Session(session); !ok || len(known.Live) == 0 {
				delete(s.live, session)
			}
		}
		live := map[string]string{}
		for session, h := range s.live {
			live[session] = h.Text
		}
		seq = state.Seq()
		v = newView(state, s.o.Title, s.began, time.Now(), live)
		v.story = s.story
	})
	v.warning = onScreen(s.o.Stderr.last())
	return v, seq
}

// Show uses the terminal until the run ends or is being stopped. It stays while the run waits, so
// that keys always mean what the screen says they mean; only the clock in its header advances then.
func (s *screen) Show(ctx context.Context) error {
	m, err := s.animate(ctx)
	if err != nil { // fall back to lines
		s.o.Stderr.release()
		fmt.Fprintf(s.o.Stderr, "note: cannot draw on this terminal, showing lines: %s\n",
			text.Printable(err.Error()))
		return newPlain(s.b, s.o).Show(ctx)
	}
	s.leave(ctx, m)
	if m.interrupted {
		return ErrInterrupted
	}
	return m.broken
}

// drawing returns how the run is drawn at first.
func (s *screen) drawing() drawing {
	return drawing{paint: show.NewPalette(s.colours, s.dark), watch: s.o.Watch,
		readOnly: s.o.Actor == "", noKeys: s.o.Keys == nil}
}

// animate draws the run until ctx is done, the run is being stopped, or the user stops it.
func (s *screen) animate(ctx context.Context) (*screenModel, error) {
	s.catchUp(ctx) // best effort: follow reports errors
	v, seq := s.view()
	m := &screenModel{screen: s, view: v,
		drawing: s.drawing()}
	program := tea.NewProgram(m, tea.WithOutput(s.o.Terminal), tea.WithInput(s.o.Keys),
		tea.WithEnvironment(s.environ), tea.WithoutSignalHandler(),
		tea.WithFPS(framesPerSecond))
	following, stop := context.WithCancel(ctx)
	defer stop()
	var helpers sync.WaitGroup
	s.o.Stderr.hold(func() { go program.Send(warnMsg{}) })
	helpers.Go(func() {
		if err := s.follow(following, program, seq); err != nil {
			program.Send(endMsg{err})
		}
	})
	helpers.Go(func() {
		select {
		case <-following.Done():
		case <-s.o.Stopping:
		}
		program.Send(endMsg{})
	})
	discardTyped(s.o.Keys) // before there was a screen to type for
	_, err := program.Run()
	discardTyped(s.o.Keys) // for the screen, and not for the shell
	stop()
	helpers.Wait()
	return m, err
}

// leave prints the last board if the run is complete, then what was written to standard error
// meanwhile, and what the user was writing. After any other end the outcome says everything.
func (s *screen) leave(ctx context.Context, m *screenModel) {
	s.catchUp(ctx) // best effort: the run ends
	if v, _ := s.view(); !s.o.Watch && v.standing == rules.StandingComplete && m.width > 0 {
		v.warning, v.story = "", nil
		lipgloss.Fprintln(s.o.Terminal, board(v, m.width, m.height-1, time.Now(),
			drawing{paint: m.drawing.paint, final: true}))
	}
	s.o.Stderr.release()
	// the run ended while the user was writing
	if f := m.form; f != nil && strings.TrimSpace(f.field.value()) != "" {
		fmt.Fprintf(s.o.Stderr, "note: not sent (%s):\n%s\n", f.title(),
			text.PrintableLines(f.field.value()))
	}
}

// waitForEvents waits until the ledger has events after seq, and takes them up. It reports whether
// the run ended instead.
func (s *screen) waitForEvents(ctx context.Context, seq uint64) (ended bool, err error) {
	if err := s.b.Engine.Wait(ctx, seq); err != nil {
		if ctx.Err() != nil || errors.Is(err, engine.ErrClosed) {
			return true, nil
		}
		return false, err
	}
	return false, s.catchUp(ctx)
}

// refreshInterval limits how often the view follows a busy ledger.
const refreshInterval = 100 * time.Millisecond

// follow sends a new view whenever the ledger changes.
func (s *screen) follow(ctx context.Context, program *tea.Program, seq uint64) error {
	for {
		if ended, err := s.waitForEvents(ctx, seq); ended || err != nil {
			return err
		}
		var v view
		v, seq = s.view()
		program.Send(viewMsg{v})
		select {
		case <-time.After(refreshInterval):
		case <-ctx.Done():
		}
	}
}
