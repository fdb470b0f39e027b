package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"signalbox/internal/core/box"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/toolbox"
)

// site is a box with an oracle for each protocol.
type site struct {
	dir     string
	box     *box.Box
	clients [len(providers)]*model.Client
	oracles [len(providers)]*oracle.Oracle
	numbers atomic.Int64
}

// newSite makes a box in a folder of its own inside dir. The transport may be nil: then the clients use their own.
func newSite(ctx context.Context, dir, url string, transport http.RoundTripper) (s *site, err error) {
	s = &site{}
	if s.dir, err = os.MkdirTemp(dir, "benchoracle-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	var lines strings.Builder
	for i := range 200 {
		fmt.Fprintf(&lines, "line %d of a file that is read again and again\n", i+1)
	}
	if err := os.WriteFile(filepath.Join(s.dir, readName), []byte(lines.String()), 0o600); err != nil {
		return s, err
	}
	opts := &box.Options{KeyFile: filepath.Join(s.dir, "box.key")}
	folder := filepath.Join(s.dir, box.FolderName)
	if _, err := box.Init(ctx, folder, "bench", opts); err != nil {
		return s, err
	}
	if s.box, err = box.Open(ctx, folder, opts); err != nil {
		return s, err
	}
	if err := os.Mkdir(s.sessions(), 0o700); err != nil {
		return s, err
	}
	read := toolbox.ReadFile(s.dir)
	use := read.Use
	read.Use = func(ctx context.Context, c toolbox.Call) (toolbox.Result, error) {
		begun := time.Now()
		result, err := use(ctx, c)
		timesOf(ctx).tool.Add(int64(time.Since(begun)))
		return result, err
	}
	for i, p := range providers {
		if s.clients[i], err = model.New(p, "rehearsal", &model.Options{BaseURL: url, Transport: transport}); err != nil {
			return s, err
		}
		s.oracles[i], err = oracle.New(ctx, &oracle.Options{Model: watched{s.clients[i]}, Tools: []toolbox.Tool{read}, Engine: s.box.Engine, Actor: "bench"})
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *site) sessions() string { return filepath.Join(s.dir, box.FolderName, "oracle") }

func (s *site) close() error {
	var err error
	for _, c := range s.clients {
		if c != nil {
			c.Close()
		}
	}
	if s.box != nil {
		err = s.box.Close()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// talk is a question and what must come of it.
type talk struct {
	provider       int // its place in providers
	variant, turns int
	pieces         int
	tools          bool
	// each gets every chunk, after it was looked at. Nil: nobody does.
	each func(chunk.Chunk)
}

// hold has a conversation of one question in a session of its own, and checks all of it.
func (s *site) hold(ctx context.Context, t talk) (*times, error) {
	n := s.numbers.Add(1)
	id := fmt.Sprintf("O-%d", n)
	kept, err := session.Create(s.sessions(), id)
	if err != nil {
		return nil, err
	}
	took, err := s.ask(ctx, kept, t, question(t.variant, int(n), t.tools))
	return took, errors.Join(err, kept.Close())
}

// ask asks a question in a session, and checks what comes.
func (s *site) ask(ctx context.Context, kept *session.Session, t talk, question string) (*times, error) {
	took := &times{begun: time.Now()}
	shown := map[int]*strings.Builder{}
	done, calls := 0, 0
	result, err := s.oracles[t.provider].Ask(context.WithValue(ctx, timesKey{}, took), kept, question, func(c chunk.Chunk) error {
		switch c := c.(type) {
		case chunk.Content:
			if shown[c.Turn] == nil {
				shown[c.Turn] = &strings.Builder{}
			}
			shown[c.Turn].WriteString(c.Text)
		case chunk.ToolResult:
			if c.OK {
				calls++
			}
		case chunk.Done:
			done++
		}
		if t.each != nil {
			t.each(c)
		}
		return nil
	})
	took.end()
	if err != nil {
		return nil, err
	}
	return took, t.check(kept.ID, result, shown, done, calls)
}

// check compares a conversation with the script.
func (t talk) check(id string, a *oracle.Answer, shown map[int]*strings.Builder, done, calls int) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("conversation %s with %s: %s", id, providers[t.provider], fmt.Sprintf(format, args...))
	}
	switch {
	case a.Error != nil:
		return wrong("%s: %s", a.Error.Name, a.Error.Text)
	case done != 1:
		return wrong("done came %d times", done)
	case a.Done.Reason != string(decide.ReasonContextSufficient):
		return wrong("it ended with %s", a.Done.Reason)
	case a.Done.Turns != t.turns || a.Done.Session != id:
		return wrong("it ended as %+v", a.Done)
	case t.tools && calls != t.turns-1:
		return wrong("%d tool calls went well", calls)
	case a.Text != answered(t.variant, t.turns, t.pieces):
		return wrong("the answer is %.80q", a.Text)
	}
	for turn := 1; turn <= t.turns; turn++ {
		if b := shown[turn]; b == nil || strings.TrimSpace(b.String()) != answered(t.variant, turn, t.pieces) {
			return wrong("turn %d did not show what the script says", turn)
		}
	}
	return nil
}
