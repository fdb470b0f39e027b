package rules

import (
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"signalbox"
)

// added is a task that a human adds.
func added(title string, blockers ...string) AddTask {
	return AddTask{Plan: signalbox.Hash{99}, Actor: "ann", Task: PlanTask{Title: title,
		BlockedBy: blockers, Text: signalbox.Hash{98, byte(len(title))}}}
}

// A box that never had a plan gets one for the task, and its base is checked first.
func TestAddTaskWithoutPlan(t *testing.T) {
	b := newBox(t)
	b.refuses(added("a typo"), signalbox.CodeUsage) // there is no policy
	b.do(Configure{policy(), "op"})
	b.wantStanding(StandingEmpty)
	add := added("a typo")
	add.Task.Review = ReviewChecks
	a := b.do(add)
	if a.Work != "A-1" || a.Phase != signalbox.PhaseImplementation || a.Seq == 0 {
		t.Errorf("answer %+v", a)
	}
	want := []PlanRecord{{ID: "added", Source: AddedSource, Name: "Added tasks"}}
	if diff := gocmp.Diff(want, b.s.Plans()); diff != "" {
		t.Errorf("plans (-want +got):\n%s", diff)
	}
	b.wantNothing(signalbox.RoleDeveloper)
	b.baseline()
	b.ready("A-1")
	b.checked(b.wantDispatch(signalbox.RoleCI, "A-1"))
	b.merged(b.wantDispatch(signalbox.RoleMerger, "A-1"))
	if st := b.wantStanding(StandingComplete); st.Tasks != 1 || st.Completed != 1 {
		t.Errorf("%+v", st)
	}
	// a finished plan takes another, and has it in its figures
	if a := b.do(added("another", "A-1")); a.Work != "A-2" {
		t.Errorf("answer %+v", a)
	}
	if st := b.wantStanding(StandingWorking); st.Tasks != 2 || len(b.s.Plans()) != 1 {
		t.Errorf("%+v, plans %v", st, b.s.Plans())
	}
	b.bring("A-2", signalbox.PhaseCompleted)
	b.wantStanding(StandingComplete)
}

// A plan that is loaded again, changed or not, leaves added tasks as they are, and so does another
// plan, which they become part of until they are done.
func TestAddedTaskStaysWhenPlansAreLoaded(t *testing.T) {
	b := newBox(t)
	b.do(Configure{policy(), "op"})
	b.do(planOf("a.md", 1, todo("T1"), todo("T2")))
	b.baseline()
	b.do(added("one", "T1"))
	b.do(added("two", "a/T2", "T2"))
	if got := b.work("A-2").Task; got.Plan != "a" || !slices.Equal(got.Blockers, []string{"T2"}) {
		t.Errorf("task %+v", got)
	}
	// one that only fills the plan does not keep another plan out, nor this from being the same
	a := b.do(planOf("a.md", 2, todo("T1")))
	if !slices.Equal(a.Plan.Removed, []string{"T2"}) || len(a.Plan.Added) != 0 {
		t.Errorf("%+v", a.Plan)
	}
	b.bring("T1", signalbox.PhaseCompleted)
	b.bring("A-1", signalbox.PhaseCompleted)
	b.wantPhase("A-2", signalbox.PhaseImplementation)
	b.wantStanding(StandingWorking)

	a = b.do(planOf("b.md", 3, todo("T1")))
	if !a.Plan.New || len(a.Plan.Removed) != 0 {
		t.Errorf("%+v", a.Plan)
	}
	if one, two := b.work("A-1").Task, b.work("A-2").Task; one.Plan != "a" || two.Plan != "b" {
		t.Errorf("A-1 is part of %s, and A-2 of %s", one.Plan, two.Plan)
	}
	replace := planOf("c.md", 4, todo("T9"))
	replace.Replace = true
	if a := b.do(replace); !slices.Equal(a.Plan.Removed, []string{"b.T1"}) {
		t.Errorf("%+v", a.Plan)
	}
	b.bring("T9", signalbox.PhaseCompleted)
	if st := b.wantStanding(StandingWorking); st.Tasks != 2 || st.Completed != 1 {
		t.Errorf("%+v", st)
	}
	b.bring("A-2", signalbox.PhaseCompleted)
	b.wantStanding(StandingComplete)
	// its own file with other tasks is still a finished plan
	b.refuses(planOf("c.md", 5, todo("T10")), signalbox.CodeConflict)
}

