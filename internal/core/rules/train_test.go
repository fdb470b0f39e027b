package rules

import (
	"fmt"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"signalbox"
)

// readyToMerge returns a box in which tasks t1 to tn wait for their merge.
func readyToMerge(t *testing.T, p Policy, n int) *box {
	var tasks []PlanTask
	for i := range n {
		tasks = append(tasks, todo(fmt.Sprintf("t%d", i+1)))
	}
	b := based(t, p, tasks...)
	for _, task := range tasks {
		b.toMerge(task.ID, sha("commit "+task.ID))
	}
	return b
}

// couple dispatches a train of up to size tasks, and returns their ids and leases.
func (b *box) couple(size int) (a Answer, works []string, merges []TrainMerge) {
	b.t.Helper()
	c := b.dispatchOf(signalbox.RoleMerger)
	c.Train = size
	a = b.do(c)
	base := b.s.Base()
	for _, g := range append([]Granted{{a.Work, *a.Lease}}, a.Train...) {
		works = append(works, g.Work)
		commit := sha(fmt.Sprint("merge ", g.Work, g.Lease.Epoch))
		merges = append(merges, TrainMerge{g.Lease.Epoch, commit, base})
		base = commit
	}
	return a, works, merges
}

// TestTrain: one session gets the leases of all tasks that are ready, in order, and its reports
// record for each of them what a single merge records.
func TestTrain(t *testing.T) {
	b := readyToMerge(t, policy(), 4)
	b.do(orderOf(OrderPause, "t2"))
	c := b.dispatchOf(signalbox.RoleMerger)
	c.Train = 3
	d := b.try(c)
	wantTypes(t, d, "LeaseGranted t1", "LeaseGranted t3", "LeaseGranted t4")
	if again := b.try(c); len(again.Events) > 0 || !again.Answer.Repeated ||
		gocmp.Diff(d.Answer.Train, again.Answer.Train) != "" {
		t.Errorf("the repeated command: %+v", again)
	}
	b.do(orderOf(OrderResume, "t2"))
	b.wantNothing(signalbox.RoleMerger) // one train at a time

	a, base, tree := d.Answer, b.s.Base(), sha("tree")
	merges := []TrainMerge{{a.Lease.Epoch, sha("m1"), base},
		{a.Train[0].Lease.Epoch, sha("m3"), sha("m1")},
		{a.Train[1].Lease.Epoch, sha("m4"), sha("m3")}}
	d = b.try(PrepareTrain{a.Session, tree, merges})
	wantTypes(t, d, "MergePrepared t1", "MergePrepared t3", "MergePrepared t4")
	wantBody(t, d, MergePrepared{merges[0].Epoch, sha("m1"), base, sha("commit t1"),
		&Train{merges[0].Epoch, 1, 3, tree}})

	rows := []CheckRow{{Check: "test", Environment: "local", Passed: true}}
	d = b.try(ReportTrain{Session: a.Session, Moves: true, Merges: merges, Rows: rows})
	wantTypes(t, d, "Merged t1", "PhaseChanged t1", "LeaseReleased t1", "Merged t3",
		"PhaseChanged t3", "LeaseReleased t3", "Merged t4", "PhaseChanged t4", "LeaseReleased t4")
	last := mustDecode(&d.Events[6]).(Merged)
	if diff := gocmp.Diff(Merged{Epoch: merges[2].Epoch, Commit: sha("m4"), Before: sha("m3"),
		Rows: rows, Tip: sha("commit t4"), Train: &Train{merges[0].Epoch, 3, 3, tree}},
		last); diff != "" {
		t.Errorf("the last merge (-want +got):\n%s", diff)
	}
	if b.s.Base() != sha("m4") {
		t.Errorf("the base is %s", b.s.Base())
	}

	// A train of one is a merge as ever.
	a, works, merges := b.couple(10)
	if len(works) != 1 || works[0] != "t2" {
		t.Fatalf("the next train has %v", works)
	}
	d = b.try(PrepareTrain{a.Session, tree, merges})
	wantBody(t, d, MergePrepared{merges[0].Epoch, merges[0].Commit, sha("m4"), sha("commit t2"),
		nil})
}

// TestTrainOfOneIsAMerge: the events are those of PrepareMerge and ReportMerge, byte for byte.
func TestTrainOfOneIsAMerge(t *testing.T) {
	logs := [2]*box{readyToMerge(t, policy(), 1), readyToMerge(t, policy(), 1)}
	rows := []CheckRow{{Check: "test", Environment: "local", Passed: true}}
	for i, b := range logs {
		a, _, merges := b.couple(10)
		if i == 0 {
			b.do(by(a, PrepareMerge{Commit: merges[0].Commit, Before: merges[0].Before}))
			b.do(by(a, ReportMerge{Commit: merges[0].Commit, Before: merges[0].Before, Rows: rows}))
			continue
		}
		b.do(PrepareTrain{a.Session, sha("tree"), merges})
		b.do(ReportTrain{Session: a.Session, Merges: merges, Rows: rows})
	}
	if diff := gocmp.Diff(logs[0].log, logs[1].log); diff != "" {
		t.Errorf("events (-merge +train):\n%s", diff)
	}
}

