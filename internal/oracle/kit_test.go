package oracle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
	"signalbox/internal/tree/luatree"
	"signalbox/internal/tree/runner"
)

// both runs a test with each wire protocol.
func both(t *testing.T, test func(*testing.T, model.Provider)) {
	t.Helper()
	for _, p := range []model.Provider{model.OpenAI, model.Anthropic} {
		t.Run(string(p), func(t *testing.T) { test(t, p) })
	}
}

// script answers with turns, chosen by the length of the request's history, so that a repeated
// request gets the same answer.
func script(turns ...modelserver.Turn) *modelserver.Script {
	for i := range turns {
		turns[i].Match = &modelserver.Match{Turn: i + 1}
	}
	return &modelserver.Script{Conversations: []modelserver.Conversation{{Turns: turns}}}
}

func says(text string) modelserver.Turn {
	return modelserver.Turn{Parts: []modelserver.Part{{Text: text}}}
}

// calls adds a call to a turn.
func calls(turn modelserver.Turn, id, name, arguments string) modelserver.Turn {
	turn.Parts = append(slices.Clone(turn.Parts),
		modelserver.Part{Call: &modelserver.Call{ID: id, Name: name,
			Arguments: json.RawMessage(arguments)}})
	return turn
}

func faulty(turn modelserver.Turn, faults ...modelserver.Fault) modelserver.Turn {
	turn.Faults = faults
	return turn
}

const (
	enough   = "\n<signal type=\"context_sufficient\"><sources_found>1</sources_found></signal>"
	another  = "\n<signal type=\"need_turn\"><reason>there is more</reason><confidence>0.8</confidence></signal>"
	question = "What does the auth function do?"
)

func newServer(t testing.TB, s *modelserver.Script) *modelserver.Server {
	t.Helper()
	server, err := modelserver.New(s, nil)
	must.Succeed(t, err)
	return server
}

// client returns a client of a handler on loopback. It does not wait between attempts.
func client(t testing.TB, p model.Provider, h http.Handler,
	change func(*model.Options)) *model.Client {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	c := clientOf(t, p, server.URL, change)
	t.Cleanup(func() {
		c.Close()
		server.Close()
	})
	return c
}

func clientOf(t testing.TB, p model.Provider, url string,
	change func(*model.Options)) *model.Client {
	t.Helper()
	opts := model.Options{BaseURL: url, Tries: 3,
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
	if change != nil {
		change(&opts)
	}
	c, err := model.New(p, "rehearsal", &opts)
	must.Succeed(t, err)
	return c
}

// pipes is an in-memory network for tests in a bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.closed:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: errors.New("connection refused")}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pipeClient is like client, but without a network. The returned function closes client and server.
func pipeClient(t testing.TB, p model.Provider, h http.Handler) (*model.Client, func()) {
	t.Helper()
	network := newPipes()
	server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(network) })
	c := clientOf(t, p, "http://model.test", func(o *model.Options) {
		o.Transport = &http.Transport{DialContext: network.dial}
	})
	return c, func() {
		c.Close()
		server.Close()
		serving.Wait()
	}
}

