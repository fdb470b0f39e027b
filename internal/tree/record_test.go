package tree

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

var update = flag.Bool("update", false, "rewrite the recorded journal")

const golden = "testdata/journal.jsonl"

// storyTree has everything that a journal can record: writes, errors, wakes, jobs and emits.
func storyTree(t failer) *Tree {
	t.Helper()
	say := &Node{Kind: Action, Name: "say", Do: func(c *Call) Status {
		x, _ := c.Get("x")
		if err := c.Set("said", x); err != nil {
			return c.Fail("%v", err)
		}
		if err := c.Emit("word", map[string]any{"x": x, "at": c.Now().Unix()}); err != nil {
			return c.Fail("%v", err)
		}
		return Success
	}}
	rest := &Node{Kind: Action, Name: "rest", Do: func(c *Call) Status {
		if woken, _ := c.Get("_woken"); woken == nil {
			c.WakeAfter(3 * time.Second)
			if err := c.Set("_woken", true); err != nil {
				return c.Fail("%v", err)
			}
			return Running
		}
		return c.Fail("no \"paper\" <&> \u2028")
	}}
	each := of(ForEach, say)
	each.Items, each.As = "list", "x"
	fetch := job("fetch")
	fetch.Args = map[string]any{"list": Ref{"list"}, "ratio": 1.0}
	def := &Definition{Name: "story", Keys: []Key{{Name: "list", Type: List}, {Name: "said"}},
		Globals: []Key{{Name: "world"}},
		Root:    of(Sequence, each, fetch, of(Inverter, rest))}
	return mustCompile(t, def, functions())
}

// story runs storyTree to its end and returns the lines of its journal, without line ends, and the
// run.
func story(t failer) ([][]byte, *Run) {
	t.Helper()
	o := &RunOptions{ID: "story-1", Record: true,
		Inputs:  map[string]any{"list": []any{1, 2.0, "drei"}},
		Globals: map[string]any{"world": true}}
	r := mustRun(t, storyTree(t), o)
	h := r.Header(o, epoch)
	h.File, h.Source = "story.lua", "return BT.tree('story')\n"
	var chain Chain
	text := chain.Seal(AppendHeader(nil, h), 0)
	now := epoch
	for r.Tick(now) == Running || r.Ticks() == 1 {
		from := len(text)
		text = chain.Seal(r.AppendRecord(text), from)
		for _, s := range r.Started() {
			r.Finish(s, Result{Status: Success,
				Writes: map[string]any{"said": map[string]any{"b": 1, "a": nil}}})
		}
		if at, due := r.Wake(); due {
			now = at
		}
	}
	from := len(text)
	text = chain.Seal(r.AppendRecord(text), from)
	from = len(text)
	text = chain.Seal(AppendEnding(text, Ending{End: r.Status().String(), At: now}), from)
	return bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")), r
}

