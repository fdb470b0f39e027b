package rules

import (
	"slices"
	"strings"
	"time"

	"signalbox"
)

// deliveryScenarios are histories of the delivery loop.
var deliveryScenarios = []scenario{
	{"delivery-two-tasks",
		"A plan of two tasks, the second of which waits for the first, is delivered.",
		deliveredTasks},
	{"delivery-rework", "A task comes back from its checks, its review, its audit and its merge, until the human is asked.", reworked},
	{"delivery-unknown-signals", "Agents say nothing that counts, crash, and meet a rate limit.",
		unknownSignals},
	{"delivery-remediation",
		"The base that all work depends on is broken and repaired; the health auditor contradicts the checks once.", remediation},
	{"delivery-experts", "Agents ask experts: one advises, one is made first, one cannot help.",
		experts},
	{"delivery-questions", "Agents ask the human; answers bring the tasks back; budgets are spent.",
		questions},
	{"delivery-files", "Tasks in a shared workspace lock files, wait for them, and give way to each other.", files},
	{"delivery-overlaps", "Tasks in workspaces of their own change the same file, and are told.",
		overlaps},
	{"delivery-plan-changes",
		"A plan changes while it is delivered: tasks are expanded, added, changed, removed and come back.", planChanges},
	{"delivery-two-plans",
		"A second plan with the same ids has its own tasks; the file of the first is overwritten and becomes a new plan.", twoPlans},
	{"delivery-commits",
		"The ledger names the commit that is checked, approved and merged; a branch and the base are moved by others; a task changes nothing.", commits},
	{"delivery-conflicts",
		"A task conflicts with the base before its checks, and when it is merged; markers are left, a submodule is the human's, and the base moves back.", conflicts},
	{"delivery-spending",
		"Agents reach the budgets of a turn, a role and the run, and a token window, while they work; one restarts without an end of its turn.", spending},
	{"delivery-large-files",
		"A task adds large files: it goes back, the human is asked, gives guidance, is asked again and keeps them.", largeFiles},
	{"delivery-red-base",
		"Checks fail on the base: the human repairs the machine, a remediation the base; later the human accepts a failure.", redBases},
	{"delivery-failover",
		"An agent meets a rate limit, crashes, and loses its login: others take over, and the human is asked once none is left.", failover},
	{"delivery-outage", "The server of an agent does not answer for hours: it is tried again by itself, then the human is asked, and the agents of a role are replaced.", outage},
	{"delivery-conversations",
		"Sessions of agent programs are interrupted, parked and resumed, and forgotten when they cannot be.", conversations},
	{"delivery-setup", "Worktrees are made ready; a setup command fails, and the human is asked once for all tasks.", setups},
	{"delivery-setup-of-task",
		"A task breaks what a setup command needs: nobody is asked, and the task is reworked.",
		setupOfTask},
	{"delivery-orders", "Operators pause, resume, cancel, retry and approve.", orders},
	{"delivery-requests",
		"Work is delivered as pull requests: one comes back, is closed, is opened again and merged; tasks build on others.", requests},
	{"delivery-approved-steering",
		"Tasks change what steers agents: with approval, with a policy that trusts it, and in a remediation, which is not healthy then.", approvedSteering},
	{"delivery-steering",
		"Operators reject a merge, send a task back from every phase with words, and tell agents something.", steering},
	{"delivery-bundles",
		"Machines share a ledger: bundles of a task and of the base are stored, the base's are combined, and a completed task needs none.", bundles},
	{"delivery-rejected-bundles",
		"A machine cannot use bundles of the base and of a task: others store the commits again, and one bundle stays rejected.", rejectedBundles},
	{"delivery-logins", "A program changes more in its copy of a login than tokens; the turn that ended says so.", loginsRefused},
	{"delivery-processes-left",
		"Processes of a developer and of a check do not end: the human is asked each time, and nothing counts that was said before.", processesLeft},
	{"delivery-retry-from",
		"Operators restart a task in earlier phases, with notes for the next agent, and it passes all gates again.", retries},
}

// store records a bundle.
func (b *box) store(work, commit string, replaces []string, needs ...string) {
	b.t.Helper()
	b.pass(time.Second)
	c := StoreCommits{Work: work, StoredCommit: StoredCommit{Commit: commit,
		Bundle: signalbox.Hash{byte(len(b.log))}, Size: 100, Needs: needs}, Replaces: replaces,
		Actor: "crew"}
	if work == "" {
		c.Branch = "main"
	}
	b.do(c)
}

// reject rejects the bundle of a commit.
func (b *box) reject(work, commit, fault string) {
	b.t.Helper()
	b.do(RejectBundle{Work: work, Commit: commit, Bundle: b.s.storedCommit(work, commit).Bundle,
		Fault: fault, Actor: "other"})
}

func rejectedBundles(b *box) {
	b.store("", sha("base1"), nil)
	b.do(Configure{policy(), "op"})
	b.do(plan(1, todo("t1")))
	b.checkCommit("B-1", sha("base1"), sha("base1"))
	b.store("", sha("base2"), nil, sha("base1"))
	b.do(ObserveBase{Known: sha("base1"), Commit: sha("base2"), Actor: "crew"})
	b.reject("", sha("base2"), "it is not a git bundle")
	b.store("", sha("base2"), []string{sha("base2")}, sha("base1"))
	b.checkCommit("B-2", sha("base2"), sha("base2"))
	a := b.wantDispatch(signalbox.RoleDeveloper, "t1")
	b.store("t1", sha("saved1"), nil, sha("base2"))
	b.sayMore(a, "ready_for_review",
		withTurn(Turn{Output: signalbox.Hash{2}, Commit: sha("saved1")}))
	b.reject("t1", sha("saved1"), "its blob is not in the ledger any more")
	b.store("t1", sha("commit1"), []string{sha("saved1")}, sha("base2"))
	b.checkCommit("t1", sha("commit1"), sha("base2"))
	b.reject("", sha("base1"), "it does not contain the commit")
}

