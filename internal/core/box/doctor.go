package box

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/journal"
	"signalbox/internal/durable"
	"signalbox/internal/git"
	"signalbox/internal/lazy"
	"signalbox/internal/text"
	"signalbox/ledger"
)

// Health is the result of a check.
type Health string

const (
	Healthy Health = "ok"
	Warning Health = "warning" // it works, but something should be fixed
	Problem Health = "problem" // something does not work
)

// Check is one check of Doctor.
type Check struct {
	Name   string `json:"check"`
	Health Health `json:"status"`
	// Detail describes the result.
	Detail string `json:"detail"`
	// Fix is what to do, "" if nothing.
	Fix string `json:"fix,omitempty"`
	// Output is the end of what a failed program printed, "" if nothing.
	Output string `json:"output,omitempty"`
}

// AgentCommand is a program that the configuration starts as an agent.
type AgentCommand struct {
	Name string
	Argv []string
	// Install is the command that installs the program, empty if it is not known.
	Install string
}

// DoctorOptions are options for Doctor.
type DoctorOptions struct {
	Options
	// Version is the version of the program.
	Version string
	// Project is the folder of the project; "" means the current folder.
	Project string
	// Dir is the box's folder. If it was not found, FindError is the error.
	Dir       string
	FindError error
	// Agents are the programs to check.
	Agents []AgentCommand
	// Instead returns a hint to use an installed program in place of a missing one, or "" if there
	// is none. nil means that none is known.
	Instead func(missing string) string
	// Slots is the maximum number of agents that run at once.
	Slots int
	// Progress is called, by any goroutine, with what a slow check waits for. nil discards it.
	Progress func(what string)

	system *system // for tests; nil means the real one
}

// system is the part of the operating system that Doctor uses.
type system struct {
	goos          string
	now           func() time.Time
	freeBytes     func(dir string) (uint64, error)
	openFileLimit func() (limit uint64, err error)
	lockTimeout   time.Duration // how long to wait for a lock
	runTimeout    time.Duration // how long other programs may run
	// versionTimeout is how long the program of an agent may take to print its version: the first
	// start of one on a slow disk takes more than ten seconds.
	versionTimeout time.Duration

	databaseTimeout time.Duration // how long to wait for a database
	afterFunc       func(time.Duration, func()) (stop func() bool)
}

func realSystem() *system {
	after := func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
	return &system{runtime.GOOS, time.Now, freeBytes, openFileLimit, 2 * time.Second,
		5 * time.Second, 30 * time.Second, 10 * time.Second, after}
}

// Doctor checks everything that signalbox needs. It changes nothing.
func Doctor(ctx context.Context, opts DoctorOptions) []Check {
	d := &doctor{DoctorOptions: opts, sys: opts.system}
	if d.sys == nil {
		d.sys = realSystem()
	}
	d.checkPlatform()
	if d.checkGit(ctx) {
		d.checkRepository(ctx)
	}
	if d.checkBox() {
		d.checkConfig(ctx)
		d.checkLocks(ctx)
		d.checkDisk()
		d.checkLedger(ctx)
	}
	d.checkFiles()
	d.checkAgents(ctx)
	return d.checks
}

type doctor struct {
	DoctorOptions
	sys    *system
	checks []Check
}

func (d *doctor) ok(name, format string, args ...any) {
	d.checks = append(d.checks,
		Check{Name: name, Health: Healthy, Detail: fmt.Sprintf(format, args...)})
}

func (d *doctor) add(health Health, name, fix, format string, args ...any) {
	d.checks = append(d.checks,
		Check{Name: name, Health: health, Detail: fmt.Sprintf(format, args...), Fix: fix})
}

// fault adds an error, with its own hint if it has one.
func (d *doctor) fault(health Health, name string, err error, fix string) {
	d.add(health, name, cmp.Or(signalbox.HintOf(err), fix), "%v", err)
}

func (d *doctor) checkPlatform() {
	what := fmt.Sprintf("signalbox %s on %s/%s", d.Version, d.sys.goos, runtime.GOARCH)
	if d.sys.goos != "linux" && d.sys.goos != "darwin" {
		d.add(Warning, "platform",
			"run agents on Linux or macOS; on this system you can only use the ledger",
			"%s, where agents cannot run", what)
		return
	}
	d.ok("platform", "%s", what)
}

// run returns the first line of a program's output.
func (d *doctor) run(ctx context.Context, name string, args ...string) (string, error) {
	return d.runFor(ctx, d.sys.runTimeout, name, args...)
}

func (d *doctor) runFor(ctx context.Context, timeout time.Duration, name string,
	args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C") // print English
	cmd.WaitDelay = time.Second                // for child processes that keep its output open
	killGroup(cmd)
	output, err := cmd.Output()
	return d.firstLine(ctx, output, err)
}

