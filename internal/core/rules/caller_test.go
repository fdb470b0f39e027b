package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// asClient is a caller over MCP.
func asClient(identity, secret string) *Caller {
	return &Caller{Identity: identity, Secret: HashSecret(secret)}
}

// clientClaim is a claim of an MCP client.
func clientClaim(work string, role signalbox.Role, session, identity, secret string) Claim {
	return Claim{Work: work, Role: role, Session: session, Actor: identity, Lease: "L-" + session,
		Secret: HashSecret(secret), Caller: asClient(identity, "")}
}

// held returns a box in which the client ann develops "held" as session S under epoch 3, with the
// secret "right".
func held(t failer) *box {
	b := newBox(t)
	b.open("held", signalbox.PhaseImplementation)
	b.do(clientClaim("held", "developer", "S", "ann", "right"))
	return b
}

const wrongSecret = "wrong secret: session 'S' needs the secret that its claim returned"

// Everything that is done under a lease needs its secret, unless an operator does it.
func TestSecretIsNeeded(t *testing.T) {
	signal := exit(signalbox.PhaseImplementation, signalbox.ExitCompleted)
	commands := map[string]func(*Caller) Command{
		"renew":      func(c *Caller) Command { return Renew{Work: "held", Session: "S", Epoch: 3, TTL: time.Hour, Caller: c} },
		"release":    func(c *Caller) Command { return Release{Work: "held", Session: "S", Epoch: 3, Caller: c} },
		"agent_exit": func(c *Caller) Command { return Exit{Session: "S", Epoch: 3, Signal: signal, Caller: c} },
	}
	for said, command := range commands {
		for name, caller := range map[string]*Caller{
			"no secret":      asClient("eve", ""),
			"another secret": asClient("eve", "wrong"),
			"the hash as the secret": {Identity: "eve",
				Secret: HashSecret(HashSecret("right").String())},
			"no identity, no secret":   {},
			"the holder without it":    asClient("ann", ""),
			"the secret of another":    asClient("eve", "right"),
			"the holder, wrong secret": asClient("ann", "Right"),
		} {
			t.Run(said+" with "+name, func(t *testing.T) {
				b := held(t)
				before := *b.work("held")
				actor := "unknown"
				if caller.Identity != "" {
					actor = caller.Identity
				}
				d := b.try(command(caller))
				wantRefused(t, d, refused{Code: signalbox.CodeFailed, Msg: wrongSecret,
					Reason: signalbox.ReasonWrongSecret},
					fmt.Sprintf(`SignalRefused {"said":"%s","reason":"wrong_secret","detail":"%s","epoch":3,"count":1}`, said, wrongSecret))
				if d.Events[0].Actor != actor {
					t.Errorf("the refusal names %s, want %s", d.Events[0].Actor, actor)
				}
				if after := *b.work("held"); after.Phase != before.Phase ||
					after.Lease != before.Lease {
					t.Errorf("the work is now %+v", after)
				}
				wantEvents(t, Decide(b.s, b.now, command(caller))) // it is recorded once
			})
		}
		for name, caller := range map[string]*Caller{"an operator": nil,
			"the holder": asClient("ann", "right"), "its process": {Secret: HashSecret("right")}} {
			t.Run(said+" by "+name, func(t *testing.T) {
				held(t).do(command(caller))
			})
		}
	}
}

// A line signal needs the secret too.
func TestSignalsNeedTheSecret(t *testing.T) {
	b := deliver(t, policy(), PlanTask{ID: "T1"})
	epoch := b.do(clientClaim("T1", "developer", "S", "ann", "right")).Lease.Epoch
	report := ReportSignal{Session: "S", Epoch: epoch, Signal: signalbox.NameReadyForReview,
		Named: "T1"}
	for _, caller := range []*Caller{{}, asClient("eve", ""), asClient("eve", "right"),
		asClient("ann", "wrong")} {
		report.Caller = caller
		if d := b.try(report); refusedBy(d.Err) == nil ||
			refusedBy(d.Err).Reason != signalbox.ReasonWrongSecret {
			t.Errorf("%+v: %v", caller, d.Err)
		}
	}
	if w := b.work("T1"); w.Phase != signalbox.PhaseImplementation || w.Lease == nil {
		t.Errorf("the work is in %s", w.Phase)
	}
	report.Caller = asClient("ann", "right")
	if got := b.do(report).Phase; got != signalbox.PhaseCIPending {
		t.Errorf("with the secret it is in %s", got)
	}
}

