package workspace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"signalbox"
	"signalbox/internal/git"
	"signalbox/internal/lazy"
)

// runner runs git in a repository, and holds the locks of its worktrees. All parts of a Repo share
// it.
type runner struct {
	// Root is the worktree that contains the folder given to Find.
	Root string
	// Base is the branch that work is merged into, such as main.
	Base string
	// Warn receives warnings for people, such as about submodules that are not on this machine; nil
	// discards them. It may be called concurrently, and with the same text again.
	Warn func(text string)

	folder     string // contains the worktrees
	common     string // the git folder that all worktrees share
	shallow    string // the file shallow in it, as Find found it
	repository *git.Repository
	// how long to wait for another git's lock; longer than oldLock, so that an abandoned lock never
	// stops us
	lockWait  time.Duration
	processes atomic.Int64        // how many git processes were started
	step      func(name string)   // test hook: called at each step
	started   func(args []string) // test hook: called with the arguments of each git
}

// call is one run of git.
type call struct {
	dir   string
	args  []string
	env   []string
	stdin []byte
	// empty is an empty folder that git takes for the worktree, so that it finds no attributes; ""
	// means dir.
	empty string
	// input is read instead of stdin; such a call is not retried.
	input io.Reader
	// stdout receives the output instead of the caller; such a call is not retried.
	stdout io.Writer
	// inherit is a lock that git inherits. If this process is killed, the lock stays held until git
	// has ended too.
	inherit *heldLock
	// inWorktrees reports that git writes files of our worktrees, though not in dir.
	inWorktrees bool
	// helpers lets git start other gits.
	helpers bool
	// network lets git talk to another repository.
	network bool
}

// gitError is the error of a git process.
type gitError struct {
	command string
	status  int // -1 if a signal ended it
	stderr  string
	err     error
}

func (e *gitError) Error() string {
	text := strings.TrimSpace(e.stderr)
	if text == "" {
		text = e.err.Error()
	}
	return "git " + e.command + ": " + strings.TrimPrefix(text, "fatal: ")
}

func (e *gitError) Unwrap() error { return e.err }

// stderrHas reports whether err is a git error whose stderr contains one of the texts.
func stderrHas(err error, texts ...string) bool {
	failed := (*gitError)(nil)
	if !errors.As(err, &failed) {
		return false
	}
	return slices.ContainsFunc(texts,
		func(text string) bool { return strings.Contains(failed.stderr, text) })
}

// status returns the exit status of a git error, or -1.
func status(err error) int {
	if failed := (*gitError)(nil); errors.As(err, &failed) {
		return failed.status
	}
	return -1
}

// git runs git in the user's worktree and returns its output.
func (r *runner) git(ctx context.Context, args ...string) (string, error) {
	return r.gitIn(ctx, r.Root, args...)
}

// gitIn runs git in a folder.
func (r *runner) gitIn(ctx context.Context, dir string, args ...string) (string, error) {
	return r.run(ctx, call{dir: dir, args: args})
}

// line runs git in the user's worktree, with an input, and returns the one line that it prints.
func (r *runner) line(ctx context.Context, stdin string, args ...string) (string, error) {
	out, err := r.run(ctx, call{dir: r.Root, stdin: []byte(stdin), args: args})
	return strings.TrimSpace(out), err
}

// network runs a git that talks to another repository.
func (r *runner) network(ctx context.Context, args ...string) (string, error) {
	return r.run(ctx, call{dir: r.Root, network: true, args: args})
}

