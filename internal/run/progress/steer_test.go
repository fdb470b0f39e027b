package progress

import (
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
)

// What an operator sends agents is shown with who sent it, once.
func TestPlainLinesOfSteering(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5, ApproveMerge: true}, planned("T1", "guard the counter"))
	text := plainLines(p)
	p.check("B-1")
	p.start(signalbox.RoleDeveloper, "T1")
	p.do(rules.Rework{Work: "T1", Text: "use a mutex", Actor: "ann"})
	p.start(signalbox.RoleDeveloper, "T1")
	first := p.do(rules.Tell{Work: "T1", Text: "the tests\nare slow", Actor: "ann"})
	a := p.held["T1"]
	p.do(rules.DeliverMessages{Session: a.Session, Epoch: a.Lease.Epoch,
		Messages: []uint64{first.Seq}})
	p.say("T1", "ready_for_review", rules.SignalFields{})
	p.check("T1")
	p.start(signalbox.RoleCritic, "T1")
	p.say("T1", "review_passed", rules.SignalFields{})
	p.start(signalbox.RoleAuditor, "T1")
	p.say("T1", "audit_passed", rules.SignalFields{})
	p.do(rules.Rework{Work: "T1", Text: "the name is wrong", Actor: "bob", Reject: true})
	p.develop("T1")
	p.start(signalbox.RoleCritic, "T1")
	p.say("T1", "review_passed", rules.SignalFields{})
	p.start(signalbox.RoleAuditor, "T1")
	p.do(rules.Tell{Work: "T1", Text: "one", Actor: "ann"})
	p.do(rules.Tell{Work: "T1", Text: "two", Actor: "ann"})
	p.say("T1", "audit_passed", rules.SignalFields{})
	p.do(rules.Order{What: rules.OrderApprove, Work: "T1", Actor: "ann"})
	p.merge("T1")
	for _, want := range []string{"T1   sent back by ann", "use a mutex",
		"T1   message from ann to the developer   the tests are slow\n",
		"T1   developer got your message\n",
		"rejected by bob; sent back", "the name is wrong", "no auditor got your 2 messages"} {
		if strings.Count(text.String(), want) != 1 {
			t.Errorf("%q is not in it once:\n%s", want, text)
		}
	}
	if strings.Contains(text.String(), "stopped") ||
		strings.Contains(text.String(), "human failed") {
		t.Errorf("what is known already is shown:\n%s", text)
	}
}
