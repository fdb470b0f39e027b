package crew

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// counted returns the setting of a check that notes each of its runs in a file, and that fails if
// the command does.
func counted(dir, command string) string {
	return fmt.Sprintf("checks: [{name: ok, command: 'echo run >> %s; %s'}]\n", dir, command)
}

// yard is a stage with tasks that wait for their merge.
type yard struct {
	*stage
	runs string // the file that the check writes
	base string
}

// readyYard lets all work up to the merge of the tasks, and forgets the runs of the checks.
func readyYard(t *testing.T, sc scene, check string, n int) *yard {
	runs := filepath.Join(t.TempDir(), "runs")
	sc.git, sc.settings = true, sc.settings+counted(runs, check)
	for i := range n {
		sc.plan += task(fmt.Sprintf("T%d", i+1))
	}
	s := set(t, sc)
	y := &yard{stage: s, runs: runs}
	options := sc.options
	options.Stay = true
	options.Roles = slices.DeleteFunc(rules.DispatchRoles(),
		func(role signalbox.Role) bool { return role == signalbox.RoleMerger })
	s.beginIn(s.box, options).pauseWhen(func() bool {
		for i := range n {
			w := s.work(fmt.Sprintf("T%d", i+1))
			if w.Phase != signalbox.PhaseReadyForMerge || !w.Task.Audited {
				return false
			}
		}
		return true
	})
	y.base = s.git("rev-parse", "main")
	must.Succeed(t, os.Remove(runs))
	return y
}

// checked returns how often the checks ran.
func (y *yard) checked() int {
	y.t.Helper()
	text, err := os.ReadFile(y.runs)
	must.Succeed(y.t, err)
	return strings.Count(string(text), "run\n")
}

// wantTrains checks the order in which tasks were merged, and with which others: each line has the
// tasks of a train. It returns the merges.
func (y *yard) wantTrains(want ...string) []recorded[rules.Merged] {
	y.t.Helper()
	var got []string
	merges := all[rules.Merged](y.stage, "")
	merges = slices.DeleteFunc(merges,
		func(m recorded[rules.Merged]) bool { return m.Body.Commit == "" })
	for _, m := range merges {
		if m.Body.Train == nil || m.Body.Train.Position == 1 {
			got = append(got, m.Work)
			continue
		}
		got[len(got)-1] += " " + m.Work
	}
	if diff := cmp.Diff(want, got); diff != "" {
		y.t.Errorf("trains (-want +got):\n%s", diff)
	}
	return merges
}

// Tasks that are ready at the same time are checked once, and merged one by one: the base branch
// has a merge commit for each, with the commit that was reviewed, and moves once.
func TestTrainOfReadyTasks(t *testing.T) {
	y := readyYard(t, scene{}, "true", 5)
	y.run()
	y.wantCompleted("T1", "T2", "T3", "T4", "T5")
	if n := y.checked(); n != 1 {
		t.Errorf("the checks ran %d times", n)
	}
	merges, before := y.wantTrains("T1 T2 T3 T4 T5"), y.base
	tree := y.git("rev-parse", "main^{tree}")
	for i, m := range merges {
		want := rules.Train{ID: merges[0].Body.Epoch, Position: i + 1, Size: 5, Tree: tree}
		if diff := cmp.Diff(&want, m.Body.Train); diff != "" {
			t.Errorf("%s (-want +got):\n%s", m.Work, diff)
		}
		if len(m.Body.Rows) != 1 {
			t.Errorf("%s has %d results of checks", m.Work, len(m.Body.Rows))
		}
		reviewed := only[rules.ChecksRan](y.stage, m.Work).Body.Commit
		got := y.git("log", "-1", "--format=%P %s", m.Body.Commit)
		if want := before + " " + reviewed + " " + m.Work + ": The task " + m.Work; got != want {
			t.Errorf("%s is merged as %q, want %q", m.Work, got, want)
		}
		before = m.Body.Commit
	}
	if now := y.git("rev-parse", "main"); now != before {
		t.Errorf("the base is %s, want %s", now, before)
	}
	moves := y.git("reflog", "--format=%gs", "main")
	if n := strings.Count(moves, "signalbox: merge"); n != 1 {
		t.Errorf("the base moved %d times:\n%s", n, moves)
	}
	none[rules.BaseMoved](y.stage, "")
	if left, _ := filepath.Glob(filepath.Join(y.box.Dir, "trees", "T*")); len(left) > 0 {
		t.Errorf("worktrees of completed tasks: %v", left)
	}
}

