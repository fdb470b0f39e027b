package crew

import (
	"context"
	"encoding/json"
	"slices"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/findings"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/stored"
	"signalbox/internal/run/workspace"
)

// findings returns what the signal of the turn says about findings, and which new ones may send
// back work that was reviewed before. If that cannot be found out, all may.
func (r *turnReport) findings(sig signalbox.Signal) []rules.SaidFinding {
	fields := sig.Body
	if len(fields) == 0 {
		fields = map[string]any{"text": sig.Title}
	}
	task := findings.Task{Names: r.names}
	switch sig.Name {
	case signalbox.NameReadyForReview:
		return findings.FromReply(fields, task)
	case signalbox.NameReviewPassed, signalbox.NameAuditPassed:
		return findings.FromVerdict(fields, task, false)
	case signalbox.NameReviewFailed, signalbox.NameAuditFailed:
	default:
		return nil
	}
	ctx, cancel := r.recording()
	defer cancel()
	var err error
	task.Criteria, err = r.criteria(ctx)
	since := changedFiles{ranges: map[string][]workspace.LineRange{}}
	if err == nil {
		since.names, err = r.changedSince(ctx)
	}
	said := findings.FromVerdict(fields, task, true)
	for i := range said {
		f := &said[i]
		if f.Basis != "" || f.Says != rules.SaidFound && f.Says != rules.SaidVaguely {
			continue
		}
		changed := err != nil
		if !changed {
			changed, err = r.changedAt(ctx, f, since)
		}
		if changed || err != nil {
			f.Basis = rules.BasisChanged
		}
	}
	if err != nil {
		r.crew.log.Warn("cannot compare findings with what changed", "work", r.work, "error", err)
	}
	return said
}

// criteria returns the acceptance criteria of the task.
func (r *turnReport) criteria(ctx context.Context) ([]string, error) {
	text, err := stored.Blob(ctx, r.crew.box, r.workItem().Task.Text)
	var task plan.Task
	if err != nil || json.Unmarshal(text, &task) != nil { // redacted, or not from a plan
		return nil, err
	}
	return task.Criteria, nil
}

// changedSince returns the files that changed since a critic last did not pass the work, none if
// that is not known.
func (r *turnReport) changedSince(ctx context.Context) ([]string, error) {
	if !r.compares() {
		return nil, nil
	}
	t := r.workItem().Task
	return r.crew.project.Repo.Differing(ctx, t.ReviewedAt, t.Commit)
}

// compares reports whether it is known what changed since a critic last did not pass the work.
func (r *turnReport) compares() bool {
	t := r.workItem().Task
	return t.ReviewedAt != "" && t.Commit != "" && r.crew.project.Repo != nil
}

// changedFiles are the files that changed since a critic last did not pass the work, and the lines
// of those that were looked up.
type changedFiles struct {
	names  []string
	ranges map[string][]workspace.LineRange
}

// changedAt reports whether a finding names a place in what changed since a critic last did not
// pass the work. If the changes are not known, every place counts as changed, but a text without a
// place does not.
func (r *turnReport) changedAt(ctx context.Context, f *rules.SaidFinding,
	since changedFiles) (bool, error) {
	if !r.compares() {
		return f.Says == rules.SaidFound, nil
	}
	t, repo := r.workItem().Task, r.crew.project.Repo
	for _, place := range findings.Places(f.Text) {
		for _, file := range since.names {
			if !rules.SameFile(file, place.File) {
				continue
			}
			ranges, known := since.ranges[file]
			var err error
			if !known {
				ranges, err = repo.ChangedLines(ctx, t.ReviewedAt, t.Commit, file)
				since.ranges[file] = ranges
			}
			// A file without ranges was deleted, is binary, or was emptied.
			if err != nil || place.First == 0 || len(ranges) == 0 ||
				slices.ContainsFunc(ranges, func(l workspace.LineRange) bool {
					return l.First <= place.Last && place.First <= l.Last
				}) {
				return err == nil, err
			}
		}
	}
	return false, nil
}
