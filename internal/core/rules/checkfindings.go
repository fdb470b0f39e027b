package rules

import "slices"

// CheckFinding is something that a check found in the work, besides that it failed. If the check
// passed it is a note.
type CheckFinding struct {
	// Row is the name of the row of the check.
	Row         string
	Place, Text string
	// Known is the id of the earlier finding that it is, "" if it is new. Who reads the files of the
	// work knows: lines move when others change.
	Known string
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
		known := t.finding(f.Known)
		switch {
		case known == nil || known.Cause != ReworkChecks || known.State == FindingSuperseded:
			b.raise(raised)
		case known.State != FindingWaived && !raised.Note:
			b.foundAgain(known.ID, f.Text)
			if again := &b.Again[len(b.Again)-1]; again.ID == known.ID && raised.Place != known.Place {
				again.Place = raised.Place
			}
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
		said = append(said, SaidFinding{ID: f.Known, Place: f.Place, Text: f.Text,
			Says: SaidNote})
	}
	return said
}

// CheckFindings returns what checks found in the task, as long as it is still the same task.
func (t *Task) CheckFindings() []TaskFinding {
	return slices.DeleteFunc(slices.Clone(t.Raised), func(f TaskFinding) bool {
		return f.Cause != ReworkChecks || f.State == FindingSuperseded
	})
}

// AsRecorded returns the place and the text that a finding has on the ledger.
func (f CheckFinding) AsRecorded() (place, text string) {
	return sanitize(f.Place, maxPlace), shortened(inWords(f.Text), maxFindingText)
}
