package progress

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/testkit/must"
)

// eventAbout is an event with a body.
func eventAbout(t *testing.T, kind, work, session string, body any) *signalbox.Event {
	t.Helper()
	data, err := json.Marshal(body)
	must.Succeed(t, err)
	return &signalbox.Event{Type: kind, Work: work, Session: session, Data: data}
}

func TestRefusalsSayWhy(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5}, planned("T1", "count"))
	p.check("B-1")
	p.start(signalbox.RoleDeveloper, "T1")
	session := p.held["T1"].Session
	for _, tt := range []struct {
		said   string
		reason signalbox.Reason
		detail string
		count  int
		want   string
	}{
		{"audit_passed", signalbox.ReasonOutOfRole, "about T1", 1,
			"AUDIT_PASSED: a developer must not send it"},
		{"audit_passed", signalbox.ReasonOutOfRole, "about T1", 12,
			"AUDIT_PASSED (12 times): a developer must not send it"},
		{"ready_for_review", signalbox.ReasonWrongWork, "about T9", 1,
			"READY_FOR_REVIEW: it names T9, but the session works on T1"},
		{"ready_for_review", signalbox.ReasonWrongWork,
			"wrong_work: the developer of 'T1' sent ready_for_review about 'T9'", 1,
			"READY_FOR_REVIEW: it names T9, but the session works on T1"},
		{"ready_for_review", signalbox.ReasonWrongWork, "", 1,
			"READY_FOR_REVIEW: it does not name T1"},
		{"ready_for_review", signalbox.ReasonFenced, "about T1", 1,
			"READY_FOR_REVIEW: inside a code block"},
		{"ready_for_review", signalbox.ReasonDelegated, "about T1", 1,
			"READY_FOR_REVIEW: inside a prompt for another agent"},
		{"ready_for_review", signalbox.ReasonNearMiss,
			"no colon after the name: send the line bare, at column 0: READY_FOR_REVIEW: T1", 1,
			"READY_FOR_REVIEW: near miss (no colon after the name): send the line bare, at column 0: READY_FOR_REVIEW: T1"},
		{"agent_exit", signalbox.ReasonMalformed, "line 3: no such field", 1,
			"agent_exit: malformed: line 3: no such field"},
		{"ready_for_review", signalbox.ReasonTooLarge, "about T1", 1,
			"READY_FOR_REVIEW: too large"},
		{"signal", signalbox.ReasonUnknownType, "the types are a and b", 1,
			"signal: unknown signal: the types are a and b"},
		{"ready_for_review", signalbox.ReasonWrongKey, "about T1", 1,
			"READY_FOR_REVIEW: wrong session key"},
		{"review_passed", signalbox.ReasonAmbiguous, "about T1", 1,
			"REVIEW_PASSED: the turn contradicts itself"},
		{"renew", signalbox.ReasonStaleLease,
			"stale lease: epoch 3 of work 'T1' is over, and no session holds the work", 1,
			"renew: stale lease: epoch 3 of work 'T1' is over, and no session holds the work"},
		{"agent_exit", signalbox.ReasonPhaseMismatch, "", 1, "agent_exit: phase mismatch"},
	} {
		e := eventAbout(t, "SignalRefused", "T1", session,
			rules.SignalRefused{Said: tt.said, Reason: tt.reason, Detail: tt.detail,
				Count: tt.count})
		if got, detail := (&rules.Describer{State: p.s}).Line(e); got != "refused "+tt.want ||
			detail != "" {
			t.Errorf("%s: %q, %q; want %q", tt.reason, got, detail, tt.want)
		}
	}
}

