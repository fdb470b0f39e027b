package rules

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// claimants are all roles that a claim can name: those of agents and the system's.
func claimants() []signalbox.Role { return append(signalbox.Roles(), signalbox.RoleCI) }

// mayClaim is the table of the specification, written out.
var mayClaim = map[signalbox.Phase]signalbox.Role{
	"DRAFT":            "business-analyst",
	"IMPLEMENTATION":   "developer",
	"CI_PENDING":       "ci",
	"READY_FOR_REVIEW": "critic",
	"REVIEW":           "critic",
	"READY_FOR_MERGE":  "auditor",
}

// reach opens work and brings it to a phase.
func reach(b *box, work string, phase signalbox.Phase) {
	b.t.Helper()
	switch phase {
	case signalbox.PhaseCompleted:
		b.open(work, signalbox.PhaseReadyForMerge)
		b.claim(work, "S-finish")
		b.do(Exit{Session: "S-finish", Signal: exit(signalbox.PhaseReadyForMerge,
			signalbox.ExitCompleted)})
	case signalbox.PhaseBlocked:
		b.open(work, signalbox.PhaseImplementation)
		b.claim(work, "S-block")
		b.do(Exit{Session: "S-block", Signal: exit(signalbox.PhaseImplementation,
			signalbox.ExitBlocked)})
	default:
		b.open(work, phase)
	}
}

func TestClaimByPhaseAndRole(t *testing.T) {
	for _, phase := range signalbox.Phases() {
		for _, role := range claimants() {
			t.Run(string(phase)+"/"+string(role), func(t *testing.T) {
				b := newBox(t)
				reach(b, "w", phase)
				d := b.try(Claim{Work: "w", Role: role, Session: "S", Actor: "A", Lease: "L"})
				may := mayClaim[phase]
				switch {
				case may == role:
					wantGranted(t, b, d, role)
				case !slices.Contains(slices.Collect(maps.Values(mayClaim)), role):
					wantRefused(t, d, refused{Code: signalbox.CodeUsage,
						Msg: fmt.Sprintf("role '%s' cannot claim work", role)})
				case may == "":
					wantRefused(t, d, refused{Code: signalbox.CodeFailed,
						Msg: fmt.Sprintf("work 'w' is %s and cannot be claimed", phase)})
				default:
					wantRefused(t, d, refused{Code: signalbox.CodeFailed,
						Msg: fmt.Sprintf("work 'w' is in %s, which %s cannot claim", phase, role)})
				}
				if got := b.work("w").Phase; got != phase {
					t.Errorf("the claim moved the work to %s", got)
				}
			})
		}
	}
}

func wantGranted(t *testing.T, b *box, d Decision, role signalbox.Role) {
	t.Helper()
	if d.Err != nil {
		t.Fatal(d.Err)
	}
	expires := t0.Add(signalbox.DefaultLeaseTTL)
	wantEvents(t, d, fmt.Sprintf(
		`LeaseGranted {"lease":"L","role":"%s","expires":"2026-03-01T09:15:00Z"}`, role))
	lease := &signalbox.Lease{ID: "L", Epoch: b.s.Seq(), Session: "S", Actor: "A", Role: role, Expires: expires}
	wantAnswer(t, Answer{At: t0, Seq: lease.Epoch, Work: "w", Phase: b.work("w").Phase,
		Session: "S", Lease: lease}, d.Answer)
	if diff := cmp.Diff(lease, b.work("w").Lease); diff != "" {
		t.Errorf("lease (-want +got):\n%s", diff)
	}
	if e := d.Events[0]; e.Work != "w" || e.Session != "S" || e.Actor != "A" {
		t.Errorf("the event is about work %q, session %q, actor %q", e.Work, e.Session, e.Actor)
	}
}

