package rules

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// A renewed lease lasts until its new expiry, and keeps its epoch.
func TestRenewedLeaseHolds(t *testing.T) {
	b, epoch := heldBox(t, signalbox.PhaseImplementation)
	b.now = t0.Add(10 * time.Minute)
	b.do(Renew{Work: "w", Session: "S", Epoch: epoch})
	if got := b.work("w").Lease.Expires; !got.Equal(b.now.Add(signalbox.DefaultLeaseTTL)) {
		t.Errorf("the renewed lease ends at %s", got)
	}
	b.now = t0.Add(20 * time.Minute)
	if d := b.try(Expire{}); len(d.Events) != 0 {
		t.Errorf("it expired at its old end: %v", d.Events)
	}
	if got := b.do(Exit{Session: "S", Epoch: epoch,
		Signal: exit("IMPLEMENTATION", "completed")}).Phase; got != "CI_PENDING" {
		t.Errorf("the work is in %s", got)
	}
}

// holding returns a box in which S holds w, S2 held and released it before, and S3 holds another.
func holding(t *testing.T) (b *box, old, live uint64) {
	b = newBox(t)
	b.open("w", signalbox.PhaseImplementation)
	b.open("other", signalbox.PhaseImplementation)
	old = b.claim("w", "S2")
	b.do(Release{Work: "w", Session: "S2", Epoch: old})
	live = b.claim("w", "S")
	b.claim("other", "S3")
	return b, old, live
}

func TestRenewRefusals(t *testing.T) {
	const over = "stale lease: epoch %d of work 'w' is over, epoch %d is live"
	for _, tt := range []struct {
		name  string
		renew Renew
		want  refused
		epoch uint64 // recorded, 0 for nothing
	}{
		{"no such work", Renew{Work: "x", Session: "S", Epoch: 6},
			refused{Code: signalbox.CodeNotFound, Msg: "there is no work 'x'"}, 0},
		{"no such session", Renew{Work: "w", Session: "X", Epoch: 6},
			refused{Code: signalbox.CodeNotFound, Msg: "there is no session 'X'"}, 0},
		{"neither", Renew{Work: "x", Session: "X", Epoch: 6},
			refused{Code: signalbox.CodeNotFound, Msg: "there is no work 'x'"}, 0},
		{"too long", Renew{Work: "w", Session: "S", Epoch: 6, TTL: 25 * time.Hour},
			refused{Code: signalbox.CodeUsage,
				Msg: "a lease cannot last 25h0m0s: the limits are 1s and 24h0m0s"}, 0},
		{"too short", Renew{Work: "w", Session: "S", Epoch: 6, TTL: 1},
			refused{Code: signalbox.CodeUsage,
				Msg: "a lease cannot last 1ns: the limits are 1s and 24h0m0s"}, 0},
		{"an older epoch", Renew{Work: "w", Session: "S2", Epoch: 4},
			refused{Code: signalbox.CodeConflict, Reason: "stale_lease",
				Msg: fmt.Sprintf(over, 4, 6)}, 4},
		{"no epoch", Renew{Work: "w", Session: "S"},
			refused{Code: signalbox.CodeConflict, Reason: "stale_lease",
				Msg: fmt.Sprintf(over, 0, 6)}, 0},
		{"an epoch that never was", Renew{Work: "w", Session: "S", Epoch: 99},
			refused{Code: signalbox.CodeConflict, Reason: "stale_lease",
				Msg: fmt.Sprintf(over, 99, 6)}, 99},
		{"somebody else's", Renew{Work: "w", Session: "S3", Epoch: 6},
			refused{Code: signalbox.CodeConflict, Reason: "stale_lease",
				Msg: "stale lease: epoch 6 of work 'w' does not belong to session 'S3'"}, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, _, live := holding(t)
			before := b.work("w")
			d := b.try(tt.renew)
			var events []string
			if tt.want.Reason != "" {
				events = []string{fmt.Sprintf(
					`SignalRefused {"said":"renew","reason":"stale_lease","detail":"%s","epoch":%d,"count":1}`, tt.want.Msg, tt.epoch)}
				wantAnswer(t, Answer{At: t0, Seq: b.s.Seq(), Work: "w", Phase: "IMPLEMENTATION",
					Session: tt.renew.Session, Lease: b.work("w").Lease}, d.Answer)
			}
			wantRefused(t, d, tt.want, events...)
			if b.work("w") != before || before.Lease.Epoch != live {
				t.Errorf("the work changed: %+v", b.work("w"))
			}
		})
	}
}

