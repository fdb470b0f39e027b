package runner

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
	"signalbox/internal/tree"
)

// drawTree draws a small tree.
func drawTree(t *rapid.T, depth int) *tree.Node {
	kinds := []tree.Kind{tree.Action, tree.Action, tree.Action, tree.Condition, tree.Wait,
		tree.Script}
	if depth > 0 {
		kinds = append([]tree.Kind{tree.Sequence, tree.Selector, tree.Parallel,
			tree.ReactiveSequence, tree.ReactiveSelector, tree.ForEach,
			tree.Retry, tree.Repeat, tree.Timeout, tree.Guard, tree.Cooldown, tree.Inverter,
			tree.AlwaysSucceed, tree.AlwaysFail}, kinds...)
	}
	n := &tree.Node{Kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
	ms := func(most int) time.Duration {
		return time.Duration(rapid.IntRange(1, most).Draw(t, "ms")) * time.Millisecond
	}
	switch n.Kind {
	case tree.Action:
		n.Fn, n.Args = "chance", args{"seed": rapid.IntRange(0, 1000).Draw(t, "seed")}
	case tree.Script:
		n.Kind, n.Fn = tree.Action, "count"
	case tree.Condition:
		return is("a", int64(rapid.IntRange(0, 3).Draw(t, "a")))
	case tree.Wait:
		n.After = ms(800)
	case tree.Guard:
		n.Children = []*tree.Node{is("a", int64(rapid.IntRange(0, 3).Draw(t, "a"))),
			drawTree(t, depth-1)}
	default:
		children := 1
		if n.Kind.IsComposite() && n.Kind != tree.ForEach {
			children = rapid.IntRange(1, 4).Draw(t, "children")
		}
		for range children {
			n.Children = append(n.Children, drawTree(t, depth-1))
		}
	}
	switch n.Kind {
	case tree.Parallel:
		n.Require, n.MaxConcurrent = rapid.IntRange(0, len(n.Children)).Draw(t, "require"),
			rapid.IntRange(0, 3).Draw(t, "at once")
	case tree.ForEach:
		n.Items, n.As, n.KeepGoing = "list", "x", rapid.Bool().Draw(t, "keep going")
	case tree.Retry:
		n.Times, n.After = rapid.IntRange(1, 3).Draw(t, "attempts"), ms(500)
	case tree.Repeat:
		n.Times, n.Until = rapid.IntRange(1, 3).Draw(t, "times"),
			rapid.SampledFrom([]tree.Until{tree.UntilTimes, tree.UntilSuccess,
				tree.UntilFailure}).Draw(t, "until")
	case tree.Timeout, tree.Cooldown:
		n.After = ms(1500)
	}
	return n
}

// kill describes how a run is stopped.
type kill struct {
	ticks int // number of further ticks
	// keep leaves the ending in the journal. Otherwise the journal is as after a crash, with an
	// incomplete line.
	keep bool
	torn int
}

// chanceRun runs a tree to its end, with kills on the way.
func chanceRun(t *testing.T, name string, root *tree.Node,
	kills []kill) (got *course, stopped int) {
	t.Helper()
	got = &course{world: newWorld()}
	inBubble(t, func(t *testing.T) {
		def := &tree.Definition{Name: "chance",
			Keys: append(keys("a", "n"),
				tree.Key{Name: "list", Type: tree.List, Default: []any{"x", "y"}}), Root: root}
		compiled := compile(t, def, got.world.functions())
		for {
			ctx, cancel := context.WithCancel(t.Context())
			ticks := 0
			run, err := Do(ctx, compiled, &Options{Journal: name, Run: tree.RunOptions{ID: "run"},
				MaxTicks: 80, Emitted: got.world.emitted, Ticked: func(*tree.Run) {
					if ticks++; len(kills) > 0 && ticks == kills[0].ticks {
						cancel()
					}
				}})
			cancel()
			// a reactive node that restarts a child forever is not a mistake of the runner
			if err == nil || errors.Is(err, ErrTickBudget) {
				got.status, got.board = run.Status(), run.Board().Snapshot()
				break
			}
			if len(kills) == 0 {
				t.Error(err)
				return
			}
			if k := kills[0]; !k.keep {
				all := lines(readFile(t, name))
				last := all[len(all)-1]
				writeFile(t, name, append(join(all[:len(all)-1]),
					last[:min(k.torn, len(last)-1)]...))
			}
			kills = kills[1:]
			stopped++
		}
	})
	got.journal = readFile(t, name)
	return got, stopped
}

// ticksOf returns the tick lines of a journal, without their hashes.
func ticksOf(journal []byte) (all []string) {
	for _, line := range lines(journal) {
		if text, _, _ := bytes.Cut(line, []byte(`,"hash":"`)); bytes.HasPrefix(text,
			[]byte(`{"tick":`)) {
			all = append(all, string(text))
		}
	}
	return all
}

// distinct returns the published values by their number. It fails if two values of the same number
// differ.
func distinct(t *rapid.T, emits []tree.Emit) []string {
	all := map[int]string{}
	for _, e := range emits {
		text := strconv.Itoa(e.Node) + e.Topic + tree.FormatValue(e.Value)
		if was, ok := all[e.Seq]; ok && was != text {
			t.Fatalf("value %d is %s and %s", e.Seq, was, text)
		}
		all[e.Seq] = text
	}
	var list []string
	for _, seq := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[seq])
	}
	return list
}

// keysOf returns the keys of all jobs that were started, except for halted jobs that a resumed run
// started only to clean up after them.
func keysOf(w *world) []string {
	keys := maps.Clone(w.due)
	for _, key := range w.cleared {
		keys[key] = time.Time{}
	}
	return slices.Sorted(maps.Keys(keys))
}

// A run of any tree that is stopped any number of times has the same course as a run that is never
// stopped.
func TestStoppedRunsHaveTheSameCourse(t *testing.T) {
	dir := t.TempDir()
	runs, stops := 0, 0
	property.Check(t, func(rt *rapid.T) {
		root := drawTree(rt, 4)
		var kills []kill
		for range rapid.IntRange(1, 5).Draw(rt, "kills") {
			kills = append(kills, kill{rapid.IntRange(1, 6).Draw(rt, "ticks"),
				rapid.Bool().Draw(rt, "keep"), rapid.IntRange(0, 60).Draw(rt, "torn")})
		}
		runs += 2
		want, _ := chanceRun(t, filepath.Join(dir, strconv.Itoa(runs)), root, nil)
		got, stopped := chanceRun(t, filepath.Join(dir, strconv.Itoa(runs+1)), root, kills)
		stops += stopped
		if diff := cmp.Diff(ticksOf(want.journal), ticksOf(got.journal)); diff != "" {
			rt.Fatalf("ticks (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want.board, got.board); diff != "" || want.status != got.status {
			rt.Fatalf("%s, and stopped %s; the board (-want +got):\n%s", want.status, got.status,
				diff)
		}
		if diff := cmp.Diff(distinct(rt, want.world.emits),
			distinct(rt, got.world.emits)); diff != "" {
			rt.Fatalf("emitted (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(keysOf(want.world), keysOf(got.world)); diff != "" {
			rt.Fatalf("work (-want +got):\n%s", diff)
		}
	})
	if !t.Failed() && stops < runs/4 {
		t.Errorf("%d runs were stopped only %d times", runs/2, stops)
	}
}
