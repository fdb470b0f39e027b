package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"signalbox"
)

// call is one run of git.
type call struct {
	dir   string
	args  []string
	env   []string
	stdin []byte
	// to receives the output instead of the caller; such a call is not tried again.
	to io.Writer
	// carry is a lock that git holds with us, so that it is not free before git has ended too, should we be killed alone.
	carry *hold
	// ours says that files of ours are written, though not in dir.
	ours bool
}

// gitError is a git that failed.
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

// said tells whether err is a git that wrote one of the texts to stderr.
func said(err error, texts ...string) bool {
	failed := (*gitError)(nil)
	if !errors.As(err, &failed) {
		return false
	}
	for _, text := range texts {
		if strings.Contains(failed.stderr, text) {
			return true
		}
	}
	return false
}

// status returns the exit status of a git that failed.
func status(err error) int {
	if failed := (*gitError)(nil); errors.As(err, &failed) {
		return failed.status
	}
	return -1
}

// settings hold for every git: no hooks and signatures, which may ask or refuse; no work in the background that outlives the call.
var settings = []string{"-c", "core.hooksPath=/dev/null", "-c", "commit.gpgsign=false", "-c", "core.fsmonitor=false",
	"-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "advice.detachedHead=false", "-c", "core.quotePath=false"}

// plainFiles hold in our trees, whatever an agent set in the configuration that all worktrees share: all files of a commit are there,
// and what is there counts.
var plainFiles = []string{"-c", "core.sparseCheckout=false", "-c", "core.checkStat=default", "-c", "core.ignoreStat=false"}

// git runs git in a folder and returns what it writes.
func (r *Repo) git(ctx context.Context, dir string, args ...string) (string, error) {
	return r.run(ctx, call{dir: dir, args: args})
}

// run runs git. If a lock of another git is in the way, or a tree that another git is just making or removing, it waits, up to
// r.patience.
func (r *Repo) run(ctx context.Context, c call) (string, error) {
	deadline := time.Now().Add(r.patience)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		out, stderr, err := r.once(ctx, c)
		if err == nil || c.to != nil {
			return out, err
		}
		lock, over := lockInTheWay(stderr), !time.Now().Before(deadline)
		switch {
		case lock == "" && (over || !halfATree(stderr)):
			return out, err
		case lock != "" && abandoned(lock) && os.Remove(lock) == nil:
			continue
		case lock != "" && over:
			return out, lockError(lock, err)
		}
		select {
		case <-ctx.Done():
			return out, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// halfATree tells that git met the folder of another tree while it was made or removed: git reads them all to know which
// branches are in use, and the files in them do not appear, or go, all at once.
func halfATree(stderr string) bool {
	return strings.Contains(stderr, "failed to read") && strings.Contains(filepath.ToSlash(stderr), "/worktrees/")
}

// pin tells git which repository a tree belongs to. It must not find that out from the file .git in the tree: an agent could
// have put another there, with settings of its own, and commands in them that git would run for us.
func (r *Repo) pin(dir string) ([]string, error) {
	if r.folder == "" || filepath.Dir(dir) != r.folder {
		return nil, nil
	}
	gitDir, err := gitDirOf(dir)
	if err != nil || filepath.Dir(gitDir) != filepath.Join(r.common, "worktrees") || worktreeOf(gitDir) != dir {
		return nil, refusal(signalbox.CodeFailed, "look at what is in it, and remove it; what was committed on its branch is kept",
			"the file .git in %s was replaced: git is not run there", dir)
	}
	return []string{"GIT_DIR=" + gitDir, "GIT_WORK_TREE=" + dir}, nil
}

// once is the only place that starts git.
func (r *Repo) once(ctx context.Context, c call) (out, stderr string, err error) {
	r.processes.Add(1)
	pinned, err := r.pin(c.dir)
	if err != nil {
		return "", "", err
	}
	args := slices.Concat(settings, r.identity)
	if c.ours || pinned != nil {
		args = append(args, plainFiles...)
	}
	cmd := exec.CommandContext(ctx, r.program, append(args, c.args...)...)
	cmd.Dir = c.dir
	cmd.Env = append(append(environment(), pinned...), c.env...)
	cmd.Stdin = bytes.NewReader(c.stdin)
	var output, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &complaints
	if c.to != nil {
		cmd.Stdout = c.to
	}
	if runtime.GOOS != "windows" { // which has neither
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // git then removes its locks
		if c.carry != nil {
			cmd.ExtraFiles = []*os.File{c.carry.file}
		}
	}
	cmd.WaitDelay = 5 * time.Second
	if err = cmd.Run(); err != nil {
		failed := &gitError{command: c.args[0], status: -1, stderr: complaints.String(), err: err}
		if cmd.ProcessState != nil {
			failed.status = cmd.ProcessState.ExitCode()
		}
		if ctx.Err() != nil {
			failed.err = ctx.Err()
		}
		err = failed
	}
	return output.String(), complaints.String(), err
}

// environment is ours without what points git elsewhere or makes it speak another language. Nor may an agent put one commit in the
// place of another (git replace).
func environment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		name := strings.ToUpper(variable)
		if !strings.HasPrefix(name, "GIT_") && !strings.HasPrefix(name, "LC_ALL=") && !strings.HasPrefix(name, "LANGUAGE=") {
			kept = append(kept, variable)
		}
	}
	return append(kept, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_EDITOR=true")
}

var lockPattern = regexp.MustCompile(`Unable to create '([^\n]+\.lock)': File exists`)

// lockInTheWay returns the lock file that stopped a git, "" if none did.
func lockInTheWay(stderr string) string {
	if found := lockPattern.FindStringSubmatch(stderr); found != nil {
		return filepath.FromSlash(found[1])
	}
	return ""
}

// ErrLocked says that another git is in the way, and was longer than we wait for it. It may be gone a little later.
var ErrLocked = errors.New("another git holds")

func lockError(lock string, err error) error {
	return &signalbox.Error{Code: signalbox.CodeConflict, Err: fmt.Errorf("%w %s: %w", ErrLocked, lock, err),
		Hint: "wait until it is done; if no git is running there, remove the file"}
}

// Ages at which a lock may be abandoned: git holds those that we meet for milliseconds.
const (
	youngLock = 2 * time.Second
	oldLock   = 10 * time.Second
)

// abandoned tells whether a killed git left a lock. run meets locks of refs and of the indexes of our own trees only; the lock
// on the index of somebody's checkout, which an open editor may keep for an hour, is never judged by this.
//
// A lock of ten seconds is. One of two seconds is if the processes of this machine can be looked at, and no git among them is
// older than the lock: whoever held it is gone. (A git in another container cannot be seen, hence the two seconds.)
func abandoned(lock string) bool {
	info, err := os.Stat(lock)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) // gone meanwhile: removing it fails, and run waits a moment
	}
	age := time.Since(info.ModTime())
	return age >= oldLock || age >= youngLock && noGitBefore(info.ModTime())
}

// noGitBefore tells whether no git lives that was started before a time; false if that cannot be told.
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

// mayBeGitBefore reads a line of /proc/…/stat: "123 (git) S …", with the start as its 22nd field in hundredths since the boot.
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
	return fields[0] != "Z" && (err != nil || !boot.Add(time.Duration(ticks)*10*time.Millisecond).After(then))
}