// run runs git. If another git holds a lock, or is creating or removing a worktree, it waits up to
// r.lockWait.
func (r *runner) run(ctx context.Context, c call) (string, error) {
	deadline := time.Now().Add(r.lockWait)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		out, stderr, err := r.runOnce(ctx, c)
		if err == nil || c.stdout != nil || c.input != nil {
			return out, err
		}
		lock, expired := blockingLock(stderr), !time.Now().Before(deadline)
		switch {
		case lock == "" && (expired || !readPartialWorktree(stderr)):
			return out, err
		case lock != "" && isAbandoned(lock, time.Now()) && os.Remove(lock) == nil:
			continue
		case lock != "" && expired:
			return out, lockError(lock, err)
		}
		select {
		case <-ctx.Done():
			return out, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// readPartialWorktree reports whether git failed because it read the folder of a worktree while
// another git created or removed it. Git reads all of them to know which branches are in use.
func readPartialWorktree(stderr string) bool {
	failed := strings.Contains(stderr, "failed to read") || strings.Contains(stderr, "Invalid path")
	return failed && strings.Contains(filepath.ToSlash(stderr), "/worktrees/")
}

// gitDir returns the git folder of a worktree. Git must not read that from the file .git in the
// worktree, which an agent could have replaced.
func (r *runner) gitDir(dir string) (string, error) {
	if dir == r.Root {
		return r.repository.Dir, nil
	}
	gitDir, err := r.repository.DirOf(dir)
	if err != nil {
		return "", signalbox.CodeFailed.Errorf(
			"inspect the folder and remove it; commits on its branch are kept",
			"the file .git in %s was replaced, so git is not run there", dir)
	}
	return gitDir, nil
}

// runOnce starts git; nothing else does.
func (r *runner) runOnce(ctx context.Context, c call) (out, stderr string, err error) {
	r.processes.Add(1)
	r.started(c.args)
	gitDir, err := r.gitDir(c.dir)
	if err != nil {
		return "", "", err
	}
	ours := filepath.Dir(c.dir) == r.folder
	var stdout, stderrText bytes.Buffer
	reader := &firstError{w: c.stdout}
	in := git.Call{Worktree: cmp.Or(c.empty, c.dir), NoAttributes: c.empty != "", Dir: gitDir,
		Args: c.args, Env: c.env, Ours: c.inWorktrees || ours, Helpers: c.helpers,
		Network: c.network,
		Stdin:   bytes.NewReader(c.stdin), Stdout: &stdout, Stderr: &stderrText}
	if c.stdout != nil {
		in.Stdout = reader
	}
	if c.input != nil {
		in.Stdin = c.input
	}
	if c.inherit != nil && runtime.GOOS != "windows" { // which has no inherited files
		in.Inherit = []*os.File{c.inherit.file}
	}
	err = r.repository.Run(ctx, in)
	exit := (*exec.ExitError)(nil)
	switch {
	case err == nil:
	case reader.err != nil: // git was ended because its output is no longer read, which is not its fault
		err = reader.err
	case errors.Is(err, git.ErrSpecialFile) && ours:
		err = signalbox.CodeConflict.Errorf("remove it",
			"git would wait for a file in %s: %w", c.dir, err)
	case errors.Is(err, git.ErrTooLong) && ours:
		err = signalbox.CodeConflict.Errorf(
			"remove files that git should not read, or ignore them", "git %s in %s: %w",
			c.args[0], c.dir, err)
	case errors.As(err, &exit):
		err = &gitError{command: c.args[0], status: exit.ExitCode(), stderr: stderrText.String(),
			err: err}
	case errors.Is(err, git.ErrTooLong), ctx.Err() != nil:
		err = &gitError{command: c.args[0], status: -1, stderr: stderrText.String(), err: err}
	}
	return stdout.String(), stderrText.String(), err
}

// firstError is a writer that remembers its first error.
type firstError struct {
	w   io.Writer
	err error
}

func (f *firstError) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if f.err == nil {
		f.err = err
	}
	return n, err
}

var lockPattern = lazy.Regexp(`Unable to create '([^\n]+\.lock)': File exists`)

// blockingLock returns the lock file that stopped git, or "".
func blockingLock(stderr string) string {
	if found := lockPattern().FindStringSubmatch(stderr); found != nil {
		return filepath.FromSlash(found[1])
	}
	return ""
}

// ErrLocked means that another git process held a lock for longer than we wait. Trying again later
// may succeed.
var ErrLocked = errors.New("another git process holds a lock")

func lockError(lock string, err error) error {
	return signalbox.CodeConflict.Errorf(
		"wait until that git is done; if no git is running there, remove the file",
		"%w: %s: %w", ErrLocked, lock, err)
}

// Ages at which a lock may be abandoned. Git holds these locks for milliseconds.
const (
	youngLock = 2 * time.Second
	oldLock   = 10 * time.Second
)

// isAbandoned reports whether a killed git left a lock. It is used only for locks of refs and of
// the indexes of our own worktrees, never for the index of a person's checkout, which an open
// editor may lock for an hour.
//
// A lock that is ten seconds old is abandoned. One that is two seconds old is abandoned if no git
// process on this machine is older than the lock. (A git in another container is not visible, hence
// the two seconds.)
func isAbandoned(lock string, now time.Time) bool {
	info, err := os.Stat(lock)
	if err != nil {
		// it is gone: removing it fails, and run waits a moment
		return errors.Is(err, fs.ErrNotExist)
	}
	age := now.Sub(info.ModTime())
	return age >= oldLock || age >= youngLock && noGitBefore(info.ModTime())
}

// noGitBefore reports whether no running git was started before a time. It returns false if that is
// unknown.
func noGitBefore(then time.Time) bool {
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return false
	}
	seconds, err := strconv.ParseFloat(strings.Fields(string(uptime) + " ")[0], 64)
	if err != nil {
		return false
	}
	boot := time.Now().Add(-time.Duration(seconds * float64(time.Second)))
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err == nil && mayBeGitBefore(string(text), boot, then.Add(time.Second)) {
			return false
		}
	}
	return len(names) > 0
}

// mayBeGitBefore parses a line of /proc/PID/stat, such as "123 (git) S …". Its 22nd field is the
// start in hundredths of a second since boot.
func mayBeGitBefore(stat string, boot, then time.Time) bool {
	_, rest, _ := strings.Cut(stat, "(")
	end := strings.LastIndex(rest, ")")
	if end < 0 || !strings.HasPrefix(rest, "git") {
		return false
	}
	fields := strings.Fields(rest[end+1:])
	if len(fields) < 20 {
		return true
	}
	ticks, err := strconv.ParseInt(fields[19], 10, 64)
	return fields[0] != "Z" &&
		(err != nil || !boot.Add(time.Duration(ticks)*10*time.Millisecond).After(then))
}
