package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
)

// storing stores commits that have names, as for sha.
func storing(work, commit string, needs ...string) StoreCommits {
	c := StoreCommits{Work: work, StoredCommit: StoredCommit{Commit: sha(commit),
		Bundle: signalbox.Hash{1}, Size: 1}, Actor: "crew"}
	for _, name := range needs {
		c.Needs = append(c.Needs, sha(name))
	}
	if work == "" {
		c.Branch = "main"
	}
	return c
}

func storedNames(s *State, work string) (names []string) {
	for _, stored := range s.StoredCommits(work) {
		names = append(names, stored.Commit[:7])
	}
	return names
}

func TestStoreCommits(t *testing.T) {
	b := based(t, policy(), todo("t1"), todo("t2"))
	wantStored := func(work string, want ...string) {
		t.Helper()
		for i, name := range want {
			want[i] = sha(name)[:7]
		}
		if diff := cmp.Diff(want, storedNames(b.s, work)); diff != "" {
			t.Errorf("bundles of %q (-want +got):\n%s", work, diff)
		}
	}
	wantTypes(t, b.try(storing("", "a")), "CommitsStored ")
	b.do(storing("", "b", "a"))
	b.do(storing("t1", "w", "b"))
	b.do(storing("t1", "x", "w", "b"))
	if got := b.do(storing("t1", "x")); !got.Repeated {
		t.Errorf("again: %+v", got)
	}
	// it belongs to another task
	b.refuses(storing("t2", "y", "w"), signalbox.CodeConflict)
	b.refuses(storing("", "y", "w"), signalbox.CodeConflict)
	b.refuses(storing("t9", "y"), signalbox.CodeNotFound)
	b.refuses(StoreCommits{Actor: "crew"}, signalbox.CodeUsage)

	both := storing("", "c")
	both.Replaces = []string{sha("a"), sha("b")}
	b.do(both)
	wantStored("", "c")
	wantStored("t1", "w", "x")
	both.Commit = sha("d") // another machine had the same idea
	b.refuses(both, signalbox.CodeConflict)
	b.refuses(storing("t2", "y", "b"), signalbox.CodeConflict)

	b.toMerge("t1", sha("x"))
	m := b.wantDispatch(signalbox.RoleMerger, "t1")
	b.do(storing("", "m", "c"))
	b.do(PrepareMerge{m.Session, m.Lease.Epoch, sha("m"), sha("base1")})
	b.do(by(m, ReportMerge{Commit: sha("m"), Before: sha("base1"), Moves: true}))
	wantStored("", "c", "m")
	wantStored("t1")
	b.refuses(storing("t1", "z"), signalbox.CodeConflict)
}

// Work that was delivered on a branch is nowhere else.
func TestDeliveredCommitsStayStored(t *testing.T) {
	b := deliver(t, deliverPolicy(DeliverBranch), todo("t1"))
	b.do(storing("t1", "c1"))
	b.delivered("t1", sha("c1"), "")
	b.wantPhase("t1", signalbox.PhaseCompleted)
	if got := storedNames(b.s, "t1"); len(got) != 1 {
		t.Errorf("bundles %q", got)
	}
}

// A merge that moves the base by its record must not be recorded on another base: it would be lost.
func TestMergeMovesOnlyItsBase(t *testing.T) {
	b := based(t, policy(), todo("t1"), todo("t2"))
	b.toMerge("t1", sha("c1"))
	m := b.wantDispatch(signalbox.RoleMerger, "t1")
	b.do(PrepareMerge{m.Session, m.Lease.Epoch, sha("m"), sha("base1")})
	b.do(ObserveBase{Known: sha("base1"), Commit: sha("base2"), Actor: "crew"})
	report := by(m, ReportMerge{Commit: sha("m"), Before: sha("base1"), Moves: true})
	b.refuses(report, signalbox.CodeConflict)
	b.wantPhase("t1", signalbox.PhaseReadyForMerge)
	report.Moves = false // git has moved it before, and the observation was of something later
	b.do(report)
	b.wantPhase("t1", signalbox.PhaseCompleted)
}