// The journal format must stay readable: do not change the golden file.
func TestJournalGolden(t *testing.T) {
	lines, r := story(t)
	got := append(bytes.Join(lines, []byte("\n")), '\n')
	if *update {
		must.Succeed(t, os.WriteFile(golden, got, 0o644))
	}
	want, err := os.ReadFile(golden)
	must.Succeed(t, err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantStatus(t, r.Status(), Success)
	replayed := replayLines(t, bytes.Split(bytes.TrimSuffix(want, []byte("\n")), []byte("\n")))
	if diff := cmp.Diff(r.Views(), replayed.Views()); diff != "" {
		t.Errorf("replayed (-want +got):\n%s", diff)
	}
	if diff := Diff(r.Board().Snapshot(), replayed.Board().Snapshot()); diff != nil {
		t.Errorf("the blackboard differs: %v", diff)
	}
}

func replayLines(t *testing.T, lines [][]byte) *Run {
	t.Helper()
	r, err := NewReplay(storyTree(t),
		&RunOptions{ID: "story-1", Inputs: map[string]any{"list": []any{1, 2.0, "drei"}},
			Globals: map[string]any{"world": true}})
	must.Succeed(t, err)
	var chain Chain
	for i, line := range lines {
		if err := chain.Check(line); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if i == 0 || i == len(lines)-1 {
			continue
		}
		if err := r.Replay(mustParse(t, line)); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
	}
	return r
}

func mustParse(t failer, line []byte) *Record {
	t.Helper()
	rec, err := ParseRecord(line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return rec
}

// A changed byte in any line is detected, and so are truncated, missing, repeated and swapped
// lines.
func TestChainTampering(t *testing.T) {
	lines, _ := story(t)
	check := func(lines [][]byte) error {
		var chain Chain
		for _, line := range lines {
			if err := chain.Check(line); err != nil {
				return err
			}
		}
		return nil
	}
	must.Succeed(t, check(lines))
	property.Check(t, func(t *rapid.T) {
		bad := slices.Clone(lines)
		i := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
		switch what := rapid.IntRange(0, 5).Draw(t, "what"); {
		case what == 0 && i < len(lines)-1:
			bad = slices.Delete(bad, i, i+1)
		case what == 1:
			bad = slices.Insert(bad, i, lines[i])
		case what == 2 && i > 0:
			bad[i-1], bad[i] = bad[i], bad[i-1]
		case what == 3:
			bad[i] = lines[i][:rapid.IntRange(0, len(lines[i])-1).Draw(t, "cut")]
		default:
			at, other := rapid.IntRange(0, len(lines[i])-1).Draw(t, "at"),
				rapid.Byte().Draw(t, "byte")
			bad[i] = slices.Clone(lines[i])
			if bad[i][at] == other {
				other ^= 1
			}
			bad[i][at] = other
		}
		if err := check(bad); !errors.Is(err, ErrChain) {
			t.Fatalf("it is taken: %v", err)
		}
	})
}

func TestHeaderRoundTrip(t *testing.T) {
	o := &RunOptions{ID: "r1", Inputs: map[string]any{"list": []any{1, 2.5, "x"}},
		Globals: map[string]any{"world": map[string]any{"a": nil}}}
	r := mustRun(t, storyTree(t), o)
	h := r.Header(o, epoch.In(time.FixedZone("east", 3600)))
	if h.Format != HeaderFormat || h.Run != "r1" || h.Tree != "story" ||
		h.Shape != r.Tree().Shape() || !h.At.Equal(epoch) {
		t.Errorf("the header is %+v", h)
	}
	inputs, globals, err := h.ReadInputs()
	must.Succeed(t, err)
	if diff := cmp.Diff(map[string]any{"list": []any{int64(1), 2.5, "x"}}, inputs); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"world": map[string]any{"a": nil}}, globals); diff != "" {
		t.Errorf("globals (-want +got):\n%s", diff)
	}
	none := mustRun(t, storyTree(t), &RunOptions{}).Header(&RunOptions{}, epoch)
	if inputs, globals, err := none.ReadInputs(); none.Run != "run" || inputs != nil ||
		globals != nil || err != nil {
		t.Errorf("without any: %v %v %v", inputs, globals, err)
	}
	h.Globals = []byte("{")
	if _, _, err := h.ReadInputs(); err == nil {
		t.Error("globals that cannot be read are read")
	}
}

