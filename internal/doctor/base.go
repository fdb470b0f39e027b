package doctor

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/git"
	"signalbox/internal/run/checkrun"
	"signalbox/internal/run/checks"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/questions"
)

// Base checks whether the configured checks can pass on the base, without running them: what their
// commands need must be there. root is the folder of the project, dir that of the box, and b the
// box, or nil if it cannot be opened. A box that knows that checks fail on the base says so.
func Base(ctx context.Context, c *config.Config, root, dir string, b *box.Box) []box.Check {
	var found []box.Check
	if len(c.Checks) > 0 {
		files := projectFiles(ctx, c, root)
		all, err := checks.Diagnose(c, locateProject(ctx, c, root), dir, files)
		if err != nil {
			found = append(found, withError(box.Check{Name: "checks", Health: box.Problem}, err))
		}
		named := map[string]bool{}
		for _, missing := range all {
			if named[missing.What] {
				continue // several checks need it
			}
			named[missing.What] = true
			health := box.Warning
			if missing.Sure {
				health = box.Problem
			}
			found = append(found, box.Check{Name: "check " + missing.Check, Health: health,
				Detail: missing.What, Fix: missing.Fix})
		}
	}
	found = append(found, worktrees(ctx, c, root, dir)...)
	if behind := inspect.FindBehind(ctx, c, root); behind != nil {
		found = append(found, box.Check{Name: "base", Health: box.Warning, Detail: behind.Problem,
			Fix: behind.Fix})
	}
	if b != nil {
		found = append(found, redBase(ctx, b)...)
	}
	return found
}

// projectFiles returns the files of the project that a new worktree has, or all of them if there
// are no worktrees.
func projectFiles(ctx context.Context, c *config.Config, root string) fs.FS {
	if !c.Workspace.Shared() {
		if committed, err := committedFiles(ctx, root); err == nil {
			return committed
		}
	}
	return os.DirFS(root)
}

// maxOutputLines is how many lines of the output of a failed check are shown.
const maxOutputLines = 10

// redBase reports the checks that failed when they last ran on the base, if the run waits for that.
func redBase(ctx context.Context, b *box.Box) []box.Check {
	red, troubles, err := questions.FindBaseTroubles(ctx, b)
	if err != nil {
		return []box.Check{{Name: "base", Health: box.Problem, Detail: err.Error(),
			Fix: "run signalbox ledger verify"}}
	}
	if red == nil {
		return nil
	}
	fix := fmt.Sprintf("repair the base; signalbox work show %s shows more, and a remediation may be at work", red.ID)
	for _, q := range troubles.Questions {
		fix = fmt.Sprintf("repair the base and run signalbox answer %s again; or see your other choices with signalbox questions", q.ID)
	}
	var found []box.Check
	for _, failed := range troubles.FailedChecks {
		detail := fmt.Sprintf(
			"no task starts, because %s on %s failed on the base with exit status %d", failed.Check,
			failed.Environment, failed.Exit)
		if failed.Cause != "" {
			detail += ": " + failed.Cause
		}
		lines := strings.Split(strings.TrimSpace(failed.Output), "\n")
		found = append(found, box.Check{Name: "base", Health: box.Problem, Detail: detail, Fix: fix,
			Output: strings.Join(lines[max(0, len(lines)-maxOutputLines):], "\n")})
	}
	if len(found) == 0 {
		found = append(found, box.Check{Name: "base", Health: box.Problem,
			Detail: "no task starts, because the checks could not run on the base", Fix: fix})
	}
	return found
}

// committed is the files of a folder that the last commit has: a worktree has no others. Submodules
// have what is in the checkout.
type committed struct {
	fs.FS
	names      map[string]bool // files, and folders that contain some
	submodules map[string]bool
}

func (c committed) Open(name string) (fs.File, error) {
	if !c.names[name] && !c.inSubmodule(name) {
		err := fs.ErrNotExist
		if _, found := fs.Stat(c.FS, name); found == nil {
			err = checkrun.ErrNotCommitted
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return c.FS.Open(name)
}

func (c committed) inSubmodule(name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if c.submodules[name] {
			return true
		}
	}
	return false
}

// committedFiles returns the files of the last commit in a repository. It looks at it through a
// view, as agents may have written to it.
func committedFiles(ctx context.Context, root string) (fs.FS, error) {
	repository, err := git.Locate(ctx, root)
	if err != nil {
		return nil, err
	}
	view, err := os.MkdirTemp("", "signalbox-git-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(view)
	if err := repository.UseView(view); err != nil {
		return nil, err
	}
	var list bytes.Buffer
	err = repository.Run(ctx, git.Call{Worktree: repository.Root, Dir: repository.Dir,
		Args: []string{"ls-tree", "-r", "-z", "HEAD"}, Stdout: &list})
	if err != nil {
		return nil, err
	}
	c := committed{os.DirFS(repository.Root), map[string]bool{".": true}, map[string]bool{}}
	for entry := range bytes.SplitSeq(list.Bytes(), []byte{0}) {
		mode, name, ok := strings.Cut(string(entry), "\t")
		if !ok {
			continue
		}
		if strings.HasPrefix(mode, "160000 ") {
			c.submodules[name] = true
		}
		for ; name != "." && !c.names[name]; name = path.Dir(name) {
			c.names[name] = true
		}
	}
	return c, nil
}