// Other machines pass what the ledger says to git.
func TestCommandsNameCommitsInFull(t *testing.T) {
	bad := []string{"HEAD", "main", "--upload-pack=touch x", "-" + sha("x")[1:], sha("x")[:39],
		sha("x") + "0", strings.ToUpper(sha("x")), sha("x") + "\n", sha("x")[:38] + "^0"}
	b := based(t, policy(), todo("t1"), todo("t2"))
	b.toMerge("t1", sha("c1"))
	m := b.wantDispatch(signalbox.RoleMerger, "t1")
	dev := b.wantDispatch(signalbox.RoleDeveloper, "t2")
	d := deliver(t, deliverPolicy(DeliverBranch), todo("t1"))
	d.toMerge("t1", sha("c1"))
	dm := d.wantDispatch(signalbox.RoleMerger, "t1")
	c := newBox(t)
	c.do(Configure{policy(), "op"})
	c.do(plan(1, todo("t1")))
	ci := c.wantDispatch(signalbox.RoleCI, "B-1")
	store := func(change func(*StoreCommits)) Command {
		s := storing("", "a")
		change(&s)
		return s
	}
	delivery := func(change func(*Delivery)) Command {
		r := ReportDelivery{dm.Session, dm.Lease.Epoch, Delivery{Tip: sha("c1"), Commit: sha("c1"),
			Branch: "signalbox/t1"}}
		change(&r.Delivery)
		return r
	}
	for _, id := range bad {
		for name, tt := range map[string]struct {
			b *box
			c Command
		}{
			"stored":          {b, store(func(s *StoreCommits) { s.Commit = id })},
			"needed":          {b, store(func(s *StoreCommits) { s.Needs = []string{id} })},
			"replaced":        {b, store(func(s *StoreCommits) { s.Replaces = []string{id} })},
			"base":            {b, ObserveBase{Known: sha("base1"), Commit: id, Actor: "crew"}},
			"prepared":        {b, PrepareMerge{m.Session, m.Lease.Epoch, id, sha("base1")}},
			"merged":          {b, by(m, ReportMerge{Commit: id, Unchanged: true})},
			"expected branch": {b, ReportBranch{m.Session, m.Lease.Epoch, id, sha("x")}},
			"found branch":    {b, ReportBranch{m.Session, m.Lease.Epoch, sha("x"), id}},
			"conflict": {b, ReportConflict{m.Session, m.Lease.Epoch,
				Conflict{Commit: id, Base: sha("b"), Files: []string{"f"}}}},
			"base of conflict": {b, ReportConflict{m.Session, m.Lease.Epoch,
				Conflict{Commit: sha("c"), Base: id, Files: []string{"f"}}}},
			"draft of conflict": {b, ReportConflict{m.Session, m.Lease.Epoch,
				Conflict{Commit: sha("c"), Base: sha("b"), Draft: id, Files: []string{"f"}}}},
			"turn": {b, by(dev, EndTurn{Turn: Turn{Commit: id}})},
			"signal": {b, by(dev, ReportSignal{Signal: "ready_for_review",
				Turn: &Turn{Commit: id}})},
			"failure": {b, by(dev, ReportFailure{Cause: FailCrash, Turn: &Turn{Commit: id}})},
			"exit":    {b, Exit{Session: dev.Session, Turn: &Turn{Commit: id}}},
			"setup": {b, by(dev,
				ReportSetup{Ran: SetupRan{Command: "x", Commit: id, Passed: true}})},
			"checked":      {c, by(ci, ReportChecks{Commit: id})},
			"checked base": {c, by(ci, ReportChecks{Commit: sha("x"), Base: id})},
			"delivered":    {d, delivery(func(d *Delivery) { d.Commit = id })},
			"request":      {d, ReportRequest{Work: "t1", Actor: "crew", Merged: id}},
		} {
			if got := tt.b.try(tt.c); signalbox.CodeOf(got.Err) != signalbox.CodeUsage ||
				!strings.Contains(got.Err.Error(), "is not the full id of a commit") ||
				len(got.Events) > 0 {
				t.Errorf("%s %q: %v, %d events", name, id, got.Err, len(got.Events))
			}
		}
	}
	for _, branch := range []string{"", "-x", "--mirror", "a..b", "a b", "x.lock", "refs//x", "@",
		"HEAD", "a\nb"} {
		b.refuses(store(func(s *StoreCommits) { s.Branch = branch }), signalbox.CodeUsage)
		d.refuses(delivery(func(d *Delivery) { d.Branch = branch }), signalbox.CodeUsage)
	}
	b.refuses(store(func(s *StoreCommits) { s.Size = MaxBundle + 1 }), signalbox.CodeUsage)
	b.do(storing("", "a"))
	b.refuses(store(func(s *StoreCommits) { s.Commit, s.Branch = sha("b"), "other" }),
		signalbox.CodeUsage)
}

