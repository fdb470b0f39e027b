package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"signalbox"
)

// The types of events about checks, and about work that goes back because of them or of a verdict.
const (
	TypeChecksRan        = "ChecksRan"
	TypeSetupRan         = "SetupRan"
	TypeBaselineAccepted = "BaselineAccepted"
	TypeReworkOrdered    = "ReworkOrdered"
)

// ChecksRan records the matrix of checks and environments on a commit.
type ChecksRan struct {
	Epoch  uint64     `json:"epoch"`
	Commit string     `json:"commit,omitempty"`
	Rows   []CheckRow `json:"rows"`
	// Differs is the list of checks for which the agent reported another result.
	Differs []string `json:"differs,omitempty"`
	// Protected is the list of protected files that the agent edited.
	Protected []string `json:"protected,omitempty"`
	// Base is the commit of the base at that time. The work is what Commit changes relative to it.
	Base string `json:"base,omitempty"`
	// Unchanged is true if the work changes nothing.
	Unchanged bool `json:"unchanged,omitempty"`
	// Ref is the branch, tag or commit that work opened by hand names. Commit is the commit that it
	// was.
	Ref string `json:"ref,omitempty"`
	// OnBase is true if work opened by hand names no branch, tag or commit. Commit is the head of
	// the base then.
	OnBase bool `json:"on_base,omitempty"`
	// Problem is the reason why no checks could run on work opened by hand, absent if they ran.
	Problem string `json:"problem,omitempty"`
	// Large is the list of files that the work adds and that are larger than allowed, with their
	// sizes.
	Large []string `json:"large,omitempty"`
	// Steering is the list of files with which the work changes what steers agents: their settings,
	// hooks and instructions.
	Steering []string `json:"steering,omitempty"`
	// EditsPlan is true if the work changes a plan file.
	EditsPlan bool `json:"edits_plan,omitempty"`
	// Change is a digest of what the work changes, absent if that is not known.
	Change signalbox.Hash `json:"change,omitzero" blob:"-"`
}

// passed reports whether checks ran and none of them failed, on work that edits no protected files.
func (b ChecksRan) passed() bool {
	return len(b.Rows) > 0 && len(failing(b.Rows)) == 0 && len(b.Protected) == 0 && b.Problem == ""
}

func (b ChecksRan) fault(s *State, e *signalbox.Event) string {
	return s.workFault(e, func(w *Work) string { return checkerFault(e, w, b.Epoch) })
}

// checkerFault validates an event that only the role that runs the checks can cause.
func checkerFault(e *signalbox.Event, w *Work, epoch uint64) string {
	return cmp.Or(liveFault(e, w, epoch), roleFault(w, signalbox.RoleCI))
}

func (b ChecksRan) apply(s *State, e *signalbox.Event) {
	w, _ := s.Work(e.Work)
	if w.Task == nil {
		s.changeWork(e.Work, func(w *Work) {
			w.Checks = &LastChecks{Seq: e.Seq, Epoch: b.Epoch, Commit: b.Commit, Base: b.Base,
				Ref:    b.Ref,
				OnBase: b.OnBase, Passed: b.passed(), Failing: failing(b.Rows),
				Failures: w.checkFailures()}
		})
		return
	}
	failed := failing(b.Rows)
	switch w.Task.Kind {
	case KindBaseline:
		s.run.Failing, s.run.Base = failed, cmp.Or(s.run.Base, b.Base)
	case KindRemediation:
		failed = append(s.unaccepted(failed), b.unreviewed()...)
	default:
		failed = s.unaccepted(failed)
	}
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Checks, t.Commit, t.Base = e.Seq, b.Commit, b.Base
		t.Failing, t.Differs, t.Steering = failed, b.Differs, b.Steering
		t.EditsPlan = b.EditsPlan
		if t.Change = b.Change; t.Change != t.Rejected {
			t.Counts.Repeated = 0
		}
		if t.Conflict != nil {
			t.endConflict()
		}
	})
}

