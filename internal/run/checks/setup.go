package checks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/checkrun"
	"signalbox/internal/run/project"
	"signalbox/internal/run/stored"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// Folder is a folder that is made ready before an agent or a check works in it.
type Folder struct {
	Dir string
	// Homes are those of the setup commands; nil means that of the session's agent, who is an
	// author and keeps it.
	Homes *contain.Homes
	// Tree is the worktree of a task; nil means a temporary one.
	Tree *workspace.Tree
}

// ErrSetupFailed means that a worktree could not be made ready. The human was asked, and the lease
// has ended.
var ErrSetupFailed = errors.New("the worktree could not be made ready")

// SetupFault is the error for a setup command that fails because of what the task has changed: it
// passes on the base. The cause is not the machine, so the human is not asked.
type SetupFault struct {
	row   rules.CheckRow // as a check that failed
	body  signalbox.Hash // the end of its output
	cause string
}

func (f *SetupFault) Error() string { return f.row.Check + " fails: " + f.cause }

// Prepare makes a folder ready: it reserves its ports, copies files into it, and runs the setup
// commands that did not run in it yet, or whose files have changed since. If something fails, the
// human is asked, and the error is ErrSetupFailed; but if that is the fault of the task, the error
// is a *SetupFault.
func (j *Job) Prepare(ctx context.Context, w Folder) error {
	if j.Repo == nil {
		return nil
	}
	done := &workspace.Preparation{}
	if w.Tree != nil {
		var err error
		if done, err = w.Tree.Preparation(); err != nil {
			return err
		}
	}
	if _, err := j.reservePorts(w.Dir); err != nil {
		return j.failSetup("reserving ports", err)
	}
	if err := j.copyFiles(ctx, w.Dir, done); err != nil {
		return err
	}
	for i, setup := range j.Site.Config.Setup {
		key := setupKey(setup, contain.AgentHome(j.Role, j.Agent))
		if files, ran := done.Setup[key]; ran &&
			files == workspace.DigestFiles(w.Dir, setup.Files) {
			continue
		}
		err := j.runSetup(ctx, w, i, done)
		if errors.Is(err, workspace.ErrNotClean) { // an agent must clean up first
			j.Log.Warn("a setup command did not run, because the worktree has changes "+
				"that are not committed", "work", j.Work, "command", setup.Name)
			continue
		}
		if err != nil {
			return err
		}
		done.Add(key, workspace.DigestFiles(w.Dir, setup.Files))
		if err := done.Save(); err != nil {
			return err
		}
	}
	return nil
}

// runSetup runs a setup command in a worktree, and records it. One that fails, but not on the base,
// is tried once more, because the cause may be gone; the second failure is that of the task.
func (j *Job) runSetup(
	ctx context.Context, w Folder, number int, done *workspace.Preparation,
) error {
	r, err := j.trySetup(ctx, w, number, done)
	if err != nil {
		return err
	}
	if !r.report.Ran.Passed && j.passesOnBase(ctx, number) {
		if r, err = j.trySetup(ctx, w, number, done); err != nil {
			return err
		}
		r.report.OfTask = !r.report.Ran.Passed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := j.reportSetup(r.report); err != nil || !r.report.OfTask {
		return err
	}
	ran := r.report.Ran
	return &SetupFault{cause: r.report.Cause, body: r.report.Body,
		row: rules.CheckRow{Check: "setup " + ran.Command, Environment: "local", Exit: ran.Exit,
			Millis: ran.Millis, Output: ran.Output, Sandbox: ran.Sandbox}}
}

// trySetup runs a setup command once, with what it leaves in the preparation of the worktree.
func (j *Job) trySetup(
	ctx context.Context, w Folder, number int, done *workspace.Preparation,
) (*setupResult, error) {
	r, err := j.execSetup(ctx, w, number, done)
	if err != nil {
		return nil, err
	}
	done.Leave(w.Dir, r.left)
	done.Running = false
	return r, done.Save()
}

// passesOnBase reports whether a setup command passes on the base, after those before it. It runs
// with a new home folder.
func (j *Job) passesOnBase(ctx context.Context, number int) (passes bool) {
	if j.Baseline {
		return false
	}
	base, err := j.Exchange.Base(ctx)
	if err == nil {
		err = j.trySetupOn(ctx, base, number)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrSetupFailed) {
		j.Log.Warn("cannot try a setup command on the base", "work", j.Work,
			"error", workspace.Explain(err))
	}
	return err == nil
}

// trySetupOn runs the setup commands up to one on a commit. The error is ErrSetupFailed if one
// fails.
func (j *Job) trySetupOn(ctx context.Context, commit string, last int) (err error) {
	scratch, err := j.openScratch(ctx, "base", commit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.Close()) }()
	homes, err := j.Site.OpenHomes(j.Work, contain.BaseHome, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, homes.Close()) }()
	w := Folder{Dir: scratch.Dir, Homes: homes}
	if _, err := j.reservePorts(w.Dir); err != nil {
		return err
	}
	if _, err := j.Copy(ctx, w.Dir); err != nil {
		return err
	}
	for i := range last + 1 {
		r, err := j.execSetup(ctx, w, i, &workspace.Preparation{})
		if err != nil {
			return err
		}
		if !r.report.Ran.Passed {
			return ErrSetupFailed
		}
	}
	return nil
}

