package crew

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/checks"
	"signalbox/internal/run/conflicts"
	"signalbox/internal/run/workspace"
)

// sessionWorkspace is the folder that a session works in.
type sessionWorkspace struct {
	dir string
	// cleanupNote tells the agent what a previous agent left that only an agent can clean up, or
	// "".
	cleanupNote string
	// save commits what an author changed, and returns the commit; "" if the workspace has no
	// branch.
	save  func(ctx context.Context, message string) (string, error)
	close func() error
	// commit is what the task's own branch has when the session starts, before the base is merged
	// into it; "" if it has none, or if the last author worked on another machine.
	commit string
	// start is what an author's folder has when the session starts, "" if that is not known: a
	// commit, or what state returns, if that is not nil.
	start string
	state func() string
	// merged reports that the base was merged into the branch just now.
	merged bool
	// diff is a file with the change that a reviewer judges; "" if it judges none.
	diff string
	// tooLarge reports that a previous agent left it larger than limits.tree.
	tooLarge bool
	// steer makes the files that steer agents those of the base, and returns those that differ from
	// what the agent judges. It is nil for authors, and without a repository.
	steer func(ctx context.Context) ([]string, error)
}

// newWorkspace returns a workspace whose changes are not saved.
func newWorkspace(dir string) *sessionWorkspace {
	return &sessionWorkspace{dir: dir, save: func(context.Context,
		string) (string, error) {
		return "", nil
	}, close: func() error { return nil }}
}

// opener opens the workspaces of an agent.
type opener struct {
	*session
	agent string // its name
}

// open opens the folder for the session's role. The caller closes it.
func (o opener) open(ctx context.Context) (*sessionWorkspace, error) {
	if o.crew.project.Repo == nil {
		ws := newWorkspace(o.crew.project.Root)
		if o.role.IsAuthor() {
			ws.state = func() string { return folderState(ws.dir, o.crew.box.Dir) }
			ws.start = ws.state()
		}
		return ws, nil
	}
	switch o.role {
	case signalbox.RoleDeveloper, signalbox.RoleRemediation:
		return o.openAuthor(ctx)
	case signalbox.RoleExpert, signalbox.RoleExpertCreator, signalbox.RoleBusinessAnalyst:
		return o.openAdvisor(ctx)
	}
	return o.openReview(ctx)
}

// Limits on what folderState reads.
const (
	maxStateFiles = 50_000
	maxStateBytes = 64 << 20
)

// folderState returns a digest of the files in a folder, except those in the box; "" if they are too
// many or too large, or if they cannot be read. It is for folders without commits.
func folderState(folder, box string) string {
	sum, files, left := sha256.New(), 0, int64(maxStateBytes)
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name == box:
			return fs.SkipDir
		case files == maxStateFiles:
			return errors.New("too many files")
		}
		files++
		info, err := entry.Info()
		if err != nil || entry.IsDir() { // its files are there
			return err
		}
		target, _ := os.Readlink(name) // "" unless it is a link
		if info.Mode().IsRegular() {
			file, err := os.Open(name)
			if err != nil {
				return err
			}
			defer file.Close()
			content := sha256.New()
			n, err := io.Copy(content, io.LimitReader(file, left+1))
			if left -= n; err != nil || left < 0 {
				return cmp.Or(err, errors.New("too large"))
			}
			target = string(content.Sum(nil))
		}
		fmt.Fprintf(sum, "%q %v %x\n", name, info.Mode(), target)
		return nil
	})
	if err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// openAuthor opens the task's own worktree and merges the base branch into it.
