package box

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/sqlite"
	"signalbox/internal/durable"
	"signalbox/ledger"
)

// Health is what a check found.
type Health string

const (
	Healthy Health = "ok"
	Warning Health = "warning" // it works, but not as well as it could
	Problem Health = "problem" // something does not work
)

// Check is one thing that Doctor looked at.
type Check struct {
	Name   string `json:"check"`
	Health Health `json:"status"`
	// Detail says what was found.
	Detail string `json:"detail"`
	// Fix says what to do, "" if there is nothing to do.
	Fix string `json:"fix,omitempty"`
}

// AgentCommand is a program that the configuration starts as an agent.
type AgentCommand struct {
	Name string
	Argv []string
}

// DoctorOptions says what to look at.
type DoctorOptions struct {
	Options
	// Version is that of the program.
	Version string
	// Project is the folder that the work is about; "" is the current one.
	Project string
	// Dir is the box's folder; if it was not found, FindError says why.
	Dir       string
	FindError error
	// Agents are the programs to look for.
	Agents []AgentCommand
	// Slots is how many agents run at once; 0 is none.
	Slots int

	system *system // for tests; nil is the real one
}

// system is what Doctor asks of the machine.
type system struct {
	goos      string
	now       func() time.Time
	freeBytes func(dir string) (uint64, error)
	openFiles func() (limit uint64, err error)
	patience  time.Duration // with locks
	answer    time.Duration // of other programs
}

func theSystem() *system {
	return &system{runtime.GOOS, time.Now, freeBytes, openFiles, 2 * time.Second, 5 * time.Second}
}

// Doctor looks at everything that signalbox needs, and says what is wrong and what to do about it. It changes nothing.
func Doctor(ctx context.Context, opts DoctorOptions) []Check {
	d := &doctor{DoctorOptions: opts, sys: opts.system}
	if d.sys == nil {
		d.sys = theSystem()
	}
	d.checkPlatform()
	if d.checkGit(ctx) {
		d.checkRepository(ctx)
	}
	if d.checkBox() {
		d.checkConfig()
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
	d.checks = append(d.checks, Check{Name: name, Health: Healthy, Detail: fmt.Sprintf(format, args...)})
}

func (d *doctor) add(health Health, name, fix, format string, args ...any) {
	d.checks = append(d.checks, Check{name, health, fmt.Sprintf(format, args...), fix})
}

// fault adds an error with its hint, or another one if it has none.
func (d *doctor) fault(health Health, name string, err error, fix string) {
	if classed := (*signalbox.Error)(nil); errors.As(err, &classed) && classed.Hint != "" {
		fix = classed.Hint
	}
	d.add(health, name, fix, "%v", err)
}

func (d *doctor) checkPlatform() {
	what := fmt.Sprintf("signalbox %s on %s/%s", d.Version, d.sys.goos, runtime.GOARCH)
	if d.sys.goos != "linux" && d.sys.goos != "darwin" {
		d.add(Warning, "platform", "run agents on Linux or macOS; here you can keep the record and look at it", "%s, where agents cannot be run", what)
		return
	}
	d.ok("platform", "%s", what)
}

// run returns the first line that a program prints.
func (d *doctor) run(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, d.sys.answer)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C") // to look only, and to be understood
	cmd.WaitDelay = 100 * time.Millisecond                             // for children that keep its output open
	endTogether(cmd)
	output, err := cmd.Output()
	line, _, _ := bytes.Cut(bytes.TrimSpace(output), []byte("\n"))
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer within %s", d.sys.answer)
	}
	if len(line) > 200 {
		line = line[:200]
	}
	return strings.TrimSpace(string(line)), err
}

// Worktrees and merges use what git has since this release.
const gitMajor, gitMinor = 2, 31

var gitVersion = regexp.MustCompile(`(\d+)\.(\d+)(\.\d+)*`)

func (d *doctor) checkGit(ctx context.Context) bool {
	path, err := exec.LookPath("git")
	if err != nil {
		d.add(Problem, "git", fmt.Sprintf("install git %d.%d or newer", gitMajor, gitMinor), "git is not in the PATH")
		return false
	}
	line, err := d.run(ctx, path, "--version")
	found := gitVersion.FindStringSubmatch(line)
	if err != nil || found == nil {
		d.add(Problem, "git", "mend or reinstall git", "%s --version does not say a version: %q %v", path, line, err)
		return false
	}
	major, _ := strconv.Atoi(found[1])
	minor, _ := strconv.Atoi(found[2])
	if major < gitMajor || major == gitMajor && minor < gitMinor {
		d.add(Problem, "git", fmt.Sprintf("install git %d.%d or newer", gitMajor, gitMinor), "git %s at %s is too old", found[0], path)
		return false
	}
	d.ok("git", "%s at %s", found[0], path)
	return true
}

