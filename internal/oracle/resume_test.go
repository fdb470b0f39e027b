package oracle_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/must"
	"signalbox/internal/tree/turnlog"
)

// world is what a conversation can change, with counters.
type world struct {
	file  string
	looks int
	// look, if not nil, is called inside each tool.
	look func()
}

func (w *world) begin() {
	if w.look != nil {
		w.look()
	}
}

// tools returns a tool with effects and a read-only one.
func (w *world) tools() []toolbox.Tool {
	write := tool("write", func(_ context.Context, c toolbox.Call) (toolbox.Result, error) {
		w.begin()
		var args struct{ Query string }
		if err := json.Unmarshal(c.Arguments, &args); err != nil {
			return toolbox.Result{}, err
		}
		return toolbox.Result{Text: "written: " + args.Query}, w.write(args.Query)
	})
	write.ReadOnly = false
	look := tool("look", func(context.Context, toolbox.Call) (toolbox.Result, error) {
		w.begin()
		w.looks++
		return toolbox.Result{Text: "found"}, nil
	})
	return []toolbox.Tool{write, look}
}

func (w *world) write(text string) error {
	f, err := os.OpenFile(w.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	return errors.Join(err, f.Close())
}

func (w *world) written(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(w.file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}

// longTurns is a conversation with everything that must not happen twice: two turns with a call
// that has effects, one of them together with another call, signals, and advice between turns.
func longTurns() *modelserver.Script {
	pieces := func(all ...string) modelserver.Turn {
		return modelserver.Turn{Parts: []modelserver.Part{{Pieces: all}},
			Usage: &modelserver.Usage{Input: 100, Output: 10}}
	}
	signal := func(reason string) string {
		return "nal type=\"need_turn\"><reason>" + reason +
			"</reason><confidence>0.8</confidence></signal>"
	}
	return script(
		calls(calls(pieces("First ", "I note it.\n<sig", signal("one is not enough")), "call_1",
			"write", `{"query":"one"}`), "call_2", "look", `{}`),
		pieces("Let me think.\n<sig", signal("nor is thinking")),
		calls(pieces("Once ", "more."), "call_3", "write", `{"query":"two"}`),
		pieces("It lets ", "everybody in."+enough))
}

// story is a conversation to interrupt at every place.
type story struct {
	name string
	// turns is the script of the model, errand that of the sub-agent "reader", nil if there is
	// none.
	turns, errand func() *modelserver.Script
	written       string
	looks         int
	signals       []string
}

func stories() []story {
	return []story{
		{name: "tools", turns: longTurns, written: "one\ntwo\n", looks: 1,
			signals: []string{"need_turn one is not enough", "need_turn nor is thinking",
				"context_sufficient "}},
		{name: "sub-agent", turns: delegates, errand: longTurns, written: "one\ntwo\n", looks: 1,
			signals: []string{"delegation_recommended it is long", "need_turn one is not enough",
				"need_turn nor is thinking", "context_sufficient ", "context_sufficient "}},
	}
}

// delegates is a conversation that delegates to a sub-agent.
func delegates() *modelserver.Script {
	hand := says("Somebody should read it.\n<signal type=\"delegation_recommended\"><reason>it is long</reason><scope>read auth.go</scope>" +
		"<subagent_type>reader</subagent_type></signal>")
	answer := says("It lets everybody in." + enough)
	hand.Usage, answer.Usage = &modelserver.Usage{Input: 100, Output: 10},
		&modelserver.Usage{Input: 100, Output: 10}
	return script(hand, answer)
}

// cast returns the oracle of a story and its servers.
func (st *story) cast(t testing.TB, p model.Provider, w *world,
	b *box.Box) (*oracle.Oracle, []*modelserver.Server) {
	t.Helper()
	servers := []*modelserver.Server{newServer(t, st.turns())}
	opts := oracle.Options{Model: client(t, p, servers[0], nil), Tools: w.tools(),
		Record: turnlog.To(b.Engine, "ann")}
	if st.errand != nil {
		servers = append(servers, newServer(t, st.errand()))
		reader := opts
		reader.Model = client(t, p, servers[1], nil)
		opts.SubAgents = map[string]*oracle.Oracle{"reader": newOracle(t, reader)}
	}
	return newOracle(t, opts), servers
}

// files has the lines of a session's files, by their names.
type files map[string][][]byte

func readFiles(t testing.TB, folder string) files {
	t.Helper()
	all := files{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(folder, name))
		whole := bytes.SplitAfter(data, []byte("\n"))
		all[name] = whole[:len(whole)-1]
		return err
	})
	must.Succeed(t, err)
	return all
}

// counts returns the number of lines of each file.
func (f files) counts() map[string]int {
	n := map[string]int{}
	for name, lines := range f {
		if len(lines) > 0 {
			n[name] = len(lines)
		}
	}
	return n
}

// place is a place where a conversation can be interrupted: after a number of lines of each file.
type place struct {
	lines map[string]int
	// torn is the file that has half of the next line.
	torn string
}