// openScratch checks out a commit in a temporary worktree of the work. The id of a task, which an
// agent can choose, may be as long as a name can be, so that the name has a digest of it.
func (j *Job) openScratch(ctx context.Context, name, commit string) (*workspace.Scratch, error) {
	sum := sha256.Sum256([]byte(j.Work))
	return j.Repo.OpenScratch(ctx, name+"-"+hex.EncodeToString(sum[:8]), commit)
}

// copyFiles copies ignored files into a worktree that has none yet.
func (j *Job) copyFiles(ctx context.Context, dir string, done *workspace.Preparation) error {
	if done.HasCopied {
		return nil
	}
	copied, err := j.Copy(ctx, dir)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return j.failSetup("copying files", err)
	}
	done.Copied, done.HasCopied = copied, true
	return done.Save()
}

// Copy copies ignored files into a worktree, and warns of those that it left out.
func (j *Job) Copy(ctx context.Context, dir string) ([]string, error) {
	c := j.Site.Config
	o := workspace.CopyOptions{Limit: int64(c.Limits.Tree), Except: j.Site.Box,
		Tracked: slices.Contains(c.Copy, workspace.IncludeFile)}
	if len(c.Copy) > 0 {
		o.Match = c.Copies
	}
	copied, notes, err := j.Repo.CopyIgnored(ctx, dir, o)
	if errors.Is(err, workspace.ErrCopyTooLarge) {
		err = fmt.Errorf("%w than %s (limits.tree)", err, c.Limits.Tree)
	}
	for _, note := range notes {
		j.Warn(note)
	}
	return copied, err
}

// failSetup reports that something other than a setup command failed.
func (j *Job) failSetup(what string, err error) error {
	return j.reportSetup(rules.ReportSetup{
		Ran: rules.SetupRan{Command: what, Exit: -1}, Cause: workspace.Explain(err)})
}