func TestClaimRefusals(t *testing.T) {
	valid := Claim{Work: "w", Role: signalbox.RoleDeveloper, Session: "S2", Actor: "A2",
		Lease: "L2"}
	for _, tt := range []struct {
		name   string
		change func(*Claim)
		want   refused
	}{
		{"no such work", func(c *Claim) { c.Work = "x" },
			refused{Code: signalbox.CodeNotFound, Msg: "there is no work 'x'"}},
		{"held", func(c *Claim) {},
			refused{Code: signalbox.CodeConflict,
				Msg: "work 'w' is held by session 'S' until 2026-03-01T09:15:00Z"}},
		{"session of another role",
			func(c *Claim) { c.Session, c.Actor, c.Role = "S", "a-S", signalbox.RoleCritic },
			refused{Code: signalbox.CodeFailed,
				Msg: "session 'S' is developer 'a-S', not critic 'a-S'"}},
		{"session of another actor", func(c *Claim) { c.Session = "S" },
			refused{Code: signalbox.CodeFailed,
				Msg: "session 'S' is developer 'a-S', not developer 'A2'"}},
		{"no role", func(c *Claim) { c.Role = "" },
			refused{Code: signalbox.CodeUsage, Msg: "role '' cannot claim work"}},
		{"no session", func(c *Claim) { c.Session = "" },
			refused{Code: signalbox.CodeUsage, Msg: "session: an id must not be empty"}},
		{"no actor", func(c *Claim) { c.Actor = "" },
			refused{Code: signalbox.CodeUsage, Msg: "actor: an id must not be empty"}},
		{"no lease id", func(c *Claim) { c.Lease = "" },
			refused{Code: signalbox.CodeUsage, Msg: "lease: an id must not be empty"}},
		{"path as session", func(c *Claim) { c.Session = "a..b" },
			refused{Code: signalbox.CodeUsage, Msg: `session: id "a..b": must not contain '..'`}},
		{"lock as actor", func(c *Claim) { c.Actor = "a.lock" },
			refused{Code: signalbox.CodeUsage,
				Msg: `actor: id "a.lock": must not end in '.lock' or '.'`}},
		{"blank in lease id", func(c *Claim) { c.Lease = "a b" },
			refused{Code: signalbox.CodeUsage,
				Msg: `lease: id "a b": must be letters, digits, '.', '_' and '-', and begin with a letter or a digit`}},
		{"too short", func(c *Claim) { c.TTL = time.Second - 1 },
			refused{Code: signalbox.CodeUsage,
				Msg: "a lease cannot last 999.999999ms: the limits are 1s and 24h0m0s"}},
		{"too long", func(c *Claim) { c.TTL = 24*time.Hour + 1 },
			refused{Code: signalbox.CodeUsage,
				Msg: "a lease cannot last 24h0m0.000000001s: the limits are 1s and 24h0m0s"}},
		{"negative", func(c *Claim) { c.TTL = -time.Minute },
			refused{Code: signalbox.CodeUsage,
				Msg: "a lease cannot last -1m0s: the limits are 1s and 24h0m0s"}},
		{"nothing next", func(c *Claim) { c.Work, c.Role = "", signalbox.RoleCritic },
			refused{Code: signalbox.CodeNotFound, Msg: "there is nothing to claim for critic"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, _ := heldBox(t, signalbox.PhaseImplementation)
			c := valid
			tt.change(&c)
			wantRefused(t, b.try(c), tt.want)
		})
	}
}

func TestClaimOfHeldWorkTellsWhoHoldsIt(t *testing.T) {
	b, _ := heldBox(t, signalbox.PhaseImplementation)
	d := b.try(b.claimOf("w", "S2"))
	wantAnswer(t, Answer{At: t0, Work: "w", Phase: signalbox.PhaseImplementation,
		Lease: b.work("w").Lease}, d.Answer)
}

// A lease is over at the very instant it expires, not before.
func TestClaimAtExpiry(t *testing.T) {
	b, epoch := heldBox(t, signalbox.PhaseImplementation)
	expires := b.work("w").Lease.Expires

	b.now = expires.Add(-1)
	wantRefused(t, b.try(b.claimOf("w", "S2")),
		refused{Code: signalbox.CodeConflict,
			Msg: "work 'w' is held by session 'S' until 2026-03-01T09:15:00Z"})
	b.now = expires
	d := b.try(b.claimOf("w", "S2"))
	wantEvents(t, d, fmt.Sprintf(`LeaseExpired {"epoch":%d}`, epoch),
		`LeaseGranted {"lease":"L-S2","role":"developer","expires":"2026-03-01T09:30:00Z"}`)
	if expired := d.Events[0]; expired.Session != "S" || expired.Actor != "a-S" ||
		expired.Work != "w" {
		t.Errorf("the expiry is recorded of session %q, actor %q, work %q", expired.Session,
			expired.Actor, expired.Work)
	}
	if d.Answer.Seq != b.s.Seq() || d.Answer.Lease.Epoch != b.s.Seq() {
		t.Errorf("answer: event %d, epoch %d; the lease was granted by event %d", d.Answer.Seq,
			d.Answer.Lease.Epoch, b.s.Seq())
	}
	want := []Tenure{
		{Epoch: epoch, Session: "S", Actor: "a-S", Role: "developer", Phase: "IMPLEMENTATION",
			From: t0, To: expires, Ended: EndedExpired, End: epoch + 1},
		{Epoch: epoch + 2, Session: "S2", Actor: "a-S2", Role: "developer", Phase: "IMPLEMENTATION",
			From: expires},
	}
	if diff := cmp.Diff(want, b.work("w").Tenures()); diff != "" {
		t.Errorf("tenures (-want +got):\n%s", diff)
	}
}