// firstLine returns the first line of a program's output, and its error.
func (d *doctor) firstLine(ctx context.Context, output []byte, err error) (string, error) {
	line, _, _ := bytes.Cut(bytes.TrimSpace(output), []byte("\n"))
	if ctx.Err() != nil {
		err = fmt.Errorf("no output within %s", d.sys.runTimeout)
	}
	if len(line) > 200 {
		line = line[:200]
	}
	return strings.TrimSpace(string(line)), err
}

// Package workspace needs this version of git.
const gitMajor, gitMinor = 2, 39

var gitVersion = lazy.Regexp(`(\d+)\.(\d+)(\.\d+)*`)

func (d *doctor) checkGit(ctx context.Context) bool {
	path, err := exec.LookPath("git")
	if err != nil {
		d.add(Problem, "git", fmt.Sprintf("install git %d.%d or newer", gitMajor, gitMinor),
			"git is not in the PATH")
		return false
	}
	line, err := d.run(ctx, path, "--version")
	found := gitVersion().FindStringSubmatch(line)
	if err != nil || found == nil {
		d.add(Problem, "git", "reinstall git", "%s --version does not print a version: %q %v", path,
			line, err)
		return false
	}
	major, _ := strconv.Atoi(found[1])
	minor, _ := strconv.Atoi(found[2])
	if major < gitMajor || major == gitMajor && minor < gitMinor {
		d.add(Problem, "git", fmt.Sprintf("install git %d.%d or newer", gitMajor, gitMinor),
			"git %s at %s is too old", found[0], path)
		return false
	}
	d.ok("git", "%s at %s", found[0], path)
	return true
}

// checkRepository looks at the repository through a view, as agents may have written to it.
func (d *doctor) checkRepository(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, d.sys.runTimeout)
	defer cancel()
	repository, err := git.Locate(ctx, cmp.Or(d.Project, "."))
	if err != nil {
		d.add(Warning, "repository",
			"run git init, or change to the project's folder; only agents need a repository",
			"this folder is not in a git repository")
		return
	}
	d.ok("repository", "%s", repository.Root)
	view, err := os.MkdirTemp("", "signalbox-git-")
	if err == nil {
		defer os.RemoveAll(view)
		err = repository.UseView(view)
	}
	if err != nil {
		d.add(Warning, "changes", "check the folder for temporary files", "cannot run git: %v", err)
		return
	}
	run := func(args ...string) (string, error) {
		var output bytes.Buffer
		err := repository.Run(ctx, git.Call{Worktree: repository.Root, Dir: repository.Dir,
			Args: args, Stdout: &output})
		return d.firstLine(ctx, output.Bytes(), err)
	}
	branch, err := run("symbolic-ref", "--short", "HEAD")
	if err != nil {
		d.add(Warning, "branch", "check out the branch to merge finished work into",
			"no branch is checked out")
	} else if _, err := run("rev-parse", "--verify", "--quiet", "HEAD"); err != nil {
		d.add(Warning, "branch", "make a first commit: agents start from the last commit",
			"the branch %s has no commit yet", branch)
	} else {
		d.ok("branch", "%s", branch)
	}
	switch changed, err := run("status", "--porcelain", "--ignore-submodules=all", "--", ":(top)",
		":(top,exclude,glob)**/"+FolderName, ":(top,exclude,glob)**/"+FolderName+"/**"); {
	case err != nil:
		d.add(Warning, "changes", "run git status to see why", "git status failed: %v", err)
	case changed != "":
		d.add(Warning, "changes",
			"commit them: agents start from the last commit and do not see them",
			"there are uncommitted changes, such as %s", changed)
	default:
		d.ok("changes", "everything is committed")
	}
}

func (d *doctor) checkBox() bool {
	if d.FindError != nil || d.Dir == "" {
		d.fault(Problem, "box", cmp.Or(d.FindError, errors.New("there is no box")),
			"run signalbox init")
		return false
	}
	d.ok("box", "%s", d.Dir)
	return true
}

func (d *doctor) checkConfig(ctx context.Context) {
	_, err := d.load(ctx, d.Dir)
	if all, ok := errors.AsType[*config.Error](err); ok {
		for i, fault := range all.Faults {
			d.add(Problem, "configuration", fault.Hint, "%s", all.Describe(i))
		}
		return
	}
	if err != nil {
		d.fault(Problem, "configuration", err, "fix "+config.FileName)
		return
	}
	d.ok("configuration", "%s is valid", config.FileName)
}

