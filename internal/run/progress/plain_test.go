package progress

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/rules"
)

// plainLines returns what the plain display shows of a play.
func plainLines(p *play) *strings.Builder {
	l := &plainDisplay{reporter: reporter{zone: time.UTC, began: p.now,
		standing: rules.StandingWorking}, o: Options{Title: "counter"}}
	var text strings.Builder
	l.write(&text, p.s, nil, nil)
	p.heard = func(events []signalbox.Event) { l.write(&text, p.s, events, nil) }
	return &text
}

func TestPlainLinesOfAWholeRun(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5}, planned("T1", "guard the counter"),
		planned("T2", "count in hexadecimal", "T1"), planned("T3", "document it", "T1"))
	text := plainLines(p)
	p.check("B-1")
	p.start(signalbox.RoleDeveloper, "T1")
	p.hear("T1", "checkpoint", rules.SignalFields{Summary: "writing tests", Percent: 50})
	p.say("T1", "ready_for_review", rules.SignalFields{})
	p.check("T1", "vet")
	p.develop("T1")
	p.start(signalbox.RoleCritic, "T1")
	p.say("T1", "review_failed", rules.SignalFields{Summary: "counter.go:12: not guarded"})
	p.develop("T1")
	p.approve("T1")
	p.start(signalbox.RoleDeveloper, "T2")
	p.say("T2", "divine_clarification",
		rules.SignalFields{Summary: "how many digits?\n\x1b[31mred\u202e"})
	p.develop("T3")
	p.approve("T3")
	p.do(rules.AnswerQuestion{Question: "Q-1", Answer: "eight", Actor: "ann"})
	p.develop("T2")
	p.approve("T2")
	compareGolden(t, "plain-run", text.String())

	var words strings.Builder
	writeTasks(&words, p.s, 0)
	writeTotals(&words, p.s, p.s.Status(p.now), 98*time.Second)
	writeNext(&words, p.s, p.s.Status(p.now))
	compareGolden(t, "outcome-complete", words.String())
}

func TestPlainLinesOfTrouble(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5, ApproveMerge: true,
		Experts: []rules.Expert{{Name: "sqlite"}}}, planned("T1", "guard the counter"),
		planned("T2", "count"), planned("T3", "document it"))
	text := plainLines(p)
	p.redBase("vet", "the check needs the program vet, which is not in the PATH")
	p.do(rules.AnswerQuestion{Question: "Q-1", Answer: "again", Actor: "ann"})
	p.redBase("vet", "the check needs the program vet, which is not in the PATH")
	p.do(rules.AnswerQuestion{Question: "Q-2", Answer: "accept", Actor: "ann"})
	p.start(signalbox.RoleDeveloper, "T1")
	p.say("T1", "unknown", rules.SignalFields{Summary: "**READY_FOR_REVIEW: T1**",
		Advice: "send the line bare"})
	p.say("T1", "unknown", rules.SignalFields{Summary: "I am done!"})
	p.say("T1", "unknown", rules.SignalFields{Summary: "Really."})
	p.start(signalbox.RoleDeveloper, "T1")
	p.hear("T1", "expert_request", rules.SignalFields{Expert: "sqlite", Request: "advice",
		Summary: "which index?"})
	p.start(signalbox.RoleExpert, "X-1")
	p.say("X-1", "expert_advice", rules.SignalFields{})
	a := p.held["T1"]
	p.do(rules.ResumeSession{Session: a.Session, Epoch: a.Lease.Epoch})
	p.say("T1", "infra_blocked", rules.SignalFields{Summary: "the disk is full"})
	p.start(signalbox.RoleRemediation, "R-1")
	p.say("R-1", "remediation_complete", rules.SignalFields{})
	p.check("R-1")
	p.start(signalbox.RoleHealthAuditor, "R-1")
	p.say("R-1", "health_unhealthy", rules.SignalFields{Summary: "still full"})
	p.start(signalbox.RoleRemediation, "R-1")
	p.say("R-1", "remediation_complete", rules.SignalFields{})
	p.check("R-1")
	p.start(signalbox.RoleHealthAuditor, "R-1")
	p.say("R-1", "health_healthy", rules.SignalFields{})
	p.do(rules.Order{What: rules.OrderApprove, Work: "R-1", Actor: "ann"})
	p.merge("R-1")
	p.check("B-2")
	p.start(signalbox.RoleDeveloper, "T1")
	a = p.held["T1"]
	p.do(rules.ReportBranch{Session: a.Session, Epoch: a.Lease.Epoch,
		Expected: "3f2a91c0ffee0000000000000000000000000000",
		Found:    "badbadbad0000000000000000000000000000000"})
	p.do(rules.ObserveBase{Commit: "1111111111000000000000000000000000000000", Actor: "crew"})
	p.do(rules.ObserveBase{Known: "1111111111000000000000000000000000000000",
		Commit: "2222222222000000000000000000000000000000",
		Added:  []string{"2222222 by \x1b[31mhand"}, Dropped: []string{"1111111 start"},
		Actor: "crew"})
	p.do(rules.ReportFailure{Session: a.Session, Epoch: a.Lease.Epoch, Cause: rules.FailTimeout,
		Detail: "no answer in 15m0s"})
	p.check("B-3")
	p.start(signalbox.RoleDeveloper, "T1")
	a = p.held["T1"]
	p.do(rules.ReportFailure{Session: a.Session, Epoch: a.Lease.Epoch, Cause: rules.FailRateLimit,
		Until: p.now.Add(time.Hour)})
	p.do(rules.Order{What: rules.OrderPause, Work: "T2", Reason: "not yet", Actor: "ann"})
	p.do(rules.Order{What: rules.OrderCancel, Work: "T3", Reason: "not needed any more",
		Actor: "ann"})
	compareGolden(t, "plain-trouble", text.String())
}

