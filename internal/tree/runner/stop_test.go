package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
)

// course is everything that can be observed of a run.
type course struct {
	journal []byte
	status  tree.Status
	board   map[string]any
	world   *world
	// pending holds the jobs that were running after each tick, begun those that the tick started.
	pending, begun map[int][]tree.Request
	emits          map[int][]tree.Emit
}

// stopCase is a tree whose run is stopped after each line.
type stopCase struct {
	name string
	def  func() *tree.Definition
	// timeless reports whether the result does not depend on how long the run was stopped.
	timeless bool
	ends     tree.Status
}

func stopCases() []stopCase {
	list := tree.Key{Name: "list", Type: tree.List, Default: []any{"a", int64(2), 2.5}}
	item := args{"takes": int64(7), "item": tree.Ref{Key: "x"}}
	def := func(root *tree.Node, names ...string) func() *tree.Definition {
		return func() *tree.Definition {
			return &tree.Definition{Name: "stopped", Keys: append(keys(names...), list), Root: root}
		}
	}
	each := func(items, as, index string, body *tree.Node) *tree.Node {
		return &tree.Node{Kind: tree.ForEach, Items: items, As: as, Index: index,
			Children: []*tree.Node{body}}
	}
	wide := inner(tree.Parallel, work("a", 10), work("b", 25), work("c", 4), work("d", 3),
		work("e", 50))
	wide.MaxConcurrent = 2
	one := inner(tree.Parallel, work("a", 30),
		action("b", "collect", args{"takes": int64(11), "item": "b"}), work("c", 20))
	one.Require = 1
	retried := after(tree.Retry, 100*time.Millisecond,
		action("flaky", "work", args{"takes": int64(13), "fails": int64(3),
			"writes": args{"a": 1}}))
	retried.Times = 5
	inside := each("outer", "row", "", each("list", "x", "i", sequence(
		action("", "collect",
			args{"takes": int64(3), "item": args{"row": tree.Ref{Key: "row"},
				"x": tree.Ref{Key: "x"}, "i": tree.Ref{Key: "i"}}}))))
	until := inner(tree.Repeat, sequence(action("", "count", nil), work("a", 17),
		is("n", int64(4))))
	until.Until = tree.UntilSuccess
	return []stopCase{
		{"sequence", def(sequence(work("a", 10), action("", "count", nil), work("b", 20),
			action("", "note", args{"item": tree.Ref{Key: "b"}})), "a", "b", "n", "done"), true,
			tree.Success},
		{"parallel", def(wide, "a", "b", "c", "d", "e"), true, tree.Success},
		{"first of three", def(one, "a", "b", "c", "done"), false, tree.Success},
		{"retry", def(sequence(retried, work("b", 1)), "a", "b"), true, tree.Success},
		{"timeout", def(inner(tree.Selector, after(tree.Timeout, 40*time.Millisecond,
			sequence(work("a", 15), work("b", 60))), work("c", 5)), "a", "b", "c"), false,
			tree.Success},
		{"wait", def(sequence(after(tree.Wait, 3*time.Second), action("", "count", nil),
			after(tree.Wait, time.Hour), work("a", 5)), "a", "n"), true, tree.Success},
		{"for each", def(each("list", "x", "i", action("", "collect", item)), "done"), true,
			tree.Success},
		{"nested for each", func() *tree.Definition {
			d := def(inside, "done")()
			d.Keys = append(d.Keys, tree.Key{Name: "outer", Type: tree.List,
				Default: []any{true, args{"k": "v"}}})
			return d
		}, true, tree.Success},
		{"repeat until", def(until, "a", "n"), true, tree.Success},
		{"reactive", def(reactive(), "go", "slow", "flipped", "other"), false, tree.Success},
		{"fails", def(sequence(work("a", 2),
			inner(tree.AlwaysFail, action("", "collect", args{"takes": int64(3), "item": 1})),
			work("b", 2)), "a", "b", "done"), true, tree.Failure},
		{"model and tool", def(conversation(), "answer"), true, tree.Success},
	}
}

// reactive halts a job when a condition changes, and restarts it when it changes back.
func reactive() *tree.Node {
	guarded := sequence(inner(tree.ReactiveSelector,
		inner(tree.ReactiveSequence, is("go", int64(1)), work("slow", 70)),
		inner(tree.AlwaysFail, work("other", 200))))
	set := func(v, takes int64) *tree.Node {
		return action(fmt.Sprintf("set%d", v), "work",
			args{"takes": takes, "writes": args{"go": v}})
	}
	again := inner(tree.Retry, guarded)
	again.Times = 2
	return inner(tree.Parallel, again, sequence(set(1, 10), set(0, 30), set(1, 45)))
}