func (b ChecksRan) describe(d *Describer, e *signalbox.Event) (text, detail string) {
	text, detail = b.results(d)
	if d.isBaseline(e) {
		text = "baseline: " + text
	}
	return text, detail
}

// results describes the results of the checks. The detail is why the first failed check failed, or
// the last line that it printed.
func (b ChecksRan) results(d *Describer) (text, detail string) {
	var failed, accepted []string
	for _, r := range b.Rows {
		if r.Passed {
			continue
		}
		how := fmt.Sprintf("%s on %s (%s)", r.Check, r.Environment, d.ending(r))
		if slices.Contains(d.State.AcceptedFailures(), r.Name()) {
			accepted = append(accepted, how)
			continue
		}
		failed = append(failed, how)
		if detail == "" {
			detail = cmp.Or(r.Cause, d.LastLines[r.Output])
		}
	}
	n := len(b.Rows)
	switch {
	case len(failed) > 0:
		text = fmt.Sprintf("checks failed (%d of %d): %s", len(failed), n,
			strings.Join(failed, ", "))
	case n > 0:
		text = fmt.Sprintf("checks passed (%d of %d)", n-len(accepted), n)
	case b.Problem != "":
		text = "not checked: " + b.Problem
	case len(b.Protected)+len(b.Large) == 0:
		text = "no checks to run"
	}
	if len(accepted) > 0 {
		text += "; accepted failures: " + strings.Join(accepted, ", ")
	}
	if b.OnBase {
		text += "; on the base at " + shortCommit(b.Commit) + ", because the work names no ref"
	} else if b.Ref != "" && b.Commit != "" {
		text += "; on " + b.Ref + " at " + shortCommit(b.Commit)
	}
	if len(b.Protected) > 0 {
		refused := "refused: it edited protected files: " + strings.Join(b.Protected, ", ")
		text = strings.TrimSuffix(refused+"; "+text, "; ")
	}
	if len(b.Large) > 0 {
		text = strings.TrimSuffix("large files: "+strings.Join(b.Large, ", ")+"; "+text, "; ")
	}
	if len(b.Differs) > 0 {
		text += "; the agent reported otherwise for " + strings.Join(b.Differs, ", ")
	}
	return text, detail
}

// unreviewed returns what a remediation must not change, because no review would notice it: its own
// checks, what steers agents, and large files. The text is part of the state and must never change.
func (b ChecksRan) unreviewed() (changes []string) {
	for _, c := range []struct {
		what  string
		files []string
	}{
		{"protected files", b.Protected},
		{"files that steer agents", b.Steering},
		{"large files", b.Large},
	} {
		if len(c.files) > 0 {
			changes = append(changes, c.what+": "+joinSome(c.files))
		}
	}
	return changes
}

// CheckRow is one check in one environment.
type CheckRow struct {
	Check       string         `json:"check"`
	Environment string         `json:"environment"`
	Exit        int            `json:"exit"`
	Passed      bool           `json:"passed"`
	Millis      int64          `json:"ms"`
	Output      signalbox.Hash `json:"output,omitzero"`
	Sandbox     Sandbox        `json:"sandbox,omitzero"`
	// Cause is why the check failed on the base, if it is something that no commit repairs, such as
	// a program that is not installed.
	Cause string `json:"cause,omitempty"`
}

// Name returns the check and the environment, as check|environment.
func (r CheckRow) Name() string { return r.Check + "|" + r.Environment }

// ChecksInWords returns names of checks, as check|environment, for people: "unit tests on linux".
func ChecksInWords(names []string) []string {
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = name
		if at := strings.LastIndex(name, "|"); at >= 0 {
			words[i] = name[:at] + " on " + name[at+1:]
		}
	}
	return words
}