// A task of a plan must not have the id of one that was added to the same plan.
func TestAddedTaskKeepsItsID(t *testing.T) {
	b := deliver(t, policy(), todo("A-1"), todo("a-3"))
	if a := b.do(added("one")); a.Work != "A-2" {
		t.Fatalf("answer %+v", a)
	}
	if a := b.do(added("two")); a.Work != "A-4" { // not one that differs only in case
		t.Fatalf("answer %+v", a)
	}
	b.refuses(plan(2, todo("A-1"), todo("a-3"), todo("A-2")), signalbox.CodeConflict)
	other := planOf("b.md", 3, todo("A-2"))
	other.Replace = true
	b.refuses(other, signalbox.CodeConflict) // it would become part of that plan
	b.do(orderOf(OrderCancel, "A-2"))
	b.do(orderOf(OrderCancel, "A-4"))
	if a := b.do(other); !slices.Equal(a.Plan.Added, []string{"b.A-2"}) {
		t.Errorf("%+v", a.Plan)
	}
}

// The checks run again on a base that failed them when there was nothing to develop.
func TestAddTaskChecksRedBase(t *testing.T) {
	b := planned(t, policy(), todo("t1"))
	b.do(orderOf(OrderCancel, "t1"))
	b.baseline("test")
	if b.s.Baseline() != nil {
		t.Fatal("a baseline is open")
	}
	b.do(added("one"))
	if w := b.s.Baseline(); w == nil || w.ID != "B-2" {
		t.Errorf("baseline %+v", w)
	}
}

func TestAddTaskIsRefused(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2"))
	b.do(orderOf(OrderCancel, "t2"))
	b.open("by-hand", signalbox.PhaseDraft)
	for name, c := range map[string]struct {
		change func(*AddTask)
		code   signalbox.Code
	}{
		"no title":                {func(c *AddTask) { c.Task.Title = " " }, signalbox.CodeUsage},
		"a control character":     {func(c *AddTask) { c.Task.Title = "a\x1b[2J" }, signalbox.CodeUsage},
		"no text":                 {func(c *AddTask) { c.Task.Text = signalbox.Hash{} }, signalbox.CodeUsage},
		"a draft":                 {func(c *AddTask) { c.Task.Draft = true }, signalbox.CodeUsage},
		"no plan":                 {func(c *AddTask) { c.Plan = signalbox.Hash{} }, signalbox.CodeUsage},
		"a bad actor":             {func(c *AddTask) { c.Actor = "a b" }, signalbox.CodeUsage},
		"an unknown blocker":      {func(c *AddTask) { c.Task.BlockedBy = []string{"t9"} }, signalbox.CodeNotFound},
		"a cancelled blocker":     {func(c *AddTask) { c.Task.BlockedBy = []string{"t2"} }, signalbox.CodeFailed},
		"work by hand":            {func(c *AddTask) { c.Task.BlockedBy = []string{"by-hand"} }, signalbox.CodeUsage},
		"a baseline as blocker":   {func(c *AddTask) { c.Task.BlockedBy = []string{"B-1"} }, signalbox.CodeUsage},
		"a later unknown blocker": {func(c *AddTask) { c.Task.BlockedBy = []string{"t1", ""} }, signalbox.CodeNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			add := added("one")
			c.change(&add)
			b.refuses(add, c.code)
		})
	}
	if got := b.work("t1"); got.Task.Added {
		t.Error("a task of the plan counts as added")
	}
}

// A history cannot have an added task that is not one of a plan.
func TestAddedTaskInHistory(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	for name, planned := range map[string]TaskPlanned{
		"a sub-task": {Kind: KindTask, Phase: signalbox.PhaseImplementation, Added: true, Parent: "t1"},
		"a draft":    {Kind: KindTask, Phase: signalbox.PhaseDraft, Added: true},
		"a baseline": {Kind: KindBaseline, Phase: signalbox.PhaseCIPending, Added: true},
	} {
		id := "A-1"
		if planned.Kind == KindBaseline {
			id = "B-2"
		}
		if err := b.s.Apply(b.event(id, "", planned)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
