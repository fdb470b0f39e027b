package mcpserver

import (
	"context"
	"errors"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

// errStopping is the error for calls during or after Close.
var errStopping = errors.New("the server is stopping")

// beginCall counts a call that uses the box. The caller must call s.calls.Done if there is no
// error.
func (s *Server) beginCall() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStopping
	}
	s.calls.Add(1)
	return nil
}

// openBox returns the box, which stays open for later calls. If opening fails, the next call tries
// again.
func (s *Server) openBox(ctx context.Context) (*box.Box, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil {
		return s.open, nil
	}
	dir, err := s.find()
	if err != nil {
		return nil, flagNoBox(err)
	}
	b, err := box.Open(ctx, dir, s.opts.Box)
	if err != nil {
		return nil, flagNoBox(err)
	}
	s.open = b
	return b, nil
}

// withReadableBox calls f with the current box. It opens the box read-only if it cannot be opened
// for writing.
func (s *Server) withReadableBox(ctx context.Context, f func(*box.Box) error) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.calls.Done()
	b, err := s.openBox(ctx)
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

// view is withReadableBox for calls that need only the state.
func (s *Server) view(ctx context.Context, f func(*box.Box, *rules.State)) error {
	return s.withReadableBox(ctx, func(b *box.Box) error {
		b.Engine.View(func(state *rules.State) { f(b, state) })
		return nil
	})
}

// withBox calls f with the box for writing.
func (s *Server) withBox(ctx context.Context, f func(*box.Box) error) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.calls.Done()
	b, err := s.openBox(ctx)
	if err != nil {
		return err
	}
	defer s.startSigning(b)
	return f(b)
}

// do executes a command.
func (s *Server) do(ctx context.Context, c rules.Command) (answer rules.Answer, err error) {
	err = s.withBox(ctx, func(b *box.Box) error {
		answer, err = b.Engine.Do(ctx, c)
		return err
	})
	return answer, err
}

// startSigning starts to sign the ledger in the background once a call has written to it. The
// server of an agent does not sign, like the commands of an agent.
func (s *Server) startSigning(b *box.Box) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opts.Session != "" || s.stopSigning != nil || !b.Wrote() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.KeepSigned(ctx, s.log)
	}()
	s.stopSigning = func() {
		cancel()
		<-done
	}
}

// withLedger calls f with the ledger only, which works even if the state cannot be rebuilt from it.
func (s *Server) withLedger(ctx context.Context, f func(*box.Ledger) error) error {
	if err := s.checkLedger(); err != nil {
		return err
	}
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.calls.Done()
	dir, err := s.find()
	if err != nil {
		return flagNoBox(err)
	}
	l, err := box.OpenLedger(ctx, dir, s.opts.Box)
	if err != nil {
		return flagNoBox(err)
	}
	defer l.Close()
	return f(l)
}
