package rules

import (
	"fmt"
	"testing"
	"time"

	"signalbox"
)

// TestHeartbeat: one event renews the leases of checks and merges, and only those that are live.
func TestHeartbeat(t *testing.T) {
	const short = 45 * time.Second
	p := policy()
	p.Checks = 3
	b := based(t, p, todo("t1"), todo("t2"), todo("t3"), todo("t4"))
	dispatch := func(role signalbox.Role) Answer {
		c := b.dispatchOf(role)
		c.Short = short
		return b.do(c)
	}
	for _, work := range []string{"t1", "t2", "t3"} {
		b.ready(work)
	}
	one, two, three := dispatch(signalbox.RoleCI), dispatch(signalbox.RoleCI),
		dispatch(signalbox.RoleCI)
	developer := dispatch(signalbox.RoleDeveloper)
	for _, a := range []Answer{one, two, three} {
		if !a.Lease.Expires.Equal(b.now.Add(short)) {
			t.Errorf("the lease of a check expires at %s", a.Lease.Expires)
		}
	}
	if !developer.Lease.Expires.Equal(b.now.Add(signalbox.DefaultLeaseTTL)) {
		t.Errorf("the lease of a developer expires at %s", developer.Lease.Expires)
	}
	b.do(Release{Work: two.Work, Session: two.Session, Epoch: two.Lease.Epoch})
	beat := Heartbeat{TTL: short, Actor: "crew",
		Epochs: []uint64{three.Lease.Epoch, one.Lease.Epoch, two.Lease.Epoch, developer.Lease.Epoch,
			one.Lease.Epoch, 1}}
	if d := b.try(beat); len(d.Events) > 0 { // nothing is extended
		t.Errorf("at once: %v", d.Events)
	}
	if d := b.try(Heartbeat{TTL: time.Hour, Epochs: []uint64{developer.Lease.Epoch},
		Actor: "crew"}); len(d.Events) > 0 {
		t.Errorf("the lease of an agent: %v", d.Events)
	}
	b.pass(15 * time.Second)
	d := b.decide(beat)
	wantEvents(t, d, fmt.Sprintf(`LeasesRenewed {"epochs":[%d,%d],"expires":%q}`, one.Lease.Epoch,
		three.Lease.Epoch, b.now.Add(short).Format(time.RFC3339)))
	for _, a := range []Answer{one, three} {
		if got := b.work(a.Work).Lease.Expires; !got.Equal(b.now.Add(short)) {
			t.Errorf("%s expires at %s", a.Work, got)
		}
	}

	// A heartbeat that comes too late renews nothing, and others can have the work.
	b.pass(short)
	wantTypes(t, b.decide(beat), "LeaseExpired "+one.Work, "LeaseExpired "+three.Work)
	if again := dispatch(signalbox.RoleCI); again.Lease.Epoch <= three.Lease.Epoch {
		t.Errorf("the next lease has epoch %d", again.Lease.Epoch)
	}
	b.refuses(Heartbeat{Epochs: []uint64{1}, TTL: time.Millisecond, Actor: "crew"},
		signalbox.CodeUsage)
}
