package rules

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// lived returns a box with work in every position: free, held by S under epoch 4 until 09:15,
// blocked in DRAFT, and completed; S2 has nothing left; the blob {1} is redacted. It is 09:01.
func lived(t failer) *box {
	t.Helper()
	b := newBox(t)
	b.open("free", signalbox.PhaseReview)
	b.open("held", signalbox.PhaseImplementation)
	b.claim("held", "S")
	b.open("blocked", signalbox.PhaseDraft)
	b.claim("blocked", "S2")
	b.do(Exit{Session: "S2", Signal: exit(signalbox.PhaseDraft, signalbox.ExitBlocked)})
	reach(b, "done", signalbox.PhaseCompleted)
	b.do(RedactBlob{Blob: signalbox.Hash{1}, Reason: "a key", Actor: "op"})
	b.now = t0.Add(time.Minute)
	b.open("last", signalbox.PhaseDraft)
	return b
}

// event makes the event that would be next, with the actor of the session that these tests use.
func (b *box) event(work, session string, data body) *signalbox.Event {
	actor := "op"
	if session != "" {
		actor = "a-" + session
	}
	return &signalbox.Event{Seq: b.s.Seq() + 1, Time: b.now, Type: typeOf(data), Work: work,
		Session: session, Actor: actor, Data: encode(data)}
}

// completed makes the event of the exit signal that S could send, changed.
func (b *box) completed(change func(*completed)) *signalbox.Event {
	signal := exit(signalbox.PhaseImplementation, signalbox.ExitCompleted)
	c := signalbox.SessionCompletedFrom("S", "a-S", &signal)
	c.WorkID, c.LeaseEpoch = "held", 4
	change(&c)
	return b.event("held", "S", AgentSessionCompleted{c})
}

// impossible is an event that cannot be the next, and why.
type impossible struct {
	name  string
	event *signalbox.Event
	fault string
}

type completed = signalbox.AgentSessionCompleted

const (
	disagrees = "its fields do not agree with the work"
	unsaid    = "there is no such session, or the count is not positive"
	runOut    = "the lease has expired"
	notHolder = "the session does not hold the work"
)

func notLive(epoch int) string {
	return fmt.Sprintf("lease %d is not live, or not the session's", epoch)
}

// impossibleGrants are about the log, new work and new leases.
func impossibleGrants(b *box) []impossible {
	hour := b.now.Add(time.Hour)
	return []impossible{
		{"a gap", altered(b.possible(), func(e *signalbox.Event) { e.Seq++ }),
			"it follows event 18"},
		{"a repetition", altered(b.possible(), func(e *signalbox.Event) { e.Seq-- }),
			"it follows event 18"},
		{"earlier", altered(b.possible(), func(e *signalbox.Event) { e.Time = e.Time.Add(-1) }),
			"it is earlier than the event before it"},
		{"too late", altered(b.possible(),
			func(e *signalbox.Event) { e.Time = e.Time.AddDate(300, 0, 0) }),
			"2326-03-01 is not between 1970 and 2242"},
		{"a second box", b.event("", "", BoxOpened{Box: "box-2", Rules: 1}),
			"a log has BoxOpened once, as its first event"},
		{"an upgrade from other rules", b.event("", "", RulesUpgraded{2, 3}),
			"it upgrades rules version 2 to 3, and the log follows version 3"},
		{"an upgrade to the same rules", b.event("", "", RulesUpgraded{3, 3}),
			"it upgrades rules version 3 to 3, and the log follows version 3"},
		{"an upgrade to older rules", b.event("", "", RulesUpgraded{3, 2}),
			"it upgrades rules version 3 to 2, and the log follows version 3"},
		{"work twice", b.event("free", "", WorkOpened{Phase: "DRAFT"}), "the work already exists"},
		{"work in COMPLETED", b.event("new", "", WorkOpened{Phase: "COMPLETED"}),
			`work cannot start in phase "COMPLETED"`},
		{"work in BLOCKED", b.event("new", "", WorkOpened{Phase: "BLOCKED"}),
			`work cannot start in phase "BLOCKED"`},
		{"work in no phase", b.event("new", "", WorkOpened{Phase: "SHIPPED"}),
			`work cannot start in phase "SHIPPED"`},
		{"work without an id", b.event("", "", WorkOpened{Phase: "DRAFT"}),
			"an id must not be empty"},
		{"work with a path", b.event("a/b", "", WorkOpened{Phase: "DRAFT"}),
			`id "a/b": must be letters, digits, '.', '_' and '-', and begin with a letter or a digit`},
		{"redacted twice", b.event("", "", BlobRedacted{signalbox.Hash{1}, "again"}),
			"the blob is redacted already"},
		{"refused without a session",
			b.event("held", "X", SignalRefused{Reason: "stale_lease", Count: 1}), unsaid},
		{"refused and unsaid", b.event("held", "S", SignalRefused{Reason: "stale_lease"}), unsaid},
		{"lease of no work", b.granted("x", "S3", "critic", hour), `there is no work "x"`},
		{"second live lease", b.granted("held", "S3", "developer", hour), "lease 4 is live"},
		{"lease out of role", b.granted("free", "S3", "developer", hour),
			`role "developer" may not claim REVIEW`},
		{"lease of blocked", b.granted("blocked", "S3", "", hour), `role "" may not claim BLOCKED`},
		{"lease of completed", b.granted("done", "S3", "", hour),
			`role "" may not claim COMPLETED`},
		{"session changes", b.granted("free", "S", "critic", hour),
			"the session has another role or actor"},
		{"actor changes", altered(b.granted("last", "S2", "business-analyst", hour),
			func(e *signalbox.Event) { e.Actor = "B" }), "the session has another role or actor"},
		{"lease without a session", b.granted("free", "", "critic", hour),
			"an id must not be empty"},
		{"lease of no actor", altered(b.granted("free", "S3", "critic", hour),
			func(e *signalbox.Event) { e.Actor = "" }), "an id must not be empty"},
		{"lease without an id",
			b.event("free", "S3", LeaseGranted{Lease: "", Role: "critic", Expires: hour}),
			"an id must not be empty"},
		{"lease over at once", b.granted("free", "S3", "critic", b.now), "the lease would last 0s"},
		{"endless lease", b.granted("free", "S3", "critic", b.now.Add(25*time.Hour)),
			"the lease would last 25h0m0s"},
	}
}