func bundles(b *box) {
	store := b.store
	store("", sha("base1"), nil)
	b.do(Configure{policy(), "op"})
	b.do(plan(1, todo("t1")))
	b.checkCommit("B-1", sha("base1"), sha("base1"))
	a := b.wantDispatch(signalbox.RoleDeveloper, "t1")
	store("t1", sha("saved1"), nil, sha("base1"))
	b.sayMore(a, "ready_for_review",
		withTurn(Turn{Output: signalbox.Hash{2}, Commit: sha("saved1")}))
	store("t1", sha("commit1"), nil, sha("base1"), sha("saved1"))
	b.checkCommit("t1", sha("commit1"), sha("base1"))
	b.judged("")
	m := b.dispatch(signalbox.RoleMerger)
	store("", sha("merge1"), nil, sha("base1"))
	b.do(PrepareMerge{m.Session, m.Lease.Epoch, sha("merge1"), sha("base1")})
	b.do(by(m, ReportMerge{Commit: sha("merge1"), Before: sha("base1"), Moves: true}))
	store("", sha("by hand"), []string{sha("base1"), sha("merge1")})
	b.do(ObserveBase{Known: sha("merge1"), Commit: sha("by hand"), Start: true, Actor: "crew"})
}

func requests(b *box) {
	p := deliverPolicy(DeliverRequest)
	planned(b, p, todo("t1"), todo("t2", "t1"))
	b.delivered("t1", sha("c1"), request)
	b.do(ReportRequest{Work: "t1", Actor: "crew", Request: request, Commit: sha("c1"),
		Body: signalbox.Hash{4},
		Findings: []RequestFinding{{"check build", "build failed"},
			{"comment 1", "ann: use a map"}}})
	b.delivered("t1", sha("c2"), request)
	b.do(ReportRequest{Work: "t1", Actor: "crew", Request: request, Commit: sha("c2"),
		Closed: true})
	b.answer("t1", AskedRequest, "again")
	b.pass(time.Minute)
	m := b.wantDispatch(signalbox.RoleMerger, "t1")
	b.do(ReportDelivery{m.Session, m.Lease.Epoch, Delivery{sha("c2"), sha("s2"), "signalbox/t1",
		"origin", request + "0"}})
	p.Stack = true
	b.do(Configure{p, "op"})
	b.delivered("t2", sha("c3"), request+"1")
	b.do(ReportRequest{Work: "t1", Actor: "crew", Request: request + "0", Commit: sha("s2"),
		Merged: sha("m1")})
	b.do(ReportRequest{Work: "t2", Actor: "crew", Request: request + "1", Commit: sha("c3"),
		Merged: sha("m2")})
	b.wantStanding(StandingComplete)
}

func planned(b *box, p Policy, tasks ...PlanTask) {
	b.do(Configure{p, "op"})
	b.do(plan(1, tasks...))
	b.pass(time.Second)
	b.baseline()
}

func deliveredTasks(b *box) {
	planned(b, policy(), todo("t1"), todo("t2", "t1"))
	for _, task := range []string{"t1", "t2"} {
		a := b.wantDispatch(signalbox.RoleDeveloper, task)
		b.do(by(a, StartAgent{Agent: "agent", Prompt: signalbox.Hash{1}}))
		b.pass(time.Minute)
		b.say(a, "checkpoint")
		b.pass(time.Minute)
		b.sayMore(a, "ready_for_review", func(h *ReportSignal) {
			h.Blob, h.Offset, h.Body = signalbox.Hash{2}, 700, signalbox.Hash{3}
			h.Turn = &Turn{Output: signalbox.Hash{2}, Bytes: 900,
				Spent: Spent{Tokens: 1200, CostMicros: 3400, Time: 2 * time.Minute}}
		})
		b.checked(b.dispatch(signalbox.RoleCI))
		b.pass(time.Minute)
		b.judged("")
		b.pass(time.Minute)
		b.merged(b.dispatch(signalbox.RoleMerger))
	}
}

func reworked(b *box) {
	p := policy()
	p.Limits.Reviews, p.Limits.Audits = 2, 2
	planned(b, p, todo("t1"), todo("t2", "t1"))
	b.ready("")
	b.checked(b.dispatch(signalbox.RoleCI), "test")
	for range 2 {
		b.bring("t1", signalbox.PhaseReadyForReview)
		b.sayMore(b.dispatch(signalbox.RoleCritic), "review_failed",
			func(h *ReportSignal) { h.Body = signalbox.Hash{4} })
	}
	b.answer("t1", AskedReview, "leave the names as they are")
	b.bring("t1", signalbox.PhaseReadyForMerge)
	b.say(b.dispatch(signalbox.RoleAuditor), "audit_failed")
	b.bring("t1", signalbox.PhaseReadyForMerge)
	b.say(b.dispatch(signalbox.RoleAuditor), "audit_passed")
	m := b.dispatch(signalbox.RoleMerger)
	b.do(by(m, ReportMerge{Refusal: "conflict in main.go", Body: signalbox.Hash{5}}))
	b.bring("t1", signalbox.PhaseCompleted)
}

