package crew

import (
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// An agent that asks an expert frees its slot, and continues under the same lease with the advice.
// The expert sees its work.
func TestExpertAdvises(t *testing.T) {
	s := set(t, scene{
		git:      true,
		plan:     task("T1", "**Notes**: mind the SQL"),
		settings: "slots: 1\nexperts: [{name: database, keywords: [sql], instructions: You know it all.}]\n",
		script: `
on developer T1 attempt 1:
    expect "- database"
    write query.sql select 1
    signal EXPERT_REQUEST
        Target Agent: database
        Request Type: advice
        Context Snapshot: a query
        ---DELEGATION PROMPT START---
        Is this query fast?
        ---DELEGATION PROMPT END---
on developer T1 attempt 2:
    expect "From the expert database"
    expect "add an index"
    signal READY_FOR_REVIEW: {task}
on expert X-1:
    expect "You are the expert database"
    expect "You know it all."
    expect "Is this query fast?"
    run cat query.sql
    run test -f query.sql && echo seen > ../../seen
    write query.sql drop table
    signal EXPERT_ADVICE: {task}
        Summary: add an index
`})
	s.run()
	s.wantCompleted("T1")
	if got := s.file("query.sql"); strings.TrimSpace(got) != "select 1" {
		t.Errorf("query.sql has %q", got)
	}
	s.file(".signalbox/seen")
	started := all[rules.AgentStarted](s, "T1")
	if started[0].Body.Epoch != started[1].Body.Epoch {
		t.Error("the asker lost its lease")
	}
	if n := len(all[rules.SessionResumed](s, "T1")); n != 1 {
		t.Errorf("resumed %d times", n)
	}
	if w := s.work("X-1"); w.Phase != signalbox.PhaseCompleted {
		t.Errorf("X-1 is in %s", w.Phase)
	}
}

// A crew with a limit of its own does one thing at a time, although the box allows more. An agent
// that waits for an expert needs no slot: otherwise the expert could not start.
func TestOneSlot(t *testing.T) {
	s := set(t, scene{
		git: true, plan: task("T1") + task("T2") + task("T3"),
		settings: "experts: [{name: database}]\n", options: Options{Slots: 1},
		script: `
on developer T1 attempt 1:
    signal EXPERT_REQUEST
        Target Agent: database
        Request Type: advice
        Context Snapshot: a query
        ---DELEGATION PROMPT START---
        Is this query fast?
        ---DELEGATION PROMPT END---
on expert *:
    signal EXPERT_ADVICE: {task}
        Summary: add an index
`})
	s.run()
	s.wantCompleted("T1", "T2", "T3")
	live := map[string]bool{}
	for e, err := range s.box.Events(t.Context(), 0) {
		must.Succeed(t, err)
		switch e.Type {
		case rules.TypeLeaseGranted:
			if live[e.Work] = true; len(live) > 1 {
				t.Errorf("event %d is the start of %s, while others are at work: %v", e.Seq, e.Work,
					live)
			}
		case rules.TypeLeaseReleased, rules.TypeSessionParked:
			delete(live, e.Work)
		case rules.TypeSessionResumed:
			live[e.Work] = true // it continues at once, whatever else was started
		}
	}
}

// An expert may name its request or the task that asks, also by the id that the task has in its
// plan.
func TestExpertNamesTheAsker(t *testing.T) {
	s := set(t, scene{plan: task("T1"), settings: "experts: [{name: database}]\n", script: `
on developer other.T1 attempt 1:
    signal EXPERT_REQUEST
        Target Agent: database
        Context Snapshot: a query
on developer other.T1 attempt 2:
    expect "use an index"
    signal EXPERT_REQUEST
        Target Agent: database
        Context Snapshot: another query
on developer other.T1 attempt 3:
    expect "use a table"
    signal READY_FOR_REVIEW: {task}
on expert X-1:
    say CHECKPOINT: other.T1
    say Current Activity: reading
    say EXPERT_ADVICE: T1
    say Summary: use an index
on expert X-2 attempt 1:
    expect "Your signals name this request, X-2, and not the task."
    say EXPERT_ADVICE: T2
    say Summary: not for you
on expert X-2 attempt 2:
    expect "Send: EXPERT_ADVICE: X-2"
    say EXPERT_ADVICE: other.T1
    say Summary: use a table
`})
	s.run()
	s.loadAs("other", strings.Replace(task("T1"), "The task T1", "Something else", 1))
	s.run()
	s.wantCompleted("other.T1")
	if refused := only[rules.SignalRefused](s, ""); refused.Work != "X-2" ||
		refused.Body.Reason != signalbox.ReasonWrongWork {
		t.Errorf("refused: %+v", refused)
	}
}

// An asker that does not end its turn is ended, and that is not a failure. Then it is started again
// with the advice.
func TestAskerThatDoesNotEnd(t *testing.T) {
	for agent, waits := range map[string]string{"player": "hang",
		"as-claude": "say And now I wait.\n    hang", "talker": "listen"} {
		t.Run(agent, func(t *testing.T) {
			s := set(t, scene{
				plan: task("T1"),
				settings: "experts: [{name: database}]\nroles: {developer: {agent: " + agent +
					"}}\n",
				script: `
on developer T1 attempt 1:
    signal EXPERT_REQUEST
        Target Agent: database
        Context Snapshot: a query
    ` + waits + `
on expert *:
    expect "a query"
    signal EXPERT_ADVICE: {task}
        Summary: use an index
`})
			s.develop()
			none[rules.AgentFailed](s, "")
			wantIn(t, s.prompts("T1", "developer")[1], "use an index")
		})
	}
}

// A turn that asks an expert and also has a verdict is decided as signalbox scan --resolve says: by
// the verdict, in either order.
func TestVerdictBesideAnExpertRequest(t *testing.T) {
	request := "say EXPERT_REQUEST\n    say Target Agent: database\n    say Context Snapshot: a query\n    "
	ready := "say READY_FOR_REVIEW: T1\n    say Summary: never mind\n    "
	s := set(t, scene{plan: task("T1"), options: Options{ExitSignals: true},
		settings: "experts: [{name: database}]\nroles: {developer: {agent: as-claude}}\n",
		script:   "on developer T1 attempt 1:\n    " + request + ready + "end\n    hang\n"})
	for _, said := range []string{request + ready, ready + request, request + "exit " +
		`{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"IMPLEMENTATION","exit_reason":"completed"}`} {
		got := s.hear(signalbox.RoleDeveloper, signalbox.FormatPlain, said)
		refused := got.listener.claims.refusals(got.signal)
		if !got.signal.Passing() || len(refused) != 1 ||
			refused[0].Signal != signalbox.NameExpertRequest ||
			refused[0].Reason != signalbox.ReasonSuperseded {
			t.Errorf("%s: %+v, refused %+v", said, got.signal, refused)
		}
	}
	s.develop() // with a program that does not end
	none[rules.ExpertRequested](s, "")
	if refused := only[rules.SignalRefused](s,
		"T1").Body; refused.Said != signalbox.NameExpertRequest ||
		refused.Reason != signalbox.ReasonSuperseded {
		t.Errorf("refused: %+v", refused)
	}
	s.wantStarted("T1", "developer", 1)
}

// If the program does not end, its turn has no passing verdict, so that the request counts.
func TestRequestBesideAVerdictThatCannotCount(t *testing.T) {
	s := set(t, scene{plan: task("T1"), settings: "experts: [{name: database}]\n", script: `
on developer T1 attempt 1:
    say EXPERT_REQUEST
    say Target Agent: database
    say Context Snapshot: a query
    say READY_FOR_REVIEW: T1
    hang
on expert *:
    signal EXPERT_ADVICE: {task}
        Summary: add an index
on developer T1 attempt 2:
    signal READY_FOR_REVIEW: {task}
`})
	s.develop()
	only[rules.ExpertRequested](s, "")
	none[rules.AgentFailed](s, "T1")
	if refused := only[rules.SignalRefused](s,
		"T1").Body; refused.Said != signalbox.NameReadyForReview {
		t.Errorf("refused: %+v", refused)
	}
}

func TestExpertUnsuccessful(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "experts: [{name: database}]\n",
		script: `
on developer T1 attempt 1:
    signal EXPERT_REQUEST
        Target Agent: database
        Context Snapshot: a query
on expert *:
    signal EXPERT_UNSUCCESSFUL: {task}
        Summary: I only know birds
on developer T1 attempt 2:
    expect "I only know birds"
    expect "use a table"
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	if q := s.answer("use a table"); q.Kind != rules.AskedExpert || q.Work != "T1" ||
		!strings.Contains(q.Text, "I only know birds") {
		t.Errorf("question: %+v", q)
	}
	r.complete("T1")
}

func TestExpertCreator(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1") + task("T2", "**Blocked By**: T1", "**Notes**: a horoscope"),
		settings: "roles: {expert-creator: {}}\n",
		script: `
on developer T1 attempt 1:
    signal EXPERT_REQUEST
        Target Agent: astrologer
        Context Snapshot: the stars
on expert-creator X-1:
    expect "the stars"
    signal EXPERT_CREATED: astrologer
        Gap: no one reads the stars
        Keywords: horoscope, stars
on expert X-1:
    expect "You are the expert astrologer"
    signal EXPERT_ADVICE: {task}
        Summary: Venus is up
on developer T1 attempt 2:
    expect "Venus is up"
    signal READY_FOR_REVIEW: {task}
on developer T2:
    expect "- astrologer: no one reads the stars"
    signal READY_FOR_REVIEW: {task}
`})
	s.run()
	s.wantCompleted("T1", "T2")
	if e := only[rules.ExpertRegistered](s, "X-1").Body.Expert; e.Name != "astrologer" ||
		strings.Join(e.Keywords, ",") != "horoscope,stars" {
		t.Errorf("expert: %+v", e)
	}
}

func TestQuestionIsAnswered(t *testing.T) {
	s := set(t, scene{
		plan: task("T1") + task("T2"),
		script: `
on developer T1 attempt 1:
    signal SEEKING_DIVINE_CLARIFICATION
        Task: T1
        Question: Which colour?
        Options Considered: red, green
on developer T1 attempt 2:
    expect "Which colour?"
    expect "Heliotrope."
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	s.until("T2 is completed",
		func() bool { return s.work("T2").Phase == signalbox.PhaseCompleted })
	q := s.answer("Heliotrope.")
	if q.Kind != rules.AskedClarification || q.Work != "T1" || q.Text != "Which colour?" {
		t.Errorf("question: %+v", q)
	}
	wantIn(t, s.text(q.Body), "red, green")
	r.complete("T1", "T2")
}

func TestIncompleteIsRouted(t *testing.T) {
	s := set(t, scene{
		plan: task("T1") + task("T2"),
		script: `
on developer T2:
    wait for T1-waits
    signal READY_FOR_REVIEW: {task}
on developer T1 attempt 1:
    signal TASK_INCOMPLETE: {task}
        Blocker: T2 must come first
        Blocked By: T2
on developer T1 attempt 2:
    signal TASK_INCOMPLETE: {task}
        Cause: missing_information
        Blocker: it is unclear which one is meant
on developer T1 attempt 3:
    expect "the other one"
    signal TASK_INCOMPLETE: {task}
        Blocker: I ran out of breath
        Progress: half is done
on developer T1 attempt 4:
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	await[rules.BlockerAdded](s, "T1", 1)
	s.write("project/T1-waits", "")
	if q := s.answer("the other one"); q.Kind != rules.AskedIncomplete {
		t.Errorf("question: %+v", q)
	}
	r.complete("T1", "T2")
	var causes []string
	for _, i := range all[rules.IncompleteLogged](s, "T1") {
		causes = append(causes, string(i.Body.Cause))
	}
	if strings.Join(causes, " ") != "waiting missing_information other" {
		t.Errorf("causes: %v", causes)
	}
	if on := only[rules.BlockerAdded](s, "T1"); strings.Join(on.Body.On, " ") != "T2" {
		t.Errorf("waits for %v", on.Body.On)
	}
	if only[rules.Merged](s, "T2").Seq > all[rules.AgentStarted](s, "T1")[1].Seq {
		t.Error("T1 continued before T2 was done")
	}
}

func TestAnalystExpandsADraft(t *testing.T) {
	draft := "\n#### Task T1: Something\n\n**Work**: make it nice\n"
	s := set(t, scene{
		plan:     draft + task("T2", "**Blocked By**: T1"),
		settings: "roles: {business-analyst: {}}\n",
		script: `
on business-analyst T1 attempt 1:
    expect "make it nice"
    signal EXPANDED_TASK_SPECIFICATION: {task}
        Confidence: LOW
        Expanded Specification: no idea
on business-analyst T1 attempt 2:
    expect "with flowers"
    signal EXPANDED_TASK_SPECIFICATION: {task}
        Confidence: HIGH
        Expanded Specification: flowers on every page
        Acceptance Criteria:
        - there are flowers
        SUB-TASK: T1-a Plant them
        Expanded Specification: dig first
        Acceptance Criteria:
        - planted
        SUB-TASK: T1-b Water them
        Acceptance Criteria:
        - wet
        Blocked By: T1-a
on developer T1:
    expect "flowers on every page"
    signal READY_FOR_REVIEW: {task}
on developer T1-a:
    expect "dig first"
    expect "planted"
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	if q := s.answer("with flowers"); q.Kind != rules.AskedExpansion {
		t.Errorf("question: %+v", q)
	}
	r.complete("T1", "T1-a", "T1-b", "T2")
	if x := all[rules.TaskExpanded](s, "T1"); strings.Join(x[len(x)-1].Body.SubTasks,
		" ") != "T1-a T1-b" {
		t.Errorf("expanded: %+v", x)
	}
	if only[rules.Merged](s, "T1-a").Seq > all[rules.AgentStarted](s, "T1-b")[0].Seq {
		t.Error("T1-b did not wait for T1-a")
	}
}

// In a shared folder an agent gets a file at once or waits for it.
func TestFileConflicts(t *testing.T) {
	s := set(t, scene{
		plan: task("T1", "**Target Files**: a.txt") + task("T2", "**Target Files**: b.txt"),
		script: `
on developer T1 attempt 1:
    signal FILE CONFLICT: free.txt
    wait for T2-waits
    write a.txt x
    signal READY_FOR_REVIEW: {task}
on developer T2 attempt 1:
    signal FILE CONFLICT: a.txt
on developer T2 attempt 2:
    run test -f a.txt && echo yes > T2-saw
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	s.until("T2 waits and T1 has its file", func() bool {
		return s.work("T2").Task.Parked != nil && len(s.work("T1").Task.Locks) == 2
	})
	s.write("project/T2-waits", "")
	r.complete("T1", "T2")
	reported := 0
	for _, h := range all[rules.SignalHeard](s, "") {
		if h.Body.Signal == signalbox.NameFileConflict {
			reported++
		}
	}
	if reported != 2 || len(all[rules.SignalRefused](s, "")) != 0 {
		t.Errorf("%d conflicts were reported, want each once", reported)
	}
	if waited := only[rules.FileWaited](s, "T2").Body; waited.File != "a.txt" ||
		waited.Holder != "T1" {
		t.Errorf("waited: %+v", waited)
	}
	if only[rules.Merged](s, "T1").Seq > only[rules.SessionResumed](s, "T2").Seq {
		t.Error("T2 continued before T1 was done")
	}
	s.file("T2-saw")
}

// If two tasks wait for each other, the younger one yields, and its agent is ended.
func TestFileCircle(t *testing.T) {
	s := set(t, scene{
		plan: task("T1", "**Target Files**: a.txt") + task("T2", "**Target Files**: b.txt"),
		script: `
on developer T2 attempt 1:
    signal FILE CONFLICT: a.txt
on developer T1 attempt 1:
    wait for T2-waits
    signal FILE CONFLICT: b.txt
    say I have it.
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	s.until("T2 waits", func() bool { return s.work("T2").Task.Parked != nil })
	s.write("project/T2-waits", "")
	r.complete("T1", "T2")
	if why := only[rules.LocksYielded](s, "T2").Body.Reason; !strings.Contains(why, "deadlock") {
		t.Errorf("T2 yields with the reason %q", why)
	}
}

// With worktrees the overlap is recorded, and no agent waits.
func TestFileOverlapInTrees(t *testing.T) {
	s := set(t, scene{
		git:  true,
		plan: task("T1", "**Target Files**: a.txt") + task("T2"),
		script: `
on developer T1 attempt 1:
    wait for ../../../noted
    signal READY_FOR_REVIEW: {task}
on developer T2 attempt 1:
    signal FILE CONFLICT: a.txt
    signal READY_FOR_REVIEW: {task}
on critic T1:
    expect "a.txt (also T2)"
    signal REVIEW_PASSED: {task}
`})
	r := s.begin()
	await[rules.OverlapNoted](s, "T1", 1)
	s.write("project/noted", "")
	r.complete("T1", "T2")
	none[rules.SessionParked](s, "")
}

// The agents of a second plan may use the ids of the plan, although the work has others.
func TestSecondPlanWithSameIDs(t *testing.T) {
	s := set(t, scene{plan: task("T1"), script: `
on developer other.T1 attempt 1:
    say CHECKPOINT: T1
    say Current Activity: reading
    touch second.txt
    signal READY_FOR_REVIEW: T1
on critic other.T1:
    signal REVIEW_PASSED: T1
`})
	s.run()
	s.loadAs("other", strings.Replace(task("T1"), "The task T1", "Something else", 1))
	s.run()
	s.wantCompleted("T1", "other.T1")
	none[rules.UnknownSignalRecovery](s, "other.T1")
}

// A reviewer who rejects work without a finding is asked for one, and only then the developer gets
// the work back.
func TestRejectionNeedsFindings(t *testing.T) {
	s := set(t, scene{plan: task("T1"), script: `
on critic T1 attempt 1:
    signal REVIEW_FAILED: {task}
on critic T1 attempt 2:
    expect "REVIEW_FAILED has no findings"
    signal REVIEW_FAILED: {task}
        Issues Found: main.go:1: it does nothing
`})
	s.run()
	s.wantCompleted("T1")
	if rework := only[rules.ReworkOrdered](s,
		"T1").Body; rework.Summary != "main.go:1: it does nothing" {
		t.Errorf("rework: %+v", rework)
	}
}