// impossibleMoves are events about existing and missing leases, and signals under them.
func impossibleMoves(b *box) []impossible {
	hour := b.now.Add(time.Hour)
	return []impossible{
		{"renewed to shorten", b.event("held", "S", LeaseRenewed{4, b.now.Add(time.Minute)}),
			"it does not extend the lease"},
		{"renewed to the same", b.event("held", "S", LeaseRenewed{4, t0.Add(15 * time.Minute)}),
			"it does not extend the lease"},
		{"renewed without an end", b.event("held", "S", LeaseRenewed{4, b.now.Add(25 * time.Hour)}),
			"the lease would last 25h0m0s"},
		{"renewed by another", b.event("held", "S2", LeaseRenewed{4, hour}), notLive(4)},
		{"renewed under other", b.event("held", "S", LeaseRenewed{3, hour}), notLive(3)},
		{"renewed and free", b.event("free", "S", LeaseRenewed{4, hour}), notLive(4)},
		{"renewed too late", b.late(b.event("held", "S", LeaseRenewed{4, t0.Add(time.Hour)})),
			runOut},
		{"released and free", b.event("free", "S", LeaseReleased{4, ""}), notLive(4)},
		{"released by another", b.event("held", "S2", LeaseReleased{4, ""}), notLive(4)},
		{"released too late", b.late(b.event("held", "S", LeaseReleased{4, ""})), runOut},
		{"expired too early", altered(b.late(b.event("held", "S", LeaseExpired{4})),
			func(e *signalbox.Event) { e.Time = e.Time.Add(-1) }), "the lease has not expired"},
		{"expired under other", b.late(b.event("held", "S", LeaseExpired{5})), notLive(5)},
		{"expired and free", b.late(b.event("free", "S", LeaseExpired{4})), notLive(4)},
		{"heard under other", b.event("held", "S", SignalHeard{Epoch: 3}), notLive(3)},
		{"heard of another", b.event("held", "S2", SignalHeard{Epoch: 4}), notLive(4)},
		{"heard too late", b.late(b.event("held", "S", SignalHeard{Epoch: 4})), runOut},
		{"completed elsewhere", b.completed(func(c *completed) { c.WorkID = "free" }), disagrees},
		{"completed by other", b.completed(func(c *completed) { c.SessionID = "S2" }), disagrees},
		{"completed for other", b.completed(func(c *completed) { c.ActorID = "B" }), disagrees},
		{"completed a later", b.completed(func(c *completed) { c.PhaseCompleted = "REVIEW" }),
			disagrees},
		{"completed to end",
			b.completed(func(c *completed) { c.NextPhase = new(signalbox.PhaseCompleted) }),
			disagrees},
		{"completed nowhere", b.completed(func(c *completed) { c.NextPhase = nil }), disagrees},
		{"completed why", b.completed(func(c *completed) { c.ExitReason = "bored" }), disagrees},
		{"completed under old", b.completed(func(c *completed) { c.LeaseEpoch = 3 }), notLive(3)},
		{"completed too late", b.late(b.completed(func(*completed) {})), runOut},
		{"moved from elsewhere", b.event("held", "S", PhaseChanged{"DRAFT", "IMPLEMENTATION"}),
			"the work is in IMPLEMENTATION"},
		{"moved two phases",
			b.event("held", "S", PhaseChanged{"IMPLEMENTATION", "READY_FOR_REVIEW"}),
			"READY_FOR_REVIEW does not follow IMPLEMENTATION"},
		{"moved back", b.event("held", "S", PhaseChanged{"IMPLEMENTATION", "DRAFT"}),
			"DRAFT does not follow IMPLEMENTATION"},
		{"moved by another", b.event("held", "S2", PhaseChanged{"IMPLEMENTATION", "CI_PENDING"}),
			notHolder},
		{"moved and free", b.event("free", "", PhaseChanged{"REVIEW", "READY_FOR_MERGE"}),
			notHolder},
		{"moved when completed", b.event("done", "S", PhaseChanged{"COMPLETED", "BLOCKED"}),
			notHolder},
		{"unblocked elsewhere", b.event("blocked", "", PhaseChanged{"BLOCKED", "REVIEW"}),
			"REVIEW does not follow BLOCKED"},
		{"unblocked and free", b.event("free", "", WorkUnblocked{"go on"}),
			"the work is not blocked"},
		{"moved no work", b.event("", "S", PhaseChanged{"DRAFT", "IMPLEMENTATION"}),
			`there is no work ""`},
	}
}