// places returns all places, ordered by the times in the files.
func (f files) places(t testing.TB) []place {
	t.Helper()
	type line struct {
		at   int64
		file string
	}
	var all []line
	for _, name := range slices.Sorted(maps.Keys(f)) {
		for _, text := range f[name] {
			all = append(all, line{timeOf(t, text), name})
		}
	}
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	var found []place
	n := map[string]int{}
	for _, l := range all {
		found = append(found, place{maps.Clone(n), l.file})
		n[l.file]++
	}
	return append(found, place{lines: n})
}

// timeOf returns when a line was written: a time, or nanoseconds in ticks of a tree.
func timeOf(t testing.TB, line []byte) int64 {
	t.Helper()
	var r struct{ At json.RawMessage }
	err := json.Unmarshal(line, &r)
	must.Succeed(t, err)
	var nanos int64
	if json.Unmarshal(r.At, &nanos) == nil {
		return nanos
	}
	var at time.Time
	must.Succeed(t, json.Unmarshal(r.At, &at))
	return at.UnixNano()
}

// cutTo writes the folder of a session as a kill at that place would have left it.
func (p place) cutTo(t testing.TB, folder string, from files) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(folder, 0o700))
	for name, lines := range from {
		n := p.lines[name]
		data := bytes.Join(lines[:n], nil)
		if p.torn == name {
			data = append(data, lines[n][:len(lines[n])/2]...)
		}
		if len(data) == 0 {
			continue
		}
		must.Succeed(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700))
		must.Succeed(t, os.WriteFile(filepath.Join(folder, name), data, 0o600))
	}
}

// reference is an uninterrupted conversation.
type reference struct {
	story
	files  files
	chunks []chunk.Chunk
	text   map[int]string
	answer *oracle.Answer
	heard  []rules.TurnSignalHeard
}

// TestResumeFromEveryLine interrupts a conversation at and inside every line of its records and
// journals. Another process must resume it to the same answer, without repeating effects, with a
// complete stream of chunks, and with each signal on the ledger once.
func TestResumeFromEveryLine(t *testing.T) {
	empty := emptyBox(t)
	for _, st := range stories() {
		t.Run(st.name, func(t *testing.T) {
			ref := refer(t, st, empty)
			all := ref.files.places(t)
			if len(all) < 35 {
				t.Fatalf("there are only %d places", len(all))
			}
			for n, p := range all {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					t.Parallel() // they mostly wait for the disk
					folder := filepath.Join(t.TempDir(), "O-1")
					p.cutTo(t, folder, ref.files)
					protocol := []model.Provider{model.OpenAI, model.Anthropic}[n%2]
					ref.resume(t, protocol, folder, openCopy(t, empty))
				})
			}
		})
	}
}