// Lines that are not records.
func TestParseRecordErrors(t *testing.T) {
	for line, want := range map[string]string{
		``:                                "cannot be read",
		`{"tick":1}`:                      `there is no status ""`,
		`{"status":"DONE"}`:               `there is no status "DONE"`,
		`{"status":"IDLE","visits":"S"}`:  "invalid visits",
		`{"status":"IDLE","visits":"12"}`: "invalid visits",
		`{"status":"IDLE","visits":"xS"}`: "invalid syntax",
		`{"status":"IDLE","visits":"9999999999S"}`:      "out of range",
		`{"status":"IDLE","writes":[[1,"k"]]}`:          "2 elements, not 3",
		`{"status":"IDLE","writes":[["1","k",1]]}`:      "invalid syntax",
		`{"status":"IDLE","writes":[[1,2,3]]}`:          "cannot be read",
		`{"status":"IDLE","errors":[[1,"a","b"]]}`:      "3 elements, not 2",
		`{"status":"IDLE","wakes":[[1]]}`:               "1 elements, not 2",
		`{"status":"IDLE","wakes":[[1,"soon"]]}`:        "a wake is not a time",
		`{"status":"IDLE","jobs":[[]]}`:                 "0 elements, not 2",
		`{"status":"IDLE","emits":[[1,"topic",1e999]]}`: "out of range",
	} {
		if _, err := ParseRecord([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q in it", line, err, want)
		}
	}
}

// A record that the tree could not have made is rejected with the tick and the node.
func TestDivergence(t *testing.T) {
	lines, _ := story(t)
	for name, tt := range map[string]struct {
		tick     int
		old, new string
		want     string
	}{
		"leaf": {1, `2S`, `2F`,
			"tick 1: sequence/for_each is FAILURE, and was recorded as RUNNING"},
		"idle leaf": {1, `2S`, `2I`,
			"tick 1: sequence/for_each/say is FAILURE, and was recorded as IDLE"},
		"inner": {1, `1R`, `1S`,
			"tick 1: sequence/for_each is RUNNING, and was recorded as SUCCESS"},
		"root": {1, `"status":"RUNNING"`, `"status":"FAILURE"`,
			"tick 1: sequence is RUNNING, and was recorded as FAILURE"},
		"more": {1, `0R"`, `0R3S"`,
			"tick 1: sequence/fetch is IDLE, and was recorded as SUCCESS"},
		"less":    {1, `1R0R"`, `1R"`, "tick 1: sequence is RUNNING, and was recorded as IDLE"},
		"no node": {1, `2S`, `99S`, "tick 1: there is no node 99"},
		"before":  {1, `2S`, `-1S`, "tick 1: there is no node -1"},
		"tick":    {1, `"tick":1`, `"tick":2`, "tick 2: tick 1 is expected"},
		"time":    {2, `"at":1`, `"at":-1`, "tick 2: it is earlier than the tick before"},
		"other's": {1, `"writes":[[2,`, `"writes":[[1,`,
			"tick 1: the record has effects of a node that was not ticked"},
		"undeclared": {1, `"said"`, `"sad"`,
			"tick 1: the record has effects of a node that was not ticked"},
		"emit": {1, `"emits":[[2,`, `"emits":[[3,`,
			"tick 1: the record has effects of a node that was not ticked"},
		"other error": {5, `"errors":[[5,`, `"errors":[[4,`,
			"tick 5: the record has effects of a node that was not ticked"},
		"other job": {3, `"jobs":[[3,`, `"jobs":[[2,`,
			"tick 3: the record has effects of a node that was not ticked"},
		"other wake": {4, `"wakes":[[5,`, `"wakes":[[4,`,
			"tick 4: the record has effects of a node that was not ticked"},
	} {
		r, err := NewReplay(storyTree(t),
			&RunOptions{Inputs: map[string]any{"list": []any{1, 2.0, "drei"}}})
		must.Succeed(t, err)
		for tick := 1; tick <= tt.tick; tick++ {
			line := string(lines[tick])
			if tick == tt.tick {
				if !strings.Contains(line, tt.old) {
					t.Fatalf("%s: there is no %s in %s", name, tt.old, line)
				}
				line = strings.Replace(line, tt.old, tt.new, 1)
			}
			err = r.Replay(mustParse(t, []byte(line)))
			if err != nil && tick < tt.tick {
				t.Fatal(err)
			}
		}
		var diverged *DivergenceError
		if !errors.As(err, &diverged) || err.Error() != tt.want {
			t.Errorf("%s: the error is %v, want %s", name, err, tt.want)
		}
	}
}
