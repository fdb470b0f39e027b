package rules

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"signalbox"
)

// planOf is a plan with a source. Tasks of different sources have different texts.
func planOf(source string, digest byte, tasks ...PlanTask) LoadPlan {
	p := plan(digest, tasks...)
	p.Source, p.ID, p.Name = source, strings.TrimSuffix(source, ".md"), source
	for i := range p.Tasks {
		p.Tasks[i].Text = signalbox.Hash{digest, byte(i)}
	}
	return p
}

// finished returns a box in which the plan a.md, with the tasks T1 and T2, is finished.
func finished(t *testing.T) *box {
	b := newBox(t)
	b.do(Configure{policy(), "op"})
	b.do(planOf("a.md", 1, todo("T1"), todo("T2", "T1")))
	b.baseline()
	b.bring("T1", signalbox.PhaseCompleted)
	b.bring("T2", signalbox.PhaseCompleted)
	b.wantStanding(StandingComplete)
	return b
}

// A second plan with the same ids has its own tasks.
func TestSecondPlanHasItsOwnTasks(t *testing.T) {
	b := finished(t)
	a := b.do(planOf("b.md", 2, todo("T1"), todo("T2", "T1"), todo("T3", "T2")))
	if !slices.Equal(a.Plan.Added, []string{"b.T1", "b.T2", "T3"}) ||
		len(a.Plan.Stale)+len(a.Plan.Removed)+len(a.Plan.Changed) != 0 {
		t.Fatalf("%+v", a.Plan)
	}
	if st := b.wantStanding(StandingWorking); st.Tasks != 3 || st.Completed != 0 {
		t.Errorf("%d of %d tasks are done", st.Completed, st.Tasks)
	}
	b.bring("b.T1", signalbox.PhaseCompleted)
	developer := b.wantDispatch(signalbox.RoleDeveloper, "b.T2")
	// The agent can use the id that its task has in the plan.
	if d := b.sayMore(developer, "ready_for_review",
		func(r *ReportSignal) { r.Named = "T2" }); d.Err != nil {
		t.Fatal(d.Err)
	}
	b.wantPhase("b.T2", signalbox.PhaseCIPending)
	b.wantPhase("T2", signalbox.PhaseCompleted)
	for name, want := range map[string]string{"a/T1": "T1", "b/T1": "b.T1", "b.T1": "b.T1",
		"T3": "T3", "b/T3": "T3"} {
		if w, err := b.s.Find(name); err != nil || w.ID != want {
			t.Errorf("%s: %v, %v, want %s", name, w, err, want)
		}
	}
	for name, code := range map[string]signalbox.Code{"T1": signalbox.CodeUsage,
		"a/T3": signalbox.CodeNotFound, "c/T1": signalbox.CodeNotFound,
		"T9": signalbox.CodeNotFound} {
		if w, err := b.s.Find(name); signalbox.CodeOf(err) != code {
			t.Errorf("%s: %v, %v", name, w, err)
		}
	}
}

// A blocker that an agent names is a task of its own plan.
func TestBlockerIsInTheSamePlan(t *testing.T) {
	b := finished(t)
	b.do(planOf("b.md", 2, todo("T1"), todo("T2")))
	b.sayMore(b.wantDispatch(signalbox.RoleDeveloper, "b.T1"), "task_incomplete",
		waitsOn("T2"))
	if got := b.work("b.T1").Task.Waits; !slices.Equal(got, []string{"b.T2"}) {
		t.Errorf("it waits for %q", got)
	}
}

// An unfinished plan is neither changed nor cancelled by another.
func TestSecondPlanWaitsForTheFirst(t *testing.T) {
	b := newBox(t)
	b.do(Configure{policy(), "op"})
	b.do(planOf("a.md", 1, todo("T1")))
	b.baseline()
	other := planOf("b.md", 2, todo("T1"))
	b.refuses(other, signalbox.CodeConflict)
	other.Replace = true
	if a := b.do(other); !slices.Equal(a.Plan.Added, []string{"b.T1"}) ||
		!slices.Equal(a.Plan.Removed, []string{"T1"}) {
		t.Errorf("%+v", a.Plan)
	}
	b.bring("b.T1", signalbox.PhaseCompleted)
	// The first plan continues where it was.
	if a := b.do(planOf("a.md", 1, todo("T1"))); !slices.Equal(a.Plan.Changed, []string{"T1"}) ||
		len(a.Plan.Added) != 0 {
		t.Errorf("%+v", a.Plan)
	}
	b.bring("T1", signalbox.PhaseCompleted)
	if st := b.wantStanding(StandingComplete); st.Tasks != 1 {
		t.Errorf("%d tasks", st.Tasks)
	}
}