// Repeating a signal that was accepted needs the secret as well: the answer is for its sender.
func TestRepeatedExitNeedsTheSecret(t *testing.T) {
	b := held(t)
	c := Exit{Session: "S", Epoch: 3, Signal: exit(signalbox.PhaseImplementation,
		signalbox.ExitCompleted), Caller: asClient("ann", "right")}
	b.do(c)
	c.Caller = asClient("eve", "")
	if d := b.try(c); d.Err == nil || d.Answer.Completed != nil {
		t.Errorf("answered with %+v", d.Answer)
	}
	c.Caller = asClient("ann", "right")
	if answer := b.do(c); !answer.Repeated {
		t.Errorf("answer %+v", answer)
	}
}

// A caller that is the session is told about a stale lease; any other is not, and cannot write
// refusals in its name.
func TestStaleLeaseOfACaller(t *testing.T) {
	b := held(t)
	c := Renew{Work: "held", Session: "S", Epoch: 99, Caller: asClient("ann", "right")}
	if got := refusedBy(b.try(c).Err); got.Reason != signalbox.ReasonStaleLease {
		t.Errorf("the holder gets %+v", got)
	}
	c.Caller = asClient("eve", "")
	if got := refusedBy(b.try(c).Err); got.Reason != signalbox.ReasonWrongSecret {
		t.Errorf("another gets %+v", got)
	}
}

// Only a caller with one of its secrets can claim for a session that exists.
func TestClaimForAnotherSession(t *testing.T) {
	b := held(t)
	b.open("more", signalbox.PhaseImplementation)
	for _, work := range []string{"held", "more", ""} {
		c := clientClaim(work, "developer", "S", "ann", "new")
		wantRefused(t, b.try(c),
			refused{Code: signalbox.CodeFailed, Msg: "wrong secret: session 'S' already exists"})
	}
	c := clientClaim("held", "developer", "S", "ann", "new")
	c.Caller.Secret = HashSecret("right")
	if answer := b.do(c); !answer.Repeated || answer.Lease.Epoch != 3 {
		t.Errorf("answer %+v", answer)
	}
	c.Work = "more"
	if answer := b.do(c); answer.Repeated {
		t.Errorf("answer %+v", answer)
	}
}

// The same claim again, because its outcome was unknown, gets the same lease.
func TestClaimAgain(t *testing.T) {
	b := held(t)
	c := clientClaim("", "developer", "S", "ann", "right")
	if answer := b.do(c); !answer.Repeated || answer.Lease.Epoch != 3 {
		t.Errorf("answer %+v", answer)
	}
}

// A lease without a secret, which no program grants any more, is of no use to a caller.
func TestLeaseWithoutASecret(t *testing.T) {
	b := newBox(t)
	b.open("held", signalbox.PhaseImplementation)
	epoch := b.claim("held", "S")
	for _, caller := range []*Caller{{}, asClient("ann", ""), asClient("ann", "any")} {
		if d := b.try(Renew{Work: "held", Session: "S", Epoch: epoch, TTL: time.Hour,
			Caller: caller}); d.Err == nil {
			t.Errorf("%+v renews it", caller)
		}
	}
}

// A lease of an older log works by session and epoch until it ends.
func TestLeaseOfOlderRules(t *testing.T) {
	b := newBox(t)
	rulesUpgraded(b) // S-1 ended
	openedUnder(b, 2)
	for _, e := range []*signalbox.Event{
		b.event("w", "", WorkOpened{Phase: "IMPLEMENTATION"}),
		b.event("w", "S", LeaseGranted{Lease: "L", Role: "developer",
			Expires: b.now.Add(time.Minute)}),
	} {
		e.Seq = b.s.Seq() + 1
		must.Succeed(t, b.s.Apply(e))
		b.log = append(b.log, *e)
	}
	for range 2 { // the first renewal upgrades the log
		b.pass(time.Second)
		b.do(Renew{Work: "w", Session: "S", Epoch: 3, TTL: time.Hour, Caller: asClient("ann", "")})
	}
	b.do(Exit{Session: "S", Epoch: 3, Signal: exit(signalbox.PhaseImplementation,
		signalbox.ExitCompleted), Caller: asClient("ann", "")})
	b.open("v", signalbox.PhaseImplementation)
	epoch := b.claim("v", "S")
	if d := b.try(Renew{Work: "v", Session: "S", Epoch: epoch, TTL: time.Hour,
		Caller: asClient("ann", "")}); d.Err == nil {
		t.Error("a lease of the newer rules works without a secret")
	}
}

// Callers cannot be signalbox itself.
func TestSystemRolesOfCallers(t *testing.T) {
	b := newBox(t)
	b.open("w", signalbox.PhaseCIPending)
	for _, work := range []string{"w", ""} {
		wantRefused(t, b.try(clientClaim(work, "ci", "S", "ann", "s")),
			refused{Code: signalbox.CodeFailed,
				Msg: "role 'ci' is signalbox itself, so that no agent decides that its own work passed"})
	}
	if d := b.try(clientClaim("w", "merger", "S", "ann", "s")); d.Err == nil {
		t.Error("a client is the merger")
	}
	if d := b.try(clientClaim("w", "developer", "S", "", "s")); d.Err == nil {
		t.Error("a client without an identity claims")
	}
	b.do(Claim{Work: "w", Role: "ci", Session: "S", Actor: "op", Lease: "L"})
}

