package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/transport"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// TaskDiff is what a task changes: what would be merged, or what was merged. Of the working copy it
// is what is not saved yet.
type TaskDiff struct {
	review   *workspace.Review
	details  Details
	base     string // the commit of the base, "" if it is not known
	working  bool
	from, to string
	steering []string
}

// OpenDiff finds out what to compare for the diff of a work item, or of its working copy. root is
// the folder of the project. Close the diff after use.
func OpenDiff(ctx context.Context, b *box.Box, root string, w *rules.Work,
	working bool) (*TaskDiff, error) {
	if b.Config.Workspace.Shared() {
		return nil, signalbox.CodeFailed.Errorf("use git diff in the folder",
			"all tasks work in one folder, so a task has no diff of its own")
	}
	d := &TaskDiff{working: working}
	b.Engine.View(func(s *rules.State) { d.base = s.Base() })
	var err error
	if d.details, err = ReadDetails(ctx, b, w, time.Now()); err != nil {
		return nil, err
	}
	if d.review, err = workspace.OpenReview(ctx, root,
		filepath.Join(b.Dir, workspace.TreesFolder)); err != nil {
		return nil, err
	}
	if err = d.obtain(ctx, b, root); err != nil {
		d.Close()
		return nil, err
	}
	if working {
		d.from, err = d.workingBase(ctx)
	} else if d.from, d.to, err = d.commits(ctx); err == nil {
		d.steering, err = d.review.Steering(ctx, d.from, d.to)
	}
	if err != nil {
		d.Close()
		return nil, d.explain(err)
	}
	return d, nil
}

// Close removes what the diff needed.
func (d *TaskDiff) Close() { d.review.Close() }

// Commit returns the commit that the diff leads to, "" for that of a working copy.
func (d *TaskDiff) Commit() string { return d.to }

// Print prints the diff as git does, with what steers agents first, after a line that says so. It
// is not escaped.
func (d *TaskDiff) Print(ctx context.Context, w io.Writer, o workspace.DiffOptions) error {
	switch {
	case d.working:
		return d.explain(d.review.DiffWorking(ctx, w, d.details.ID, d.from, o))
	case len(d.steering) == 0:
		return d.review.Diff(ctx, w, d.from, d.to, o)
	}
	head := "# it changes files that steer agents: " +
		text.JoinSome(oneLines(d.steering), maxSteering) + "\n"
	if _, err := io.WriteString(w, head); err != nil {
		return err
	}
	if o.Stat || len(d.steering) > maxPaths {
		return d.review.Diff(ctx, w, d.from, d.to, o)
	}
	if err := d.PrintSteering(ctx, w); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "# the rest of the changes:\n"); err != nil {
		return err
	}
	return d.review.Diff(ctx, w, d.from, d.to, workspace.DiffOptions{Without: d.steering})
}

// maxSteering is how many files that steer agents a diff names at its top, and maxPaths how many it
// shows by themselves, because git gets them as arguments of many calls. With more, all is shown in
// one.
const maxSteering, maxPaths = 50, 2000

func oneLines(names []string) []string {
	lines := make([]string, len(names))
	for i, name := range names {
		lines[i] = text.OneLine(name)
	}
	return lines
}

// PrintSteering prints the part of the diff that changes what steers agents, or all of it if it
// changes very many such files. It is not escaped.
func (d *TaskDiff) PrintSteering(ctx context.Context, w io.Writer) error {
	if len(d.steering) == 0 {
		return nil
	}
	var o workspace.DiffOptions
	if len(d.steering) <= maxPaths {
		o.Only = d.steering
	}
	return d.review.Diff(ctx, w, d.from, d.to, o)
}

// Hidden returns a notice about invisible characters in the diff, which belongs at its top; "" if
// there are none.
func (d *TaskDiff) Hidden(ctx context.Context) (string, error) {
	var scan text.DiffScan
	err := d.Print(ctx, &scan, workspace.DiffOptions{})
	return scan.Notice(), err
}