func TestStaleAtExpiry(t *testing.T) {
	for name, c := range map[string]func(epoch uint64) Command{
		"renew":   func(epoch uint64) Command { return Renew{Work: "w", Session: "S", Epoch: epoch} },
		"release": func(epoch uint64) Command { return Release{Work: "w", Session: "S", Epoch: epoch} },
		"agent_exit": func(epoch uint64) Command {
			return Exit{Session: "S", Epoch: epoch, Signal: exit("REVIEW", "completed")}
		},
		"no epoch": func(uint64) Command { return Exit{Session: "S", Signal: exit("REVIEW", "completed")} },
	} {
		t.Run(name, func(t *testing.T) {
			b, epoch := heldBox(t, signalbox.PhaseReview)
			b.now = b.work("w").Lease.Expires
			said := name
			if name == "no epoch" {
				said = "agent_exit"
			}
			const msg = "stale lease: epoch 3 of work 'w' is over, and no session holds the work"
			wantRefused(t, b.try(c(epoch)),
				refused{Code: signalbox.CodeConflict, Reason: "stale_lease", Msg: msg},
				`LeaseExpired {"epoch":3}`,
				fmt.Sprintf(`SignalRefused {"said":"%s","reason":"stale_lease","detail":"%s","epoch":3,"count":1}`, said, msg))
			if w := b.work("w"); w.Phase != signalbox.PhaseReview || w.Lease != nil {
				t.Errorf("the work is now %+v", w)
			}
		})
	}
}

// A successor fences the old holder out, whatever the old holder says.
func TestStaleAfterSuccessor(t *testing.T) {
	b := newBox(t)
	b.open("w", signalbox.PhaseReview)
	old := b.claim("w", "S")
	b.now = b.now.Add(time.Hour)
	live := b.claim("w", "S2")
	msg := fmt.Sprintf("stale lease: epoch %d of work 'w' is over, epoch %d is live", old, live)
	d := b.try(Exit{Session: "S", Epoch: old, Signal: exit("REVIEW", "completed")})
	wantRefused(t, d, refused{Code: signalbox.CodeConflict, Reason: "stale_lease", Msg: msg},
		fmt.Sprintf(`SignalRefused {"said":"agent_exit","reason":"stale_lease","detail":"%s","epoch":%d,"count":1}`, msg, old))
	wantAnswer(t, Answer{At: b.now, Seq: b.s.Seq(), Work: "w", Phase: "REVIEW", Session: "S",
		Lease: b.work("w").Lease}, d.Answer)
	for _, epoch := range []uint64{live, 77} {
		wantRefused(t, b.try(Exit{Session: "S", Epoch: epoch, Signal: exit("REVIEW", "completed")}),
			refused{Code: signalbox.CodeConflict, Reason: "stale_lease",
				Msg: fmt.Sprintf("stale lease: session 'S' never held epoch %d", epoch)})
	}
	if w := b.work("w"); w.Phase != signalbox.PhaseReview || w.Lease.Epoch != live {
		t.Errorf("the work is now %+v", w)
	}
	b.do(Exit{Session: "S2", Signal: exit("REVIEW", "completed")})
}

func TestReleaseByHolder(t *testing.T) {
	b, epoch := heldBox(t, signalbox.PhaseImplementation)
	b.now = b.now.Add(time.Minute)
	d := b.try(Release{Work: "w", Session: "S", Epoch: epoch, Reason: "out of tokens"})
	wantEvents(t, d, `LeaseReleased {"epoch":3,"reason":"out of tokens"}`)
	wantAnswer(t, Answer{At: b.now, Seq: epoch + 1, Work: "w", Phase: "IMPLEMENTATION"}, d.Answer)
	if e := d.Events[0]; e.Session != "S" || e.Actor != "a-S" {
		t.Errorf("released by session %q, actor %q", e.Session, e.Actor)
	}
	b.claim("w", "S2")
	again := b.try(Release{Work: "w", Session: "S", Epoch: epoch})
	wantEvents(t, again)
	if again.Err != nil || !again.Answer.Repeated || again.Answer.Seq != epoch+1 ||
		again.Answer.Lease != nil {
		t.Errorf("again: %+v, %v", again.Answer, again.Err)
	}
	if b.work("w").Lease == nil {
		t.Error("the successor lost its lease")
	}
}