// tool returns a tool with the parameter query.
func tool(name string, use func(context.Context, toolbox.Call) (toolbox.Result,
	error)) toolbox.Tool {
	return toolbox.Tool{Name: name, Description: "Does " + name + ".", Kind: prompt.CodeTool,
		ReadOnly: true, Use: use,
		Schema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}}}`)}
}

func finds(name, text string) toolbox.Tool {
	return tool(name, func(context.Context, toolbox.Call) (toolbox.Result, error) {
		return toolbox.Result{Text: text,
			Sources: []chunk.Source{{Type: "code", Path: "auth.go", Line: 7}}}, nil
	})
}

func fails(name, text string) toolbox.Tool {
	return tool(name, func(context.Context,
		toolbox.Call) (toolbox.Result, error) {
		return toolbox.Result{}, errors.New(text)
	})
}

func newOracle(t testing.TB, opts oracle.Options) *oracle.Oracle {
	t.Helper()
	o, err := oracle.New(context.Background(), &opts)
	must.Succeed(t, err)
	return o
}

func newSession(t testing.TB) *session.Session {
	t.Helper()
	s, err := session.Create(t.TempDir(), "O-1")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// heard collects chunks.
type heard struct {
	chunks []chunk.Chunk
	// each, if not nil, is called with every chunk before it is added.
	each func(chunk.Chunk) error
}

func (h *heard) take(c chunk.Chunk) error {
	if h.each != nil {
		if err := h.each(c); err != nil {
			return err
		}
	}
	h.chunks = append(h.chunks, c)
	return nil
}

// text returns the content of each turn, without what a restart withdrew.
func (h *heard) text() map[int]string {
	all := map[int]string{}
	for _, c := range h.chunks {
		switch c := c.(type) {
		case chunk.Content:
			all[c.Turn] += c.Text
		case chunk.System:
			if c.Name == chunk.ReplyRestarted {
				delete(all, c.Turn)
			}
			if c.Name == chunk.AskedAgain {
				clear(all)
			}
		}
	}
	return all
}

// of returns the chunks of one type.
func of[T chunk.Chunk](chunks []chunk.Chunk) []T {
	var all []T
	for _, c := range chunks {
		if c, ok := c.(T); ok {
			all = append(all, c)
		}
	}
	return all
}

// done returns the Done chunk, and checks that it is the last and only one and agrees with the
// answer.
func (h *heard) done(t testing.TB, a *oracle.Answer) chunk.Done {
	t.Helper()
	all := of[chunk.Done](h.chunks)
	if len(all) != 1 {
		t.Fatalf("%d chunks say that it is done:\n%s", len(all), lines(h.chunks))
	}
	if last, ok := h.chunks[len(h.chunks)-1].(chunk.Done); !ok || last != all[0] {
		t.Fatalf("there is something after the end:\n%s", lines(h.chunks))
	}
	if a != nil && a.Done != all[0] {
		t.Fatalf("the answer says %+v, the last chunk %+v", a.Done, all[0])
	}
	return all[0]
}

func lines(chunks []chunk.Chunk) string {
	var out strings.Builder
	for _, c := range chunks {
		line, err := chunk.Line(c)
		if err != nil {
			line = fmt.Appendf(nil, "%v\n", err)
		}
		out.Write(line)
	}
	return out.String()
}

// joined joins the pieces of a turn's content and sorts its calls and results, so that cuts and
// timing do not matter.
func joined(chunks []chunk.Chunk) []chunk.Chunk {
	var all []chunk.Chunk
	for _, c := range chunks {
		n := len(all)
		switch c := c.(type) {
		case chunk.Content:
			if last, ok := lastOf[chunk.Content](all); ok && last.Turn == c.Turn {
				all[n-1] = chunk.Content{Turn: c.Turn, Text: last.Text + c.Text}
				continue
			}
		case chunk.Reasoning:
			if last, ok := lastOf[chunk.Reasoning](all); ok && last.Turn == c.Turn {
				all[n-1] = chunk.Reasoning{Turn: c.Turn, Text: last.Text + c.Text}
				continue
			}
		}
		all = append(all, c)
	}
	for from := 0; from < len(all); from++ {
		to := from
		for to < len(all) && toolOrder(all[to]) != "" {
			to++
		}
		slices.SortStableFunc(all[from:to],
			func(a, b chunk.Chunk) int { return strings.Compare(toolOrder(a), toolOrder(b)) })
		from = max(from, to-1)
	}
	return all
}

func lastOf[T chunk.Chunk](all []chunk.Chunk) (T, bool) {
	var none T
	if len(all) == 0 {
		return none, false
	}
	c, ok := all[len(all)-1].(T)
	return c, ok
}

func toolOrder(c chunk.Chunk) string {
	switch c := c.(type) {
	case chunk.ToolCall:
		return fmt.Sprintf("%03d call %s", c.Turn, c.ID)
	case chunk.ToolResult:
		return fmt.Sprintf("%03d result %s", c.Turn, c.ID)
	}
	return ""
}

// replay replays the journal of the first question's first run and shows the run after each tick.
// An empty source means the built-in tree.
func replay(t testing.TB, s *session.Session, file, source string, each func(*tree.Run)) {
	t.Helper()
	if source == "" {
		file, source = oracle.TreeName, oracle.Tree
	}
	loaded, err := luatree.Load(context.Background(), file, []byte(source),
		&luatree.Options{Functions: oracle.Functions()})
	must.Succeed(t, err)
	defer loaded.Close()
	var run *tree.Run
	_, err = runner.ReadJournal(filepath.Join(s.Dir, session.JournalName(1, 1)),
		func(h tree.Header) error {
			run, err = runner.StartReplay(loaded.Tree(), h)
			return err
		}, func(r *tree.Record) error {
			if err := run.Replay(r); err != nil {
				return err
			}
			each(run)
			return nil
		})
	must.Succeed(t, err)
}

// newBox creates a box with a ledger.
func newBox(t testing.TB) *box.Box {
	t.Helper()
	dir := t.TempDir()
	opts := &box.Options{KeyFile: filepath.Join(dir, "box.key")}
	folder := filepath.Join(dir, box.FolderName)
	if _, err := box.Init(context.Background(), folder, "ann", opts); err != nil {
		t.Fatal(err)
	}
	b, err := box.Open(context.Background(), folder, opts)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// onLedger returns the turn signals on a box's ledger, without their blobs, which contain times.
func onLedger(t testing.TB, b *box.Box) []rules.TurnSignalHeard {
	t.Helper()
	var all []rules.TurnSignalHeard
	for e, err := range b.Events(context.Background(), 0) {
		must.Succeed(t, err)
		if e.Type != rules.TypeTurnSignalHeard {
			continue
		}
		var s rules.TurnSignalHeard
		must.Succeed(t, json.Unmarshal(e.Data, &s))
		s.Body = signalbox.Hash{}
		all = append(all, s)
	}
	return all
}

// copyFolder copies a folder in its current state, as a kill would leave it.
func copyFolder(t testing.TB, from, to string) {
	t.Helper()
	must.Succeed(t, os.CopyFS(to, os.DirFS(from)))
}