// SetupRan records that a command ran that makes a worktree ready to work in, or that something
// else that a worktree needs failed.
type SetupRan struct {
	Epoch uint64 `json:"epoch"`
	// Command is the name of the command.
	Command string `json:"command"`
	// Commit is the commit of the worktree.
	Commit   string         `json:"commit,omitempty"`
	Exit     int            `json:"exit"`
	Passed   bool           `json:"passed"`
	TimedOut bool           `json:"timed_out,omitempty"`
	Millis   int64          `json:"ms"`
	Output   signalbox.Hash `json:"output,omitzero"`
	Sandbox  Sandbox        `json:"sandbox,omitzero"`
	// Restored is the list of tracked files that the command changed and that were put back.
	Restored []string `json:"restored,omitempty"`
	// OfTask is true if it failed because of what the task changed: it passes on the base.
	OfTask bool `json:"of_task,omitempty"`
}

func (b SetupRan) fault(s *State, e *signalbox.Event) string {
	return s.workFault(e, func(w *Work) string {
		if w.Task == nil {
			return checkerFault(e, w, b.Epoch)
		}
		return liveFault(e, w, b.Epoch)
	})
}

func (SetupRan) apply(*State, *signalbox.Event) {}

func (b SetupRan) describe(*Describer, *signalbox.Event) (text, detail string) {
	took := formatMillis(b.Millis)
	switch {
	case b.TimedOut:
		return fmt.Sprintf("setup failed: %s (timed out after %s)", b.Command, took), ""
	case !b.Passed && b.Exit < 0: // nothing ran
		return "setup failed: " + b.Command, ""
	case !b.Passed:
		return fmt.Sprintf("setup failed: %s (exit status %d after %s)", b.Command, b.Exit, took),
			""
	case len(b.Restored) > 0:
		detail = "it changed tracked files, which were put back: " + strings.Join(b.Restored, ", ")
	}
	return fmt.Sprintf("setup: %s (%s)", b.Command, took), detail
}

// BaselineAccepted records that the human accepts the checks that fail on the base. They do not
// stop tasks, as long as the base is this commit or what signalbox merged into it.
type BaselineAccepted struct {
	// Commit is the commit of the base, absent in a shared workspace.
	Commit string `json:"commit,omitempty"`
	// Failing is the list of checks that may fail, as check|environment.
	Failing []string `json:"failing"`
}

// fault accepts only the failures that the last run of the checks found on the base.
func (b BaselineAccepted) fault(s *State, e *signalbox.Event) string {
	return s.taskFault(e, func(w *Work) string {
		same := b.Commit == s.run.Base && slices.Equal(b.Failing, w.Task.Failing)
		switch {
		case w.Task.Kind != KindBaseline || w.Phase != signalbox.PhaseBlocked:
			return "it is not a baseline that waits"
		case len(b.Failing) == 0 || !same:
			return "these are not the checks that fail on the base"
		}
		return ""
	})
}

func (b BaselineAccepted) apply(s *State, e *signalbox.Event) {
	s.run.Accepted = &AcceptedBase{b.Commit, b.Failing}
	s.changeTask(e.Work, func(_ *Work, t *Task) { t.Failing = nil })
}

func (b BaselineAccepted) describe(_ *Describer, e *signalbox.Event) (text, detail string) {
	return "failures on the base accepted by " + e.Actor,
		strings.Join(ChecksInWords(b.Failing), ", ")
}

// ReworkOrdered sends work back with what must be fixed. Cause is review, audit, checks, merge,
// unchanged, repeated, file size, plan, human or pull request.
type ReworkOrdered struct {
	Cause   string         `json:"cause"`
	Count   int            `json:"count"`
	Summary string         `json:"summary,omitempty"`
	Body    signalbox.Hash `json:"body,omitzero"`
	// Commit is the commit whose merge the human rejected.
	Commit string `json:"commit,omitempty"`
	// Seen is the list of ids of what came back about a pull request.
	Seen []string `json:"seen,omitempty"`
}

