package crew

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/contain"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// worktree is a folder that is made ready before an agent or a check works in it.
type worktree struct {
	dir string
	// homes are those of the setup commands; nil means that of the session's agent, who is an author and keeps it.
	homes *contain.Homes
	// tree is the worktree of a task; nil means a temporary one.
	tree *workspace.Tree
}

// errSetupFailed means that a worktree could not be made ready. The human was asked, and the lease has ended.
var errSetupFailed = errors.New("the worktree could not be made ready")

// setupFault is the error for a setup command that fails because of what the task has changed: it passes on the base. The cause is not the
// machine, so the human is not asked.
type setupFault struct {
	row   rules.CheckRow // as a check that failed
	body  signalbox.Hash // the end of its output
	cause string
}

func (f *setupFault) Error() string { return f.row.Check + " fails: " + f.cause }

// prepare makes a worktree ready: it reserves its ports, copies files into it, and runs the setup commands that did not run in it yet, or
// whose files have changed since. If something fails, the human is asked, and the error is errSetupFailed; but if that is the fault of the
// task, the error is a *setupFault.
func (s *session) prepare(ctx context.Context, w worktree) error {
	if s.crew.project.Repo == nil {
		return nil
	}
	done := &workspace.Preparation{}
	if w.tree != nil {
		var err error
		if done, err = w.tree.Preparation(); err != nil {
			return err
		}
	}
	if _, err := s.crew.reservePorts(w.dir); err != nil {
		return s.failSetup("reserving ports", err)
	}
	if err := s.copyFiles(ctx, w.dir, done); err != nil {
		return err
	}
	for i, setup := range s.crew.box.Config.Setup {
		key := setupKey(setup, contain.AgentHome(string(s.role), s.agentName()))
		if files, ran := done.Setup[key]; ran && files == workspace.DigestFiles(w.dir, setup.Files) {
			continue
		}
		err := s.runSetup(ctx, w, i, done)
		if errors.Is(err, workspace.ErrNotClean) { // an agent must clean up first
			s.crew.log.Warn("a setup command did not run, because the worktree has changes that are not committed", "work", s.work, "command", setup.Name)
			continue
		}
		if err != nil {
			return err
		}
		done.Add(key, workspace.DigestFiles(w.dir, setup.Files))
		if err := done.Save(); err != nil {
			return err
		}
	}
	return nil
}

// runSetup runs a setup command in a worktree, and records it. One that fails, but not on the base, is tried once more, because the cause may be
// gone; the second failure is that of the task.
func (s *session) runSetup(ctx context.Context, w worktree, number int, done *workspace.Preparation) error {
	r, err := s.trySetup(ctx, w, number, done)
	if err != nil {
		return err
	}
	if !r.report.Ran.Passed && s.passesOnBase(ctx, number) {
		if r, err = s.trySetup(ctx, w, number, done); err != nil {
			return err
		}
		r.report.OfTask = !r.report.Ran.Passed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.reportSetup(r.report); err != nil || !r.report.OfTask {
		return err
	}
	ran := r.report.Ran
	return &setupFault{cause: r.report.Cause, body: r.report.Body, row: rules.CheckRow{Check: "setup " + ran.Command, Environment: "local", Exit: ran.Exit,
		Millis: ran.Millis, Output: ran.Output, Sandbox: ran.Sandbox}}
}

// trySetup runs a setup command once, with what it leaves in the preparation of the worktree.
func (s *session) trySetup(ctx context.Context, w worktree, number int, done *workspace.Preparation) (*setupResult, error) {
	r, err := s.execSetup(ctx, w, number, done)
	if err != nil {
		return nil, err
	}
	done.Leave(w.dir, r.left)
	done.Running = false
	return r, done.Save()
}

// passesOnBase reports whether a setup command passes on the base, after those before it. It runs with a new home folder.
func (s *session) passesOnBase(ctx context.Context, number int) (passes bool) {
	if task := s.workItem().Task; task != nil && task.Kind == rules.KindBaseline {
		return false
	}
	base, err := s.crew.exchange.Base(ctx)
	if err == nil {
		err = s.trySetupOn(ctx, base, number)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, errSetupFailed) {
		s.crew.log.Warn("cannot try a setup command on the base", "work", s.work, "error", workspace.Explain(err))
	}
	return err == nil
}

// trySetupOn runs the setup commands up to one on a commit. The error is errSetupFailed if one fails.
func (s *session) trySetupOn(ctx context.Context, commit string, last int) (err error) {
	sum := sha256.Sum256([]byte(s.work)) // the id of a task, which an agent can choose, may be as long as a name can be
	scratch, err := s.crew.project.Repo.OpenScratch(ctx, "base-"+hex.EncodeToString(sum[:8]), commit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.Close()) }()
	homes, err := s.crew.site.OpenHomes(s.work, contain.BaseHome, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, homes.Close()) }()
	w := worktree{dir: scratch.Dir, homes: homes}
	if _, err := s.crew.reservePorts(w.dir); err != nil {
		return err
	}
	if _, err := s.copyInto(ctx, w.dir); err != nil {
		return err
	}
	for i := range last + 1 {
		r, err := s.execSetup(ctx, w, i, &workspace.Preparation{})
		if err != nil {
			return err
		}
		if !r.report.Ran.Passed {
			return errSetupFailed
		}
	}
	return nil
}

