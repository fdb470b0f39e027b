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
	// home is the name of the home folder of those who work in it.
	home string
	// tree is the worktree of a task; nil means a temporary one.
	tree *workspace.Tree
}

// errSetupFailed means that a worktree could not be made ready. The human was asked, and the lease has ended.
var errSetupFailed = errors.New("the worktree could not be made ready")

// agentHome returns the name of the home folder of the session's agent.
func (s *session) agentHome() string {
	return contain.AgentHome(string(s.role), s.agentName())
}

// prepare makes a worktree ready: it reserves its ports, copies files into it, and runs the setup commands that did not run in it yet, or
// whose files have changed since. If something fails, the human is asked, and the error is errSetupFailed.
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
	for _, setup := range s.crew.box.Config.Setup {
		key := setupKey(setup, w.home)
		if files, ran := done.Setup[key]; ran && files == workspace.DigestFiles(w.dir, setup.Files) {
			continue
		}
		left, err := s.runSetup(ctx, w, setup, done)
		if errors.Is(err, workspace.ErrNotClean) { // an agent must clean up first
			s.crew.log.Warn("a setup command did not run, because the worktree has changes that are not committed", "work", s.work, "command", setup.Name)
			continue
		}
		if err == nil {
			done.Add(key, workspace.DigestFiles(w.dir, setup.Files))
		}
		if err == nil || errors.Is(err, errSetupFailed) {
			done.Leave(w.dir, left)
			done.Running = false
			err = errors.Join(err, done.Save())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyFiles copies ignored files into a worktree that has none yet.
func (s *session) copyFiles(ctx context.Context, dir string, done *workspace.Preparation) error {
	if done.HasCopied {
		return nil
	}
	c := s.crew.box.Config
	o := workspace.CopyOptions{Limit: int64(c.Limits.Tree), Except: s.crew.box.Dir, Tracked: slices.Contains(c.Copy, workspace.IncludeFile)}
	if len(c.Copy) > 0 {
		o.Match = c.Copies
	}
	copied, notes, err := s.crew.project.Repo.CopyIgnored(ctx, dir, o)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, workspace.ErrCopyTooLarge) {
		err = fmt.Errorf("%w than %s (limits.tree)", err, c.Limits.Tree)
	}
	if err != nil {
		return s.failSetup("copying files", err)
	}
	for _, note := range notes {
		s.crew.warnOnce(note)
	}
	done.Copied, done.HasCopied = copied, true
	return done.Save()
}

// failSetup reports that something other than a setup command failed.
func (s *session) failSetup(what string, err error) error {
	return s.reportSetup(rules.ReportSetup{Session: s.id, Epoch: s.epoch, Ran: rules.SetupRan{Command: what, Exit: -1}, Cause: detail(err)})
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
		c.warnOnce("cannot reserve ports: " + detail(err))
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

// runSetup runs a setup command, puts back the tracked files that it changed, and records it. It returns the files that it left and that
// git does not ignore.
func (s *session) runSetup(ctx context.Context, w worktree, setup config.Setup, done *workspace.Preparation) (left []string, err error) {
	repo := s.crew.project.Repo
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
		return s.crew.site.Setup(contain.Setup{Config: setup, Work: s.work, Home: w.home, Session: session, Dir: w.dir, Ports: s.crew.portsOf(w.dir)})
	}
	command := workspace.Check{Name: setup.Name, Command: setup.Command, Timeout: setup.Timeout}
	results, err := workspace.RunChecks(ctx, w.dir, []workspace.Check{command}, workspace.ChecksOptions{
		Env:     []string{"SIGNALBOX_WORK=" + s.work},
		Contain: contained,
		Register: func(name string, id process.ID) (func(), error) {
			return func() { s.crew.owner.Remove(name) }, s.crew.owner.Add(name, id)
		},
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	report := rules.ReportSetup{Session: s.id, Epoch: s.epoch, Ran: rules.SetupRan{Command: setup.Name, Commit: before.Commit()}}
	if err != nil { // it could not be started
		report.Ran.Exit, report.Cause = -1, detail(err)
		return nil, s.reportSetup(report)
	}
	r := results[0]
	report.Ran.Restored, left, err = repo.Undo(ctx, before)
	if err != nil && !errors.Is(err, workspace.ErrCommitted) {
		return nil, err
	}
	report.Ran.Exit, report.Ran.Passed, report.Ran.TimedOut, report.Ran.Millis = r.Exit, r.Passed && err == nil, r.TimedOut, r.Duration.Milliseconds()
	switch {
	case err != nil:
		report.Cause = err.Error() + ", which setup commands must not do"
	case !r.Passed:
		report.Cause = s.setupCause(ctx, w, setup, command, contained(command, workspace.Environment{}, exampleSession), r, before.Commit())
	}
	if report.Ran.Output, err = s.crew.put(r.Output); err != nil {
		return nil, err
	}
	if report.Ran.Sandbox, err = s.crew.recordedPolicy(r.Sandbox); err != nil {
		return nil, err
	}
	if !report.Ran.Passed {
		body := fmt.Sprintf("%s: exit status %d after %s\n\n%s\n", setup.Name, r.Exit, r.Duration.Round(time.Millisecond), quoteOutput(r.Output))
		if report.Body, err = s.crew.put([]byte(body)); err != nil {
			return nil, err
		}
	}
	return left, s.reportSetup(report)
}

// reportSetup records how a worktree was made ready. If that failed, it returns errSetupFailed.
func (s *session) reportSetup(report rules.ReportSetup) error {
	if _, err := s.submit(report); err != nil {
		return asLeaseLost(err)
	}
	if !report.Ran.Passed {
		return errSetupFailed
	}
	return nil
}

// setupCause returns why a setup command failed, as far as that is known, on one line.
func (s *session) setupCause(ctx context.Context, w worktree, setup config.Setup, command workspace.Check, contained *contain.Program, r workspace.CheckResult, commit string) string {
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
	if changed := s.changedSetupFiles(ctx, setup, commit); len(changed) > 0 {
		cause += fmt.Sprintf("; %s changes %s: if that is the cause, pause or cancel it before you answer", s.work, strings.Join(changed, ", "))
	}
	return cause
}

// aboutSetup makes a diagnosis of a check one of a setup command.
var aboutSetup = strings.NewReplacer("the command of the check", "the command", "the check", "the command")

// changedSetupFiles returns the files of a setup command that the task changes.
func (s *session) changedSetupFiles(ctx context.Context, setup config.Setup, commit string) (changed []string) {
	base := s.crew.knownBase()
	if base == "" || commit == base || len(setup.Files) == 0 {
		return nil
	}
	files, err := s.crew.project.Repo.Changed(ctx, base, commit)
	if err != nil {
		return nil // it would only make the question more helpful
	}
	for _, name := range setup.Files {
		if slices.Contains(files, name) {
			changed = append(changed, name)
		}
	}
	return changed
}

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
	home := contain.ChecksHome // the commands run what a developer wrote, which must not reach the home folder of a reviewer
	if s.role == signalbox.RoleDeveloper || s.role == signalbox.RoleRemediation {
		home = s.agentHome()
	}
	return s.prepare(ctx, worktree{dir: ws.dir, home: home, tree: tree})
}

// DiagnoseSetup returns what the setup commands of a project need and do not find, without running them. dir is the folder of the box,
// and files are those of the project that a new worktree has. Only the first command is sure to find no other files.
func DiagnoseSetup(c *config.Config, project Project, dir string, files fs.FS) (missing []MissingForCheck, err error) {
	site, err := SiteOf(c, project, dir)
	if err != nil {
		return nil, err
	}
	for i, setup := range c.Setup {
		p := site.Setup(contain.Setup{Config: setup, Work: exampleWork, Home: contain.ChecksHome, Session: exampleSession, Dir: exampleFolder(site, project)})
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