// conversation calls a model twice, and a tool that fails the first time.
func conversation() *tree.Node {
	return sequence(
		&tree.Node{Kind: tree.LLMCall, Name: "ask",
			Args: args{"prompt": "hello", "temperature": 0.5}},
		action("", "parse_response_signal", nil), action("", "update_signal_state", nil),
		action("", "log_signal", nil), action("", "strip_signal_from_response", nil),
		&tree.Node{Kind: tree.Retry, Times: 2,
			Children: []*tree.Node{{Kind: tree.Tool, Name: "search", Fn: "search",
				Args: args{"q": tree.Ref{Key: "llm_response"}}}}},
		&tree.Node{Kind: tree.LLMCall, Name: "again",
			Args: args{"prompt": tree.Ref{Key: "tool_results"}, "response_key": "answer"}},
	)
}

func (w *world) services() *tree.Registry {
	r := &tree.Registry{}
	request := func(key string,
		payload any) tree.Request {
		return tree.Request{Key: key, Payload: payload}
	}
	r.Add(tree.LLMCall, "", Model(func(ctx context.Context, key string, p Prompt) (string, error) {
		err := w.wait(ctx, request(key, args{"prompt": p.Text, "settings": p.Settings}),
			9*time.Millisecond)
		return `I need more. <signal type="need_turn"><reason>search first</reason></signal>`, err
	}))
	r.Add(tree.Tool, "search",
		Tool("search", func(ctx context.Context, key string, a map[string]any) (any, error) {
			if err := w.wait(ctx, request(key, a), 5*time.Millisecond); err != nil {
				return nil, err
			}
			if attempt(key) == 1 {
				return nil, os.ErrDeadlineExceeded
			}
			return []any{"found", attempt(key)}, nil
		}))
	return r
}

// run runs or resumes a case in its own bubble, starting at a given time.
func (c *stopCase) run(t *testing.T, name string, w *world, at time.Time) *course {
	t.Helper()
	got := &course{world: w, pending: map[int][]tree.Request{}, begun: map[int][]tree.Request{},
		emits: map[int][]tree.Emit{}}
	var run *tree.Run
	var err error
	tick := 0
	inBubble(t, func(t *testing.T) {
		if !at.IsZero() {
			time.Sleep(time.Until(at))
		}
		run, err = Do(t.Context(), compile(t, c.def(), w.functions()),
			&Options{Journal: name, Run: tree.RunOptions{ID: "r1", Services: w.services()},
				Emitted: func(ctx context.Context, r *tree.Run, e tree.Emit) error {
					got.emits[tick] = append(got.emits[tick], e)
					return w.emitted(ctx, r, e)
				},
				Ticked: func(r *tree.Run) {
					tick = r.Ticks()
					got.pending[tick], got.begun[tick] = requests(r.Pending()),
						requests(r.Started())
				}})
	})
	must.Succeed(t, err)
	got.journal, got.status, got.board = readFile(t, name), run.Status(), run.Board().Snapshot()
	return got
}

func requests(starts []tree.Start) []tree.Request {
	var all []tree.Request
	for _, s := range starts {
		all = append(all, s.Request)
	}
	return all
}

// seen returns the requests to a world by key.
func seen(all []tree.Request) []string {
	var texts []string
	for _, r := range all {
		payload := r.Payload
		if p, ok := payload.(args); ok && p["settings"] != nil {
			settings := maps.Clone(p["settings"].(args))
			settings["prompt"] = p["prompt"]
			payload = settings
		} else if ok && p["response_key"] != nil {
			p = maps.Clone(p)
			delete(p, "response_key") // not passed to the job
			payload = p
		}
		texts = append(texts, r.Key+" "+tree.FormatValue(payload))
	}
	slices.Sort(texts)
	return texts
}

// position returns the number of ticks in a part of a journal, and the time of the last one.
func position(t *testing.T, part [][]byte) (ticks int, at time.Time) {
	t.Helper()
	for _, line := range part {
		var rec struct {
			Tick int
			At   any
		}
		must.Succeed(t, json.Unmarshal(line, &rec))
		if nanos, ok := rec.At.(float64); ok && rec.Tick > 0 {
			// a float64 is not exact, but the times here are whole milliseconds
			ticks, at = rec.Tick, time.UnixMilli(int64(nanos+5e5)/1e6)
		}
	}
	return ticks, at
}

func join(parts [][]byte) []byte { return slices.Concat(parts...) }

// A run that is killed anywhere and resumed at once has the same journal as one that was not
// killed, byte for byte. It repeats no recorded work, and delivers again only the values of its
// last tick.
func TestResumeFromEveryLine(t *testing.T) {
	for _, c := range stopCases() {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			reference := c.run(t, filepath.Join(dir, "reference"), newWorld(), time.Time{})
			if reference.status != c.ends {
				t.Fatalf("it ended as %s\n%s", reference.status, reference.journal)
			}
			all := lines(reference.journal)
			for n := range len(all) + 1 {
				// longer than the rest, or a part of the next line, in turn
				torn := bytes.Repeat([]byte("x"), len(reference.journal)+1)
				if n < len(all) && (n == 0 || n%4 > 0) {
					size := len(all[n])
					torn = all[n][:[]int{1, size / 2, size - 1}[n%3]]
				}
				for _, tail := range [][]byte{nil, torn} {
					c.resume(t, filepath.Join(dir, fmt.Sprintf("%d-%d", n, len(tail))), reference,
						n, tail)
				}
			}
		})
	}
}

