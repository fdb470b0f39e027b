package rules

import (
	"slices"
	"strings"

	"signalbox"
)

// ReportChecks reports the results of the checks. Only the system role that runs them may send it.
type ReportChecks struct {
	Session string
	Epoch   uint64
	// Commit is the commit that was checked, and Base that of the base.
	Commit, Base string
	Rows         []CheckRow
	Differs      []string
	Protected    []string
	// Unchanged means that the work changes nothing.
	Unchanged bool
	// Change is a digest of what the work changes; zero if that is not known.
	Change signalbox.Hash
	// Large are the files that the work adds and that are larger than allowed, with their sizes.
	Large []string
	// Steering are the files with which the work changes what steers agents.
	Steering []string
	// EditsPlan means that the work changes a plan file.
	EditsPlan bool
	// Findings are what the checks found, besides that they failed.
	Findings []CheckFinding
	// Body is the output of the failed checks, for the developer to fix them.
	Body signalbox.Hash
	// Ref, OnBase and Problem are those of ChecksRan, for work opened by hand.
	Ref     string
	OnBase  bool
	Problem string
}

func (c ReportChecks) decide(d *decider) error {
	h, err := d.anyHolderReport(c.Session, c.Epoch, "checks")
	if err != nil {
		return err
	}
	if h.role != signalbox.RoleCI {
		return refusef(signalbox.CodeFailed, "only "+string(signalbox.RoleCI)+" runs the checks",
			"%s must not report check results", h.role)
	}
	if err := checkCommits(c.Commit, c.Base); err != nil {
		return err
	}
	c.Differs, c.Protected, c.Large, c.Steering = sanitizeAll(c.Differs), sanitizeAll(c.Protected),
		sanitizeAll(c.Large), sanitizeAll(c.Steering)
	c.Rows = slices.Clone(c.Rows)
	for i := range c.Rows {
		c.Rows[i].Cause = sanitize(c.Rows[i].Cause, 500)
	}
	if h.w.Task == nil {
		return c.judgeByHand(h)
	}
	d.answer.Seq = h.note(ChecksRan{Epoch: c.Epoch, Commit: c.Commit, Rows: c.Rows,
		Differs: c.Differs, Protected: c.Protected, Base: c.Base, Unchanged: c.Unchanged,
		Large: c.Large, Steering: c.Steering, EditsPlan: c.EditsPlan, Change: c.Change})
	switch h.w.Task.Kind {
	case KindBaseline:
		c.judgeBase(h)
	case KindRemediation: // the health auditor reviews it whether the checks passed or not
		h.move(signalbox.PhaseReview)
	default:
		c.judge(h)
	}
	h.release("checks")
	return nil
}

// judge sends a task back for rework if it changes nothing, if it adds large files, or if checks
// fail that pass on the base, and requests a remediation if all failing checks fail on the base
// too. Failures that the human accepted do not count.
func (c ReportChecks) judge(h report) {
	failing := h.s.unaccepted(failing(c.Rows))
	newlyFailing := slices.DeleteFunc(slices.Clone(failing),
		func(name string) bool { return slices.Contains(h.s.run.Failing, name) })
	switch {
	case c.Unchanged:
		h.unchanged()
	case len(c.Large) > 0 && !h.w.Task.KeepLarge:
		c.tooLarge(h, newlyFailing)
	case len(newlyFailing) > 0 || len(c.Protected) > 0:
		count := h.w.Task.Counts.Checks + 1
		c.raiseChecks(h, newlyFailing)
		h.rework(ReworkChecks, count, h.s.run.Policy.Limits.Checks, AskedChecks,
			c.summary(newlyFailing), c.Body, count, "")
	case len(failing) > 0:
		h.Body = c.Body
		h.requestRemediation("these checks fail on the base too: " +
			strings.Join(ChecksInWords(failing), ", "))
	case c.Change != (signalbox.Hash{}) && c.Change == h.w.Task.Rejected && !h.w.Task.Disputing:
		h.repeated()
	default:
		w, task := *h.w, *h.w.Task
		task.Commit, task.Steering, task.EditsPlan = c.Commit, c.Steering, c.EditsPlan
		w.Task, h.w = &task, &w
		h.Fields.Findings = c.notes()
		h = h.resolve(ReworkChecks, ReworkChecks, ReworkMerge)
		h.move(signalbox.PhaseReadyForReview)
		h.w = withPhase(h.w, signalbox.PhaseReadyForReview)
		h.skipGates()
	}
}

// maxRepeated is how often a task that comes back as it was rejected goes to its developer again,
// before the human is asked.
const maxRepeated = 2