func (b ReworkOrdered) fault(s *State, e *signalbox.Event) string {
	return s.workFault(e, func(w *Work) string {
		t := w.Task
		switch {
		case t == nil && (!w.checksFailed() || b.Cause != ReworkChecks):
			return "its checks did not fail"
		case t == nil:
			return ""
		case b.Cause == FindingHuman && (w.Done() || t.Merge != nil || !t.hasDeveloper()):
			return "it is done, is being merged, or has no developer"
		}
		return commitFault(w, b.Commit)
	})
}

func (b ReworkOrdered) apply(s *State, e *signalbox.Event) {
	if w, _ := s.Work(e.Work); w.Task != nil {
		s.changeTask(e.Work, func(w *Work, t *Task) { b.applyTask(e, w, t) })
		return
	}
	s.changeWork(e.Work, func(w *Work) {
		last := *w.Checks
		last.Failures = b.Count
		last.Finding = &Finding{Cause: b.Cause, Summary: b.Summary, Body: b.Body, Seq: e.Seq}
		w.Checks = &last
	})
}

func (b ReworkOrdered) describe(_ *Describer, e *signalbox.Event) (text, detail string) {
	switch b.Cause {
	case ReworkChecks, ReworkFileSize: // ChecksRan already reported it
		return "", ""
	case ReworkMerge:
		return "not merged: " + b.Summary, ""
	case ReworkRequest:
		return "sent back by its pull request: " + b.Summary, ""
	case ReworkUnchanged:
		return "sent back: the branch changes nothing", ""
	case ReworkRepeated:
		return "sent back: the same changes as when it was sent back before", ""
	case FindingHuman:
		if b.Commit != "" {
			return "merge of " + shortCommit(b.Commit) + " rejected by " + e.Actor + "; sent back",
				b.Summary
		}
		return "sent back by " + e.Actor, b.Summary
	}
	return b.Cause + " failed: " + b.Summary, ""
}

func (b ReworkOrdered) applyTask(e *signalbox.Event, w *Work, t *Task) {
	found := Finding{Cause: b.Cause, Summary: b.Summary, Body: b.Body, Seq: e.Seq}
	switch b.Cause {
	case ReworkReview:
		t.Counts.Reviews = b.Count
	case ReworkAudit:
		t.Counts.Audits = b.Count
	case ReworkChecks:
		t.Counts.Checks = b.Count
	case ReworkMerge:
		t.Counts.Merges = b.Count
	case ReworkUnchanged:
		t.Counts.Unchanged, t.Unchanged = b.Count, true
	case ReworkRepeated:
		t.Counts.Repeated = b.Count
		t.dropFindings(ReworkRepeated)
	case ReworkFileSize:
		t.Counts.Large = b.Count
		t.dropFindings(ReworkFileSize) // this one names all files
	case ReworkRequest:
		t.Counts.Requests = b.Count
		t.addSeen(b.Seen)
	case FindingHuman:
		found.Actor = e.Actor
		t.Corrections = append(slices.Clip(t.Corrections), found)
		t.Remedy = "" // it waits for a remediation in progress like all tasks
		t.resetCounts()
		if w.Lease != nil && w.Lease.Role.IsAuthor() {
			t.Context = interruptedContext
		}
	}
	t.Findings = append(slices.Clip(t.Findings), found)
	t.Disputing = false
	switch b.Cause {
	case ReworkReview, ReworkAudit, ReworkRequest, FindingHuman:
		t.Rejected = t.Change
	}
	t.keepInterrupted()
	t.Conversation = nil
}

// The causes of rework.
const (
	ReworkReview = "review"
	ReworkAudit  = "audit"
	ReworkChecks = "checks"
	ReworkMerge  = "merge"
	ReworkPlan   = "plan"
	// ReworkUnchanged means that the branch changes nothing.
	ReworkUnchanged = "unchanged"
	// ReworkRepeated means that the work has the same changes as when it was sent back.
	ReworkRepeated = "repeated"
	// ReworkFileSize means that the work adds large files.
	ReworkFileSize = "file size"
	// ReworkRequest means that a check of the pull request failed, or that somebody commented on
	// it.
	ReworkRequest = "pull request"
)