// emptyBox creates a box and closes it.
func emptyBox(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := box.Init(context.Background(), filepath.Join(dir, box.FolderName), "ann",
		&box.Options{KeyFile: filepath.Join(dir, "box.key")}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func openCopy(t testing.TB, from string) *box.Box {
	t.Helper()
	dir := t.TempDir()
	copyFolder(t, from, dir)
	b, err := box.Open(context.Background(), filepath.Join(dir, box.FolderName),
		&box.Options{KeyFile: filepath.Join(dir, "box.key")})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// refer runs the conversation, and checks that at every chunk and inside tools the files match one
// of the places.
func refer(t *testing.T, st story, empty string) *reference {
	t.Helper()
	b := openCopy(t, empty)
	s := newSession(t)
	w := &world{file: filepath.Join(t.TempDir(), "written")}
	var mu sync.Mutex // guards seen
	var seen []map[string]int
	look := func() {
		n := readFiles(t, s.Dir).counts()
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, n)
	}
	w.look = look
	h := &heard{each: func(chunk.Chunk) error {
		look()
		return nil
	}}
	o, _ := st.cast(t, model.OpenAI, w, b)
	ref := &reference{story: st}
	var err error
	if ref.answer, err = o.Ask(t.Context(), s, question, h.take); err != nil {
		t.Fatal(err)
	}
	if done := h.done(t, ref.answer); done.Reason != "context_sufficient" ||
		ref.answer.Text != "It lets everybody in." {
		t.Fatalf("it ended with %+v:\n%s", done, lines(h.chunks))
	}
	ref.files, ref.chunks, ref.text = readFiles(t, s.Dir), h.chunks, h.text()
	all := ref.files.places(t)
	for _, n := range seen {
		if !slices.ContainsFunc(all, func(p place) bool { return maps.Equal(p.lines, n) }) {
			t.Errorf("files were seen as no place says: %v", n)
		}
	}
	if written := w.written(t); written != st.written || w.looks != st.looks {
		t.Fatalf("%q was written, and looked %d times", written, w.looks)
	}
	ref.heard = onLedger(t, b)
	var signals []string
	for _, e := range ref.heard {
		signals = append(signals, e.Signal+" "+e.Reason)
	}
	if diff := gocmp.Diff(st.signals, signals); diff != "" {
		t.Fatalf("on the ledger (-want +got):\n%s", diff)
	}
	return ref
}

// recorded returns the entries of all records in a folder, ordered by time.
func recorded(t testing.TB, folder string) []session.Entry {
	t.Helper()
	var all []session.Entry
	for name, lines := range readFiles(t, folder) {
		if filepath.Base(name) != session.RecordName {
			continue
		}
		for _, line := range lines {
			var e session.Entry
			must.Succeed(t, json.Unmarshal(line, &e))
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b session.Entry) int { return a.At.Compare(b.At) })
	return all
}

// resume resumes the conversation in a folder that was cut, with a new oracle, new servers and a
// new ledger.
func (ref *reference) resume(t *testing.T, p model.Provider, folder string, b *box.Box) {
	t.Helper()
	w := &world{file: filepath.Join(t.TempDir(), "written")}
	before := recorded(t, folder)
	inDoubt := alreadyWritten(t, w, before)
	heardBefore, looked := 0, false // signals before the cut are on the other ledger
	for _, e := range before {
		switch {
		case e.Kind == session.Signal:
			heardBefore++
		case e.Kind == session.Result && e.Call.Name == "look":
			looked = true
		}
	}
	s, err := session.Open(folder)
	must.Succeed(t, err)
	defer s.Close()
	last := session.Last(s.Entries())
	o, servers := ref.cast(t, p, w, b)
	h := &heard{}
	answer, err := o.Resume(t.Context(), s, h.take)
	if last.Number == 0 {
		if !errors.Is(err, oracle.ErrNoQuestion) {
			t.Fatalf("nothing was asked, but: %+v, %v", answer, err)
		}
		return
	}
	must.Succeed(t, err)
	if done := h.done(t, answer); done != ref.answer.Done || answer.Text != ref.answer.Text ||
		answer.Error != nil {
		t.Errorf("it went on to %+v, %q, %+v, want %+v", done, answer.Text, answer.Error,
			ref.answer.Done)
	}
	if diff := gocmp.Diff(ref.text, h.text()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(happened(ref.chunks, inDoubt), happened(h.chunks, inDoubt)); diff != "" {
		t.Errorf("what happened (-want +got):\n%s", diff)
	}
	if got := w.written(t); got != ref.written {
		t.Errorf("%q was written, want %q", got, ref.written)
	}
	if (w.looks == 0) != looked {
		t.Errorf("looked %d times; its result was there: %t", w.looks, looked)
	}
	if told := told(servers[len(servers)-1]); inDoubt != "" &&
		!strings.Contains(told, "result "+inDoubt+": it is not known what came of this call") {
		t.Errorf("the model was not told that %s is in doubt:\n%s", inDoubt, told)
	}
	ref.checkLedger(t, b, heardBefore)
	again := &heard{}
	if answer, err := o.Resume(t.Context(), s, again.take); err != nil ||
		again.done(t, answer) != ref.answer.Done || !gocmp.Equal(again.text(), ref.text) {
		t.Errorf("when it is answered it is not told again: %+v, %v", answer, err)
	}
}

// alreadyWritten writes what calls started before the cut may have written, and returns the call
// whose outcome is unknown.
func alreadyWritten(t *testing.T, w *world, before []session.Entry) string {
	t.Helper()
	inDoubt := ""
	for _, e := range before {
		if e.Call == nil || e.Call.Name != "write" {
			continue
		}
		if e.Kind == session.Result {
			inDoubt = ""
			continue
		}
		var args struct{ Query string }
		must.Succeed(t, json.Unmarshal([]byte(e.Call.Arguments), &args))
		must.Succeed(t, w.write(args.Query))
		inDoubt = e.Call.ID
	}
	return inDoubt
}

// checkLedger checks that the signals missing before the cut are now on the ledger, with the ids of
// the reference, by which the ledger recognizes duplicates. Signals of the last tick before the cut
// may have been emitted again.
func (ref *reference) checkLedger(t *testing.T, b *box.Box, before int) {
	t.Helper()
	got := onLedger(t, b)
	for _, e := range ref.heard[before:] {
		if !slices.Contains(got, e) {
			t.Errorf("%+v is not on the ledger:\n%+v", e, got)
		}
	}
	for i, e := range got {
		if !slices.Contains(ref.heard, e) || slices.Contains(got[:i], e) {
			t.Errorf("%+v is on the ledger, but not once in:\n%+v", e, ref.heard)
		}
	}
}

// happened returns the chunks without content and without those that only a resumed conversation
// has.
func happened(chunks []chunk.Chunk, inDoubt string) []string {
	var all []string
	for _, c := range joined(chunks) {
		switch c := c.(type) {
		case chunk.Content, chunk.Reasoning:
			continue
		case chunk.System:
			if c.Name == chunk.Resumed || c.Name == chunk.ReplyRestarted {
				continue
			}
		case chunk.ToolResult:
			if c.ID == inDoubt {
				all = append(all, "in doubt: "+c.ID)
				continue
			}
		}
		all = append(all, strings.TrimSpace(lines([]chunk.Chunk{c})))
	}
	return all
}