// copyFiles copies ignored files into a worktree that has none yet.
func (s *session) copyFiles(ctx context.Context, dir string, done *workspace.Preparation) error {
	if done.HasCopied {
		return nil
	}
	copied, err := s.copyInto(ctx, dir)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return s.failSetup("copying files", err)
	}
	done.Copied, done.HasCopied = copied, true
	return done.Save()
}

// copyInto copies ignored files into a worktree, and warns of those that it left out.
func (s *session) copyInto(ctx context.Context, dir string) ([]string, error) {
	c := s.crew.box.Config
	o := workspace.CopyOptions{Limit: int64(c.Limits.Tree), Except: s.crew.box.Dir, Tracked: slices.Contains(c.Copy, workspace.IncludeFile)}
	if len(c.Copy) > 0 {
		o.Match = c.Copies
	}
	copied, notes, err := s.crew.project.Repo.CopyIgnored(ctx, dir, o)
	if errors.Is(err, workspace.ErrCopyTooLarge) {
		err = fmt.Errorf("%w than %s (limits.tree)", err, c.Limits.Tree)
	}
	for _, note := range notes {
		s.crew.warnOnce(note)
	}
	return copied, err
}

// failSetup reports that something other than a setup command failed.
func (s *session) failSetup(what string, err error) error {
	return s.reportSetup(rules.ReportSetup{Session: s.id, Epoch: s.epoch, Ran: rules.SetupRan{Command: what, Exit: -1}, Cause: workspace.Explain(err)})
}

// reservePorts returns the ports of a folder.
func (c *Crew) reservePorts(dir string) (p contain.Ports, err error) {
	count := c.box.Config.Ports
	if count == 0 {
		return p, nil
	}
	register := c.opts.ports
	if register == "" {
		if register, err = workspace.PortRegister(); err != nil {
			return p, err
		}
	}
	first, err := workspace.ReservePorts(register, dir, count)
	return contain.Ports{First: first, Count: count}, err
}

// portsOf returns the ports of a folder, none if they cannot be reserved. In a worktree they have been.
func (c *Crew) portsOf(dir string) contain.Ports {
	ports, err := c.reservePorts(dir)
	if err != nil {
		c.warnOnce("cannot reserve ports: " + workspace.Explain(err))
		return contain.Ports{}
	}
	return ports
}

// warnOnce logs a warning, once for each text.
func (c *Crew) warnOnce(text string) {
	c.mu.Lock()
	known := c.told[text]
	c.told[text] = true
	c.mu.Unlock()
	if !known {
		c.log.Warn(text)
	}
}

