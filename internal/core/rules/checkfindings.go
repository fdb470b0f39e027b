package rules

import (
	"slices"
	"strings"
)

// CheckFinding is something that a check found in the work, besides that it failed. If the check
// passed it is a note.
type CheckFinding struct {
	// Row is the name of the row of the check.
	Row         string
	Place, Text string
	// Note means that it does not send the work back, even if the check failed.
	Note bool
}

// raiseChecks records what the checks found in work that they send back. What a check found stands
// for its failure. Findings of earlier checks that are not found again are resolved.
func (c ReportChecks) raiseChecks(h report, failed []string) {
	t := h.w.Task
	b := FindingsRecorded{Cause: ReworkChecks, Commit: c.Commit, Resolved: t.openOf(ReworkChecks)}
	explained := func(row string) bool {
		return slices.ContainsFunc(c.Findings,
			func(f CheckFinding) bool { return f.Row == row && !f.Note })
	}
	for _, said := range c.faults(slices.DeleteFunc(slices.Clone(failed), explained)) {
		b.Raised = append(b.Raised, t.raised(SaidFinding{Text: said}, len(b.Raised), false))
	}
	for _, f := range c.Findings {
		raised := t.raised(SaidFinding{Place: f.Place, Text: f.Text}, len(b.Raised),
			f.Note || !slices.Contains(failed, f.Row))
		known := slices.IndexFunc(t.Raised, func(r TaskFinding) bool {
			return r.Cause == ReworkChecks && r.Place == raised.Place && r.Text == raised.Text &&
				r.State != FindingSuperseded
		})
		switch {
		case known < 0:
			b.raise(raised)
		case t.Raised[known].State != FindingWaived && !raised.Note:
			b.foundAgain(t.Raised[known].ID, f.Text)
		}
	}
	b.Resolved = slices.DeleteFunc(b.Resolved, func(id string) bool {
		return slices.ContainsFunc(b.Again, func(a FoundAgain) bool { return a.ID == id })
	})
	h.noteFindings(b)
}

// notes returns what the checks found in work that they pass.
func (c ReportChecks) notes() (said []SaidFinding) {
	for _, f := range c.Findings {
		said = append(said, SaidFinding{Place: f.Place, Text: f.Text, Says: SaidNote})
	}
	return said
}

// WaivesCheck reports whether a human has let a finding of a check stand, in whichever line of the
// file it is now.
func (t *Task) WaivesCheck(place, text string) bool {
	f := t.raised(SaidFinding{Place: place, Text: text}, 0, false)
	file := func(place string) string { return place[:strings.LastIndex(place, ":")+1] }
	return slices.ContainsFunc(t.Raised, func(r TaskFinding) bool {
		return r.State == FindingWaived && r.Cause == ReworkChecks && r.Text == f.Text &&
			file(r.Place) == file(f.Place)
	})
}
