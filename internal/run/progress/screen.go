package progress

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/crew"
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

	teller teller
	told   uint64 // the last event that is in the story; only the goroutine that follows the ledger uses it and the teller
	left   *view  // what was last left on the terminal when nothing could go on, nil before that

	mu    sync.Mutex // guards what follows
	live  map[string]hearing
	story []event
}

func newScreen(b *box.Box, o Options) *screen {
	s := &screen{b: b, o: o, teller: newTeller(b), told: o.From, began: time.Now(), dark: true, colours: o.Getenv("NO_COLOR") == "", live: map[string]hearing{}}
	for _, name := range []string{"TERM", "COLORTERM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM_PROGRAM", "TMUX", "STY", "WT_SESSION", "SSH_TTY", "GOOGLE_CLOUD_SHELL", "ConEmuANSI"} {
		if value := o.Getenv(name); value != "" {
			s.environ = append(s.environ, name+"="+value)
		}
	}
	return s
}

// Live keeps what an agent does. The screen takes it with its next tick.
func (s *screen) Live(a crew.Activity) {
	s.mu.Lock()
	s.live[a.Session] = s.live[a.Session].hear(a.Text)
	s.mu.Unlock()
}

// catchUp adds to the story what has happened since.
func (s *screen) catchUp(ctx context.Context) error {
	tail := s.b.Engine.Tail().Seq
	if tail > s.told+showAtOnce { // more than any screen shows
		s.told = tail - showAtOnce
	}
	return readEvents(context.WithoutCancel(ctx), s.b, &s.told, tail, func(events []signalbox.Event) error {
		printed := s.teller.printed(events)
		var story []told
		s.b.Engine.View(func(state *rules.State) { story = s.teller.tell(state, events, printed) })
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, t := range story {
			text := t.text
			if t.detail != "" {
				text += "  " + t.detail
			}
			s.story = append(s.story, event{t.at.In(s.teller.zone).Format(time.TimeOnly), onScreen(t.work), onScreen(text)})
		}
		s.story = slices.Clone(s.story[max(0, len(s.story)-maxStory):])
		return nil
	})
}

// look takes the view of this moment.
func (s *screen) look() (v view, seq uint64) {
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
			live[session] = h.text
		}
		seq = state.Seq()
		v = look(state, s.o.Title, s.began, time.Now(), live)
		v.story = s.story
	})
	v.warning = onScreen(s.o.Stderr.last())
	return v, seq
}