func (d *doctor) git(ctx context.Context, args ...string) (string, error) {
	if d.Project != "" {
		args = append([]string{"-C", d.Project}, args...)
	}
	return d.run(ctx, "git", args...)
}

func (d *doctor) checkRepository(ctx context.Context) {
	top, err := d.git(ctx, "rev-parse", "--show-toplevel")
	if err != nil || top == "" {
		d.add(Warning, "repository", "run git init, or go to the project; work that is done by hand needs none", "this is not the working tree of a git repository")
		return
	}
	d.ok("repository", "%s", top)
	branch, err := d.git(ctx, "symbolic-ref", "--short", "HEAD")
	if err != nil {
		d.add(Warning, "branch", "check out the branch that finished work is to be merged into", "no branch is checked out")
	} else if _, err := d.git(ctx, "rev-parse", "--verify", "--quiet", "HEAD"); err != nil {
		d.add(Warning, "branch", "commit something: agents work on copies of the last commit", "the branch %s has no commit yet", branch)
	} else {
		d.ok("branch", "%s", branch)
	}
	switch changed, err := d.git(ctx, "status", "--porcelain"); {
	case err != nil:
		d.add(Warning, "changes", "run git status to see why", "git status failed: %v", err)
	case changed != "":
		d.add(Warning, "changes", "commit or stash them: agents begin with the last commit and do not see them", "there are changes that are not committed, such as %s", changed)
	default:
		d.ok("changes", "all is committed")
	}
}

func (d *doctor) checkBox() bool {
	if d.FindError != nil || d.Dir == "" {
		d.fault(Problem, "box", cmpError(d.FindError, errors.New("there is no box")), "run signalbox init")
		return false
	}
	d.ok("box", "%s", d.Dir)
	return true
}

func cmpError(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

func (d *doctor) checkConfig() {
	if _, err := config.Load(d.Dir); err != nil {
		d.fault(Problem, "configuration", err, "mend "+config.FileName)
		return
	}
	d.ok("configuration", "%s is valid", config.FileName)
}

// checkLocks looks for a process that hangs while others wait for it. A lock is held for a moment only.
func (d *doctor) checkLocks(ctx context.Context) {
	for _, lock := range []string{"ledger.lock", checkpointLockName} {
		name := filepath.Join(d.Dir, lock)
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			continue // so nobody has it, and looking makes no files
		}
		waiting, cancel := context.WithTimeout(ctx, d.sys.patience)
		held, err := durable.Acquire(waiting, name)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			d.add(Problem, "locks", "look for a signalbox process that was stopped or hangs, and end it", "another process has kept %s for %s", name, d.sys.patience)
			return
		}
		if err != nil {
			d.add(Warning, "locks", "check who owns the box and who may write its files", "%v", err)
			return
		}
		held.Release()
	}
	d.ok("locks", "nobody keeps the box from being written to")
}

// enoughDisk is what should be free where the box is.
const enoughDisk = 1 << 30

func (d *doctor) checkDisk() {
	free, err := d.sys.freeBytes(d.Dir)
	switch gib := float64(free) / (1 << 30); {
	case err != nil:
		d.add(Warning, "disk", "check the disk of the box", "cannot tell how much is free: %v", err)
	case free < enoughDisk:
		d.add(Warning, "disk", "make room: without any the ledger cannot be written", "%.2f GiB are free, less than 1 GiB", gib)
	default:
		d.ok("disk", "%.1f GiB are free", gib)
	}
}

func (d *doctor) checkLedger(ctx context.Context) {
	l, err := openLedger(ctx, d.Dir, &d.Options, &sqlite.Options{})
	if err != nil {
		readable, readErr := openLedger(ctx, d.Dir, &d.Options, &sqlite.Options{ReadOnly: true})
		if readErr != nil {
			d.fault(Problem, "journal", err, "restore the box from a backup")
			return
		}
		d.fault(Problem, "journal", fmt.Errorf("it can be read but not written: %w", err), "check who owns the box and who may write its files")
		l = readable
	} else {
		d.ok("journal", "it opens")
	}
	defer l.Close()
	d.checkKey(l)
	// The checkpoint comes before the fold: what is appended and signed meanwhile is not missing.
	last, checkpointErr := d.checkpoint(l)
	e, err := engine.Open(ctx, l.Journal, &engine.Options{Log: l.options.Log})
	if err != nil {
		d.fault(Problem, "ledger", err, "run signalbox ledger verify, and restore the box from a backup")
		return
	}
	defer e.Close()
	tail := e.Tail()
	if l.ID() == "" {
		d.add(Problem, "ledger", "run signalbox init", "the box was never opened")
		return
	}
	d.ok("ledger", "%s, %s", l.ID(), eventsText(tail.Seq))
	d.checkSnapshot(ctx, l, tail.Seq)
	d.checkClock(&tail)
	d.checkCheckpoint(last, checkpointErr, tail.Seq)
}

