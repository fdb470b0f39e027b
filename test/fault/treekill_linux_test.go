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

// TestTreeKilled kills signalbox tree run between ticks and at random moments, and repeats the
// command until the tree ends. The result must be that of an undisturbed run, and only tools that a
// kill interrupted may run twice.
func TestTreeKilled(t *testing.T) {
	for _, p := range treeCases {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			whole := newTreeRun(t, p)
			want := whole.end(t)
			whole.checkRun(t, 1)
			journal, err := os.ReadFile(whole.journal)
			check(t, err)
			t.Run("between ticks", func(t *testing.T) { testTruncated(t, whole, journal, want) })
			t.Run("after a tick",
				func(t *testing.T) { testKilledAfterTicks(t, whole, journal, want) })
			if !isFull() && p.slow {
				return
			}
			t.Run("at any instant", func(t *testing.T) { testKilledAtInstants(t, whole, want) })
		})
	}
}

// testTruncated resumes from prefixes of a journal, which is what the next process finds after a
// kill.
func testTruncated(t *testing.T, whole *treeRun, journal []byte, want outcome) {
	random := newRand(t)
	lines := bytes.SplitAfter(journal, []byte("\n"))
	ticks := len(lines) - 3 // without the header, the ending, and the empty string after it
	for _, k := range chosen(random, ticks, sized(2, ticks+1)) {
		o := newTreeRun(t, whole.treeCase)
		start := slices.Concat(lines[:1+k]...)
		torn := lines[1+k][:random.IntN(len(lines[1+k]))] // an incomplete line
		check(t, os.WriteFile(o.journal, append(start, torn...), 0o600))
		if diff := cmp.Diff(want, o.end(t)); diff != "" {
			t.Errorf("resumed after tick %d of %d:\n%s", k, ticks, diff)
		}
		o.checkRun(t, 1)
		o.checkResumedKeys(t, whole, lines[1:], k)
		if t.Failed() {
			t.FailNow()
		}
	}
}

// chosen returns n random numbers from 0 to most, always including both ends.
func chosen(random *rand.Rand, most, n int) []int {
	all := random.Perm(max(most-1, 0))
	some := []int{0, most}
	for _, k := range all[:min(len(all), max(n-2, 0))] {
		some = append(some, k+1)
	}
	slices.Sort(some)
	return slices.Compact(some)
}

// checkResumedKeys checks that, after a resume at tick k, every later job was started, and no job
// that is not part of the run.
func (o *treeRun) checkResumedKeys(t testing.TB, whole *treeRun, records [][]byte, k int) {
	t.Helper()
	got, all := o.keys(t), whole.keys(t)
	for key := range got {
		if all[key] == 0 && !slices.Contains(o.optional, key) {
			t.Errorf("resumed after tick %d: job %s was started, but is not part of the run", k,
				key)
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
			if i >= k && all[key] > 0 && got[key] == 0 && !slices.Contains(o.optional, key) {
				t.Errorf("resumed after tick %d: job %s was never started", k, key)
			}
		}
	}
}

// testKilledAfterTicks kills a run as soon as it prints a tick, which is before or while it starts
// the jobs of that tick.
func testKilledAfterTicks(t *testing.T, whole *treeRun, journal []byte, want outcome) {
	random := newRand(t)
	ticks := bytes.Count(journal, []byte("\n")) - 2
	some := chosen(random, ticks-1, sized(3, ticks))[1:]
	for _, k := range some[:sized(1, len(some))] {
		o := newTreeRun(t, whole.treeCase)
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
			t.Fatalf("killed after tick %d of %d, %d times in total", k, ticks, kills)
		}
	}
}

// testKilledAtInstants kills a run repeatedly, at random times after each start.
func testKilledAtInstants(t *testing.T, whole *treeRun, want outcome) {
	random := newRand(t)
	for range sized(1, 15) {
		o := newTreeRun(t, whole.treeCase)
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
			case <-time.After(time.Duration(
				random.IntN(120)) * time.Millisecond): // any moment will do
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

// checkKilled finishes a killed run, and compares it with an undisturbed one.
func (o *treeRun) checkKilled(t *testing.T, whole *treeRun, kills int, want outcome) {
	t.Helper()
	if diff := cmp.Diff(want, o.end(t)); diff != "" {
		t.Errorf("the result differs from that of a run without a kill:\n%s", diff)
	}
	o.checkRun(t, 1+kills)
	o.checkKeys(t, whole.keys(t))
	// The diary of the tools; and in place of a .git, an empty folder of a sandbox whose process
	// was killed.
	if left, _ := filepath.Glob(filepath.Join(o.project, "[^.d]*")); len(left) > 0 {
		t.Errorf("the project folder has files: %v", left)
	}
}
