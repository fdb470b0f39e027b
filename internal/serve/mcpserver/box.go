package mcpserver

import (
	"context"
	"errors"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/crew"
)

// errStopping means that the server is being closed.
var errStopping = errors.New("the server is being stopped")

// begin counts a call that uses the box, or refuses it. Who begins also ends.
func (s *Server) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStopping
	}
	s.calls.Add(1)
	return nil
}

// theBox returns the box, which stays open for the calls to come. One that could not be opened is tried again by the next call.
func (s *Server) theBox(ctx context.Context) (*box.Box, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil {
		return s.open, nil
	}
	dir, err := s.find()
	if err != nil {
		return nil, noBox(err)
	}
	b, err := box.Open(ctx, dir, s.opts.Box)
	if err != nil {
		return nil, noBox(err)
	}
	s.open = b
	return b, nil
}

// look shows the box as it is now. It also works where the box may only be read.
func (s *Server) look(ctx context.Context, f func(*box.Box) error) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.calls.Done()
	b, err := s.theBox(ctx)
	if err == nil {
		if err := b.Engine.Refresh(ctx); err != nil {
			return err
		}
		return f(b)
	}
	dir, findErr := s.find()
	if findErr != nil {
		return err
	}
	readable, readErr := box.OpenReadOnly(ctx, dir, s.opts.Box)
	if readErr != nil {
		return err
	}
	defer readable.Close()
	return f(readable)
}

// view is look for what the state alone tells.
func (s *Server) view(ctx context.Context, f func(*box.Box, *rules.State)) error {
	return s.look(ctx, func(b *box.Box) error {
		b.Engine.View(func(state *rules.State) { f(b, state) })
		return nil
	})
}

// act gives the box to a call that may write to it.
func (s *Server) act(ctx context.Context, f func(*box.Box) error) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.calls.Done()
	b, err := s.theBox(ctx)
	if err != nil {
		return err
	}
	defer s.sign(b)
	return f(b)
}

// order gives one command to the box.
func (s *Server) order(ctx context.Context, c rules.Command) (answer rules.Answer, err error) {
	err = s.act(ctx, func(b *box.Box) error {
		answer, err = b.Engine.Do(ctx, c)
		return err
	})
	return answer, err
}

// sign begins to sign what calls write, once one has written. An agent's own server does not, as the commands do not.
func (s *Server) sign(b *box.Box) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opts.Session != "" || s.signing != nil || !b.Wrote() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		crew.Sign(ctx, b, s.log)
	}()
	s.signing = func() {
		cancel()
		<-done
	}
}

// withLedger opens the record alone, which works also where it cannot be folded.
func (s *Server) withLedger(ctx context.Context, f func(*box.Ledger) error) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.calls.Done()
	dir, err := s.find()
	if err != nil {
		return noBox(err)
	}
	l, err := box.OpenLedger(ctx, dir, s.opts.Box)
	if err != nil {
		return noBox(err)
	}
	defer l.Close()
	return f(l)
}