// With a size of 1 every task is merged and checked alone, as ever.
func TestTrainOff(t *testing.T) {
	y := readyYard(t, scene{settings: "deliver: {train: 1}\n"}, "true", 3)
	y.run()
	y.wantTrains("T1", "T2", "T3")
	if n := y.checked(); n != 3 {
		t.Errorf("the checks ran %d times", n)
	}
	for _, m := range all[rules.MergePrepared](y.stage, "") {
		if m.Body.Train != nil {
			t.Errorf("%s belongs to a train", m.Work)
		}
	}
}

// The task with which the checks fail is found with few runs. What comes before it is merged, it
// goes back to its developer with the output, and what comes after it goes with the next train.
func TestTrainWithACulprit(t *testing.T) {
	y := readyYard(t, scene{script: `
on developer T4 attempt 1:
    write T4.done bad
    signal READY_FOR_REVIEW: {task}
        Summary: done
`}, `if grep -q bad T4.done && test -e T1.done; then echo T4 does not like T1; false; fi`, 8)
	y.run()
	y.wantCompleted("T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8")
	y.wantTrains("T1 T2 T3", "T5 T6 T7 T8", "T4")
	sent := only[rules.ReworkOrdered](y.stage, "T4").Body
	if sent.Cause != rules.ReworkMerge || sent.Summary != "merged into the base it fails: ok in local" {
		t.Errorf("%+v", sent)
	}
	wantIn(t, y.text(sent.Body), "T4 does not like T1")
	if prompts := y.prompts("T4", "developer"); len(prompts) != 2 ||
		!strings.Contains(prompts[1], "T4 does not like T1") {
		t.Error("the developer does not get the output")
	}
	// 8, 4, 2, 3; then the second train, T4 again, and its merge
	if n := y.checked(); n != 7 {
		t.Errorf("the checks ran %d times", n)
	}
	none[rules.BaseMoved](y.stage, "")
}

// A task that conflicts with one before it does not stop the train. It is found to conflict with
// the base when that has moved, and its developer resolves it.
func TestTrainWithAConflict(t *testing.T) {
	y := readyYard(t, scene{script: `
on developer T1:
    write common one
    signal READY_FOR_REVIEW: {task}
        Summary: done
on developer T2 attempt 1:
    write common two
    signal READY_FOR_REVIEW: {task}
        Summary: done
on developer T2 attempt 2:
    write common both
    signal READY_FOR_REVIEW: {task}
        Summary: done
`}, "true", 3)
	y.run()
	y.wantCompleted("T1", "T2", "T3")
	merges := y.wantTrains("T1 T3", "T2")
	found := all[rules.ConflictFound](y.stage, "T2")
	if len(found) == 0 || found[0].Body.Base != merges[1].Body.Commit {
		t.Errorf("conflicts: %+v", found)
	}
	if got := y.file("common"); got != "both\n" {
		t.Errorf("the base has %q", got)
	}
}

// landed merges tasks by hand as a train does, up to the move of the base, and then dies.
func (y *yard) landed(n int) (merges []rules.TrainMerge) {
	y.t.Helper()
	owner, err := agent.Join((&Crew{box: y.box}).file(agent.RegisterFolder))
	must.Succeed(y.t, err)
	session := owner.ID() + ".1"
	answer, err := y.box.Engine.Do(y.t.Context(), rules.Dispatch{
		Roles: []signalbox.Role{signalbox.RoleMerger}, Session: session, Actor: "peer",
		Lease: "l-1", Train: n})
	must.Succeed(y.t, err)
	before := y.base
	for _, g := range append([]rules.Granted{{Work: answer.Work, Lease: *answer.Lease}},
		answer.Train...) {
		commit := y.work(g.Work).Task.Commit
		tree := y.git("merge-tree", "--write-tree", before, commit)
		merge := y.git("commit-tree", "-m", g.Work, "-p", before, "-p", commit, tree)
		merges = append(merges, rules.TrainMerge{Epoch: g.Lease.Epoch, Commit: merge, Before: before})
		before = merge
	}
	y.do(rules.PrepareTrain{Session: session, Merges: merges,
		Tree: y.git("rev-parse", before+"^{tree}")})
	y.git("merge", "-q", "--ff-only", before)
	must.Succeed(y.t, owner.Abandon())
	return merges
}