func TestChecksSayWhatIsWrong(t *testing.T) {
	good := rules.CheckRow{Check: "vet", Environment: "linux", Passed: true}
	bad := rules.CheckRow{Check: "test", Environment: "linux", Exit: 2, Output: signalbox.Hash{1},
		Millis: 10}
	slow := rules.CheckRow{Check: "slow", Environment: "linux", Exit: 143, Millis: 60_001}
	d := rules.Describer{State: &rules.State{}, Limits: map[string]time.Duration{"vet": time.Minute,
		"test": time.Minute, "slow": time.Minute},
		LastLines: map[signalbox.Hash]string{{1}: "1 of 5 failed"}}
	for _, tt := range []struct {
		ran          rules.ChecksRan
		text, detail string
	}{
		{rules.ChecksRan{Rows: []rules.CheckRow{good}}, "checks passed (1 of 1)", ""},
		{rules.ChecksRan{Rows: []rules.CheckRow{good, bad}},
			"checks failed (1 of 2): test on linux (exit status 2)", "1 of 5 failed"},
		{rules.ChecksRan{Rows: []rules.CheckRow{slow, bad}},
			"checks failed (2 of 2): slow on linux (timed out after 1m00s), test on linux (exit status 2)", "1 of 5 failed"},
		{rules.ChecksRan{}, "no checks to run", ""},
		{rules.ChecksRan{Rows: []rules.CheckRow{good}, Ref: "fix", Commit: "0123456789"},
			"checks passed (1 of 1); on fix at 0123456", ""},
		{rules.ChecksRan{Rows: []rules.CheckRow{bad}, OnBase: true, Commit: "0123456789"},
			"checks failed (1 of 1): test on linux (exit status 2); on the base at 0123456, because the work names no ref", "1 of 5 failed"},
		{rules.ChecksRan{Ref: "fix", Problem: "it names 'fix', which is not there"},
			"not checked: it names 'fix', which is not there", ""},
		{rules.ChecksRan{Protected: []string{"plan.md"}},
			"refused: it edited protected files: plan.md", ""},
		{rules.ChecksRan{Rows: []rules.CheckRow{good}, Protected: []string{"a", "b"}},
			"refused: it edited protected files: a, b; checks passed (1 of 1)", ""},
	} {
		if text, detail := d.Line(eventAbout(t, "ChecksRan", "T1", "", tt.ran)); text != tt.text ||
			detail != tt.detail {
			t.Errorf("%q, %q; want %q, %q", text, detail, tt.text, tt.detail)
		}
	}
	ready := eventAbout(t, "SignalHeard", "T1", "", rules.SignalHeard{Signal: "ready_for_review"})
	if text, _ := d.Line(ready); text != "ready for review; running checks" {
		t.Errorf("with checks: %q", text)
	}
	d.Limits = map[string]time.Duration{}
	if text, _ := d.Line(ready); text != "ready for review" {
		t.Errorf("without checks: %q", text)
	}
}

func TestSetupSaysWhatHappened(t *testing.T) {
	d := rules.Describer{State: &rules.State{}}
	for _, tt := range []struct {
		ran          rules.SetupRan
		text, detail string
	}{
		{rules.SetupRan{Command: "npm ci", Passed: true, Millis: 61_000}, "setup: npm ci (1m01s)",
			""},
		{rules.SetupRan{Command: "npm ci", Passed: true, Restored: []string{"a", "b"}},
			"setup: npm ci (0s)", "it changed tracked files, which were put back: a, b"},
		{rules.SetupRan{Command: "npm ci", Exit: 3, Millis: 2000},
			"setup failed: npm ci (exit status 3 after 2s)", ""},
		{rules.SetupRan{Command: "npm ci", Exit: 143, TimedOut: true, Millis: 600_000},
			"setup failed: npm ci (timed out after 10m00s)", ""},
		{rules.SetupRan{Command: "copying files", Exit: -1}, "setup failed: copying files", ""},
	} {
		if text, detail := d.Line(eventAbout(t, "SetupRan", "T1", "", tt.ran)); text != tt.text ||
			detail != tt.detail {
			t.Errorf("%q, %q; want %q, %q", text, detail, tt.text, tt.detail)
		}
	}
}

func TestTurnSignalsSayWhy(t *testing.T) {
	e := eventAbout(t, "TurnSignalHeard", "", "",
		rules.TurnSignalHeard{Run: "run-1", Tree: "oracle", Turn: 1, Signal: "need_turn",
			Reason: "the search failed"})
	if text, detail := (&rules.Describer{State: &rules.State{}}).Line(
		e); text != "tree oracle says need turn" || detail != "the search failed" {
		t.Errorf("%q, %q", text, detail)
	}
}

// The line of a turn signal is about the task of the agent that played the tree.
func TestTurnSignalsNameTheTask(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5}, planned("T1", "count"))
	p.check("B-1")
	p.start(signalbox.RoleDeveloper, "T1")
	for actor, want := range map[string]string{p.held["T1"].Session: "T1", "ann": ""} {
		e := eventAbout(t, "TurnSignalHeard", "", "",
			rules.TurnSignalHeard{Run: "run-1", Tree: "agent", Turn: 1, Signal: "need_turn"})
		e.Actor = actor
		reporter := reporter{zone: time.UTC, standing: rules.StandingWorking}
		if story := reporter.reports(p.s, []signalbox.Event{*e}, nil); len(story) == 0 ||
			story[0].work != want {
			t.Errorf("%s: %+v, want %q", actor, story, want)
		}
	}
}