// checkLocks detects a process that hangs while it holds a lock. Locks are normally held only for a
// moment.
func (d *doctor) checkLocks(ctx context.Context) {
	for _, lock := range []string{"ledger.lock", checkpointLockName} {
		name := filepath.Join(d.Dir, lock)
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			continue // not locked; do not create the file
		}
		waiting, cancel := context.WithTimeout(ctx, d.sys.lockTimeout)
		held, err := durable.Acquire(waiting, name)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			d.add(Problem, "locks", "stop the signalbox process that is suspended or hangs",
				"another process has locked %s for %s", name, d.sys.lockTimeout)
			return
		}
		if err != nil {
			d.add(Warning, "locks", "check the owner and the permissions of the box and its files",
				"%v", err)
			return
		}
		held.Release()
	}
	d.ok("locks", "no process blocks the box")
}

// enoughDisk is the free space that the disk of the box should have.
const enoughDisk = 1 << 30

func (d *doctor) checkDisk() {
	free, err := d.sys.freeBytes(d.Dir)
	switch gib := float64(free) / (1 << 30); {
	case err != nil:
		d.add(Warning, "disk", "check the disk of the box", "cannot determine the free space: %v",
			err)
	case free < enoughDisk:
		d.add(Warning, "disk", "free disk space: on a full disk the ledger cannot be written",
			"%.2f GiB free, less than 1 GiB", gib)
	default:
		d.ok("disk", "%.1f GiB free", gib)
	}
}

func (d *doctor) checkLedger(ctx context.Context) {
	l, ctx, stop, err := d.openToCheck(ctx)
	if err != nil {
		return
	}
	defer stop()
	defer l.Close()
	d.checkKey(l)
	// The checkpoint comes first, because other processes may append and sign meanwhile.
	last, checkpointErr := d.checkpoint(l)
	e, err := l.openWithoutMemory(ctx)
	if err != nil {
		d.fault(Problem, "ledger", err,
			"run signalbox ledger verify, and restore the box from a backup")
		return
	}
	defer e.Close()
	tail := e.Tail()
	if moved := l.movedTo(e); moved != nil {
		d.fault(Problem, "ledger", moved, "")
		return
	}
	if l.ID() == "" {
		d.add(Problem, "ledger", "run signalbox init", "the box is not initialized")
		return
	}
	d.ok("ledger", "%s, %s", l.ID(), text.Count(int(tail.Seq), "event"))
	d.checkMemory(ctx, l)
	d.checkSnapshot(ctx, l, tail.Seq)
	d.checkClock(&tail)
	d.checkCheckpoint(last, checkpointErr, tail.Seq)
}

// checkMemory checks that the ledger has everything that this machine applied.
func (d *doctor) checkMemory(ctx context.Context, l *Ledger) {
	lost, err := l.Lost(ctx)
	if lost != nil {
		err = lost.AsError()
	}
	if err != nil {
		d.fault(Problem, "memory", err, "run signalbox ledger verify")
		return
	}
	last, ok, err := l.Remembered()
	switch {
	case err != nil:
		d.fault(Problem, "memory", err, "check the file applied in the box")
	case !ok:
		d.add(Warning, "memory", "the next command that writes starts it",
			"this machine remembers no events yet, so it would not notice that some are lost")
	default:
		d.ok("memory", "the ledger has all that this machine applied, up to event %d of %s",
			last.Seq, last.Time.UTC().Format(time.RFC3339))
	}
}

func (d *doctor) checkSnapshot(ctx context.Context, l *Ledger, head uint64) {
	const many = 20_000 // reading these takes a moment
	s, err := l.Journal.LoadSnapshot(ctx)
	switch {
	case err != nil && !errors.Is(err, journal.ErrNoSnapshot):
		d.fault(Warning, "snapshot", err, "check the file snapshot in the box")
	case head-min(head, s.Seq) > max(many, head/4):
		d.add(Warning, "snapshot",
			"remove the file snapshot in the box and check that the folder is writable: the next command that writes saves a new one",
			"every command reads %d events, because the snapshot ends at event %d", head-s.Seq,
			s.Seq)
	case s.Seq > head:
		d.add(Warning, "snapshot", "run signalbox ledger verify",
			"it covers %d events, but the ledger has %d", s.Seq, head)
	default:
		d.ok("snapshot", "%s behind", text.Count(int(head-s.Seq), "event"))
	}
}

// firstRelease is before any event can have been written.
var firstRelease = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (d *doctor) checkClock(tail *ledger.Tail) {
	now := d.sys.now()
	switch ahead := tail.Time.Sub(now); {
	case now.Before(firstRelease):
		d.add(Problem, "clock", "set the clock, and use a time service",
			"the time is %s, which is wrong", now.UTC().Format(time.RFC3339))
	case ahead > journal.MaxAhead:
		d.add(Problem, "clock",
			"correct the clock; if it is correct, the last event was written with a clock that was ahead, and no lease expires before that time: run signalbox ledger repair --clock",
			"the time is %s, but the last event has %s, %s ahead", now.UTC().Format(time.RFC3339),
			tail.Time.UTC().Format(time.RFC3339), ahead.Round(time.Second))
	default:
		d.ok("clock", "%s", now.UTC().Format(time.RFC3339))
	}
}