func TestReleaseRefusals(t *testing.T) {
	for _, tt := range []struct {
		name    string
		release Release
		want    refused
		epoch   uint64
	}{
		{"no such work", Release{Work: "x", Session: "S", Epoch: 6},
			refused{Code: signalbox.CodeNotFound, Msg: "there is no work 'x'"}, 0},
		{"no such session", Release{Work: "w", Session: "X", Epoch: 6},
			refused{Code: signalbox.CodeNotFound, Msg: "there is no session 'X'"}, 0},
		{"control characters", Release{Work: "w", Session: "S", Epoch: 6, Reason: "a\x1b[2J"},
			refused{Code: signalbox.CodeUsage,
				Msg: "invalid reason: must not contain control characters"}, 0},
		{"somebody else's", Release{Work: "w", Session: "S3", Epoch: 6},
			refused{Code: signalbox.CodeConflict, Reason: "stale_lease",
				Msg: "stale lease: epoch 6 of work 'w' does not belong to session 'S3'"}, 6},
		{"another epoch", Release{Work: "w", Session: "S", Epoch: 4},
			refused{Code: signalbox.CodeConflict, Reason: "stale_lease",
				Msg: "stale lease: epoch 4 of work 'w' is over, epoch 6 is live"}, 4},
		{"without an actor", Release{Work: "w", Reason: "r"},
			refused{Code: signalbox.CodeUsage, Msg: "actor: an id must not be empty"}, 0},
		{"by an operator without a reason", Release{Work: "w", Actor: "op", Reason: " \n"},
			refused{Code: signalbox.CodeUsage, Msg: "the reason is empty"}, 0},
		{"by an operator, no such work", Release{Work: "x", Actor: "op", Reason: "r"},
			refused{Code: signalbox.CodeNotFound, Msg: "there is no work 'x'"}, 0},
		{"by an operator, free", Release{Work: "free", Actor: "op", Reason: "r"},
			refused{Code: signalbox.CodeFailed, Msg: "no session holds work 'free'"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, _, live := holding(t)
			b.open("free", signalbox.PhaseDraft)
			var events []string
			if tt.want.Reason != "" {
				events = []string{fmt.Sprintf(
					`SignalRefused {"said":"release","reason":"stale_lease","detail":"%s","epoch":%d,"count":1}`, tt.want.Msg, tt.epoch)}
			}
			wantRefused(t, b.try(tt.release), tt.want, events...)
			if lease := b.work("w").Lease; lease == nil || lease.Epoch != live {
				t.Errorf("the lease is now %+v", lease)
			}
		})
	}
}

func TestReleaseByOperator(t *testing.T) {
	b, epoch := heldBox(t, signalbox.PhaseImplementation)
	d := b.try(Release{Work: "w", Actor: "op", Reason: "it hangs"})
	wantEvents(t, d, `LeaseReleased {"epoch":3,"reason":"it hangs"}`)
	wantAnswer(t, Answer{At: t0, Seq: epoch + 1, Work: "w", Phase: "IMPLEMENTATION"}, d.Answer)
	if e := d.Events[0]; e.Session != "S" || e.Actor != "op" {
		t.Errorf("recorded of session %q, by %q", e.Session, e.Actor)
	}
	if tenure := b.work("w").Tenures()[0]; tenure.Ended != EndedReleased || tenure.Actor != "a-S" {
		t.Errorf("tenure: %+v", tenure)
	}
	wantRefused(t, b.try(Exit{Session: "S", Epoch: epoch,
		Signal: exit("IMPLEMENTATION", "completed")}),
		refused{Code: signalbox.CodeConflict, Reason: "stale_lease",
			Msg: "stale lease: epoch 3 of work 'w' is over, and no session holds the work"},
		`SignalRefused {"said":"agent_exit","reason":"stale_lease","detail":"stale lease: epoch 3 of work 'w' is over, and no session holds the work","epoch":3,"count":1}`)
	if again := b.do(Release{Work: "w", Session: "S", Epoch: epoch}); !again.Repeated ||
		again.Seq != epoch+1 {
		t.Errorf("the holder's own release is then answered with %+v", again)
	}
}

// A lease names the machine of the crew, if there are several.
func TestLeaseNamesTheMachine(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	d := b.decide(Dispatch{Roles: []signalbox.Role{signalbox.RoleDeveloper}, Session: "s-9",
		Actor: "crew", Lease: "l-9", Machine: "alpha\x1b" + strings.Repeat("x", 200)})
	var granted LeaseGranted
	for _, e := range d.Events {
		if e.Type == TypeLeaseGranted {
			must.Succeed(t, json.Unmarshal(e.Data, &granted))
		}
	}
	if want := "alpha " + strings.Repeat("x", maxMachine-6); granted.Machine != want {
		t.Errorf("machine %q, want %q", granted.Machine, want)
	}
}