func unknownSignals(b *box) {
	planned(b, policy(), todo("t1"), todo("t2"))
	a := b.dispatch(signalbox.RoleDeveloper)
	for range 3 {
		b.sayMore(a, "unknown", func(h *ReportSignal) {
			h.Fields.Summary, h.Fields.Advice = "Done! ✅ **READY_FOR_REVIEW: t1**", "send it bare"
		})
	}
	a = b.dispatch(signalbox.RoleDeveloper)
	b.try(hear(a, "review_passed"))
	b.do(by(a, ReportFailure{Cause: FailStall, Detail: "no checkpoint for 15m"}))
	a = b.dispatch(signalbox.RoleDeveloper)
	b.do(by(a, ReportFailure{Cause: FailCrash, Detail: "signal: killed", Turn: &Turn{Exit: -1}}))
	a = b.wantDispatch(signalbox.RoleDeveloper, "t2")
	b.do(by(a, ReportFailure{Cause: FailRateLimit, Until: b.now.Add(time.Hour)}))
	b.answer("t1", AskedTimeout, "it needs more memory; it has it now")
	b.pass(time.Hour)
	a = b.wantDispatch(signalbox.RoleDeveloper, "t1")
	b.pass(signalbox.DefaultLeaseTTL)
	b.try(b.dispatchOf(signalbox.RoleDeveloper))
	b.try(hear(a, "ready_for_review"))
	b.bring("t1", signalbox.PhaseCompleted)
}