// A run that must wait says so at once: there may be no event for hours.
func TestPlainLinesOfARunThatWaits(t *testing.T) {
	limit := func(p *play) {
		a := p.held["T1"]
		p.do(rules.ReportFailure{Session: a.Session, Epoch: a.Lease.Epoch,
			Cause: rules.FailRateLimit, Until: p.now.Add(time.Hour)})
	}
	ask := func(p *play) { p.say("T1", "divine_clarification", rules.SignalFields{Summary: "how many?"}) }
	pause := func(p *play) { p.do(rules.Order{What: rules.OrderPause, Actor: "ann"}) }
	const also = "; also paused, end the pause with: signalbox resume\n"
	for _, test := range []struct {
		name       string
		before     []func(*play)
		line, next string // of the run, and of its end
	}{
		{"limited", []func(*play){limit}, "  waiting for a rate limit that ends at ",
			"; signalbox retry ends it now, and restarts what is blocked. Run the same command again then."},
		{"limited and paused", []func(*play){limit, pause}, also,
			"The run is also paused: end the pause with signalbox resume. Run the same command again then."},
		{"asking", []func(*play){ask}, "  waiting for you: Q-1\n", "signalbox answer Q-1 TEXT"},
		{"asking and paused", []func(*play){ask, pause}, "  waiting for you: Q-1" + also,
			"signalbox answer Q-1 TEXT"},
		{"paused", []func(*play){ask, pause, func(p *play) { p.do(rules.AnswerQuestion{Question: "Q-1", Answer: "two", Actor: "ann"}) }},
			"  paused: the run is paused; T1 waits in IMPLEMENTATION for a developer; end the pause with: signalbox resume\n", ""},
	} {
		p := newPlay(t, rules.Policy{Slots: 5}, planned("T1", "guard the counter"))
		p.check("B-1")
		p.start(signalbox.RoleDeveloper, "T1")
		for _, do := range test.before {
			do(p)
		}
		text := plainLines(p)
		if got := text.String(); strings.Count(got, "\n") != 2 ||
			!strings.Contains(got, test.line) {
			t.Errorf("%s: it begins with\n%swant a second line with %q", test.name, got, test.line)
		}
		begun := text.Len()
		p.do(rules.Tell{Work: "T1", Text: "wait", Actor: "ann"})
		if more := text.String()[begun:]; strings.Contains(more, "paused") ||
			strings.Contains(more, "waiting") {
			t.Errorf("%s: it is said again:\n%s", test.name, more)
		}
		var words strings.Builder
		if writeNext(&words, p.s, p.s.Status(p.now)); !strings.Contains(words.String(), test.next) {
			t.Errorf("%s: at the end\n%swant %q", test.name, words.String(), test.next)
		}
	}
}