// What is nearest to its end comes first, and of that what was opened first; expired work comes as
// if it were free.
func TestClaimNext(t *testing.T) {
	b := newBox(t)
	b.open("ready-1", signalbox.PhaseReadyForReview)
	b.open("review-1", signalbox.PhaseReview)
	b.open("ready-2", signalbox.PhaseReadyForReview)
	b.open("review-2", signalbox.PhaseReview)
	b.open("build", signalbox.PhaseImplementation)
	b.open("merge", signalbox.PhaseReadyForMerge)
	next := func(session string) Claim {
		return Claim{Role: signalbox.RoleCritic, Session: session, Actor: "A", Lease: "L"}
	}
	var order []string
	for i := range 4 {
		b.now = b.now.Add(time.Second)
		order = append(order, b.do(next(fmt.Sprintf("C%d", i))).Work)
	}
	if diff := cmp.Diff([]string{"review-1", "review-2", "ready-1", "ready-2"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	d := b.try(next("C5"))
	wantRefused(t, d, refused{Code: signalbox.CodeNotFound,
		Msg: "there is nothing to claim for critic"})
	if !errors.Is(d.Err, ErrNothingToClaim) {
		t.Error("the error is not ErrNothingToClaim")
	}

	b.now = t0.Add(2*time.Second + signalbox.DefaultLeaseTTL) // the first two have run out
	d = b.try(next("C6"))
	if d.Answer.Work != "review-1" || d.Answer.Seq != b.s.Seq() {
		t.Errorf("after expiry the next is %s, by event %d of %d", d.Answer.Work, d.Answer.Seq,
			b.s.Seq())
	}
	if got := len(d.Events); got != 3 {
		t.Errorf("%d events, want two expiries and the grant", got)
	}
	if got := b.do(next("C7")).Work; got != "review-2" {
		t.Errorf("then the next is %s", got)
	}
}

func TestExpire(t *testing.T) {
	b := newBox(t)
	var want []string
	for i := range maxExpired + 2 {
		work := fmt.Sprintf("w%d", i)
		b.s.Apply(draft(b, work, "", WorkOpened{Phase: signalbox.PhaseImplementation}))
		b.s.Apply(draft(b, work, "S", LeaseGranted{Lease: "L", Role: signalbox.RoleDeveloper,
			Expires: t0.Add(time.Minute)}))
		want = append(want, fmt.Sprintf(`LeaseExpired {"epoch":%d}`, b.s.Seq()))
	}
	if d := Decide(b.s, t0.Add(time.Minute-1), Expire{}); len(d.Events) != 0 || d.Err != nil {
		t.Errorf("before the instant: %d events, %v", len(d.Events), d.Err)
	}
	d := Decide(b.s, t0.Add(time.Minute), Expire{})
	wantEvents(t, d, want[:maxExpired]...)
	for i := range d.Events {
		d.Events[i].Seq = b.s.Seq() + 1
		must.Succeed(t, b.s.Apply(&d.Events[i]))
	}
	wantEvents(t, Decide(b.s, t0.Add(time.Minute), Expire{}), want[maxExpired:]...)
}

// draft makes the next event of a box by hand.
func draft(b *box, work, session string, data body) *signalbox.Event {
	return &signalbox.Event{Seq: b.s.Seq() + 1, Time: b.s.Time(), Type: typeOf(data), Work: work,
		Session: session, Actor: "A", Data: encode(data)}
}

func TestIDsAreChecked(t *testing.T) {
	long := strings.Repeat("a", 65)
	for _, id := range []string{"", long, "a/b", "-a", ".a", "a\n", "ä", "a..b", "a.lock"} {
		for name, c := range map[string]Command{
			"box": OpenBox{Box: id, Actor: "A"}, "box's actor": OpenBox{Box: "b", Actor: id},
			"work": OpenWork{Work: id, Actor: "A"}, "work's actor": OpenWork{Work: "x", Actor: id},
			"session": Claim{Work: "w", Role: "developer", Session: id, Actor: "A",
				Lease: "L"},
			"unblock":       Unblock{Work: "w", Note: "n", Actor: id},
			"operator":      Release{Work: "w", Reason: "r", Actor: id},
			"redact's hand": RedactBlob{Reason: "r", Actor: id},
		} {
			b := newBox(t)
			b.open("w", signalbox.PhaseImplementation)
			d := b.try(c)
			if got := refusedBy(d.Err); got == nil || got.Code != signalbox.CodeUsage ||
				got.NoHint || len(d.Events) > 0 {
				t.Errorf("%s %q: %+v, %d events", name, id, got, len(d.Events))
			}
		}
	}
}