func processesLeft(b *box) {
	planned(b, policy(), todo("t1"))
	fails := func(a Answer, turn *Turn) {
		b.do(by(a, ReportFailure{Cause: FailProcesses,
			Detail: "processes that it started did not end: 4711 (chain)", Turn: turn}))
	}
	a := b.dispatch(signalbox.RoleDeveloper)
	b.do(by(a, StartAgent{Agent: "claude", Sandbox: Sandbox{Mode: "enforce", Network: "on",
		Layers:    "landlock 7, seccomp",
		Processes: "watch"}}))
	fails(a, &Turn{Exit: 0})
	b.answer("t1", AskedTimeout, "it was a test server")
	b.bring("t1", signalbox.PhaseCIPending)
	fails(b.dispatch(signalbox.RoleCI), nil)
	b.answer("t1", AskedTimeout, "again")
	b.checked(b.wantDispatch(signalbox.RoleCI, "t1"))
	b.say(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_passed")
}

func remediation(b *box) {
	p := policy()
	p.Limits.Remediations = 3
	planned(b, p, todo("t1"), todo("t2"), todo("t3"))
	two := b.dispatch(signalbox.RoleDeveloper)
	b.say(b.dispatch(signalbox.RoleDeveloper), "infra_blocked")
	b.sayMore(two, "task_incomplete",
		func(h *ReportSignal) { h.Fields.Cause = CauseInfrastructure })
	b.say(b.remedied("test"), "health_healthy")
	b.say(b.remedied(), "health_unhealthy")
	b.say(b.remedied(), "health_unhealthy")
	b.answer("R-1", AskedRemediation, "retry, the mirror is up again")
	b.say(b.remedied(), "health_healthy")
	b.merged(b.dispatch(signalbox.RoleMerger))
	b.baseline()
	b.bring("t1", signalbox.PhaseCompleted)
	b.say(b.dispatch(signalbox.RoleDeveloper), "infra_blocked")
	r := b.wantDispatch(signalbox.RoleRemediation, "R-2")
	b.do(by(r, Exit{Signal: withNotes(exit(signalbox.PhaseImplementation, signalbox.ExitBlocked),
		"no rights")}))
}

func experts(b *box) {
	planned(b, withCreator(policy()), todo("t1"), todo("t2"), todo("t3"))
	one, two, three := b.dispatch(signalbox.RoleDeveloper), b.dispatch(signalbox.RoleDeveloper),
		b.dispatch(signalbox.RoleDeveloper)
	b.askExpert(one, "sql")
	b.askExpert(two, "css")
	b.askExpert(three, "sql")
	b.sayMore(b.dispatch(signalbox.RoleExpert), "expert_advice",
		func(h *ReportSignal) { h.Body, h.Blob = signalbox.Hash{8}, signalbox.Hash{9} })
	b.do(by(one, ResumeSession{}))
	b.say(one, "ready_for_review")
	b.say(b.dispatch(signalbox.RoleExpert), "expert_unsuccessful")
	b.sayMore(b.dispatch(signalbox.RoleExpertCreator), "expert_created", func(h *ReportSignal) {
		h.Fields.Expert, h.Fields.Gap, h.Fields.Keywords = "stylist", "layout",
			[]string{"flex", "grid"}
	})
	b.say(b.wantDispatch(signalbox.RoleExpert, "X-2"), "expert_advice")
	b.answer("t3", AskedExpert, "it is right")
}

func questions(b *box) {
	p := policy()
	p.Task, p.Run = Budget{Tokens: 1000}, Budget{Tokens: 1500}
	planned(b, p, todo("t1"), todo("t2", "t1"), todo("t3"))
	b.say(b.dispatch(signalbox.RoleDeveloper), "divine_clarification")
	b.sayMore(b.dispatch(signalbox.RoleDeveloper), "ready_for_review",
		withTurn(Turn{Spent: Spent{Tokens: 1600}}))
	b.answer("t1", AskedClarification, "The \"Julian\" one: <a&b>\nand no other")
	b.answer("", AskedBudget, "yes")
	b.answer("t3", AskedBudget, "yes")
	b.sayMore(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "task_incomplete",
		func(h *ReportSignal) { h.Fields.Cause, h.Fields.BlockedBy = CauseWaiting, []string{"t3"} })
	b.checked(b.dispatch(signalbox.RoleCI))
	a := b.dispatch(signalbox.RoleCritic)
	b.do(by(a, EndTurn{Turn: Turn{Spent: Spent{Tokens: 5}}}))
	b.say(a, "review_passed")
	b.say(b.dispatch(signalbox.RoleAuditor), "audit_passed")
	b.merged(b.dispatch(signalbox.RoleMerger))
	b.sayMore(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "task_incomplete",
		func(h *ReportSignal) { h.Fields.Cause = CauseScope })
}

func files(b *box) {
	planned(b, shared(policy()), withFiles(todo("t1"), "b.go", "a.go"),
		withFiles(todo("t2"), "c.go"), withFiles(todo("t3"), "a.go"))
	one, two := b.dispatch(signalbox.RoleDeveloper), b.dispatch(signalbox.RoleDeveloper)
	b.wants(one, "d.go")
	b.wants(two, "d.go")
	b.pass(time.Minute)
	b.wants(one, "c.go")
	b.say(one, "ready_for_review")
	b.checked(b.dispatch(signalbox.RoleCI))
	b.judged("")
	b.wantDispatch(signalbox.RoleDeveloper, "t2")
	three := b.wantDispatch(signalbox.RoleDeveloper, "t3")
	b.wants(three, "c.go")
	b.do(orderOf(OrderCancel, "t2"))
	b.do(by(three, ResumeSession{}))
	b.say(three, "ready_for_review")
}

func overlaps(b *box) {
	planned(b, policy(), withFiles(todo("t1"), "a.go"), withFiles(todo("t2"), "a.go"))
	one := b.dispatch(signalbox.RoleDeveloper)
	b.dispatch(signalbox.RoleDeveloper)
	b.wants(one, "a.go")
	b.wants(one, "z.go")
}

func planChanges(b *box) {
	planned(b, policy(), unspecified("t1"), todo("t2", "t1"), todo("t3"))
	b.sayMore(b.dispatch(signalbox.RoleBusinessAnalyst), "expanded_spec", func(h *ReportSignal) {
		h.Fields.Confidence, h.Fields.SubTasks, h.Body = "MEDIUM",
			[]PlanTask{todo("a"), todo("b", "a")}, signalbox.Hash{5}
	})
	b.bring("a", signalbox.PhaseCompleted)
	b.dispatch(signalbox.RoleDeveloper)
	b.do(plan(2, todo("t3"), withFiles(todo("t2"), "x.go"), todo("t4", "t2")))
	b.do(plan(3, todo("t3"), unspecified("t1"), withFiles(todo("t2"), "x.go"), todo("t4", "t2")))
	b.bring("t2", signalbox.PhaseReadyForReview)
}

func twoPlans(b *box) {
	b.do(Configure{policy(), "op"})
	b.do(planOf("plan.md", 1, todo("T1"), todo("T2", "T1")))
	b.baseline()
	b.bring("T1", signalbox.PhaseCompleted)
	b.bring("T2", signalbox.PhaseCompleted)
	b.do(planOf("sprint2.md", 2, todo("T1"), todo("U2", "T1")))
	b.bring("sprint2.T1", signalbox.PhaseCompleted)
	b.bring("U2", signalbox.PhaseCompleted)
	again := planOf("plan.md", 3, todo("T1"))
	again.Finished = FinishedRenew
	b.do(again)
	b.bring("plan-2.T1", signalbox.PhaseReadyForReview)
}

// approvedSteering is about tasks that change what steers agents: one that the human approves, one
// after the policy trusts that, and a remediation.
func approvedSteering(b *box) {
	p := policy()
	b.do(Configure{p, "op"})
	b.do(plan(1, todo("t1"), todo("t2", "t1"), todo("t3", "t2")))
	check := func(work string, steering ...string) {
		b.pass(time.Second)
		ci := b.wantDispatch(signalbox.RoleCI, work)
		b.do(by(ci, ReportChecks{Commit: sha("c" + work), Base: sha("base1"), Steering: steering,
			Rows: []CheckRow{{Check: "test", Environment: "local", Passed: true}}}))
	}
	review := func(work string) {
		b.judged(work)
	}
	check("B-1")
	b.bring("t1", signalbox.PhaseCIPending)
	check("t1", ".claude/settings.json", "AGENTS.md")
	review("t1")
	b.do(orderOf(OrderApprove, "t1"))
	b.merged(b.wantDispatch(signalbox.RoleMerger, "t1"))
	p.TrustSteering = true
	b.do(Configure{p, "op"})
	b.bring("t2", signalbox.PhaseCIPending)
	check("t2", "CLAUDE.md")
	review("t2")
	b.merged(b.wantDispatch(signalbox.RoleMerger, "t2"))
	b.say(b.dispatch(signalbox.RoleDeveloper), "infra_blocked")
	b.say(b.dispatch(signalbox.RoleRemediation), "remediation_complete")
	check("R-1", "AGENTS.md")
	b.say(b.dispatch(signalbox.RoleHealthAuditor), "health_healthy")
}

func commits(b *box) {
	p := policy()
	p.ApproveMerge = true
	b.do(Configure{p, "op"})
	b.do(plan(1, todo("t1"), todo("t2", "t1"), todo("t3", "t2")))
	check := func(work, commit, base string, unchanged bool) {
		b.pass(time.Second)
		ci := b.wantDispatch(signalbox.RoleCI, work)
		b.do(by(ci, ReportChecks{Commit: commit, Base: base, Unchanged: unchanged,
			Rows: []CheckRow{{Check: "test", Environment: "local", Passed: true}}}))
	}
	implement := func(work, commit string) {
		b.pass(time.Second)
		b.sayMore(b.wantDispatch(signalbox.RoleDeveloper, work), "ready_for_review",
			withTurn(Turn{Output: signalbox.Hash{2}, Commit: commit}))
	}
	check("B-1", sha("base1"), sha("base1"), false)
	implement("t1", sha("saved1"))
	ci := b.wantDispatch(signalbox.RoleCI, "t1")
	b.do(ReportBranch{ci.Session, ci.Lease.Epoch, sha("saved1"), sha("smuggled")})
	b.do(by(ci, ReportChecks{Commit: sha("commit1"), Base: sha("base1")}))
	b.judged("")
	b.do(orderOf(OrderApprove, "t1"))
	m := b.dispatch(signalbox.RoleMerger)
	b.do(ObserveBase{Known: sha("base1"), Commit: sha("base2"), Added: []string{"base2 by hand"},
		Dropped: []string{"base1 start"}, Actor: "crew"})
	b.do(by(m, Release{Work: "t1", Reason: "the base has moved"}))
	check("B-2", sha("base2"), sha("base2"), false)
	m = b.dispatch(signalbox.RoleMerger)
	b.do(PrepareMerge{m.Session, m.Lease.Epoch, sha("merge1"), sha("base2")})
	b.do(by(m, ReportMerge{Commit: sha("merge1"), Before: sha("base2")}))
	implement("t2", sha("merge1"))
	check("t2", sha("merge1"), sha("merge1"), true)
	implement("t2", sha("merge1"))
	check("t2", sha("merge1"), sha("merge1"), true)
	b.answer("t2", AskedUnchanged, "done: it was only to be verified")
	b.do(ObserveBase{Known: sha("merge1"), Commit: sha("base3"), Start: true, Actor: "crew"})
	check("B-3", sha("base3"), sha("base3"), false)
	implement("t3", sha("saved3"))
}

func conflicts(b *box) {
	planned(b, policy(), todo("t1"), todo("t2", "t1"))
	report := func(role signalbox.Role, c Conflict) Answer {
		b.pass(time.Second)
		a := b.wantDispatch(role, "t1")
		b.do(ReportConflict{a.Session, a.Lease.Epoch, c})
		return a
	}
	ready := func(a Answer, commit string) {
		b.pass(time.Minute)
		b.sayMore(a, "ready_for_review",
			withTurn(Turn{Output: signalbox.Hash{2}, Commit: commit}))
	}
	found := Conflict{Commit: sha("work1"), Base: sha("base1"), Files: []string{"a.go", "b.go"},
		Body: signalbox.Hash{7}}
	ready(b.wantDispatch(signalbox.RoleDeveloper, "t1"), sha("work1"))
	report(signalbox.RoleCI, found)
	found.Draft = sha("draft1")
	ready(report(signalbox.RoleDeveloper, found), sha("work2"))
	found.Unresolved = []string{"b.go"}
	report(signalbox.RoleCI, found)
	ready(b.wantDispatch(signalbox.RoleDeveloper, "t1"), sha("work3"))
	b.checked(b.dispatch(signalbox.RoleCI))
	b.judged("")
	found = Conflict{Commit: sha("c0ffee"), Base: sha("base2"), Files: []string{"lib"},
		Submodules: []string{"lib"}, Body: signalbox.Hash{8}}
	report(signalbox.RoleMerger, found)
	b.answer("t1", AskedConflict, "I merged it")
	a := report(signalbox.RoleDeveloper, Conflict{Commit: sha("c0ffee"), Base: sha("base2")})
	ready(a, sha("work4"))
	b.checked(b.dispatch(signalbox.RoleCI))
	b.judged("")
	b.merged(b.dispatch(signalbox.RoleMerger))
}

func redBases(b *box) {
	b.do(Configure{policy(), "op"})
	b.do(plan(1, todo("t1"), todo("t2")))
	b.pass(time.Second)
	b.checkBaseAt(sha("base1"), "the program pytest was not found", "test")
	b.answer("B-1", AskedBaseline, "again, it is installed")
	b.checkBaseAt(sha("base1"), "", "test")
	b.answer("B-1", AskedBaseline, "repair, the test of the calendar is wrong")
	b.say(b.wantDispatch(signalbox.RoleRemediation, "R-1"), "remediation_complete")
	b.checkAt(b.wantDispatch(signalbox.RoleCI, "R-1"), sha("fix1"), sha("base1"), "")
	b.say(b.dispatch(signalbox.RoleHealthAuditor), "health_healthy")
	b.merged(b.dispatch(signalbox.RoleMerger))
	b.checkBaseAt(sha("beef"), "")
	dev := b.wantDispatch(signalbox.RoleDeveloper, "t1")
	b.do(ObserveBase{Known: sha("beef"), Commit: sha("base2"), Actor: "crew"})
	b.checkBaseAt(sha("base2"), "", "lint")
	b.say(dev, "ready_for_review")
	b.do(ObserveBase{Known: sha("base2"), Commit: sha("base3"), Actor: "crew"})
	b.checkBaseAt(sha("base3"), "the program ruff was not found", "lint")
	b.answer("B-2", AskedBaseline, "accept, it is an old warning")
	b.checkAt(b.wantDispatch(signalbox.RoleCI, "t1"), sha("saved1"), sha("base3"), "", "lint")
	b.judged("")
	b.merged(b.dispatch(signalbox.RoleMerger))
	b.wantDispatch(signalbox.RoleDeveloper, "t2")
}

func orders(b *box) {
	p := policy()
	p.ApproveMerge = true
	planned(b, p, todo("t1"), todo("t2"))
	order := func(what OrderKind, work string) {
		b.do(Order{What: what, Work: work, Actor: "op", Reason: "as ordered"})
	}
	order(OrderPause, "t1")
	order(OrderPause, "")
	order(OrderResume, "")
	b.wantDispatch(signalbox.RoleDeveloper, "t2")
	order(OrderCancel, "t2")
	order(OrderResume, "t1")
	b.bring("t1", signalbox.PhaseReadyForMerge)
	b.say(b.dispatch(signalbox.RoleAuditor), "audit_passed")
	order(OrderApprove, "t1")
	b.merged(b.dispatch(signalbox.RoleMerger))
	order(OrderRetry, "t2")
	b.say(b.dispatch(signalbox.RoleDeveloper), "divine_clarification")
	order(OrderCancel, "")
	order(OrderRetry, "")
}

func steering(b *box) {
	p := policy()
	p.ApproveMerge = true
	planned(b, p, todo("t1"), todo("t2"))
	tell := func(text string) uint64 { return b.do(Tell{Work: "t1", Text: text, Actor: "op"}).Seq }
	first := tell("the names are in the glossary")
	dev := b.wantDispatch(signalbox.RoleDeveloper, "t1")
	heard := tell("the build machine is slow today")
	b.do(DeliverMessages{dev.Session, dev.Lease.Epoch, []uint64{heard}})
	b.sayMore(dev, "ready_for_review",
		withTurn(Turn{Commit: sha("saved1"), Messages: []uint64{first, heard}}))
	b.checked(b.wantDispatch(signalbox.RoleCI, "t1"))
	b.judged("t1")
	b.do(Rework{Work: "t1", Text: "the message says Sie, and must say du", Actor: "op",
		Reject: true})
	long := strings.Repeat("and every other message too. ", 200)
	body, digest := LongText(long)
	b.do(Rework{Work: "t1", Text: string(body), Body: digest, Actor: "op"})
	b.do(Tell{Work: "t1", Text: long, Body: digest, Actor: "op"})
	b.pass(time.Minute)
	b.say(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "divine_clarification")
	b.do(Rework{Work: "t1", Text: "ask nothing, and begin", Actor: "op"})
	b.bring("t1", signalbox.PhaseReadyForReview)
	b.wantDispatch(signalbox.RoleCritic, "t1")
	b.do(Rework{Work: "t1", Text: "no, begin again", Actor: "op"})
	b.bring("t1", signalbox.PhaseReadyForMerge)
}

func retries(b *box) {
	p := policy()
	p.ApproveMerge = true
	planned(b, p, todo("t1"), todo("t2"))
	retry := func(from signalbox.Phase, note string) {
		b.pass(time.Minute)
		_, body := LongText(note)
		b.do(Order{What: OrderRetry, Work: "t1", Actor: "op", Reason: "not good enough", From: from,
			Note: note, Body: body})
	}
	b.toApproval("t1")
	b.do(orderOf(OrderApprove, "t1"))
	retry(signalbox.PhaseReadyForMerge, "audit the licences too")
	b.say(b.wantDispatch(signalbox.RoleAuditor, "t1"), "audit_passed")
	retry(signalbox.PhaseReview, strings.Repeat("look at every error path. ", 200))
	b.wantDispatch(signalbox.RoleCritic, "t1")
	retry(signalbox.PhaseReadyForReview, "")
	b.say(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_passed")
	retry(signalbox.PhaseCIPending, "the build machine was broken")
	b.checked(b.wantDispatch(signalbox.RoleCI, "t1"))
	b.say(b.wantDispatch(signalbox.RoleCritic, "t1"), "divine_clarification")
	retry(signalbox.PhaseImplementation, "begin again")
	b.toApproval("t1")
	b.do(orderOf(OrderCancel, "t1"))
	retry(signalbox.PhaseReview, "after all")
}

func spending(b *box) {
	p := policy()
	p.Turn, p.Run = Budget{Tokens: 1000}, Budget{CostMicros: 5_000_000}
	p.RoleBudgets = []RoleBudget{{signalbox.RoleDeveloper, Budget{Tokens: 2500}}}
	p.Window = TokenWindow{Tokens: 3000, Every: 5 * time.Hour}
	planned(b, p, todo("t1"), todo("t2"))
	one := b.starts(signalbox.RoleDeveloper)
	b.uses(one, Spent{Tokens: 400, CostMicros: 10_000})
	b.uses(one, Spent{Tokens: 1100, CostMicros: 20_000})
	b.capped(one, Spent{Tokens: 1150, CostMicros: 21_000}, CapTurn)
	b.answer("t1", AskedBudget, "yes")
	one = b.starts(signalbox.RoleDeveloper) // it is killed, and its usage stays
	b.do(by(one, ReportUsage{Spent: Spent{Tokens: 800}, Estimated: true}))
	b.do(by(one, Release{Work: "t1", Reason: "the crew was stopped"}))
	one, two := b.starts(signalbox.RoleDeveloper), b.starts(signalbox.RoleDeveloper)
	b.uses(one, Spent{Tokens: 300})
	b.uses(two, Spent{Tokens: 300})
	b.capped(one, Spent{Tokens: 300}, CapRole)
	b.capped(two, Spent{Tokens: 300}, CapRole)
	b.answer("", AskedBudget, "no")
	b.do(orderOf(OrderResume, ""))
	b.answer("", AskedBudget, "yes")
	one = b.starts(signalbox.RoleDeveloper)
	b.do(by(one, EndTurn{Turn: Turn{Spent: Spent{Tokens: 600, CostMicros: 30_000,
		Time: time.Minute},
		Interrupted: true, Cap: CapWindow,
		Model: "m-1", Thread: &Thread{"th-1", 500, 20, 100}}}))
	b.pass(5 * time.Hour)
	one = b.starts(signalbox.RoleDeveloper)
	b.uses(one, Spent{CostMicros: 5_000_000})
	b.capped(one, Spent{CostMicros: 5_000_000}, CapRun)
}

func largeFiles(b *box) {
	planned(b, policy(), todo("t1"))
	ready := func() {
		b.pass(time.Second)
		b.ready("t1")
	}
	check := func() {
		ci := b.wantDispatch(signalbox.RoleCI, "t1")
		b.do(by(ci, ReportChecks{Commit: sha("commit1"), Base: sha("base1"),
			Large: []string{"out.bin (600.0 MB)"}}))
	}
	for range 2 {
		ready()
		check()
	}
	b.answer("t1", AskedFileSize, "make it smaller")
	for range 2 {
		ready()
		check()
	}
	b.answer("t1", AskedFileSize, "keep it")
	check()
	b.judged("")
}

// withAgents is a policy with agents: two for developers, and one for everyone else.
func withAgents(p Policy) Policy {
	for _, r := range p.Roles {
		list := []string{"claude"}
		if r.Role == signalbox.RoleDeveloper {
			list = append(list, "codex")
		}
		p.Agents = append(p.Agents, RoleAgents{Role: r.Role, Agents: list})
	}
	p.Agents = append(p.Agents, RoleAgents{Role: signalbox.RoleExpert, Agents: []string{"claude"}},
		RoleAgents{Role: signalbox.RoleExpert, Expert: "sql", Agents: []string{"gemini", "codex"}})
	for i, name := range []string{"claude", "codex", "gemini"} {
		p.AgentSettings = append(p.AgentSettings, AgentSettings{name, signalbox.Hash{byte(i + 1)}})
	}
	return p
}

func (b *box) fails(a Answer, cause FailCause, detail string) Decision {
	b.t.Helper()
	return b.try(by(a, ReportFailure{Cause: cause, Detail: detail, Advice: "log in with " +
		a.Agent + " login"}))
}

func failover(b *box) {
	p := withAgents(policy())
	planned(b, p, todo("t1"), todo("t2"), todo("t3"))
	a := b.starts(signalbox.RoleDeveloper)
	b.do(by(a, ReportFailure{Cause: FailRateLimit, Until: b.now.Add(time.Hour)}))
	b.fails(b.starts(signalbox.RoleDeveloper), FailCrash, "exit status 1")
	b.pass(time.Hour)
	b.fails(b.starts(signalbox.RoleDeveloper), FailCrash, "exit status 1")
	b.fails(b.starts(signalbox.RoleDeveloper), FailCrash, "exit status 2")
	one, two := b.starts(signalbox.RoleDeveloper), b.starts(signalbox.RoleDeveloper)
	b.fails(one, FailServer, "connection refused")
	b.fails(two, FailServer, "connection refused")
	a = b.starts(signalbox.RoleDeveloper)
	b.fails(a, FailLogin, "401 Unauthorized")
	b.answer("", AskedAgent, "logged in")
	a = b.starts(signalbox.RoleDeveloper)
	b.say(a, "ready_for_review")
	b.fails(b.starts(signalbox.RoleDeveloper), FailProgram, "not found")
	b.do(orderOf(OrderRetry, ""))
	b.fails(b.starts(signalbox.RoleDeveloper), FailLogin, "401 Unauthorized")
	p.AgentSettings = []AgentSettings{{"claude", signalbox.Hash{9}}, p.AgentSettings[1],
		p.AgentSettings[2]}
	b.do(Configure{p, "op"})
	b.say(b.starts(signalbox.RoleDeveloper), "ready_for_review")
}

func outage(b *box) {
	p := withAgents(policy())
	planned(b, p, todo("t1"), todo("t2"))
	b.fails(b.starts(signalbox.RoleDeveloper), FailServer, "connection refused")
	b.fails(b.starts(signalbox.RoleDeveloper), FailServer, "503")
	b.pass(5 * time.Minute)
	b.fails(b.starts(signalbox.RoleDeveloper), FailServer, "connection refused")
	b.fails(b.starts(signalbox.RoleDeveloper), FailLogin, "401")
	b.pass(10 * time.Minute)
	b.say(b.starts(signalbox.RoleDeveloper), "ready_for_review")
	b.fails(b.starts(signalbox.RoleDeveloper), FailServer, "connection refused")
	for _, minutes := range []time.Duration{5, 10, 20, 40, 60} {
		b.pass(minutes * time.Minute)
		b.fails(b.starts(signalbox.RoleDeveloper), FailServer, "connection refused")
	}
	p.Agents = slices.Clone(p.Agents)
	for i := range p.Agents {
		p.Agents[i].Agents = []string{"gemini"}
	}
	b.do(Configure{p, "op"})
	b.fails(b.starts(signalbox.RoleDeveloper), FailProgram, "not found")
	for i := range p.Agents {
		p.Agents[i].Agents = []string{"codex"}
	}
	b.do(Configure{p, "op"})
	b.answer("", AskedAgent, "logged in")
	b.say(b.starts(signalbox.RoleDeveloper), "ready_for_review")
}

func loginsRefused(b *box) {
	planned(b, withAgents(policy()), todo("t1"))
	one := b.starts(signalbox.RoleDeveloper)
	b.do(by(one, EndTurn{Turn: Turn{Interrupted: true,
		LoginRefused: []string{`.local/share/opencode/auth.json: "http://h" is new`,
			"a\x1b[2Jb"}}}))
	b.do(by(one, Release{Work: "t1", Reason: "the crew was stopped"}))
	one = b.starts(signalbox.RoleDeveloper)
	b.do(by(one, EndTurn{Turn: Turn{Interrupted: true}}))
}

func conversations(b *box) {
	planned(b, withAgents(policy()), todo("t1"), todo("t2"), todo("t3"))
	talk := func(a Answer,
		id string) {
		b.do(by(a, ReportConversation{ID: id}))
	}
	ends := func(a Answer,
		t Turn) {
		b.do(by(a, EndTurn{Turn: t}))
	}
	leaves := func(a Answer) {
		b.do(by(a, Release{Work: a.Work, Reason: "the crew was stopped"}))
	}
	one := b.starts(signalbox.RoleDeveloper)
	talk(one, "0191-a")
	ends(one, Turn{Interrupted: true, Commit: sha("c1")})
	leaves(one)
	one = b.dispatch(signalbox.RoleDeveloper)
	b.do(by(one, StartAgent{Agent: one.Agent, Resumes: "0191-a"}))
	talk(one, "0191-a")
	b.sayMore(one, "expert_request", func(h *ReportSignal) {
		h.Fields.Expert, h.Turn = "sql", &Turn{Commit: sha("c2")}
	})
	x := b.starts(signalbox.RoleExpert)
	talk(x, "ses_x")
	b.say(x, "expert_advice")
	b.do(by(one, ResumeSession{}))
	b.do(by(one, StartAgent{Agent: one.Agent, Resumes: "0191-a"}))
	leaves(one) // killed
	two := b.starts(signalbox.RoleDeveloper)
	talk(two, "0191-b")
	b.sayMore(two, "ready_for_review", withTurn(Turn{Commit: sha("c3")}))
	three := b.starts(signalbox.RoleDeveloper)
	talk(three, "0191-c")
	b.do(orderOf(OrderRetry, three.Work))
}

func setups(b *box) {
	b.do(Configure{policy(), "op"})
	b.do(plan(1, todo("t1"), todo("t2")))
	b.pass(time.Second)
	ci := b.wantDispatch(signalbox.RoleCI, "B-1")
	b.setup(ci, true)
	b.checkAt(ci, sha("base1"), sha("base1"), "")
	one, two := b.wantDispatch(signalbox.RoleDeveloper, "t1"),
		b.wantDispatch(signalbox.RoleDeveloper, "t2")
	b.setup(one, false)
	b.setup(two, false)
	b.try(b.dispatchOf(DispatchRoles()...))
	b.answer("", AskedSetup, "again, the registry is up")
	one, two = b.wantDispatch(signalbox.RoleDeveloper, "t1"),
		b.wantDispatch(signalbox.RoleDeveloper, "t2")
	b.do(by(one, ReportSetup{Ran: SetupRan{Command: "modules", Commit: sha("base1"), Passed: true,
		Millis: 900,
		Output: signalbox.Hash{6}, Sandbox: Sandbox{Mode: "off"},
		Restored: []string{"package-lock.json"}}}))
	b.setup(two, false)
	b.say(one, "ready_for_review")
	p := policy()
	p.CheckSet = signalbox.Hash{3}
	b.do(Configure{p, "op"})
	ci = b.wantDispatch(signalbox.RoleCI, "B-2")
	b.setup(ci, false)
	b.do(orderOf(OrderRetry, ""))
	ci = b.wantDispatch(signalbox.RoleCI, "B-2")
	b.setup(ci, true)
}

func setupOfTask(b *box) {
	b.do(Configure{policy(), "op"})
	b.do(plan(1, todo("t1"), todo("t2")))
	b.pass(time.Second)
	ci := b.wantDispatch(signalbox.RoleCI, "B-1")
	b.setup(ci, true)
	b.checkAt(ci, sha("base1"), sha("base1"), "")
	b.ready("t1")
	ci = b.wantDispatch(signalbox.RoleCI, "t1")
	b.setupFault(ci)
	b.do(by(ci, ReportChecks{Commit: sha("c1"), Base: sha("base1"), Body: signalbox.Hash{7},
		Rows: []CheckRow{{Check: "setup modules", Environment: "local", Exit: 1, Millis: 1200,
			Output: signalbox.Hash{5}}}}))
	one := b.wantDispatch(signalbox.RoleDeveloper, "t1")
	b.wantDispatch(signalbox.RoleDeveloper, "t2")
	b.setupFault(one)
	b.say(one, "ready_for_review")
}

// setupFault reports that a setup command failed because of the task.
func (b *box) setupFault(a Answer) Decision {
	b.t.Helper()
	return b.decide(by(a, ReportSetup{Cause: "exit status 1", Body: signalbox.Hash{7}, OfTask: true,
		Ran: SetupRan{Command: "modules", Commit: sha("c1"), Exit: 1, Millis: 1200,
			Output: signalbox.Hash{5}}}))
}

// setup reports that a setup command ran in a worktree.
func (b *box) setup(a Answer, passed bool) Decision {
	b.t.Helper()
	c := by(a, ReportSetup{Ran: SetupRan{Command: "modules", Commit: sha("base1"), Passed: passed,
		Millis: 1200,
		Output: signalbox.Hash{5}}})
	if !passed {
		c.Ran.Exit, c.Cause, c.Body = 1, "exit status 1: no route to registry.", signalbox.Hash{7}
	}
	return b.decide(c)
}