// A caller that developed work cannot review or audit it, not even under another session, after
// another developer, or by claiming whatever is next.
func TestSelfReview(t *testing.T) {
	for _, phase := range []signalbox.Phase{signalbox.PhaseReadyForReview, signalbox.PhaseReview,
		signalbox.PhaseReadyForMerge} {
		t.Run(string(phase), func(t *testing.T) {
			b := held(t)
			// it handed nothing in, but may have written something
			b.do(Release{Work: "held", Session: "S", Epoch: 3})
			b.do(clientClaim("held", "developer", "S2", "bob", "s"))
			b.do(Exit{Session: "S2", Signal: exit(signalbox.PhaseImplementation,
				signalbox.ExitCompleted)})
			for b.work("held").Phase != phase {
				reached := b.work("held").Phase
				session := "op-" + string(reached)
				b.claim("held", session)
				b.do(Exit{Session: session, Signal: exit(reached, signalbox.ExitCompleted)})
			}
			role := phase.ClaimableBy()
			for _, identity := range []string{"ann", "bob"} {
				d := b.try(clientClaim("held", role, "R-"+identity, identity, "s"))
				wantRefused(t, d, refused{Code: signalbox.CodeFailed,
					Msg: fmt.Sprintf("'%s' developed work 'held' and cannot be its %s", identity,
						role)})
				if hint := d.Err.(*signalbox.Error).Hint; !strings.Contains(hint,
					"mcp.allow_self_review") {
					t.Errorf("hint %q", hint)
				}
				next := b.try(clientClaim("", role, "R-"+identity, identity, "s"))
				if next.Err == nil {
					t.Errorf("%s gets it as the next work", identity)
				}
			}
			allowed := clientClaim("held", role, "R", "ann", "s")
			allowed.SelfReview = true
			if d := Decide(b.s, b.now, allowed); d.Err != nil {
				t.Errorf("although it is allowed: %v", d.Err)
			}
			if d := Decide(b.s, b.now, Claim{Work: "held", Role: role, Session: "O", Actor: "ann",
				Lease: "L"}); d.Err != nil {
				t.Errorf("an operator: %v", d.Err)
			}
			b.do(clientClaim("", role, "R", "carol", "s"))
		})
	}
}

// The next work for a reviewer is the first that it did not develop, also among those whose lease
// has expired.
func TestNextSkipsOwnWork(t *testing.T) {
	b := newBox(t)
	for _, work := range []string{"own", "other"} {
		b.open(work, signalbox.PhaseImplementation)
	}
	b.do(clientClaim("own", "developer", "S1", "ann", "s"))
	b.do(clientClaim("other", "developer", "S2", "bob", "s"))
	for _, session := range []string{"S1", "S2"} {
		b.do(Exit{Session: session, Signal: exit(signalbox.PhaseImplementation,
			signalbox.ExitCompleted)})
	}
	for _, work := range []string{"own", "other"} {
		b.claim(work, "ci-"+work)
		b.do(Exit{Session: "ci-" + work,
			Signal: exit(signalbox.PhaseCIPending, signalbox.ExitCompleted)})
		b.claim(work, "R-"+work)
	}
	b.pass(signalbox.DefaultLeaseTTL)
	if got := b.do(clientClaim("", "critic", "R", "ann", "s")).Work; got != "other" {
		t.Errorf("ann reviews %s", got)
	}
}

// The secret is not in anything that is stored or shown.
func TestSecretIsNotKept(t *testing.T) {
	b := newBox(t)
	b.open("w", signalbox.PhaseImplementation)
	const secret = "do-not-keep-this-anywhere"
	b.do(clientClaim("w", "developer", "S", "ann", secret))
	b.try(Renew{Work: "w", Session: "S", Epoch: 3, TTL: time.Hour, Caller: asClient("ann", secret)})
	shown := fmt.Sprintf("%+v %+v", b.work("w").View(b.now), b.work("w").Lease)
	hash := HashSecret(secret).String()
	if strings.Contains(string(b.s.Snapshot()), secret) || strings.Contains(shown, secret) ||
		strings.Contains(shown, hash) {
		t.Error("it is in the snapshot, or its hash is shown")
	}
	if slices.ContainsFunc(b.log,
		func(e signalbox.Event) bool { return strings.Contains(string(e.Data), secret) }) {
		t.Error("it is in the log")
	}
}
