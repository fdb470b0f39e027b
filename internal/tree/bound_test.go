package tree

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// All uses of a subtree share the defaults of its keys, but their sizes count for each use.
func TestDefaultsAreBounded(t *testing.T) {
	def := func(items, uses int) *Definition {
		d := &Definition{Name: "t", Root: of(Sequence),
			Subtrees: []*SubtreeDefinition{{Name: "s", Root: does(Success),
				Keys: []Key{{Name: "k", Type: List, Default: slices.Repeat([]any{"item"}, items)}}}}}
		for range uses {
			d.Root.Children = append(d.Root.Children, &Node{Kind: Subtree, Uses: "s"})
		}
		return d
	}
	_, err := Compile(def(20_000, 100_000), nil)
	wantError(t, err, "key 'k': the defaults of all keys are larger than")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	compiled := mustCompile(t, def(10_000, 40), nil)
	run := mustRun(t, compiled, &RunOptions{})
	runtime.ReadMemStats(&after)
	if grown := (after.TotalAlloc - before.TotalAlloc) >> 20; grown > 4 {
		t.Errorf("40 uses of one default cost %d MiB", grown)
	}
	if size := run.Board().Size(); size > MaxBoard {
		t.Errorf("the board has %d bytes", size)
	}
}

// The leaves of one tick may write and publish a limited number of bytes. The limit applies to each
// tick separately.
func TestTickIsBounded(t *testing.T) {
	text := strings.Repeat("x", MaxValue-100)
	for name, write := range map[string]func(*Call, int) error{
		"emits":  func(c *Call, _ int) error { return c.Emit("t", text) },
		"writes": func(c *Call, n int) error { return c.Set("k", text[n%2:]) },
	} {
		var errs []error
		root := of(Repeat, of(AlwaysSucceed, &Node{Kind: Action, Do: func(c *Call) Status {
			for n := range 100 {
				if err := write(c, n); err != nil {
					errs = append(errs, err)
					return c.Fail("%v", err)
				}
			}
			return Success
		}}))
		root.Times = 2
		run := mustRun(t, mustCompile(t, &Definition{Name: "t", Keys: []Key{{Name: "k"}},
			Root: root}, nil), &RunOptions{Record: true})
		for run.Tick(epoch) == Running {
			if size := len(run.AppendRecord(nil)); size > 2*maxTick {
				t.Errorf("%s: the record has %d bytes", name, size)
			}
		}
		if len(errs) != 2 || !strings.Contains(errs[1].Error(), "one tick writes more than") {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

func TestTopicsAreBounded(t *testing.T) {
	var failed error
	run := runOf(t, &Node{Kind: Action, Do: func(c *Call) Status {
		for n := range maxTopics + 1 {
			if failed = c.Emit(fmt.Sprint(n), n); failed != nil && n < maxTopics {
				return c.Fail("%v", failed)
			}
		}
		if err := c.Emit("7", "again"); err != nil {
			return c.Fail("%v", err)
		}
		return Success
	}})
	wantStatus(t, run.Tick(epoch), Success)
	wantError(t, failed, "there are 1000 topics already")
	last := run.Emitted()[len(run.Emitted())-1]
	if last.Nth != 2 || last.Seq != maxTopics+1 {
		t.Errorf("the last one is %d of its topic, %d in all", last.Nth, last.Seq)
	}
}