func TestLastLineOfWhatACheckPrinted(t *testing.T) {
	b := boxWithPlan(t)
	digest, err := b.Engine.PutBlob(t.Context(), strings.NewReader("ok a\nok c\nFAIL b\n\n"))
	must.Succeed(t, err)
	rows := []rules.CheckRow{{Check: "test", Output: digest},
		{Check: "gone", Output: signalbox.Hash{9}}, {Check: "good", Output: signalbox.Hash{8},
			Passed: true}}
	reporter := newReporter(b)
	lastLines := reporter.lastLines([]signalbox.Event{*eventAbout(t, "ChecksRan", "T1", "",
		rules.ChecksRan{Rows: rows})})
	if len(lastLines) != 2 || lastLines[digest] != "FAIL b" || lastLines[signalbox.Hash{9}] != "" {
		t.Errorf("%v", lastLines)
	}
}

func TestPreviewOfAStream(t *testing.T) {
	stream := `{"type":"system","subtype":"init"}` + "\n" +
		`{"type":"assistant","message":{"content":[{"type":"text","text":"I am done!"}]}}` + "\n" +
		`{"type":"resu`
	for preview, want := range map[string]string{stream: "I am done!", "I am\ndone!": "I am\ndone!",
		`{"type":"system","subty`: ""} {
		if got := inspect.LastActivity(preview); got != want {
			t.Errorf("%q: %q, want %q", preview, got, want)
		}
	}
}

func TestOutcomeJSON(t *testing.T) {
	b := boxWithPlan(t)
	asking := rules.Status{Standing: rules.StandingAsking, Tasks: 3, Completed: 1,
		Questions: []string{"Q-1"}, Approvals: []string{"T2"},
		Reasons: []string{"T1 waits\u202e"}}
	complete := rules.Status{Standing: rules.StandingComplete, Tasks: 3, Completed: 3}
	for _, tt := range []struct {
		outcome     rules.Status
		interrupted bool
		want        string
	}{
		{asking, false, `{"run":"asking","tasks":3,"completed":1,"questions":["Q-1"],"approvals":["T2"],"reasons":["T1 waits\u202e"]}`},
		{asking, true, `{"run":"interrupted","tasks":3,"completed":1,"questions":["Q-1"],"approvals":["T2"],"reasons":["T1 waits\u202e"]}`},
		{complete, true, `{"run":"complete","tasks":3,"completed":3,"questions":[],"approvals":[],"reasons":[]}`},
		{rules.Status{}, true,
			`{"run":"interrupted","tasks":1,"completed":0,"questions":[],"approvals":[],"reasons":[]}`},
	} {
		var out strings.Builder
		if err := OutcomeJSON(&out, b, tt.outcome, tt.interrupted); err != nil ||
			out.String() != tt.want+"\n" {
			t.Errorf("%s%v, want %s", &out, err, tt.want)
		}
	}
	if err := OutcomeJSON(closedPipe{}, b, complete, false); err == nil {
		t.Error("no error of a closed pipe")
	}
}

func TestOutcomeWithoutAPlan(t *testing.T) {
	b := boxWithPlan(t)
	var words strings.Builder
	if err := Outcome(&words, b, rules.Status{Standing: rules.StandingEmpty}, playBegins,
		0); err != nil || words.String() != "\n"+noPlan+"\n" {
		t.Errorf("%q, %v", &words, err)
	}
}

func TestTimeIsWhatAgentsWorked(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5}, planned("T1", "count"))
	p.check("B-1")
	p.start(signalbox.RoleDeveloper, "T1")
	p.say("T1", "divine_clarification", rules.SignalFields{Summary: "how many?"})
	p.now = p.now.Add(time.Hour) // until somebody answers
	p.do(rules.AnswerQuestion{Question: "Q-1", Answer: "eight", Actor: "ann"})
	p.develop("T1")
	w, _ := p.s.Work("T1")
	if effort := inspect.NewEffort(w); effort.Attempts != 2 || effort.AgentSeconds != 4 {
		t.Errorf("%+v", effort)
	}
}

func TestWaitsForWhatIsCancelled(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5}, planned("T1", "count"), planned("T2", "show", "T1"))
	p.check("B-1")
	p.do(rules.Order{What: rules.OrderCancel, Work: "T1", Reason: "no", Actor: "ann"})
	v := p.look(nil)
	if i := slices.IndexFunc(v.lanes, func(l lane) bool { return l.id == "T2" }); i < 0 ||
		v.lanes[i].note != "T1 (cancelled)" {
		t.Errorf("%+v", v.lanes)
	}
}

func TestTableShowsApprovals(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5, ApproveMerge: true}, planned("T1", "count"))
	p.check("B-1")
	p.develop("T1")
	p.start(signalbox.RoleCritic, "T1")
	p.say("T1", "review_passed", rules.SignalFields{})
	p.start(signalbox.RoleAuditor, "T1")
	p.say("T1", "audit_passed", rules.SignalFields{})
	var words strings.Builder
	writeTasks(&words, p.s, 0)
	if !strings.Contains(words.String(), "T1    needs approval  3 ") {
		t.Error(&words)
	}
}

