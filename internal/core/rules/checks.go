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
		return refusef(signalbox.CodeFailed, "only "+string(signalbox.RoleCI)+" runs the checks", "%s must not report check results", h.role)
	}
	c.Differs, c.Protected = sanitizeAll(c.Differs), sanitizeAll(c.Protected)
	if h.w.Task == nil {
		return c.judgeByHand(d, h)
	}
	d.answer.Seq = d.recordFor(h, ChecksRan{Epoch: c.Epoch, Commit: c.Commit, Rows: c.Rows, Differs: c.Differs, Protected: c.Protected, Base: c.Base, Unchanged: c.Unchanged})
	switch h.w.Task.Kind {
	case KindBaseline:
		if known := d.s.delivery.Base; known == "" || c.Commit == known { // otherwise the base moved meanwhile: run them again
			d.move(h, signalbox.PhaseCompleted)
		}
	case KindRemediation: // the health auditor reviews it whether the checks passed or not
		d.move(h, signalbox.PhaseReview)
	default:
		c.judge(d, h)
	}
	d.release(h, "checks")
	return nil
}

// judge sends a task back for rework if it changes nothing or if checks fail that pass on the base, and requests a remediation
// if all failing checks fail on the base too.
func (c ReportChecks) judge(d *decider, h report) {
	failing := failing(c.Rows)
	newlyFailing := slices.DeleteFunc(slices.Clone(failing), func(name string) bool { return slices.Contains(d.s.delivery.Failing, name) })
	switch {
	case c.Unchanged:
		d.unchanged(h)
	case len(newlyFailing) > 0 || len(c.Protected) > 0:
		d.rework(h, reworkChecks, h.w.Task.Counts.Checks+1, d.s.delivery.Policy.Limits.Checks, AskedChecks, c.summary(newlyFailing), c.Body)
	case len(failing) > 0:
		h.Body = c.Body
		d.requestRemediation(h, "these checks fail on the base too: "+strings.Join(failing, ", "))
	default:
		d.move(h, signalbox.PhaseReadyForReview)
	}
}

// summary says what is wrong with work of which these checks fail.
func (c ReportChecks) summary(failing []string) string {
	summary := "failing: " + strings.Join(failing, ", ")
	if len(c.Protected) > 0 {
		summary = strings.TrimPrefix(summary+"; ", "failing: ; ") + "protected files were edited: " + strings.Join(c.Protected, ", ")
	}
	return summary
}

// failing returns the names of the checks that failed, as "check|environment".
func failing(rows []CheckRow) []string {
	var names []string
	for _, r := range rows {
		if !r.Passed {
			names = append(names, r.name())
		}
	}
	return names
}

// ReportMerge reports the result of a merge. Only the system role that merges may send it. Refusal says why the work could
// not be merged; "" means that it was.
type ReportMerge struct {
	Session        string
	Epoch          uint64
	Commit, Before string
	Refusal        string
	// Unchanged means that there was nothing to merge.
	Unchanged bool
	Rows      []CheckRow
	Body      signalbox.Hash
}

func (c ReportMerge) decide(d *decider) error {
	h, err := d.holderReport(c.Session, c.Epoch, "merge")
	if err != nil {
		return err
	}
	if h.role != signalbox.RoleMerger {
		return refusef(signalbox.CodeFailed, "only "+string(signalbox.RoleMerger)+" merges", "%s must not report a merge", h.role)
	}
	h.Body = c.Body
	nothing := c.Refusal != "" || c.Unchanged // was merged
	if m := h.w.Task.Merge; !nothing && (m == nil || *m != (PreparedMerge{c.Commit, c.Before})) {
		return refusef(signalbox.CodeUsage, "record it with PrepareMerge first", "the merge of '%s' was not prepared", h.w.ID)
	}
	switch {
	case c.Refusal != "" && h.w.Task.Kind == KindRemediation:
		d.failRemediation(h, HealthAudited{Healthy: true, Contradiction: true, Reason: "it could not be merged: " + sanitize(c.Refusal, 1000)})
		return nil
	case c.Refusal != "":
		d.rework(h, reworkMerge, h.w.Task.Counts.Merges+1, d.s.delivery.Policy.Limits.Merges, AskedMerge, c.Refusal, c.Body)
	case c.Unchanged && h.w.Task.Kind == KindTask:
		d.unchanged(h)
	default: // a remediation may have repaired something outside the repository
		tip := ""
		if c.Commit != "" {
			tip = h.w.Task.Commit
		}
		d.answer.Seq = d.recordFor(h, Merged{c.Epoch, c.Commit, c.Before, d.s.unblockedBy(h.w.ID), c.Rows, tip})
		d.move(h, signalbox.PhaseCompleted)
	}
	d.release(h, "merge")
	if c.Refusal == "" && h.w.Task.Kind == KindRemediation {
		d.endRemediation(h.w, h.actor)
	}
	return nil
}