func altered(e *signalbox.Event, change func(*signalbox.Event)) *signalbox.Event {
	change(e)
	return e
}

func (b *box) possible() *signalbox.Event { return b.event("new", "", WorkOpened{Phase: "DRAFT"}) }

func (b *box) granted(work, session string, role signalbox.Role,
	expires time.Time) *signalbox.Event {
	return b.event(work, session, LeaseGranted{Lease: "L", Role: role, Expires: expires})
}

// late puts an event at the instant at which the lease of "held" is over.
func (b *box) late(e *signalbox.Event) *signalbox.Event {
	e.Time = t0.Add(signalbox.DefaultLeaseTTL)
	return e
}

func TestImpossibleEvents(t *testing.T) {
	b := lived(t)
	for _, tt := range append(impossibleGrants(b), impossibleMoves(b)...) {
		t.Run(tt.name, func(t *testing.T) {
			wantUnchanged(t, b.s, func() {
				err := b.s.Apply(tt.event)
				got, want := (*HistoryError)(nil), HistoryError{tt.event.Seq, tt.event.Type,
					tt.fault}
				if !errors.As(err, &got) || *got != want || !errors.Is(err, ErrHistory) ||
					errors.Is(err, ErrNewer) {
					t.Errorf("got  %v\nwant %v", err, &want)
				}
			})
		})
	}
	if err := b.s.Apply(b.possible()); err != nil {
		t.Errorf("an event that is possible: %v", err)
	}
}

// The beginning of a log is BoxOpened, with an id and a version.
func TestImpossibleBeginnings(t *testing.T) {
	for fault, data := range map[string]body{
		"a log has BoxOpened once, as its first event": WorkOpened{Phase: "DRAFT"},
		"there are no rules of version 0":              BoxOpened{Box: "box-1"},
		"there are no rules of version -1":             BoxOpened{Box: "box-1", Rules: -1},
		"an id must not be empty":                      BoxOpened{Rules: 1},
	} {
		s := &State{}
		wantUnchanged(t, s, func() {
			err := s.Apply(&signalbox.Event{Seq: 1, Time: t0, Type: typeOf(data), Work: "w",
				Actor: "op", Data: encode(data)})
			if !errors.Is(err, ErrHistory) ||
				err.Error() != "the history contradicts itself: event 1, "+typeOf(data)+": "+fault {
				t.Errorf("%v, want %s", err, fault)
			}
		})
	}
}