// obtain gets the commits to compare that only other machines have.
func (d *TaskDiff) obtain(ctx context.Context, b *box.Box, root string) error {
	if m := d.details.Merged; m != nil && m.Commit != "" && m.Before != "" && !d.working {
		return transport.Obtain(ctx, b, root, "", m.Commit, m.Before)
	}
	if d.details.Commit == "" {
		return nil
	}
	return transport.Obtain(ctx, b, root, d.details.ID, d.details.Commit, d.base)
}

// commits returns the commits to compare.
func (d *TaskDiff) commits(ctx context.Context) (from, to string, err error) {
	if m := d.details.Merged; m != nil && m.Commit != "" && m.Before != "" {
		return m.Before, m.Commit, nil
	}
	to = d.details.Commit
	if to == "" {
		hint := notStarted
		if _, err := d.review.TreeHead(ctx, d.details.ID); err == nil {
			hint = "signalbox diff " + d.details.ID +
				" --working shows what its agent has changed so far"
		}
		return "", "", signalbox.CodeNotFound.Errorf(hint, "nothing of %s is saved yet",
			d.details.ID)
	}
	base, err := d.baseCommit(ctx)
	if err != nil {
		return "", "", err
	}
	from, err = d.review.MergeBase(ctx, base, to)
	return from, to, err
}

// baseCommit returns the commit of the base.
func (d *TaskDiff) baseCommit(ctx context.Context) (string, error) {
	if d.base != "" {
		return d.base, nil
	}
	return d.review.Head(ctx)
}

// workingBase returns the commit that the working copy is compared with.
func (d *TaskDiff) workingBase(ctx context.Context) (string, error) {
	base, err := d.baseCommit(ctx)
	if err != nil {
		return "", err
	}
	if d.details.Commit != "" {
		return d.review.WorkingBase(ctx, d.details.ID, d.details.Commit, base)
	}
	head, err := d.review.TreeHead(ctx, d.details.ID)
	if err != nil {
		return "", err
	}
	return d.review.MergeBase(ctx, base, head)
}

// NotSaved says that a diff does not have everything, "" if it has. It is best effort.
func (d *TaskDiff) NotSaved(ctx context.Context) string {
	if d.working {
		return ""
	}
	files, err := d.review.Uncommitted(ctx, d.details.ID)
	if err != nil || len(files) == 0 {
		return ""
	}
	verb, whose := "are", ""
	if len(files) == 1 {
		verb = "is"
	}
	// others work in copies
	if t := d.details.Task; t != nil && t.Worker != nil && t.Worker.Role.IsAuthor() {
		whose = "; " + text.WithArticle(t.Worker.Name()) + " is working on it"
	}
	return fmt.Sprintf("%s in the working copy of %s %s not saved%s: see signalbox diff %s --working", text.Count(len(files), "changed file"), d.details.ID, verb, whose, d.details.ID)
}

// notStarted is the hint for a task that has nothing to show.
const notStarted = "no agent has worked on it here yet; signalbox status shows what the run does"

// Empty says that the diff is empty.
func (d *TaskDiff) Empty() string {
	if d.working {
		return "everything in the working copy of " + d.details.ID +
			" is saved: see signalbox diff " + d.details.ID
	}
	return d.details.ID + " changes nothing"
}

func (d *TaskDiff) explain(err error) error {
	if !errors.Is(err, workspace.ErrNoTree) {
		return err
	}
	hint := notStarted
	switch {
	case d.details.Merged != nil:
		hint = "it is merged; signalbox diff " + d.details.ID + " shows what was merged"
	case d.details.Commit != "":
		hint = "signalbox diff " + d.details.ID + " shows what was saved"
	}
	return signalbox.CodeNotFound.Errorf(hint, "%s has no working copy on this machine",
		d.details.ID)
}