func TestRejectBundle(t *testing.T) {
	b := based(t, policy(), todo("t1"))
	b.do(storing("", "a"))
	b.do(storing("", "b", "a"))
	reject := RejectBundle{Commit: sha("b"), Bundle: signalbox.Hash{1}, Fault: "junk\x1b",
		Actor: "other"}
	wantBody(t, b.try(reject), BundleRejected{sha("b"), signalbox.Hash{1}, "junk "})
	if again := b.do(reject); !again.Repeated {
		t.Errorf("again: %+v", again)
	}
	if got := b.s.BundleFault(*b.s.storedCommit("", sha("b"))); got != "junk " {
		t.Errorf("fault %q", got)
	}
	// no machine could use it
	b.refuses(storing("", "c", "b"), signalbox.CodeConflict)
	b.refuses(storing("", "b", "a"), signalbox.CodeConflict)
	again := storing("", "b", "a")
	again.Replaces = []string{sha("b")}
	for n := 1; n <= maxRejected; n++ { // the same bundle may be there again
		b.do(again)
		if got := b.s.BundleFault(*b.s.storedCommit("", sha("b"))); got != "" {
			t.Errorf("fault %q of a new bundle", got)
		}
		b.do(storing("", fmt.Sprint("on b ", n), "b"))
		if d := b.try(reject); (n < maxRejected) != (len(d.Events) > 0) {
			t.Errorf("rejection %d: %+v", n+1, d)
		}
	}
	if got := b.do(again); !got.Repeated {
		t.Errorf("the same bundle: %+v", got)
	}
	other := again
	// the last one can be unusable too, though no rejection says so
	other.Bundle = signalbox.Hash{2}
	b.do(other)
	if got := b.s.storedCommit("", sha("b")).Bundle; got != other.Bundle {
		t.Errorf("bundle %v, want %v", got, other.Bundle)
	}
	other = storing("", "a")
	other.Bundle, other.Replaces = signalbox.Hash{2}, []string{sha("a")}
	if got := b.do(other); !got.Repeated {
		t.Errorf("a bundle that was not rejected was replaced: %+v", got)
	}
	reject.Commit = sha("another")
	if got := b.do(reject); !got.Repeated {
		t.Errorf("not stored: %+v", got)
	}

	b.do(storing("t1", "w", "a"))
	b.do(RejectBundle{Work: "t1", Commit: sha("w"), Bundle: signalbox.Hash{1}, Fault: "gone",
		Actor: "other"})
	again = storing("t1", "x", "a")
	again.Replaces = []string{sha("w")}
	b.do(again)
	if diff := cmp.Diff([]string{sha("x")[:7]}, storedNames(b.s, "t1")); diff != "" {
		t.Errorf("bundles of the task (-want +got):\n%s", diff)
	}
}
