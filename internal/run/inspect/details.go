package inspect

import (
	"context"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/questions"
	"signalbox/internal/run/stored"
	"signalbox/internal/run/workspace"
)

// Details is a work item with everything that is known about it. Work opened by hand has only what
// Work has.
type Details struct {
	ID          string            `json:"id"`
	Title       string            `json:"title"`
	Phase       signalbox.Phase   `json:"phase"`
	BlockedFrom *signalbox.Phase  `json:"blocked_from"`
	Notes       *string           `json:"notes"`
	Lease       *signalbox.Lease  `json:"lease"`
	Sessions    []Session         `json:"sessions"`
	Ref         string            `json:"ref,omitempty"`
	Checks      *rules.LastChecks `json:"checks,omitempty"`
	Expired     *signalbox.Lease  `json:"expired_lease,omitempty"`
	NotesBlob   signalbox.Hash    `json:"notes_blob,omitzero"`
	questions.Troubles

	// Text is what the plan asks for, in Markdown, cut after 16 KB. It is absent if it was
	// redacted.
	Text string `json:"text,omitempty"`
	// Task has the condition of a planned work item, who works on it, and what it has taken.
	Task *Task `json:"task,omitempty"`
	// Budget is the use of its budget.
	Budget *BudgetUse `json:"budget,omitempty"`
	// Matrix has the results of the checks that ran last, and Checked the commit that they ran on.
	Matrix  []CheckResult `json:"check_matrix,omitempty"`
	Checked string        `json:"checked_commit,omitempty"`
	// FindingHistory are all findings about it, with what became of them.
	FindingHistory []rules.TaskFinding `json:"finding_history,omitempty"`
	// Branch has the work, and Commit is the one that counts: what an author last saved, or what
	// was checked.
	Branch string `json:"branch,omitempty"`
	Commit string `json:"commit,omitempty"`
	// Delivered is where the work is if it is not merged here, absent if it was not delivered.
	Delivered *rules.Delivery `json:"delivered,omitempty"`
	// Merged is how it was merged into the base, absent if it was not.
	Merged *Merge `json:"merged,omitempty"`
}

// CheckResult is the result of a check in an environment.
type CheckResult struct {
	Check       string `json:"check"`
	Environment string `json:"environment"`
	Passed      bool   `json:"passed"`
	Exit        int    `json:"exit"`
	Millis      int64  `json:"ms"`
	// Cause is why it failed on the base, if that is known. Output is the end of the output of a
	// check that failed.
	Cause  string `json:"cause,omitempty"`
	Output string `json:"output,omitempty"`
}

// Merge is a merge into the base. Tip is the commit of the work, and Before that of the base before
// the merge.
type Merge struct {
	Commit string `json:"commit"`
	Before string `json:"before,omitempty"`
	Tip    string `json:"tip,omitempty"`
	// Train is the train that the merge belongs to, nil if the work was merged alone.
	Train *rules.Train `json:"train,omitempty"`
}

// NewDetails returns the details that the crew of an agent gives it.
func NewDetails(w questions.WorkDetails) Details {
	d := Details{ID: w.ID, Title: w.Title, Phase: w.Phase, BlockedFrom: w.BlockedFrom,
		Notes: w.Notes, Lease: w.Lease, Sessions: []Session{}, Ref: w.Ref,
		Checks: w.Checks, Expired: w.Expired, NotesBlob: w.NotesBlob, Troubles: w.Troubles}
	for _, s := range w.Sessions {
		d.Sessions = append(d.Sessions, Session{SessionView: s})
	}
	return d
}

// ReadDetails returns the details of a work item.
func ReadDetails(ctx context.Context, b *box.Box, w *rules.Work, now time.Time) (Details, error) {
	found, err := questions.Details(ctx, b, w)
	d := NewDetails(found)
	if err != nil || w.Task == nil {
		return d, err
	}
	if d.Text, err = stored.TaskText(ctx, b, w); err != nil {
		return d, err
	}
	d.Text = bounded(d.Text)
	if d.Sessions, err = ReadSessions(ctx, b.Journal, w, now); err != nil {
		return d, err
	}
	b.Engine.View(func(s *rules.State) {
		task := NewTask(s, w, now)
		d.Task = &task
		d.Budget = TaskBudget(s, w)
		if policy, _ := s.Policy(); !policy.Shared &&
			(w.Task.Kind == rules.KindTask || w.Task.Kind == rules.KindRemediation) &&
			w.Phase != signalbox.PhaseCompleted {
			d.Branch = workspace.Branch(w.ID)
		}
	})
	for _, s := range d.Sessions {
		if s.Merged != nil {
			d.Merged = s.Merged
		}
		if worker := d.Task.Worker; worker != nil && worker.Epoch == s.Epoch {
			worker.Agent = s.Agent()
		}
	}
	d.Checked, d.Commit, d.FindingHistory = w.Task.Commit, WorkCommit(w), w.Task.Raised
	if w.Task.Delivered != nil {
		d.Delivered = &w.Task.Delivered.Delivery
	}
	d.Matrix, err = readMatrix(ctx, b, w.Task.Checks)
	return d, err
}

// maxText is how much of the text of a task is returned.
const maxText = 16 << 10

// bounded returns a text as valid UTF-8, with "…" at its end if it had to be cut.
func bounded(words string) string {
	words = strings.ToValidUTF8(words, "\ufffd")
	if len(words) <= maxText {
		return words
	}
	end := maxText - len("…")
	for !utf8.RuneStart(words[end]) {
		end--
	}
	return words[:end] + "…"
}

// WorkCommit returns the commit of a task that would be checked or merged: what its author last
// saved, or else what was checked. It is "" if neither is known.
func WorkCommit(w *rules.Work) string {
	switch {
	case w.Task == nil:
		return ""
	case w.Task.Saved != nil:
		return w.Task.Saved.Commit
	}
	return w.Task.Commit
}

// readMatrix returns the results of the ChecksRan with the given sequence; 0 means none.
func readMatrix(ctx context.Context, b *box.Box, seq uint64) ([]CheckResult, error) {
	if seq == 0 {
		return nil, nil
	}
	events, err := b.Journal.Read(ctx, seq-1, 1)
	if err != nil || len(events) == 0 {
		return nil, err
	}
	var matrix []CheckResult
	for _, row := range read[rules.ChecksRan](&events[0]).Rows {
		r := CheckResult{Check: row.Check, Environment: row.Environment, Passed: row.Passed,
			Exit: row.Exit, Millis: row.Millis, Cause: row.Cause}
		if !row.Passed && row.Output != (signalbox.Hash{}) {
			if r.Output, err = endOf(ctx, b, row.Output); err != nil {
				return nil, err
			}
		}
		matrix = append(matrix, r)
	}
	return matrix, nil
}

// maxOutput is how much of the output of a failed check is returned.
const maxOutput = 4 << 10

// Blobs is where the output of checks is kept.
type Blobs interface {
	Blob(ctx context.Context, digest signalbox.Hash) (io.ReadCloser, error)
}

// endOf returns the end of a blob, "" if it was redacted.
func endOf(ctx context.Context, b Blobs, digest signalbox.Hash) (string, error) {
	blob, err := b.Blob(ctx, digest)
	if signalbox.CodeOf(err) == signalbox.CodeNotFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer blob.Close()
	var end []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := blob.Read(buf)
		end = append(end, buf[:n]...)
		end = end[max(0, len(end)-maxOutput):]
		if err == io.EOF {
			return strings.ToValidUTF8(string(end), "\ufffd"), nil
		}
		if err != nil {
			return "", err
		}
	}
}