func (d *doctor) checkKey(l *Ledger) {
	if err := l.CheckPublicKey(); signalbox.CodeOf(err) == signalbox.CodeUnverified {
		d.fault(Problem, "key", err, "")
		return
	}
	_, _, err := l.privateKey()
	switch {
	case errors.Is(err, ErrNoKey):
		d.fault(Warning, "key", err, "what happens here is signed by a machine that has the key")
		return
	case err != nil:
		d.fault(Problem, "key", err, "restore the key from a copy")
		return
	}
	name, _ := l.keyFile(l.ID())
	d.ok("key", "%s", name)
}

func (d *doctor) checkpoint(l *Ledger) (*Checkpoint, error) {
	public, err := l.PublicKey()
	if err != nil {
		return nil, err
	}
	return l.lastCheckpoint(public)
}

func (d *doctor) checkCheckpoint(last *Checkpoint, err error, head uint64) {
	const sign = "run signalbox ledger checkpoint on a host that has the key"
	switch {
	case err != nil:
		d.fault(Problem, "checkpoint", err, "run signalbox ledger verify")
	case last == nil:
		d.add(Warning, "checkpoint", sign, "nothing is signed yet")
	case last.Size > head:
		d.fault(Problem, "checkpoint", checkLength(last.Size, head), "")
	case last.Size < head:
		d.add(Warning, "checkpoint", sign, "%s not signed yet",
			text.Count(int(head-last.Size), "event"))
	default:
		d.ok("checkpoint", "all signed, %s", text.Count(int(head), "event"))
	}
}

// Open files that each agent slot needs (pipes, files, worktrees), and those that the rest of the
// program needs.
const filesPerSlot, filesBase = 32, 128

func (d *doctor) checkFiles() {
	limit, err := d.sys.openFileLimit()
	need := uint64(filesBase + d.Slots*filesPerSlot)
	switch {
	case err != nil:
		d.add(Warning, "files", "check the limit on open files", "cannot determine the limit: %v",
			err)
	case limit < need:
		d.add(Warning, "files", fmt.Sprintf("raise the limit: ulimit -n %d", need),
			"only %d files may be open, but %d slots may need %d", limit, d.Slots, need)
	default:
		d.ok("files", "%s files may be open", limitText(limit))
	}
}

func limitText(limit uint64) string {
	if limit >= 1<<31 {
		return "any number of"
	}
	return strconv.FormatUint(limit, 10)
}

// slowVersion is how long the program of an agent may take before the user is told.
const slowVersion = 2 * time.Second

// checkAgents checks all agents concurrently, because one that hangs takes until its timeout.
func (d *doctor) checkAgents(ctx context.Context) {
	found := make([]Check, len(d.Agents))
	var running sync.WaitGroup
	for i, agent := range d.Agents {
		running.Go(func() { found[i] = d.checkAgent(ctx, agent) })
	}
	running.Wait()
	d.checks = append(d.checks, found...)
}

func (d *doctor) checkAgent(ctx context.Context, agent AgentCommand) Check {
	name := "agent " + agent.Name
	if len(agent.Argv) == 0 || agent.Argv[0] == "" {
		return Check{Name: name, Health: Problem, Detail: "it has no command", Fix: "set one in " +
			config.FileName}
	}
	path, err := exec.LookPath(agent.Argv[0])
	if err != nil {
		detail, install := err.Error(), "install it"
		if errors.Is(err, exec.ErrNotFound) {
			detail = agent.Argv[0] + " is not on the PATH"
		}
		if agent.Install != "" {
			install += " with " + agent.Install
		}
		other := "set another command in " + config.FileName
		if d.Instead != nil {
			other = cmp.Or(d.Instead(agent.Argv[0]), other)
		}
		return Check{Name: name, Health: Problem, Detail: detail, Fix: install +
			", add it to the PATH, or " + other}
	}
	if d.Progress != nil {
		done := d.sys.afterFunc(slowVersion, func() {
			d.Progress(fmt.Sprintf("waiting for %s --version, at most %s", agent.Argv[0],
				d.sys.versionTimeout))
		})
		defer done()
	}
	version, err := d.runFor(ctx, d.sys.versionTimeout, path, "--version")
	if err != nil || version == "" {
		return Check{Name: name, Health: Healthy, Detail: path +
			", which does not print its version"}
	}
	return Check{Name: name, Health: Healthy, Detail: path + ", " + version}
}
