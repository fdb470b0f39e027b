package crew

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/planload"
	"signalbox/internal/run/questions"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/output"
)

// grepChecks are two checks, one of them in an environment that passes everything.
const grepChecks = `
environments:
  - {name: here}
  - {name: there, run: ['true']}
checks:
  - {name: state, command: 'cat state; grep -q ok state', environments: [here]}
  - {name: all, command: 'false', environments: [there]}
protected: [guarded]
`

// openByHand opens work by hand that waits for its checks.
func (s *stage) openByHand(work, ref string) {
	s.t.Helper()
	s.do(rules.OpenWork{Work: work, Phase: signalbox.PhaseCIPending, Ref: ref, Actor: "me"})
}

// branch makes a commit with a changed file on a new branch, which starts at main, and returns to
// main.
func (s *stage) branch(name, file, text string) (commit string) {
	s.t.Helper()
	s.git("switch", "-q", "-c", name)
	commit = s.change(file, text)
	s.git("switch", "-q", "main")
	return commit
}

func (s *stage) change(file, text string) (commit string) {
	s.t.Helper()
	s.write("project/"+file, text)
	s.git("add", file)
	s.git("commit", "-q", "-m", "change")
	return s.git("rev-parse", "HEAD")
}

// untilPhase waits until work is in a phase without a lease.
func (s *stage) untilPhase(work string, phase signalbox.Phase) *rules.Work {
	s.t.Helper()
	s.until(fmt.Sprintf("%s is in %s", work, phase),
		func() bool { return s.work(work).Phase == phase && s.work(work).Lease == nil })
	return s.work(work)
}

var ciOnly = Options{Roles: []signalbox.Role{signalbox.RoleCI}, Stay: true}

func TestChecksOfWorkByHand(t *testing.T) {
	s := set(t, scene{git: true, settings: grepChecks, options: ciOnly,
		files: map[string]string{"state": "ok\n", "guarded": "1\n"}})
	good := s.branch("good", "new", "new\n")
	bad := s.branch("feature/bad", "state", "bad\n")
	s.branch("edits", "guarded", "2\n")
	s.git("tag", "-a", "-m", "v1", "v1",
		"good")
	s.git("update-ref", "refs/remotes/origin/there", "good")
	base := s.change("guarded", "3\n") // which the branches do not have, and have not undone
	r := s.begin()
	failed := "failing: state on here"
	for i, tt := range []struct {
		ref, commit, finding string
		protected            string
	}{
		{ref: "", commit: base},
		{ref: "good", commit: good},
		{ref: "v1", commit: good},
		{ref: "origin/there", commit: good},
		{ref: "refs/heads/good", commit: good},
		{ref: good, commit: good},
		{ref: good[:10], commit: good},
		{ref: "feature/bad", commit: bad, finding: failed},
		{ref: bad, commit: bad, finding: failed},
		{ref: "edits", commit: s.git("rev-parse", "edits"),
			finding: "protected files were edited: guarded", protected: "guarded"},
		{ref: "no-such-branch",
			finding: "it names 'no-such-branch', but there is no such branch, tag or commit in the repository"},
		{ref: strings.Repeat("a", 40), finding: "it names '" + strings.Repeat("a", 40) +
			"', but there is no such branch, tag or commit in the repository"},
		{ref: s.git("rev-parse", "HEAD^{tree}"), finding: "it names '" +
			s.git("rev-parse", "HEAD^{tree}") +
			"', but there is no such branch, tag or commit in the repository"},
		{ref: "HEAD", finding: "it names 'HEAD', but there is no such branch, tag or commit in the repository"},
	} {
		work := fmt.Sprintf("w%d", i)
		s.openByHand(work, tt.ref)
		phase := signalbox.PhaseReadyForReview
		if tt.finding != "" {
			phase = signalbox.PhaseImplementation
		}
		w := s.untilPhase(work, phase)
		ran := only[rules.ChecksRan](s, work).Body
		if ran.Commit != tt.commit || ran.Base != base || ran.Ref != tt.ref ||
			ran.OnBase != (tt.ref == "") || (ran.Problem != "") != (tt.commit == "") ||
			strings.Join(ran.Protected, " ") != tt.protected {
			t.Errorf("%q: ran %+v", tt.ref, ran)
		}
		if (tt.finding == "") != (w.Checks.Finding == nil) || w.Checks.Finding != nil &&
			w.Checks.Finding.Summary != tt.finding {
			t.Errorf("%q: checks %+v", tt.ref, w.Checks)
		}
		if tt.commit == "" {
			continue
		}
		if len(ran.Rows) != 2 || ran.Rows[0].Check != "state" ||
			ran.Rows[0].Environment != "here" || !ran.Rows[1].Passed {
			t.Fatalf("%q: rows %+v", tt.ref, ran.Rows)
		}
		output := "ok\n"
		if tt.finding == failed {
			output = "bad\n"
			wantIn(t, s.text(w.Checks.Finding.Body), "state in here: exit status 1", "bad")
		}
		if got := s.text(ran.Rows[0].Output); got != output {
			t.Errorf("%q: output %q", tt.ref, got)
		}
		if troubles, err := questions.FindTroubles(t.Context(), s.box, w); err != nil ||
			(tt.finding == failed) != (len(troubles.FailedChecks) == 1) ||
			(tt.finding == "") != (len(troubles.Findings) == 0) {
			t.Errorf("%q: troubles %+v, %v", tt.ref, troubles, err)
		}
	}
	r.stop(nil) // a worktree is removed after the result is recorded
	<-r.over
	if trees := s.git("worktree", "list", "--porcelain"); strings.Count(trees, "worktree ") != 1 {
		t.Errorf("worktrees are left:\n%s", trees)
	}
	if state := s.git("status", "--porcelain", "--untracked-files=no"); state != "" {
		t.Errorf("the project was changed: %s", state)
	}
}

