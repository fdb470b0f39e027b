package progress

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"signalbox/internal/box"
	"signalbox/internal/crew"
	"signalbox/internal/engine"
	"signalbox/internal/rules"
)

// screen shows a run on a terminal.
type screen struct {
	b       *box.Box
	o       Options
	environ []string
	colours bool
	dark    bool
	began   time.Time

	mu   sync.Mutex // guards live
	live map[string]string
}

func newScreen(b *box.Box, o Options) *screen {
	s := &screen{b: b, o: o, began: time.Now(), dark: true, colours: o.Getenv("NO_COLOR") == "", live: map[string]string{}}
	for _, name := range []string{"TERM", "COLORTERM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM_PROGRAM", "TMUX", "STY", "WT_SESSION", "SSH_TTY", "GOOGLE_CLOUD_SHELL", "ConEmuANSI"} {
		if value := o.Getenv(name); value != "" {
			s.environ = append(s.environ, name+"="+value)
		}
	}
	return s
}

// maxLive is how much is kept of a line that an agent wrote: more than any screen is wide.
const maxLive = 1000

// Live keeps what an agent wrote last. The screen takes it with its next tick.
func (s *screen) Live(a crew.Activity) {
	if len(a.Text) > maxLive {
		a.Text = a.Text[:maxLive]
	}
	s.mu.Lock()
	s.live[a.Session] = a.Text
	s.mu.Unlock()
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
		seq = state.Seq()
		v = look(state, s.o.Title, s.began, time.Now(), s.live)
	})
	v.warning = s.o.Stderr.last()
	return v, seq
}

// Show has the terminal while somebody is at work. When nothing can go on the board is left where it is and the terminal is
// the user's again: no timer runs, until the ledger moves.
func (s *screen) Show(ctx context.Context) error {
	for {
		m, err := s.animate(ctx)
		if err != nil { // lines need less of a terminal
			s.o.Stderr.letGo()
			fmt.Fprintf(s.o.Stderr, "note: this terminal shows plain lines only: %s\n", Printable(err.Error()))
			return newPlain(s.b, s.o).Show(ctx)
		}
		last := s.leave(m, m.settled && ctx.Err() == nil)
		switch {
		case m.interrupted:
			return ErrInterrupted
		case !m.settled || ctx.Err() != nil:
			return m.broken
		}
		if err := s.rest(ctx, m, last); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// animate draws the run until ctx ends, a key ends it, or nothing can go on.
func (s *screen) animate(ctx context.Context) (*screenModel, error) {
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

// leave writes the last board where it stays, and what was kept back meanwhile.
func (s *screen) leave(m *screenModel, rests bool) view {
	v, _ := s.look()
	s.draw(m, v, rests)
	s.o.Stderr.letGo()
	return v
}

func (s *screen) draw(m *screenModel, v view, rests bool) {
	v.warning = ""
	if m.width > 0 {
		lipgloss.Fprintln(s.o.Terminal, board(v, m.width, m.height-1, time.Now(), drawing{paint: m.drawing.paint, final: true, rests: rests}))
	}
}

// rest waits until somebody is at work again. What has changed for the user meanwhile is drawn anew.
func (s *screen) rest(ctx context.Context, m *screenModel, last view) error {
	for {
		v, seq := s.look()
		if !v.rests() {
			return nil
		}
		if !v.asksTheSameAs(last) {
			s.draw(m, v, true)
			last = v
		}
		if err := s.b.Engine.Wait(ctx, seq); err != nil {
			if ctx.Err() != nil || errors.Is(err, engine.ErrClosed) {
				return nil
			}
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