// The file of a finished plan with other tasks is refused until the operator decides.
func TestFinishedPlanWithOtherTasks(t *testing.T) {
	for name, tasks := range map[string][]PlanTask{"same ids": {todo("T1"), todo("T2")},
		"other ids": {todo("U1")}, "one id": {todo("U1"), todo("T2")}} {
		t.Run(name, func(t *testing.T) {
			b := finished(t)
			load := planOf("a.md", 2, tasks...)
			if d := b.try(load); !errors.Is(d.Err, ErrPlanFinished) || len(d.Events) > 0 {
				t.Fatalf("%v, %d events", d.Err, len(d.Events))
			}
			load.Finished = FinishedRenew
			a := b.do(load)
			if len(a.Plan.Added) != len(tasks) || len(a.Plan.Stale) != 0 ||
				b.s.run.PlanID != "a-2" {
				t.Fatalf("%+v as %s", a.Plan, b.s.run.PlanID)
			}
			load.Finished = FinishedRefuse
			if a := b.do(load); !a.Repeated {
				t.Error("the new plan is loaded again")
			}
		})
	}
	b := finished(t)
	load := planOf("a.md", 2, todo("T1"), todo("T2"))
	load.Finished = FinishedUpdate
	if a := b.do(load); !slices.Equal(a.Plan.Stale, []string{"T1", "T2"}) {
		t.Errorf("%+v", a.Plan)
	}
	// If one task is left as it was, it is an ordinary change.
	b = finished(t)
	load = planOf("a.md", 2, todo("T1"), todo("T2", "T1"), todo("T3"))
	load.Tasks[0].Text = b.work("T1").Task.Text
	if a := b.do(load); !slices.Equal(a.Plan.Added, []string{"T3"}) ||
		!slices.Equal(a.Plan.Stale, []string{"T2"}) {
		t.Errorf("%+v", a.Plan)
	}
	// Unless the operator says that the plan is new. Saying it again starts nothing again.
	b = finished(t)
	load.Finished = FinishedRenew
	if a := b.do(load); !slices.Equal(a.Plan.Added, []string{"a-2.T1", "a-2.T2", "T3"}) {
		t.Errorf("%+v", a.Plan)
	}
	for _, id := range []string{"a-2.T1", "a-2.T2", "T3"} {
		b.bring(id, signalbox.PhaseCompleted)
	}
	if a := b.do(load); !a.Repeated {
		t.Errorf("%+v", a.Plan)
	}
}

// A plan that was loaded before plans had ids is recognised by its name, its text or its tasks.
func TestUnnamedPlan(t *testing.T) {
	b := deliver(t, policy(), todo("T1"), todo("T2"))
	load := planOf("a.md", 2, todo("T1"), todo("T2"))
	load.Tasks[0].Text, load.Tasks[1].Text = todo("T1").Text, todo("T2").Text
	if a := b.do(load); len(a.Plan.Added)+len(a.Plan.Removed) != 0 {
		t.Errorf("%+v", a.Plan)
	}
	if w := b.work("T1"); w.Task.Plan != "a" {
		t.Errorf("T1 is in plan %q", w.Task.Plan)
	}
	// Another plan with the same ids does not take over its tasks.
	b = deliver(t, policy(), todo("T1"))
	b.refuses(planOf("b.md", 2, todo("T1")), signalbox.CodeConflict)
	b.bring("T1", signalbox.PhaseCompleted)
	if a := b.do(planOf("b.md", 2, todo("T1"))); !slices.Equal(a.Plan.Added, []string{"b.T1"}) {
		t.Errorf("%+v", a.Plan)
	}
	// A person can still name the old task.
	_, err := b.s.Find("T1")
	if hint := signalbox.HintOf(err); hint != "write the plan too: /T1 or b/T1" {
		t.Errorf("the hint is %q", hint)
	}
	if w, err := b.s.Find("/T1"); err != nil || w.ID != "T1" {
		t.Errorf("%v, %v", w, err)
	}
	// After a plan with an id, the tasks show which plan it is. They are not done again.
	b.bring("b.T1", signalbox.PhaseCompleted)
	load = planOf("a.md", 3, todo("T1"))
	load.Tasks[0].Text = todo("T1").Text
	if a := b.do(load); len(a.Plan.Added)+len(a.Plan.Stale) != 0 {
		t.Errorf("%+v", a.Plan)
	}
	b.wantStanding(StandingComplete)
}

// A new plan has the whole budget of a run.
func TestNewPlanHasItsOwnBudget(t *testing.T) {
	p := policy()
	p.Run = Budget{Tokens: 100}
	b := newBox(t)
	b.do(Configure{p, "op"})
	b.do(planOf("a.md", 1, todo("T1")))
	b.baseline()
	b.sayMore(b.wantDispatch(signalbox.RoleDeveloper, "T1"), "ready_for_review",
		withTurn(Turn{Spent: Spent{Tokens: 90}}))
	b.checked(b.wantDispatch(signalbox.RoleCI, "T1"))
	b.judged("T1")
	b.merged(b.wantDispatch(signalbox.RoleMerger, "T1"))
	b.do(planOf("b.md", 2, todo("T1")))
	b.sayMore(b.wantDispatch(signalbox.RoleDeveloper, "b.T1"), "ready_for_review",
		withTurn(Turn{Spent: Spent{Tokens: 90}}))
	if st := b.wantStanding(StandingWorking); len(st.Questions) != 0 {
		t.Errorf("asked %v", st.Questions)
	}
}