// In a shared folder, the folder is checked as it is.
func TestChecksOfWorkByHandInASharedFolder(t *testing.T) {
	s := set(t, scene{settings: grepChecks, options: ciOnly,
		files: map[string]string{"state": "ok\n"}})
	s.begin()
	s.openByHand("w1", "")
	s.untilPhase("w1", signalbox.PhaseReadyForReview)
	if ran := only[rules.ChecksRan](s, "w1").Body; ran.Commit != "" || ran.OnBase ||
		len(ran.Rows) != 2 {
		t.Errorf("ran %+v", ran)
	}
	s.openByHand("w2", "main")
	if w := s.untilPhase("w2",
		signalbox.PhaseImplementation); w.Checks.Finding.Summary != "it names 'main', but workspace: shared has no branches and commits to check" {
		t.Errorf("finding %+v", w.Checks.Finding)
	}
}

// Setup commands prepare the folder of work by hand too, although no agent works on it.
func TestSetupOfWorkByHand(t *testing.T) {
	s := set(t, scene{git: true, options: ciOnly, settings: `
setup: [{name: make, command: 'echo ok > made'}]
checks: [{name: made, command: 'grep -q ok made'}]
`})
	s.begin()
	s.openByHand("w1", "main")
	s.untilPhase("w1", signalbox.PhaseReadyForReview)
	if ran := only[rules.ChecksRan](s, "w1").Body; len(ran.Rows) != 1 || !ran.Rows[0].Passed {
		t.Errorf("ran %+v", ran)
	}
}