func (o opener) openAuthor(ctx context.Context) (*sessionWorkspace, error) {
	task := o.workItem().Task
	first := task.Starts[o.role] == 0 && task.Conflict == nil
	tree, here, err := o.crew.exchange.OpenTree(ctx, o.workItem(), o.epoch, first)
	if err != nil {
		return nil, err
	}
	ws := newWorkspace(tree.Dir)
	ws.save = o.limitSize(tree.Dir, func(ctx context.Context, message string) (string, error) {
		commit, _, err := tree.Save(ctx, message)
		return commit, err
	})
	if first {
		err = o.startStacked(ctx, tree)
	} else {
		// Uncommitted changes of an agent that was ended would block the merge of the base branch.
		tip := ""
		if tip, err = ws.save(ctx, o.work+": changes of an interrupted agent"); err == nil {
			err = o.mergeBase(ctx, tree, tip)
		}
		if head, headErr := tree.Commit(ctx); err == nil && headErr == nil && here {
			ws.commit, ws.merged = tip, head != tip
		}
	}
	ws.tooLarge = errors.Is(err, errTooLarge)
	if workspace.NeedsAgent(err) {
		ws.cleanupNote, err = "A previous agent left the folder in a state that you must clean up first: "+workspace.Explain(err)+".", nil
	}
	if err == nil {
		ws.start, err = tree.Commit(ctx)
	}
	if err == nil {
		err = o.setUp(ctx, ws, tree)
	}
	if err != nil {
		return nil, err
	}
	return ws, nil
}

// mergeBase merges the base branch, as the ledger knows it, into a task's branch, which is at tip.
// If they conflict, the worktree has a draft afterwards, and the ledger the conflict.
func (o opener) mergeBase(ctx context.Context, tree *workspace.Tree, tip string) error {
	base, task := o.crew.exchange.KnownBase(), o.workItem().Task
	if base == "" {
		return nil
	}
	base, err := o.crew.stack.Start(ctx, o.work, base)
	if err == nil {
		err = taskBranch{o.session}.conflicts().MergeBase(ctx, tree, task, tip, base)
	}
	if errors.Is(err, conflicts.ErrAsked) {
		err = fmt.Errorf("%w: %w", errLeaseLost, err)
	}
	return err
}

// startStacked puts a new worktree on the work that it builds on, if that is not on the base
// branch.
func (o opener) startStacked(ctx context.Context, tree *workspace.Tree) error {
	base := o.crew.exchange.KnownBase()
	start, err := o.crew.stack.Start(ctx, o.work, base)
	if err != nil || start == base {
		return err
	}
	conflict, err := tree.Refresh(ctx, start)
	if conflict != nil { // it has nothing of its own yet
		err = conflict
	}
	return err
}

// openReview checks out the commit that passed the checks. The author's worktree is not used,
// because its files, and what the author told git about them, may differ from what will be merged.
func (o opener) openReview(ctx context.Context) (*sessionWorkspace, error) {
	commit := o.workItem().Task.Commit
	if commit == "" {
		return nil, errNoCommit
	}
	if err := o.crew.exchange.Obtain(ctx, o.work, commit); err != nil {
		return nil, err
	}
	ws, err := o.openScratch(ctx, commit, o.workItem())
	if err != nil {
		return nil, err
	}
	if err := o.writeDiff(ctx, ws, commit); err != nil {
		return nil, errors.Join(err, ws.close())
	}
	return ws, nil
}

// DiffVariable names the file with the change that a reviewer judges.
const DiffVariable = "SIGNALBOX_DIFF"

// writeDiff writes what a commit changes to a file beside the worktree. The reviewer's own git
// would obey the attributes of the commit, which can hide changes.
func (o opener) writeDiff(ctx context.Context, ws *sessionWorkspace,
	commit string) (err error) {
	base := o.workItem().Task.Base
	if base == "" {
		return nil
	}
	if err := o.crew.exchange.Obtain(ctx, o.work, base); err != nil {
		return err
	}
	// removeTemps finds it by the name of the session.
	name, err := filepath.Abs(filepath.Join(o.crew.file(contain.TempFolder), o.id+".diff"))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(name), 0o700)
	}
	if err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	closeTree := ws.close
	ws.diff, ws.close = name, func() error { return errors.Join(os.Remove(name), closeTree()) }
	err = o.crew.project.Repo.Diff(ctx, file, base, commit, workspace.DiffOptions{})
	return errors.Join(err, file.Close())
}

// errNoCommit is permanent: the branch must not be reviewed or merged instead, because its content
// is not known.
var errNoCommit = signalbox.CodeUsage.Errorf(
	"set workspace: shared again until it is completed, or change its text in the plan, which starts it again",
	"the work was checked in a shared folder, so there is no commit to review or merge")

