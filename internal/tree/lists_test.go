package tree

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

// Lists that grow, drop their first items or are replaced, in any order, are replayed unchanged.
func TestListsAreReplayed(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		items := rapid.SampledFrom([]any{int64(1), 1.5, "a", nil, []any{"x"},
			map[string]any{"k": "v"}})
		lists := rapid.SliceOfN(rapid.SliceOfN(items, 0, 5), 1, 12).Draw(t, "lists")
		next := 0
		root := of(Repeat, &Node{Kind: Action, Do: func(c *Call) Status {
			before, _ := c.Get("list")
			list := lists[next]
			if old, ok := before.([]any); ok && rapid.Bool().Draw(t, "grows") { // the usual case
				list = append(old[rapid.IntRange(0, len(old)).Draw(t, "slides"):len(old):len(old)],
					list...)
			}
			next++
			if err := c.Set("list", list); err != nil {
				return c.Fail("%v", err)
			}
			return Success
		}})
		root.Times = len(lists)
		compiled := mustCompile(t,
			&Definition{Name: "lists", Keys: []Key{{Name: "list", Type: List}}, Root: root}, nil)
		live, again := mustRun(t, compiled, &RunOptions{Record: true}), mustReplay(t, compiled)
		for live.Tick(epoch) == Running || live.Ticks() < len(lists) {
			replayLine(t, again, live)
		}
		replayLine(t, again, live)
	})
}

func mustReplay(t failer, compiled *Tree) *Run {
	t.Helper()
	r, err := NewReplay(compiled, &RunOptions{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return r
}

// replayLine replays the recorded last tick of a run in another run.
func replayLine(t failer, again, live *Run) {
	t.Helper()
	rec, err := ParseRecord(append(live.AppendRecord(nil), '}'))
	if err == nil {
		err = again.Replay(rec)
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	if diff := cmp.Diff(live.Board().Snapshot(), again.Board().Snapshot()); diff != "" {
		t.Fatalf("the board (-live +replayed):\n%s", diff)
	}
}

// A list that grows by one item adds only that item to the journal, even if its oldest items are
// dropped.
func TestGrowingListsAreRecordedBriefly(t *testing.T) {
	const limit = 50
	n := 0
	grow := &Node{Kind: Action, Do: func(c *Call) Status {
		before, _ := c.Get("list")
		list, _ := before.([]any)
		n++
		list = append(list[max(0, len(list)-limit+1):len(list):len(list)],
			fmt.Sprintf("item %d %s", n, strings.Repeat("x", 100)))
		if err := c.Set("list", list); err != nil {
			return c.Fail("%v", err)
		}
		return Success
	}}
	root := of(Repeat, grow)
	root.Times = 200
	compiled := mustCompile(t, &Definition{Name: "grow", Keys: []Key{{Name: "list", Type: List}},
		Root: root}, nil)
	live, again := mustRun(t, compiled, &RunOptions{Record: true}), mustReplay(t, compiled)
	for st := Running; st == Running; {
		st = live.Tick(epoch)
		if line := live.AppendRecord(nil); len(line) > 400 {
			t.Fatalf("tick %d has %d bytes: %s", live.Ticks(), len(line), line)
		}
		replayLine(t, again, live)
	}
}

// A record may claim to keep items that do not exist.
func TestKeptItemsMustExist(t *testing.T) {
	set := &Node{Kind: Action, Do: func(c *Call) Status {
		before, _ := c.Get("list")
		list, _ := before.([]any)
		if err := c.Set("list", append(list[:len(list):len(list)], "x")); err != nil {
			return c.Fail("%v", err)
		}
		return Success
	}}
	root := of(Repeat, set)
	root.Times = 3
	compiled := mustCompile(t, &Definition{Name: "stay", Keys: []Key{{Name: "list", Type: List}},
		Root: root}, nil)
	live := mustRun(t, compiled, &RunOptions{Record: true})
	live.Tick(epoch)
	first := string(live.AppendRecord(nil)) + "}"
	live.Tick(epoch)
	second := string(live.AppendRecord(nil)) + "}"
	if !strings.Contains(second, `[1,"list","x",1]`) {
		t.Fatalf("the second tick is %s", second)
	}
	for _, stays := range []string{"0", "-1", "2", "99999999999", `"1"`, "1,1", "null"} {
		again := mustReplay(t, compiled)
		if rec, err := ParseRecord([]byte(first)); err != nil || again.Replay(rec) != nil {
			t.Fatal("the first tick")
		}
		rec, err := ParseRecord([]byte(strings.Replace(second, `"x",1]`, `"x",`+stays+"]", 1)))
		if err == nil {
			err = again.Replay(rec)
		}
		if err == nil {
			t.Errorf("%s items stay", stays)
		}
	}
}