func TestPlainLinesWithoutAPlan(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5})
	if text := plainLines(p); !strings.HasSuffix(text.String(), "counter: "+noPlan+"\n") {
		t.Error(text)
	}
}

func TestWorkByHandWithoutAPlan(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5})
	p.do(rules.OpenWork{Work: "w1", Actor: "ann"})
	p.do(rules.OpenWork{Work: "w2", Phase: signalbox.PhaseCIPending, Actor: "ann"})
	const want = "no plan; 2 work items opened by hand, 1 waiting for checks"
	if text := plainLines(p); !strings.Contains(text.String(), "counter: "+want+"\n") {
		t.Error(text)
	}
	if v := p.look(nil); v.withoutPlan != want {
		t.Error(v.withoutPlan)
	}
}

// A setup command runs in every worktree, and that it passed is said once, until it fails.
func TestSetupIsReportedOnce(t *testing.T) {
	r := newReporter(nil)
	var got []string
	for i, passed := range []bool{true, true, false, false, true, true} {
		e := eventAbout(t, "SetupRan", "T1", "", rules.SetupRan{Command: "npm ci", Passed: passed,
			Exit: 1})
		for _, line := range r.reports(&rules.State{}, []signalbox.Event{*e}, nil) {
			if strings.HasPrefix(line.text, "setup") {
				got = append(got, fmt.Sprint(i))
			}
		}
	}
	if strings.Join(got, " ") != "0 2 3 4" {
		t.Errorf("reported %v", got)
	}
}

// Agents are not available for reasons, some until a time.
func TestUnavailableAgents(t *testing.T) {
	until := time.Date(2026, 3, 1, 14, 30, 5, 0, time.UTC)
	for _, tt := range []struct {
		event rules.AgentUnavailable
		want  string
	}{
		{rules.AgentUnavailable{Agent: "limited", Cause: rules.FailRateLimit, Until: until},
			"limited is not available until 14:30:05 (rate limit)"},
		{rules.AgentUnavailable{Agent: "claude", Cause: rules.FailRateLimit, Until: until,
			Next: "codex"}, "codex takes over from claude until 14:30 (rate limit)"},
		{rules.AgentUnavailable{Agent: "claude", Cause: rules.FailServer, Until: until},
			"claude is not available until 14:30:05 (no answer from its server)"},
		{rules.AgentUnavailable{Agent: "claude", Cause: rules.FailServer},
			"claude is not available (no answer from its server)"},
	} {
		if text, _ := (&rules.Describer{State: &rules.State{}, Zone: time.UTC}).Line(eventAbout(t,
			rules.TypeAgentUnavailable, "", "", tt.event)); text != tt.want {
			t.Errorf("%q, want %q", text, tt.want)
		}
	}
	if got, want := standingLine(rules.Status{Standing: rules.StandingLimited, Wake: until,
		Outage: "claude"}, 0, time.UTC),
		"waiting: no answer from the server of claude: it is tried again at 14:30:05"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestConflictsSayWhere(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5}, planned("T1", "count"), planned("T2", "count"))
	p.check("B-1")
	p.start(signalbox.RoleDeveloper, "T1")
	developer := p.held["T1"].Session
	p.say("T1", "ready_for_review", rules.SignalFields{})
	p.start(signalbox.RoleCI, "T1")
	ci := p.held["T1"].Session
	many := strings.Split("a b c d e f g", " ")
	for _, tt := range []struct {
		session string
		found   rules.ConflictFound
		want    string
	}{
		{ci, rules.ConflictFound{Files: []string{"a", "b"}},
			"sent back: it conflicts with the base in a, b"},
		{ci, rules.ConflictFound{Files: many, Unresolved: many[:1]},
			"sent back: conflict markers are left in a"},
		{ci, rules.ConflictFound{Files: many},
			"sent back: it conflicts with the base in a, b, c, d, e and 2 more"},
		{developer, rules.ConflictFound{Files: []string{"a"}, Draft: "d"},
			"developer gets conflicts with the base in a"},
		{developer, rules.ConflictFound{}, ""},
	} {
		e := eventAbout(t, rules.TypeConflictFound, "T1", tt.session, tt.found)
		if text, detail := (&rules.Describer{State: p.s}).Line(e); text != tt.want || detail != "" {
			t.Errorf("%q, %q; want %q", text, detail, tt.want)
		}
	}
	release := eventAbout(t, rules.TypeLeaseReleased, "T1", ci,
		rules.LeaseReleased{Reason: "conflict"})
	if text, _ := (&rules.Describer{State: p.s}).Line(release); text != "" {
		t.Errorf("the end of the lease is shown too: %q", text)
	}
}