func TestWhoJoinsATrain(t *testing.T) {
	approve := policy()
	approve.ApproveMerge = true
	push := policy()
	push.Deliver = DeliverPush
	for name, of := range map[string]struct {
		policy Policy
		do     func(*box)
		size   int
		want   []string
	}{
		"all that are ready":      {policy(), nil, 10, []string{"t1", "t2", "t3"}},
		"as many as fit":          {policy(), nil, 2, []string{"t1", "t2"}},
		"none if it is off":       {policy(), nil, 1, []string{"t1"}},
		"none if work is pushed":  {push, nil, 10, []string{"t1"}},
		"none without a size":     {policy(), nil, 0, []string{"t1"}},
		"only what was approved":  {approve, func(b *box) { b.do(orderOf(OrderApprove, "t2")) }, 10, []string{"t2"}},
		"the first ones go first": {policy(), func(b *box) { b.cancelled("t1") }, 10, []string{"t2", "t3"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := readyToMerge(t, of.policy, 3)
			if of.do != nil {
				of.do(b)
			}
			if _, works, _ := b.couple(of.size); gocmp.Diff(of.want, works) != "" {
				t.Errorf("the train has %v, want %v", works, of.want)
			}
		})
	}
}

// cancelled cancels a task.
func (b *box) cancelled(work string) { b.do(orderOf(OrderCancel, work)) }

// TestTrainOutcomes: the culprit goes back, and those that wait are free for the next train.
func TestTrainOutcomes(t *testing.T) {
	b := readyToMerge(t, policy(), 4)
	a, _, merges := b.couple(10)
	b.do(PrepareTrain{a.Session, sha("tree"), merges[:2]})
	d := b.try(ReportTrain{Session: a.Session, Moves: true, Merges: merges[:2],
		Failed: merges[2].Epoch, Refusal: "it fails: test", Body: signalbox.Hash{9},
		Waiting: []uint64{merges[3].Epoch}})
	wantTypes(t, d, "Merged t1", "PhaseChanged t1", "LeaseReleased t1", "Merged t2",
		"PhaseChanged t2", "LeaseReleased t2", "FindingsRecorded t3", "ReworkOrdered t3", "PhaseChanged t3",
		"LeaseReleased t3", "LeaseReleased t4")
	wantBody(t, d, ReworkOrdered{Cause: ReworkMerge, Count: 1, Summary: "it fails: test",
		Body: signalbox.Hash{9}})
	if b.s.Base() != merges[1].Commit {
		t.Errorf("the base is %s", b.s.Base())
	}
	b.wantPhase("t3", signalbox.PhaseImplementation)
	if _, works, _ := b.couple(10); gocmp.Diff([]string{"t4"}, works) != "" {
		t.Errorf("the next train has %v", works)
	}
}

// TestTrainIsRefused: if the report moves the base, all merges count or none.
func TestTrainIsRefused(t *testing.T) {
	for name, of := range map[string]struct {
		before, after func(b *box, a Answer, merges []TrainMerge) // PrepareTrain
		code          signalbox.Code
	}{
		"a task was cancelled before": {
			before: func(b *box, _ Answer, _ []TrainMerge) { b.cancelled("t2") },
			code:   signalbox.CodeConflict},
		"a task was cancelled after": {
			after: func(b *box, _ Answer, _ []TrainMerge) { b.cancelled("t2") },
			code:  signalbox.CodeConflict},
		"the base moved before": {
			before: func(b *box, _ Answer, _ []TrainMerge) { b.moveBaseTo("elsewhere") },
			code:   signalbox.CodeConflict},
		"the base moved after": {
			after: func(b *box, _ Answer, _ []TrainMerge) { b.moveBaseTo("elsewhere") },
			code:  signalbox.CodeConflict},
		"not a chain": {
			before: func(_ *box, _ Answer, merges []TrainMerge) { merges[1].Before = merges[0].Before },
			code:   signalbox.CodeConflict},
		"another commit": {
			after: func(_ *box, _ Answer, merges []TrainMerge) { merges[1].Commit = sha("x") },
			code:  signalbox.CodeUsage},
		"a task twice": {
			after: func(_ *box, _ Answer, merges []TrainMerge) { merges[1].Epoch = merges[0].Epoch },
			code:  signalbox.CodeUsage},
		"expired": {
			after: func(b *box, _ Answer, _ []TrainMerge) { b.pass(signalbox.DefaultLeaseTTL) },
			code:  signalbox.CodeConflict},
	} {
		t.Run(name, func(t *testing.T) {
			b := readyToMerge(t, policy(), 2)
			a, _, merges := b.couple(10)
			if of.before != nil {
				of.before(b, a, merges)
				b.refuses(PrepareTrain{a.Session, sha("tree"), merges}, of.code)
				return
			}
			b.do(PrepareTrain{a.Session, sha("tree"), merges})
			of.after(b, a, merges)
			d := b.try(ReportTrain{Session: a.Session, Moves: true, Merges: merges})
			wantRefusedAs(t, d, of.code)
			for _, e := range d.Events {
				if e.Type == TypeMerged {
					t.Errorf("%s is merged", e.Work)
				}
			}
		})
	}
	b := readyToMerge(t, policy(), 1)
	a, _, _ := b.couple(1)
	b.refuses(PrepareTrain{Session: a.Session}, signalbox.CodeUsage)
}