// wantUnchanged checks that a state is the same after f as before, with all that it keeps beside its lists.
func wantUnchanged(t failer, s *State, f func()) {
	t.Helper()
	before, index := s.Snapshot(), s.indexes()
	f()
	if !bytes.Equal(before, s.Snapshot()) || !index.equal(s.indexes()) {
		t.Fatalf("the state changed")
	}
}

func TestNewer(t *testing.T) {
	for _, b := range allBodies(t) {
		eventType, whole := typeOf(b), string(encode(b))
		more := strings.TrimSuffix(whole, "}") + `,"v":2}`
		if whole == "{}" {
			more = `{"v":2}`
		}
		form := "event 19 is a " + eventType + " in a form that this one does not know: "
		wantNewer(t, eventType, more, form+`json: unknown field "v"`)
		wantNewer(t, eventType, whole+"{}", form+"the data is not a single JSON object")
		wantNewer(t, eventType, whole+"\n", form+"the data is not a single JSON object")
		wantNewer(t, eventType, "null", form+"the data is not a single JSON object")
		wantNewer(t, eventType, "", form+"EOF")
		wantNewer(t, eventType, "{", form+"unexpected EOF")
	}
	wantNewer(t, "TokenGranted", `{}`, `event 19 is a "TokenGranted", which this one does not know`)
	wantNewer(t, "", `{}`, `event 19 is a "", which this one does not know`)
	wantNewer(t, "boxopened", `{}`, `event 19 is a "boxopened", which this one does not know`)
}

func wantNewer(t *testing.T, eventType, data, detail string) {
	t.Helper()
	b := lived(t)
	wantUnchanged(t, b.s, func() {
		err := b.s.Apply(&signalbox.Event{Seq: 19, Time: b.now, Type: eventType, Work: "held",
			Session: "S", Actor: "a-S", Data: []byte(data)})
		if !errors.Is(err, ErrNewer) || errors.Is(err, ErrHistory) {
			t.Errorf("%s %s: %v", eventType, data, err)
			return
		}
		want := refused{Code: signalbox.CodeFailed, Msg: "the ledger was written by a newer signalbox: " + detail}
		if got := *refusedBy(err); got != want {
			t.Errorf("%s %s:\ngot  %+v\nwant %+v", eventType, data, got, want)
		}
	})
}

// Nothing is decided on a log of newer rules, however the state came here.
func TestNewerRules(t *testing.T) {
	const msg = "the ledger was written by a newer signalbox: it follows rules version 4, this one knows 3"
	s := &State{}
	wantUnchanged(t, s, func() {
		err := s.Apply(&signalbox.Event{Seq: 1, Time: t0, Type: "BoxOpened", Actor: "op",
			Data: []byte(`{"box":"box-1","rules":4}`)})
		if !errors.Is(err, ErrNewer) || err.Error() != msg {
			t.Errorf("got %v", err)
		}
	})
	b := lived(t)
	wantUnchanged(t, b.s, func() {
		if err := b.s.Apply(b.event("", "", RulesUpgraded{3, 4})); !errors.Is(err, ErrNewer) ||
			err.Error() != msg {
			t.Errorf("got %v", err)
		}
	})
	b.s.rules = 4
	newer, err := FromSnapshot(b.s.Snapshot())
	must.Succeed(t, err)
	for _, c := range []Command{
		OpenBox{Box: "b", Actor: "op"}, OpenWork{Work: "new", Actor: "op"},
		Claim{Work: "free", Role: "critic", Session: "C", Actor: "A", Lease: "L"},
		Claim{Role: "critic", Session: "C", Actor: "A", Lease: "L"},
		Renew{Work: "held", Session: "S", Epoch: 4},
		Release{Work: "held", Session: "S", Epoch: 4},
		Release{Work: "held", Actor: "op", Reason: "r"},
		Exit{Session: "S", Signal: exit("IMPLEMENTATION", "completed")},
		Unblock{Work: "blocked", Note: "n", Actor: "op"},
		Expire{}, RedactBlob{Blob: signalbox.Hash{2}, Reason: "r", Actor: "op"}, turnOf("run-1", 1),
	} {
		d := Decide(newer, t0.Add(48*time.Hour), c)
		wantRefused(t, d, refused{Code: signalbox.CodeFailed, Msg: msg})
		if !errors.Is(d.Err, ErrNewer) {
			t.Errorf("%#v: the error is not ErrNewer", c)
		}
	}
}