func TestOutcomeSaysWhatToDo(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5}, planned("T1", "guard the counter"),
		planned("T2", "count\n\u202etwice", "T1"))
	p.check("B-1")
	p.start(signalbox.RoleDeveloper, "T1")
	p.say("T1", "divine_clarification", rules.SignalFields{Summary: "how many digits?"})
	var words strings.Builder
	writeTasks(&words, p.s, 0)
	writeTotals(&words, p.s, p.s.Status(p.now), 98*time.Second)
	writeNext(&words, p.s, p.s.Status(p.now))
	compareGolden(t, "outcome-asking", words.String())
}

func TestOutcomeOfManyTasksListsWhatIsOpen(t *testing.T) {
	p := manyTasks(t, maxTasksPrinted+1)
	var words strings.Builder
	writeTasks(&words, p.s, 0)
	if lines := strings.Count(words.String(), "\n"); lines != maxTasksPrinted+2 {
		t.Errorf("%d lines", lines)
	}
}

// A used-up token window is shown with the time until which work waits, and estimates are marked.
func TestSpendingInWords(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5,
		Window: rules.TokenWindow{Tokens: 1000, Every: 5 * time.Hour}},
		planned("T1", "guard the counter"))
	text := plainLines(p)
	p.check("B-1")
	p.start(signalbox.RoleDeveloper, "T1")
	a := p.held["T1"]
	p.do(rules.EndTurn{Session: a.Session, Epoch: a.Lease.Epoch,
		Turn: rules.Turn{Spent: rules.Spent{Tokens: 1200}, Estimated: true, Interrupted: true,
			Cap: rules.CapWindow}})
	until := p.s.Status(p.now).Wake.Add(time.Minute - 1).UTC().Format("15:04")
	for _, want := range []string{"developer stopped", "the token window is used up",
		"waiting until " + until + ": token window"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	var words strings.Builder
	writeTotals(&words, p.s, p.s.Status(p.now), time.Minute)
	writeNext(&words, p.s, p.s.Status(p.now))
	if !strings.Contains(words.String(), "1.2k tokens (partly estimated)") ||
		!strings.Contains(words.String(), "The token window ends at ") {
		t.Errorf("the end: %s", &words)
	}
	if notices := noticesOf(p.s, p.s.Status(p.now), p.now); len(notices) != 1 ||
		!strings.HasSuffix(notices[0], ": token window") {
		t.Errorf("notices %q", notices)
	}
}

// What an earlier plan needed besides its tasks, and what that cost, is not part of the next plan.
func TestWorksOfPlan(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5}, planned("T1", "count"))
	ids := func() (ids []string) {
		for _, w := range worksOfPlan(p.s) {
			ids = append(ids, w.ID)
		}
		return ids
	}
	if diff := cmp.Diff([]string{"T1", "B-1"}, ids()); diff != "" {
		t.Errorf("the first plan (-want +got):\n%s", diff)
	}
	p.check("B-1")
	p.develop("T1")
	p.approve("T1")
	load := rules.LoadPlan{Plan: signalbox.Hash{2}, Name: "more", ID: "more", Source: "more.md",
		Tasks: []rules.PlanTask{planned("T2", "more")}, Actor: "op"}
	for !p.do(load).Plan.Loaded {
	}
	if diff := cmp.Diff([]string{"T2"}, ids()); diff != "" {
		t.Errorf("the second plan (-want +got):\n%s", diff)
	}
}