// repeated keeps work that was sent back, and has the same changes as then, from those who judge it:
// they would say the same again.
func (h report) repeated() {
	count := h.w.Task.Counts.Repeated + 1
	words := ""
	for _, f := range h.w.Task.Findings {
		if f.Cause != ReworkRepeated {
			words = f.Summary
		}
	}
	h.note(ReworkOrdered{Cause: ReworkRepeated, Count: count,
		Summary: "your change is the same as the one that was sent back, so nobody has looked at it again. Do what the other findings ask for, and change the files"})
	h.move(signalbox.PhaseImplementation)
	if count > maxRepeated {
		h.w = withPhase(h.w, signalbox.PhaseImplementation)
		h.block(AskedRepeated, signalbox.Hash{},
			"%s came back %d times with the same changes as when it was sent back (%s). Your answer goes to its developer. If it comes back unchanged after that, it is reviewed again",
			h.w.ID, count, words)
	}
}

// failingPrefix is before the checks that fail in the summary of a finding.
const failingPrefix = "failing: "

// summary describes why these checks failed for the work.
func (c ReportChecks) summary(failing []string) string {
	summary := failingPrefix + strings.Join(ChecksInWords(failing), ", ")
	if len(c.Protected) > 0 {
		summary = strings.TrimPrefix(summary+"; ", failingPrefix+"; ") +
			"protected files were edited: " + strings.Join(c.Protected, ", ")
	}
	return summary
}

// faults describes each reason why the checks send the work back.
func (c ReportChecks) faults(failing []string) (texts []string) {
	for _, name := range ChecksInWords(failing) {
		texts = append(texts, "the check "+name+" fails")
	}
	if len(c.Protected) > 0 {
		texts = append(texts, "protected files were edited: "+strings.Join(c.Protected, ", "))
	}
	return texts
}

// maxLarge is how often a task is checked with large files before the human is asked. Agents commit
// the results of builds by accident.
const maxLarge = 2

// tooLarge sends back a task that adds large files. If it comes again, the human is asked: when the
// files may stay, the same commit is checked again.
func (c ReportChecks) tooLarge(h report, failing []string) {
	count := h.w.Task.Counts.Large + 1
	summary := "these files are larger than allowed: " + joinSome(c.Large) +
		". Delete them, and add them to .gitignore if a program creates them. " +
		"If the task needs them, say so again: the human decides"
	if len(failing) > 0 || len(c.Protected) > 0 {
		summary += ". Also " + c.summary(failing)
	}
	h.note(ReworkOrdered{Cause: ReworkFileSize, Count: count,
		Summary: sanitize(summary, maxText), Body: c.Body})
	if count < maxLarge {
		h.move(signalbox.PhaseImplementation)
		return
	}
	h.block(AskedFileSize, signalbox.Hash{},
		"%s adds files that are larger than allowed, again: %s. Answer \"keep\" to allow them; any other answer is guidance for another attempt",
		h.w.ID, joinSome(c.Large))
}

// failing returns the names of the checks that failed, as "check|environment".
func failing(rows []CheckRow) []string {
	var names []string
	for _, r := range rows {
		if !r.Passed {
			names = append(names, r.Name())
		}
	}
	return names
}

// ReportMerge reports the result of a merge. Only the system role that merges may send it. Refusal
// says why the work could not be merged; "" means that it was.
type ReportMerge struct {
	Session        string
	Epoch          uint64
	Commit, Before string
	Refusal        string
	// Unchanged means that there was nothing to merge.
	Unchanged bool
	// Moves means that this report moves the base: it must still be at Before. Otherwise the base
	// was moved before, where a crew can see it.
	Moves bool
	Rows  []CheckRow
	Body  signalbox.Hash
}

func (c ReportMerge) decide(d *decider) error {
	h, err := d.mergerReport(c.Session, c.Epoch)
	if err != nil {
		return err
	}
	if err := checkCommits(c.Commit); err != nil {
		return err
	}
	h.Body = c.Body
	if c.Refusal == "" && !c.Unchanged {
		if err := h.checkPrepared(c.Commit, c.Before); err != nil {
			return err
		}
		moved := checkChain([]TrainMerge{{c.Epoch, c.Commit, c.Before}}, d.s.run.Base)
		if c.Moves && moved != nil {
			return moved
		}
	}
	switch {
	case c.Refusal != "" && h.w.Task.Kind == KindRemediation:
		h.failRemediation(HealthAudited{Healthy: true, Contradiction: true,
			Reason: "it could not be merged: " + sanitize(c.Refusal, 1000)})
		return nil
	case c.Refusal != "":
		h.refuseMerge(c.Refusal, c.Body)
	case c.Unchanged && h.w.Task.Kind == KindTask:
		h.unchanged()
	default: // a remediation may have repaired something outside the repository
		prepared := h.w.Task.Merge
		if c.Unchanged {
			prepared = nil
		}
		d.answer.Seq = h.merged(prepared, c.Rows, nil)
	}
	h.release("merge")
	if c.Refusal == "" && h.w.Task.Kind == KindRemediation {
		d.endRemediation(h.w, h.actor)
	}
	return nil
}