// A train that took place, and that a crash kept from being recorded, is recorded by the next
// merger, in its order. It is not taken for a move of the base by somebody else, nothing is merged
// a second time, and no check runs again.
func TestTrainLandedBeforeACrash(t *testing.T) {
	y := readyYard(t, scene{}, "true", 4)
	merges := y.landed(3)
	y.run()
	y.wantCompleted("T1", "T2", "T3", "T4")
	for i, m := range y.wantTrains("T1 T2 T3", "T4")[:3] {
		if m.Body.Commit != merges[i].Commit || m.Body.Before != merges[i].Before ||
			m.Body.Train == nil || m.Body.Train.Position != i+1 || m.Body.Train.Size != 3 ||
			m.Body.Tip != y.git("rev-parse", merges[i].Commit+"^2") {
			t.Errorf("%s is recorded as %+v", m.Work, m.Body)
		}
	}
	none[rules.BaseMoved](y.stage, "")
	if n := y.checked(); n != 1 { // of T4
		t.Errorf("the checks ran %d times", n)
	}
}

// A train that was prepared and did not take place is done again.
func TestTrainPreparedBeforeACrash(t *testing.T) {
	y := readyYard(t, scene{}, "true", 3)
	y.landed(3)
	y.git("reset", "-q", "--hard", y.base)
	y.run()
	y.wantCompleted("T1", "T2", "T3")
	y.wantTrains("T1 T2 T3")
	none[rules.BaseMoved](y.stage, "")
}

// Where several machines share the ledger, the record moves the base: all merges at once.
func TestTrainOfManyMachines(t *testing.T) {
	y := readyYard(t, scene{options: Options{seams: seams{machines: true}}}, "true", 3)
	b := y.machine("b")
	b.fill([]signalbox.Role{signalbox.RoleMerger}).complete("T1", "T2", "T3")
	merges := y.wantTrains("T1 T2 T3")
	if merges[2].Seq-merges[0].Seq != 6 {
		t.Errorf("the merges are events %d to %d", merges[0].Seq, merges[2].Seq)
	}
	y.fill(nil).complete()
	synced(t, []string{"T1.done", "T2.done", "T3.done"}, y.stage, b)
	none[rules.BaseMoved](y.stage, "")
}

// TestBisect: wherever the culprit is, it is found, what comes before it is known to pass, and the
// checks run at most once more than the logarithm of the size.
func TestBisect(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 100).Draw(t, "n")
		culprit := rapid.IntRange(1, n+1).Draw(t, "culprit") // n+1: there is none
		time := rapid.IntRange(0, 10).Draw(t, "time")
		var checked []int
		good, bad, err := bisect(n, func() bool { return len(checked) < time },
			func(n int) (bool, error) {
				checked = append(checked, n)
				return n < culprit, nil
			})
		switch most := 1 + bits.Len(uint(n-1)); {
		case err != nil:
			t.Fatal(err)
		case len(checked) > min(most, max(time, 1)+1):
			t.Errorf("checked %v", checked)
		case culprit > n && (good != n || bad != 0):
			t.Errorf("all %d pass, but %d, %d", n, good, bad)
		case good > 0 && !slices.Contains(checked, good), bad > 0 && !slices.Contains(checked, bad),
			good >= culprit, culprit <= n && bad < culprit:
			t.Errorf("%d pass and %d fail, the culprit is %d", good, bad, culprit)
		case good == 0 && bad != 1:
			t.Errorf("nothing is decided: %d, %d", good, bad)
		case time > most && culprit <= n && (good != culprit-1 || bad != culprit):
			t.Errorf("the culprit is %d, found %d, %d", culprit, good, bad)
		}
	})
	broken := errors.New("broken")
	if _, _, err := bisect(3, func() bool { return true },
		func(int) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}