// setupKey identifies a setup command and those for whom it ran. Others have other caches.
func setupKey(setup config.Setup, home string) string {
	text, err := json.Marshal([]any{setup.Name, setup.Command, setup.Files, home})
	if err != nil {
		panic("crew: a setup command does not encode: " + err.Error()) // it has only strings
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
func (s *session) execSetup(ctx context.Context, w worktree, number int, done *workspace.Preparation) (*setupResult, error) {
	repo, setup := s.crew.project.Repo, s.crew.box.Config.Setup[number]
	before, err := repo.Observe(ctx, w.dir)
	if err != nil {
		return nil, err
	}
	done.Running = true
	if err := done.Save(); err != nil {
		return nil, err
	}
	s.live("setup: " + setup.Name)
	defer s.live("")
	contained := func(_ workspace.Check, _ workspace.Environment, session string) *contain.Program {
		due := contain.Setup{Config: setup, Work: s.work, Homes: w.homes, Session: session, Dir: w.dir, Ports: s.crew.portsOf(w.dir)}
		if w.homes == nil {
			due.Author = &contain.Agent{Name: s.agentName(), Role: string(s.role), Work: s.work}
			if session != exampleSession { // which is not started, and so not finished
				due.Author.Cache = s.crew.useCache()
			}
		}
		return s.crew.site.Setup(due)
	}
	command := workspace.Check{Name: setup.Name, Command: setup.Command, Timeout: setup.Timeout}
	results, err := workspace.RunChecks(ctx, w.dir, []workspace.Check{command}, workspace.ChecksOptions{
		Env:     []string{"SIGNALBOX_WORK=" + s.work},
		Contain: contained,
		Grace:   s.crew.box.Config.Grace,
		Started: s.endWithLease,
		Start:   s.crew.startCheck,
		Register: func(name string, id process.ID) (func(), error) {
			return func() { s.crew.owner.Remove(name) }, s.crew.owner.Add(name, id)
		},
	})
	if leftBy(err) != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	found := &setupResult{report: rules.ReportSetup{Session: s.id, Epoch: s.epoch, Ran: rules.SetupRan{Command: setup.Name, Commit: before.Commit()}}}
	report := &found.report
	if err != nil { // it could not be started
		report.Ran.Exit, report.Cause = -1, workspace.Explain(err)
		return found, nil
	}
	r := results[0]
	report.Ran.Restored, found.left, err = repo.Undo(ctx, before)
	if err != nil && !errors.Is(err, workspace.ErrCommitted) {
		return nil, err
	}
	report.Ran.Exit, report.Ran.Passed, report.Ran.TimedOut, report.Ran.Millis = r.Exit, r.Passed && err == nil, r.TimedOut, r.Duration.Milliseconds()
	switch {
	case err != nil:
		report.Cause = err.Error() + ", which setup commands must not do"
	case !r.Passed:
		report.Cause = setupCause(w, setup, command, contained(command, workspace.Environment{}, exampleSession), r)
	}
	if report.Ran.Output, err = s.put(r.Output); err != nil {
		return nil, err
	}
	if report.Ran.Sandbox, err = s.recordedPolicy(r.Sandbox); err != nil {
		return nil, err
	}
	if !report.Ran.Passed {
		body := fmt.Sprintf("%s: exit status %d after %s\n\n%s\n", setup.Name, r.Exit, r.Duration.Round(time.Millisecond), quoteOutput(r.Output))
		if report.Body, err = s.put([]byte(body)); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// reportSetup records how a worktree was made ready. If that failed, and not because of the task, it returns errSetupFailed.
func (s *session) reportSetup(report rules.ReportSetup) error {
	if _, err := s.submit(report); err != nil {
		return asLeaseLost(err)
	}
	if !report.Ran.Passed && !report.OfTask {
		return errSetupFailed
	}
	return nil
}

// setupCause returns why a setup command failed, as far as that is known, on one line.
func setupCause(w worktree, setup config.Setup, command workspace.Check, contained *contain.Program, r workspace.CheckResult) string {
	cause := fmt.Sprintf("exit status %d", r.Exit)
	if r.TimedOut {
		cause = fmt.Sprintf("it took longer than %s", setup.Timeout)
	}
	if last := lastLine(endOf(r.Output)); last != "" {
		cause += ": " + text.OneLine(last)
	}
	for _, found := range workspace.DiagnoseFailure(os.DirFS(w.dir), command, workspace.Environment{}, contained, r) {
		cause += fmt.Sprintf("; %s (%s)", aboutSetup.Replace(found.What), aboutSetup.Replace(found.Fix))
	}
	return cause
}

// aboutSetup makes a diagnosis of a check one of a setup command.
var aboutSetup = strings.NewReplacer("the command of the check", "the command", "the check", "the command")

// live shows what the session does.
func (s *session) live(line string) {
	if s.crew.opts.Live != nil {
		s.crew.opts.Live(Activity{s.work, s.id, s.role, line})
	}
}

// setupWorkspace makes the workspace of the session's agent ready. An author who must resolve a conflict, or clean up, gets it as it is:
// the files may have conflict markers.
func (s *session) setupWorkspace(ctx context.Context, ws *sessionWorkspace, tree *workspace.Tree) error {
	if task := s.workItem().Task; ws.cleanupNote != "" || task.Conflict != nil && s.role == signalbox.RoleDeveloper {
		return nil
	}
	w := worktree{dir: ws.dir, tree: tree}
	if !s.role.IsAuthor() { // the commands run what a developer wrote, which must not reach the home folder of a reviewer
		homes, err := s.crew.site.OpenHomes(s.work, contain.ChecksHome, false)
		if err != nil {
			return err
		}
		defer homes.Close()
		w.homes = homes
	}
	err := s.prepare(ctx, w)
	if fault := (*setupFault)(nil); errors.As(err, &fault) { // the agent can repair it, or judge it
		ws.cleanupNote = fmt.Sprintf("The folder is not ready to work in: %s. The command passes on the base branch, so a change of this task is the cause.", fault)
		return nil
	}
	return err
}

// DiagnoseSetup returns what the setup commands of a project need and do not find, without running them. dir is the folder of the box,
// and files are those of the project that a new worktree has. Only the first command is sure to find no other files.
func DiagnoseSetup(c *config.Config, project Project, dir string, files fs.FS) (missing []MissingForCheck, err error) {
	site, err := SiteOf(c, project, dir)
	if err != nil {
		return nil, err
	}
	for i, setup := range c.Setup {
		p := site.Setup(contain.Setup{Config: setup, Work: exampleWork, Session: exampleSession, Dir: exampleFolder(site, project)})
		for _, cause := range workspace.Diagnose(files, workspace.Check{Name: setup.Name, Command: setup.Command}, workspace.Environment{}, p) {
			if cause.File && (i > 0 || len(c.Copy) > 0) {
				continue // the commands before it may create it
			}
			cause.What, cause.Fix = aboutSetup.Replace(cause.What), aboutSetup.Replace(cause.Fix)
			missing = append(missing, MissingForCheck{setup.Name, cause})
		}
	}
	return missing, nil
}