// Show has the terminal while somebody is at work. When nothing can go on the board is left where it is and the terminal is
// the user's again: no timer runs, until the ledger moves.
func (s *screen) Show(ctx context.Context) error {
	for {
		m, err := s.animate(ctx)
		if err != nil { // lines need less of a terminal
			s.o.Stderr.letGo()
			fmt.Fprintf(s.o.Stderr, "note: this terminal shows plain lines only: %s\n", text.Printable(err.Error()))
			return newPlain(s.b, s.o).Show(ctx)
		}
		s.leave(ctx, m)
		switch {
		case m.interrupted:
			return ErrInterrupted
		case !m.settled || ctx.Err() != nil:
			return m.broken
		}
		if err := s.rest(ctx, m); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// animate draws the run until ctx ends, a key ends it, or nothing can go on.
func (s *screen) animate(ctx context.Context) (*screenModel, error) {
	s.catchUp(ctx) // best effort: who follows says what is wrong
	v, seq := s.look()
	m := &screenModel{screen: s, view: v, drawing: drawing{paint: paletteFor(s.colours, s.dark)}}
	program := tea.NewProgram(m, tea.WithOutput(s.o.Terminal), tea.WithInput(s.o.Keys), tea.WithEnvironment(s.environ), tea.WithoutSignalHandler(),
		tea.WithFPS(framesPerSecond))
	following, stop := context.WithCancel(ctx)
	defer stop()
	var helpers sync.WaitGroup
	s.o.Stderr.hold(func() { go program.Send(warned{}) })
	helpers.Go(func() {
		if err := s.follow(following, program, seq); err != nil {
			program.Send(over{err})
			return
		}
		<-following.Done()
		program.Send(over{})
	})
	_, err := program.Run()
	stop()
	helpers.Wait()
	return m, err
}

// leave writes the last board where it stays if nothing can go on or all is done, and what was kept back meanwhile. Of any
// other end the last words of the run say all.
func (s *screen) leave(ctx context.Context, m *screenModel) {
	s.catchUp(ctx) // best effort: the end is near, or the next look tells
	switch v, _ := s.look(); {
	case m.settled && ctx.Err() == nil:
		s.drawRest(m, v)
	case v.standing == rules.StandingComplete && m.width > 0:
		v.warning, v.story = "", nil
		lipgloss.Fprintln(s.o.Terminal, board(v, m.width, m.height-1, time.Now(), drawing{paint: m.drawing.paint, final: true}))
	}
	s.o.Stderr.letGo()
}

// drawRest leaves on the terminal what the user has to do: the first time with the whole board, then only what has changed.
func (s *screen) drawRest(m *screenModel, v view) {
	v.warning = ""
	d := drawing{paint: m.drawing.paint, final: true, rests: true}
	switch {
	case m.width <= 0:
	case s.left != nil && v.asksTheSameAs(*s.left) && slices.Equal(v.story, s.left.story):
	case s.left == nil:
		lipgloss.Fprintln(s.o.Terminal, board(v, m.width, m.height-1, time.Now(), d))
	default:
		lipgloss.Fprintln(s.o.Terminal, again(v, s.left.story, m.width, m.height-1, d))
	}
	s.left = &v
}

// rest waits until somebody is at work again. What has changed for the user meanwhile is drawn anew.
func (s *screen) rest(ctx context.Context, m *screenModel) error {
	for {
		v, seq := s.look()
		if !v.rests() {
			return nil
		}
		if s.left == nil || !v.asksTheSameAs(*s.left) {
			s.drawRest(m, v)
		}
		if err := s.b.Engine.Wait(ctx, seq); err != nil {
			if ctx.Err() != nil || errors.Is(err, engine.ErrClosed) {
				return nil
			}
			return err
		}
		if err := s.catchUp(ctx); err != nil {
			return err
		}
	}
}

// betweenLooks is how far apart looks at a ledger are that moves all the time.
const betweenLooks = 100 * time.Millisecond

// follow looks again whenever the ledger has moved.
func (s *screen) follow(ctx context.Context, program *tea.Program, seq uint64) error {
	for {
		if err := s.b.Engine.Wait(ctx, seq); err != nil {
			if ctx.Err() != nil || errors.Is(err, engine.ErrClosed) {
				return nil
			}
			return err
		}
		if err := s.catchUp(ctx); err != nil {
			return err
		}
		var v view
		v, seq = s.look()
		program.Send(looked{v})
		select {
		case <-time.After(betweenLooks):
		case <-ctx.Done():
		}
	}
}

// paletteFor has colours that can be read on a dark or a light background.
func paletteFor(colours, dark bool) palette {
	plain := lipgloss.NewStyle()
	p := palette{strong: plain.Bold(true), faint: plain.Faint(true), good: plain, busy: plain, warn: plain.Bold(true), bad: plain.Bold(true), on: true}
	if !colours {
		return p
	}
	either := lipgloss.LightDark(dark)
	p.good = plain.Foreground(either(lipgloss.Color("28"), lipgloss.Color("2")))
	p.busy = plain.Foreground(either(lipgloss.Color("25"), lipgloss.Color("14")))
	p.warn = plain.Foreground(either(lipgloss.Color("130"), lipgloss.Color("3")))
	p.bad = plain.Foreground(either(lipgloss.Color("160"), lipgloss.Color("9")))
	return p
}