// setupKey identifies a setup command and those for whom it ran. Others have other caches.
func setupKey(setup config.Setup, home string) string {
	text, err := json.Marshal([]any{setup.Name, setup.Command, setup.Files, home})
	if err != nil {
		panic("checks: a setup command does not encode: " + err.Error()) // it has only strings
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// setupResult is how a setup command ended.
type setupResult struct {
	report rules.ReportSetup
	left   []string // the files that it left and that git does not ignore
}

// execSetup runs a setup command, and puts back the tracked files that it changed.
func (j *Job) execSetup(
	ctx context.Context, w Folder, number int, done *workspace.Preparation,
) (*setupResult, error) {
	repo, setup := j.Repo, j.Site.Config.Setup[number]
	before, err := repo.Observe(ctx, w.Dir)
	if err != nil {
		return nil, err
	}
	done.Running = true
	if err := done.Save(); err != nil {
		return nil, err
	}
	j.Show("setup: " + setup.Name)
	defer j.Show("")
	contained := func(_ checkrun.Check, _ checkrun.Environment, session string) *contain.Program {
		due := contain.Setup{Config: setup, Work: j.Work, Homes: w.Homes, Session: session,
			Dir: w.Dir, Ports: j.Ports(w.Dir)}
		if w.Homes == nil {
			due.Author = &contain.Agent{Name: j.Agent, Role: j.Role, Work: j.Work}
			if session != project.ExampleSession { // which is not started, and so not finished
				due.Author.Cache = j.Cache(signalbox.Role(j.Role))
			}
		}
		return j.Site.Setup(due)
	}
	command := checkrun.Check{Name: setup.Name, Command: setup.Command, Timeout: setup.Timeout}
	commands := []checkrun.Check{command}
	results, err := checkrun.Run(ctx, w.Dir, commands, j.options(contained))
	if left := (*process.LeftError)(nil); errors.As(err, &left) {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	found := &setupResult{}
	report := &found.report
	report.Ran.Command, report.Ran.Commit = setup.Name, before.Commit()
	if err != nil { // it could not be started
		report.Ran.Exit, report.Cause = -1, workspace.Explain(err)
		return found, nil
	}
	r := results[0]
	report.Ran.Restored, found.left, err = repo.Undo(ctx, before)
	if err != nil && !errors.Is(err, workspace.ErrCommitted) {
		return nil, err
	}
	report.Ran.Exit, report.Ran.Passed = r.Exit, r.Passed && err == nil
	report.Ran.TimedOut, report.Ran.Millis = r.TimedOut, r.Duration.Milliseconds()
	switch {
	case err != nil:
		report.Cause = err.Error() + ", which setup commands must not do"
	case !r.Passed:
		p := contained(command, checkrun.Environment{}, project.ExampleSession)
		report.Cause = setupCause(w, setup, command, p, r)
	}
	if report.Ran.Output, err = j.Put(r.Output); err != nil {
		return nil, err
	}
	if report.Ran.Sandbox, err = j.Recorded(r.Sandbox); err != nil {
		return nil, err
	}
	if !report.Ran.Passed {
		body := fmt.Sprintf("%s: exit status %d after %s\n\n%s\n", setup.Name, r.Exit,
			r.Duration.Round(time.Millisecond), quoteOutput(r.Output))
		if report.Body, err = j.Put([]byte(body)); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// reportSetup records how a worktree was made ready. If that failed, and not because of the task,
// it returns ErrSetupFailed.
func (j *Job) reportSetup(report rules.ReportSetup) error {
	if err := j.Report(report); err != nil {
		return err
	}
	if !report.Ran.Passed && !report.OfTask {
		return ErrSetupFailed
	}
	return nil
}

// setupCause returns why a setup command failed, as far as that is known, on one line.
func setupCause(
	w Folder, setup config.Setup, command checkrun.Check, p *contain.Program,
	r checkrun.Result,
) string {
	cause := fmt.Sprintf("exit status %d", r.Exit)
	if r.TimedOut {
		cause = fmt.Sprintf("it took longer than %s", setup.Timeout)
	}
	if last := text.LastLine(stored.EndOf(r.Output)); last != "" {
		cause += ": " + text.OneLine(last)
	}
	local := checkrun.Environment{}
	for _, found := range checkrun.DiagnoseFailure(os.DirFS(w.Dir), command, local, p, r) {
		what, fix := aboutSetup.Replace(found.What), aboutSetup.Replace(found.Fix)
		cause += fmt.Sprintf("; %s (%s)", what, fix)
	}
	return cause
}

// aboutSetup makes a diagnosis of a check one of a setup command.
var aboutSetup = strings.NewReplacer(
	"the command of the check", "the command", "the check", "the command")