// openAdvisor checks out what the asking task has committed, or else the base branch.
func (o opener) openAdvisor(ctx context.Context) (*sessionWorkspace, error) {
	c := o.crew
	commit, err, about := "", error(nil), o.workItem()
	if asker := about.Task.Asker; asker != "" {
		commit, err = c.exchange.Committed(ctx, asker)
		c.box.Engine.View(func(s *rules.State) {
			if w, known := s.Work(asker); known {
				about = w
			}
		})
	}
	if err == nil && commit == "" {
		commit, err = c.exchange.BaseHere(ctx)
	}
	if err != nil {
		return nil, err
	}
	return o.openScratch(ctx, commit, about)
}

// openScratch checks out a commit of a work item for an agent that judges it.
func (o opener) openScratch(ctx context.Context, commit string,
	about *rules.Work) (*sessionWorkspace, error) {
	base, err := o.steeringBase(ctx, commit, about)
	if err != nil {
		return nil, err
	}
	scratch, err := o.crew.project.Repo.OpenScratch(ctx, o.work, commit)
	if err != nil {
		return nil, err
	}
	ws := newWorkspace(scratch.Dir)
	ws.close = scratch.Close
	ws.steer = func(ctx context.Context) ([]string, error) {
		shown, err := scratch.Steer(ctx, base)
		if err == nil { // the human wants these, although git ignores them
			_, err = o.job().Copy(ctx, scratch.Dir)
		}
		return shown, err
	}
	if err := o.setUp(ctx, ws, nil); err != nil {
		return nil, errors.Join(err, scratch.Close())
	}
	return ws, nil
}

// steeringBase returns the commit whose files steer the agent that judges a commit: the base that
// is recorded for it. A commit that was not checked yet has none; then it is the base that the work
// builds on now.
func (o opener) steeringBase(ctx context.Context, commit string,
	about *rules.Work) (base string, err error) {
	c := o.crew
	if t := about.Task; t != nil && t.Commit == commit && t.Base != "" {
		base = t.Base
	} else if base, err = c.exchange.Base(ctx); err == nil {
		base, err = c.stack.Start(ctx, about.ID, base)
	}
	return base, err
}

// setUp makes the workspace of the agent ready. An author who must resolve a conflict, or clean up,
// gets it as it is: the files may have conflict markers.
func (o opener) setUp(ctx context.Context, ws *sessionWorkspace,
	tree *workspace.Tree) error {
	if task := o.workItem().Task; ws.cleanupNote != "" || task.Conflict != nil &&
		o.role == signalbox.RoleDeveloper {
		return nil
	}
	w := checks.Folder{Dir: ws.dir, Tree: tree}
	// the commands run what a developer wrote, which must not reach the home folder of a reviewer
	if !o.role.IsAuthor() {
		homes, err := o.crew.site.OpenHomes(o.work, contain.ChecksHome, false)
		if err != nil {
			return err
		}
		defer homes.Close()
		w.Homes = homes
	}
	job := o.job()
	job.Agent = o.agent
	err := job.Prepare(ctx, w)
	// the agent can repair it, or judge it
	if fault := (*checks.SetupFault)(nil); errors.As(err, &fault) {
		ws.cleanupNote = fmt.Sprintf(
			"The folder is not ready to work in: %s. The command passes on the base branch, so a change of this task is the cause.", fault)
		return nil
	}
	return err
}

// limitSize returns a function that saves a working copy only if it is not larger than limits.tree.
// Otherwise an agent must clean it up.
func (o opener) limitSize(dir string, save func(context.Context, string) (string,
	error)) func(context.Context, string) (string, error) {
	return func(ctx context.Context, message string) (string, error) {
		c := o.crew.box.Config
		if c.Limits.Tree > 0 && contain.Exceeds(dir, int64(c.Limits.Tree), o.crew.box.Dir) {
			return "", &signalbox.Error{Code: signalbox.CodeConflict, Err: tooLarge(c),
				Hint: "remove files that do not belong to the project"}
		}
		return save(ctx, message)
	}
}

// errTooLarge means that a working copy is larger than limits.tree.
var errTooLarge = errors.New("the working copy is larger")

func tooLarge(c *config.Config) error {
	return fmt.Errorf("%w than %s (limits.tree)", errTooLarge, c.Limits.Tree)
}