// moveBaseTo moves the base, as a person does.
func (b *box) moveBaseTo(name string) {
	b.do(ObserveBase{Known: b.s.Base(), Commit: sha(name), Actor: "crew"})
}

// TestTrainThatLanded: after a crash between the move of the base and its record, the move is not
// taken for that of a person, and the next merger gets the tasks in the order of the train,
// whatever their priority. If one of them cannot be recorded, the others are.
func TestTrainThatLanded(t *testing.T) {
	b := readyToMerge(t, policy(), 3)
	a, _, merges := b.couple(10)
	b.do(PrepareTrain{a.Session, sha("tree"), merges})
	seen := ObserveBase{Known: b.s.Base(), Commit: merges[2].Commit, Actor: "crew"}
	if d := b.try(seen); len(d.Events) > 0 {
		t.Fatalf("the train is taken for %s", d.Events[0].Type)
	}
	for i := range 3 {
		if !b.s.landing(merges[i].Commit) {
			t.Errorf("merge %d is taken for a move of somebody else", i+1)
		}
	}
	if b.s.landing(sha("elsewhere")) || b.s.landing(b.s.Base()) {
		t.Error("another commit is taken for a merge")
	}
	b.pass(signalbox.DefaultLeaseTTL + time.Second)
	b.do(Expire{})

	a, works, again := b.couple(2)
	if gocmp.Diff([]string{"t1", "t2"}, works) != "" {
		t.Fatalf("the next merger gets %v", works)
	}
	report := ReportTrain{Session: a.Session, Merges: []TrainMerge{
		{again[0].Epoch, merges[0].Commit, merges[0].Before},
		{again[1].Epoch, merges[1].Commit, merges[1].Before}}}
	b.cancelled("t1")
	d := b.try(report)
	wantTypes(t, d, "SignalRefused t1", "Merged t2", "PhaseChanged t2", "LeaseReleased t2")
	wantBody(t, d, Merged{Epoch: again[1].Epoch, Commit: merges[1].Commit, Before: merges[1].Before,
		Tip: sha("commit t2"), Train: &Train{merges[0].Epoch, 2, 3, sha("tree")}})
}

// TestPreparedMergesGoFirst: what may be in the base is recorded first, and in the order in which
// it is there.
func TestPreparedMergesGoFirst(t *testing.T) {
	b := readyToMerge(t, policy(), 4)
	b.do(orderOf(OrderPause, "t1"))
	a, works, merges := b.couple(10)
	if gocmp.Diff([]string{"t2", "t3", "t4"}, works) != "" {
		t.Fatalf("the train has %v", works)
	}
	// merged in another order than that of the plan
	merges[0].Before, merges[0].Commit = merges[2].Commit, sha("last")
	merges[1].Before = b.s.Base()
	merges[2].Before = merges[1].Commit
	order := []TrainMerge{merges[1], merges[2], merges[0]}
	b.do(PrepareTrain{a.Session, sha("tree"), order})
	b.pass(signalbox.DefaultLeaseTTL + time.Second)
	b.do(Expire{})
	b.do(orderOf(OrderResume, "t1"))
	if _, works, _ := b.couple(10); gocmp.Diff([]string{"t3", "t4", "t2", "t1"}, works) != "" {
		t.Errorf("the next train has %v", works)
	}
}

// TestTrainUnblocks: a task that waits for two of a train can start with the second of them.
func TestTrainUnblocks(t *testing.T) {
	b := based(t, policy(), todo("t1"), todo("t2"), todo("t3", "t1", "t2"))
	b.toMerge("t1", sha("commit t1"))
	b.toMerge("t2", sha("commit t2"))
	a, _, merges := b.couple(10)
	b.do(PrepareTrain{a.Session, sha("tree"), merges})
	d := b.try(ReportTrain{Session: a.Session, Merges: merges})
	var unblocked [][]string
	for _, e := range d.Events {
		if m, ok := mustDecode(&e).(Merged); ok {
			unblocked = append(unblocked, m.Unblocked)
		}
	}
	if diff := gocmp.Diff([][]string{nil, {"t3"}}, unblocked); diff != "" {
		t.Errorf("unblocked (-want +got):\n%s", diff)
	}
	b.wantDispatch(signalbox.RoleDeveloper, "t3")
}
