package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestTreeKilled kills signalbox tree run between any two ticks and at any instant, and runs the same command again until the
// tree ends. It ends as if nobody had been killed, and nothing is done twice but what a kill left unfinished.
func TestTreeKilled(t *testing.T) {
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			whole := newPlot(t, p)
			want := whole.end(t)
			whole.checkRun(t, 1)
			journal, err := os.ReadFile(whole.journal)
			check(t, err)
			t.Run("between ticks", func(t *testing.T) { testCut(t, whole, journal, want) })
			t.Run("after a tick", func(t *testing.T) { testKilledAfterTicks(t, whole, journal, want) })
			if !isFull() && p.quiet {
				return
			}
			t.Run("at any instant", func(t *testing.T) { testKilledAtInstants(t, whole, want) })
		})
	}
}

// testCut goes on from every beginning of a journal: that is how it looks to the next process when one was killed.
func testCut(t *testing.T, whole *plot, journal []byte, want outcome) {
	random := newRand(t)
	lines := bytes.SplitAfter(journal, []byte("\n"))
	ticks := len(lines) - 3 // a header, an ending, and nothing after it
	for _, k := range chosen(random, ticks, sized(2, ticks+1)) {
		o := newPlot(t, whole.planted)
		start := slices.Concat(lines[:1+k]...)
		torn := lines[1+k][:random.IntN(len(lines[1+k]))] // a line that was being written
		check(t, os.WriteFile(o.journal, append(start, torn...), 0o600))
		if diff := cmp.Diff(want, o.end(t)); diff != "" {
			t.Errorf("gone on after tick %d of %d:\n%s", k, ticks, diff)
		}
		o.checkRun(t, 1)
		o.checkCutKeys(t, whole, lines[1:], k)
		if t.Failed() {
			t.FailNow()
		}
	}
}

// chosen are so many numbers from 0 to most, and always both ends.
func chosen(random *rand.Rand, most, n int) []int {
	all := random.Perm(max(most-1, 0))
	some := []int{0, most}
	for _, k := range all[:min(len(all), max(n-2, 0))] {
		some = append(some, k+1)
	}
	slices.Sort(some)
	return slices.Compact(some)
}

// checkCutKeys checks that what began after the cut was begun, and nothing else but what was running then.
func (o *plot) checkCutKeys(t testing.TB, whole *plot, records [][]byte, k int) {
	t.Helper()
	got, all := o.keys(t), whole.keys(t)
	for key := range got {
		if all[key] == 0 && !slices.Contains(o.maybe, key) {
			t.Errorf("gone on after tick %d: the work %s was begun, and is not part of the run", k, key)
		}
	}
	counts := map[string]int{}
	for i, record := range records {
		var tick struct {
			Jobs [][]json.RawMessage `json:"jobs"`
		}
		if len(record) == 0 || json.Unmarshal(record, &tick) != nil {
			continue
		}
		for _, job := range tick.Jobs {
			node := string(job[0])
			counts[node]++
			key := fmt.Sprintf("/%s/%d", node, counts[node])
			if i >= k && all[key] > 0 && got[key] == 0 && !slices.Contains(o.maybe, key) {
				t.Errorf("gone on after tick %d: the work %s was never begun", k, key)
			}
		}
	}
}

// testKilledAfterTicks kills a run as soon as it told of a tick, so before or while it does what the tick asks for.
func testKilledAfterTicks(t *testing.T, whole *plot, journal []byte, want outcome) {
	random := newRand(t)
	ticks := bytes.Count(journal, []byte("\n")) - 2
	for _, k := range chosen(random, ticks-1, sized(3, ticks))[1:] {
		o := newPlot(t, whole.planted)
		kills := 0
		for next := k; kills < sized(2, 4); next = 1 + random.IntN(3) {
			p := o.start(t)
			more := p.ticks(next)
			p.kill(random.IntN(2) == 0)
			if !more {
				break
			}
			kills++
		}
		o.checkKilled(t, whole, kills, want)
		if t.Failed() {
			t.Fatalf("killed after tick %d of %d, %d times in all", k, ticks, kills)
		}
	}
}

// testKilledAtInstants kills a run some time after it began, again and again.
func testKilledAtInstants(t *testing.T, whole *plot, want outcome) {
	random := newRand(t)
	for range sized(1, 15) {
		o := newPlot(t, whole.planted)
		kills := 0
		for ; kills < 6; kills++ {
			p := o.start(t)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				p.ticks(1 << 30)
			}()
			select {
			case <-ended:
			case <-time.After(time.Duration(random.IntN(120)) * time.Millisecond): // any instant will do
			}
			p.kill(random.IntN(2) == 0)
			if <-ended; p.cmd.ProcessState.Exited() {
				break
			}
		}
		o.checkKilled(t, whole, kills, want)
		if t.Failed() {
			t.Fatalf("killed %d times", kills)
		}
	}
}

// checkKilled lets a run that was killed end, and compares it with one that was not.
func (o *plot) checkKilled(t *testing.T, whole *plot, kills int, want outcome) {
	t.Helper()
	if diff := cmp.Diff(want, o.end(t)); diff != "" {
		t.Errorf("it ended otherwise than without a kill:\n%s", diff)
	}
	o.checkRun(t, 1+kills)
	o.checkKeys(t, whole.keys(t))
	if left, _ := filepath.Glob(filepath.Join(o.project, "*")); len(left) > 0 {
		t.Errorf("the folder where it ran has %v", left)
	}
}