// resume resumes from the first n lines of a journal and a part of the next line.
func (c *stopCase) resume(t *testing.T, name string, reference *course, n int, tail []byte) {
	t.Helper()
	all := lines(reference.journal)
	writeFile(t, name, join(append(slices.Clone(all[:n]), tail)))
	ticks, at := position(t, all[:n])
	got := c.run(t, name, reference.worldAfter(ticks), at)
	where := fmt.Sprintf("%d lines and %d bytes", n, len(tail))
	if diff := cmp.Diff(string(reference.journal), string(got.journal)); diff != "" {
		t.Errorf("%s: the journal (-want +got):\n%s", where, diff)
	}
	if diff := cmp.Diff(reference.board, got.board); diff != "" {
		t.Errorf("%s: the board (-want +got):\n%s", where, diff)
	}
	if got.status != reference.status {
		t.Errorf("%s: it ended as %s", where, got.status)
	}
	starts, emits := slices.Clone(reference.pending[ticks]), []tree.Emit(nil)
	if n < len(all) {
		// jobs that it halts are not started
		if next, due := position(t, all[:n+1]); next > ticks && due.Equal(at) {
			starts = slices.DeleteFunc(starts, func(s tree.Request) bool {
				return !slices.ContainsFunc(reference.pending[next],
					func(p tree.Request) bool { return p.Key == s.Key })
			})
		}
	}
	for tick := range slices.Max(slices.Collect(maps.Keys(reference.pending))) + 1 {
		if tick > ticks {
			starts = append(starts, reference.begun[tick]...)
		}
		if tick >= ticks && n < len(all) {
			emits = append(emits, reference.emits[tick]...)
		}
	}
	if diff := cmp.Diff(seen(starts), seen(got.world.started)); diff != "" {
		t.Errorf("%s: jobs that were started (-want +got):\n%s", where, diff)
	}
	if diff := cmp.Diff(emits, got.world.emits); diff != "" {
		t.Errorf("%s: emitted (-want +got):\n%s", where, diff)
	}
}

// worldAfter returns the world after a tick: only the jobs that were running then are in progress.
func (c *course) worldAfter(tick int) *world {
	w := newWorld()
	for _, r := range c.pending[tick] {
		w.due[r.Key] = c.world.due[r.Key]
	}
	return w
}

// A run that does not depend on time has the same result however long it was stopped.
func TestResumeMuchLater(t *testing.T) {
	for _, c := range stopCases() {
		if !c.timeless {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			reference := c.run(t, filepath.Join(dir, "reference"), newWorld(), time.Time{})
			all := lines(reference.journal)
			for n := 1; n < len(all); n++ {
				name := filepath.Join(dir, fmt.Sprint(n))
				writeFile(t, name, join(all[:n]))
				_, at := position(t, all[:n])
				if at.IsZero() {
					at = time.UnixMilli(946684800000) // the start of a bubble
				}
				got := c.run(t, name, newWorld(), at.Add(30*24*time.Hour))
				if got.status != reference.status {
					t.Errorf("%d lines: it ended as %s", n, got.status)
				}
				if diff := cmp.Diff(stamped(reference.board), stamped(got.board)); diff != "" {
					t.Errorf("%d lines: the board (-want +got):\n%s", n, diff)
				}
				emits := map[int]string{}
				for _, e := range slices.Concat(reference.world.emits, got.world.emits) {
					text := tree.FormatValue(stamped(args{"v": e.Value}))
					if was, ok := emits[e.Seq]; ok && was != text {
						t.Errorf("%d lines: value %d was %s and is %s", n, e.Seq, was, text)
					}
					emits[e.Seq] = text
				}
				if len(emits) != len(reference.world.emits) {
					t.Errorf("%d lines: there are %d emitted values, want %d", n, len(emits),
						len(reference.world.emits))
				}
			}
		})
	}
}

// stamped removes the times from a board, because they depend on when the run was resumed.
func stamped(board map[string]any) map[string]any {
	var without func(v any) any
	without = func(v any) any {
		switch v := v.(type) {
		case []any:
			list := make([]any, len(v))
			for i := range v {
				list[i] = without(v[i])
			}
			return list
		case map[string]any:
			fields := map[string]any{}
			for key := range v {
				if key != "timestamp" {
					fields[key] = without(v[key])
				}
			}
			return fields
		}
		return v
	}
	return without(board).(map[string]any)
}