func (d *doctor) checkSnapshot(ctx context.Context, l *Ledger, head uint64) {
	const many = 20_000 // events that are read in no time
	s, err := l.Journal.LoadSnapshot(ctx)
	switch {
	case err != nil && !errors.Is(err, journal.ErrNoSnapshot):
		d.fault(Warning, "snapshot", err, "check the file snapshot in the box")
	case head-min(head, s.Seq) > max(many, head/4):
		d.add(Warning, "snapshot", "remove the file snapshot in the box, and see that you may write there: the next command that writes saves a new one",
			"every start reads %d events, because the snapshot ends at event %d", head-s.Seq, s.Seq)
	case s.Seq > head:
		d.add(Warning, "snapshot", "run signalbox ledger verify", "it is of a ledger with %d events, and there are %d", s.Seq, head)
	default:
		d.ok("snapshot", "%s behind", eventsText(head-s.Seq))
	}
}

// No signalbox was there before.
var firstRelease = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (d *doctor) checkClock(tail *ledger.Tail) {
	now := d.sys.now()
	switch ahead := tail.Time.Sub(now); {
	case now.Before(firstRelease):
		d.add(Problem, "clock", "set the clock, and let a time service keep it", "it says %s, which cannot be", now.UTC().Format(time.RFC3339))
	case ahead > 5*time.Second:
		d.add(Problem, "clock", "set the clock right; if it is right, one that was ahead wrote that event, and until then leases do not expire",
			"it says %s, and the last event is of %s, %s ahead", now.UTC().Format(time.RFC3339), tail.Time.UTC().Format(time.RFC3339), ahead.Round(time.Second))
	default:
		d.ok("clock", "%s", now.UTC().Format(time.RFC3339))
	}
}

func (d *doctor) checkKey(l *Ledger) {
	private, err := l.privateKey()
	switch {
	case errors.Is(err, ErrNoKey):
		d.fault(Warning, "key", err, "")
		return
	case err != nil:
		d.fault(Problem, "key", err, "restore the key from a copy")
		return
	}
	public, err := ledger.PublicKey(private)
	if err != nil {
		d.fault(Problem, "key", err, "restore the key from a copy")
		return
	}
	if text, _ := readOptional(l.file(publicKeyName)); text != nil && strings.TrimSpace(string(text)) != public {
		d.add(Problem, "key", "find out who changed it, and run signalbox ledger verify; signing puts the right one there",
			"%s is not the public key of the key on this host", l.file(publicKeyName))
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
		d.add(Warning, "checkpoint", sign, "nothing is signed")
	case last.Size > head:
		d.fault(Problem, "checkpoint", cut(last.Size, head), "")
	case last.Size < head:
		d.add(Warning, "checkpoint", sign, "%s not signed yet", eventsText(head-last.Size))
	default:
		d.ok("checkpoint", "it signs all, %s", eventsText(head))
	}
}

// An agent's slot takes pipes, files and worktrees, and the rest of the program as many as this.
const filesPerSlot, filesBesides = 32, 128

func (d *doctor) checkFiles() {
	limit, err := d.sys.openFiles()
	need := uint64(filesBesides + d.Slots*filesPerSlot)
	switch {
	case err != nil:
		d.add(Warning, "files", "check the limit on open files", "cannot tell how many files may be open: %v", err)
	case limit < need:
		d.add(Warning, "files", fmt.Sprintf("raise it: ulimit -n %d", need), "%d files may be open at once, and %d slots may need %d", limit, d.Slots, need)
	default:
		d.ok("files", "%s files may be open at once", limitText(limit))
	}
}

func eventsText(n uint64) string {
	if n == 1 {
		return "1 event"
	}
	return fmt.Sprintf("%d events", n)
}

func limitText(limit uint64) string {
	if limit >= 1<<31 {
		return "any number of"
	}
	return strconv.FormatUint(limit, 10)
}

// checkAgents asks all at once: one that does not answer takes its time.
func (d *doctor) checkAgents(ctx context.Context) {
	found := make([]Check, len(d.Agents))
	var asking sync.WaitGroup
	for i, agent := range d.Agents {
		asking.Go(func() { found[i] = d.checkAgent(ctx, agent) })
	}
	asking.Wait()
	d.checks = append(d.checks, found...)
}

func (d *doctor) checkAgent(ctx context.Context, agent AgentCommand) Check {
	name := "agent " + agent.Name
	if len(agent.Argv) == 0 || agent.Argv[0] == "" {
		return Check{name, Problem, "it has no command", "set one in " + config.FileName}
	}
	path, err := exec.LookPath(agent.Argv[0])
	if err != nil {
		return Check{name, Problem, err.Error(), "install it, put it into the PATH, or name another command in " + config.FileName}
	}
	version, err := d.run(ctx, path, "--version")
	if err != nil || version == "" {
		return Check{Name: name, Health: Healthy, Detail: path + ", which does not say its version"}
	}
	return Check{Name: name, Health: Healthy, Detail: path + ", " + version}
}