// Without checks, no crew claims the work, and each crew says so once.
func TestWorkByHandWithoutChecks(t *testing.T) {
	s := set(t, scene{})
	s.openByHand("w1", "")
	s.openByHand("w2", "")
	for _, roles := range [][]signalbox.Role{nil, {signalbox.RoleCI}, {signalbox.RoleDeveloper}} {
		log := &output.Buffer{}
		c, err := New(t.Context(), s.box, s.project,
			&Options{Roles: roles, Log: slog.New(slog.NewTextHandler(log, nil))})
		must.Succeed(t, err)
		for range 2 {
			if err := c.dispatch(t.Context()); err != nil || c.isBusy() {
				t.Errorf("dispatched: %v", err)
			}
			c.warnUnchecked()
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		want := 1
		if len(roles) == 1 && roles[0] == signalbox.RoleDeveloper {
			want = 0
		}
		for _, work := range []string{"w1", "w2"} {
			if n := strings.Count(log.String(), "signalbox work claim "+work+
				" --role ci"); n != want {
				t.Errorf("%v: %d warnings about %s, want %d:\n%s", roles, n, work, want, log)
			}
			if w := s.work(work); w.Phase != signalbox.PhaseCIPending || len(w.Past) > 0 ||
				w.Lease != nil {
				t.Errorf("%v: %s is %+v", roles, work, w)
			}
		}
	}
}

// What cannot be checked because of the repository is blocked, and checked when it is unblocked.
func TestWorkByHandIsBlockedByAFailure(t *testing.T) {
	s := set(t, scene{git: true, settings: grepChecks, options: ciOnly,
		files: map[string]string{"state": "ok\n"}})
	s.begin()
	s.git("branch", "-m", "main", "elsewhere")
	s.openByHand("w", "")
	w := s.untilPhase("w", signalbox.PhaseBlocked)
	wantIn(t, w.Notes, "the branch main is gone")
	if w.BlockedFrom != signalbox.PhaseCIPending {
		t.Errorf("blocked from %s", w.BlockedFrom)
	}
	s.git("branch", "-m", "elsewhere", "main")
	s.do(rules.Unblock{Work: "w", Note: "it is back", Actor: "me"})
	s.untilPhase("w", signalbox.PhaseReadyForReview)
}

// A crew that is stopped leaves the work unchecked, for the next crew.
func TestWorkByHandOfAStoppedCrew(t *testing.T) {
	s := set(t, scene{settings: "checks:\n  - {name: slow, command: 'exec sleep 1000'}\n",
		options: ciOnly})
	r := s.begin()
	s.openByHand("w", "")
	s.until("it is held", func() bool { return s.work("w").Lease != nil })
	r.halt()
	// releases what a crew that was stopped while it claimed could not
	next, err := New(t.Context(), s.box, s.project, nil)
	must.Succeed(t, err)
	defer next.Close()
	if w := s.work("w"); w.Phase != signalbox.PhaseCIPending || w.Lease != nil || w.Checks != nil {
		t.Errorf("work %+v", w)
	}
	none[rules.ChecksRan](s, "w")
}

// A crew takes over from one that was killed, and what that one reports afterwards does not count.
func TestWorkByHandOfAKilledCrew(t *testing.T) {
	s := set(t, scene{settings: grepChecks, options: ciOnly,
		files: map[string]string{"state": "ok\n"}})
	s.openByHand("w", "")
	p := s.startPeer()
	p.die()
	s.begin()
	s.untilPhase("w", signalbox.PhaseReadyForReview)
	p.wantReaped()
	if ran := only[rules.ChecksRan](s, "w"); ran.Body.Epoch == p.epoch {
		t.Errorf("ran %+v", ran)
	}
	_, err := s.box.Engine.Do(t.Context(), rules.ReportChecks{Session: p.owner.ID() + ".1",
		Epoch: p.epoch, Rows: []rules.CheckRow{{Check: "state"}}})
	if !isRefusal(err) {
		t.Errorf("the killed crew reports: %v", err)
	}
}

// Several crews check each work once, and no more at a time than may be.
func TestWorkByHandOfSeveralCrews(t *testing.T) {
	s := set(t, scene{git: true, settings: grepChecks, options: ciOnly,
		files: map[string]string{"state": "ok\n"}})
	var works []string
	for i := range 8 {
		works = append(works, fmt.Sprintf("w%d", i))
		s.openByHand(works[i], []string{"", "main"}[i%2])
	}
	for range 3 {
		s.beginIn(s.open(), ciOnly)
	}
	follow := s.begin() // so that this box sees what the others write
	for _, work := range works {
		s.untilPhase(work, signalbox.PhaseReadyForReview)
		only[rules.ChecksRan](s, work)
	}
	follow.halt()
	held := 0
	for e, err := range s.box.Events(t.Context(), 0) {
		must.Succeed(t, err)
		switch e.Type {
		case rules.TypeLeaseGranted:
			held++
		case rules.TypeLeaseReleased, rules.TypeLeaseExpired:
			held--
		}
		if held > planload.ChecksAtOnce(false) {
			t.Fatalf("event %d: %d are checked at once", e.Seq, held)
		}
	}
}

// A run checks work opened by hand too, beside its plan.
func TestRunChecksWorkByHand(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), settings: grepChecks,
		files: map[string]string{"state": "ok\n"}})
	s.openByHand("w", "")
	s.run()
	s.wantCompleted("T1")
	if w := s.work("w"); w.Phase != signalbox.PhaseReadyForReview || !w.Checks.Passed {
		t.Errorf("work %+v", w)
	}
}
