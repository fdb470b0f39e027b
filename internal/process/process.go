// Package process starts programs, restricts what they may do, and ends them with everything they
// started.
//
// A program runs only after the caller has received an identity and recorded it. If this process
// dies before that, the program never runs. A program has no terminal, so nothing that it starts
// can wait for keyboard input.
//
// On Linux a keeper starts the program, and the identity is the keeper's. The keeper ends
// everything that the program started when the program ends, and when this process dies. It is
// never killed before that: without it, what remains could not be found any more. If it does not
// succeed, Exit.Err is a *LeftError. On macOS only the members of the process group are ended;
// after a crash, EndOrphan ends them.
//
// The package works on Linux and macOS. On other systems Start returns an error.
package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"signalbox"
	"signalbox/internal/sandbox"
)

// SessionVariable is the environment variable that identifies the processes of a session.
const SessionVariable = "SIGNALBOX_SESSION"

// nestedSeparator separates a session from one nested in it. It does not occur in ids.
const nestedSeparator = "/"

// NestedSession returns the name of a session that is nested in the session of this process, if it
// has one. Its programs can be ended on their own, and they end with the outer session: an agent
// may be killed before it can end the programs that it started.
func NestedSession(session string) string {
	if outer := os.Getenv(SessionVariable); outer != "" {
		return outer + nestedSeparator + session
	}
	return session
}

// ownPrefix is the prefix of variables that are for signalbox and not for the programs that it
// starts.
const ownPrefix = "SIGNALBOX_"

// defaultGrace is the time between SIGTERM and SIGKILL for processes that a program leaves behind.
const defaultGrace = 5 * time.Second

// Spec describes a program to start.
type Spec struct {
	// Argv is the program and its arguments. A program without a slash is looked up in the PATH of
	// Env; a relative path is relative to Dir.
	Argv []string
	// Dir is the working directory; "" means that of this process.
	Dir string
	// Env is the whole environment; nil means Environ(). The last value of a name wins. PWD is set
	// to Dir. On macOS, names that are invalid in a shell, such as those with a dash, may be lost.
	Env []string
	// Stdin is the program's input, which is then closed. nil means no input.
	Stdin []byte
	// Interactive keeps the input open after Stdin, for WriteLine.
	Interactive bool
	// Stdout and Stderr receive the program's output; nil discards it. If they are the same writer,
	// its Write is not called concurrently. After a failed Write the output is discarded, and
	// Exit.Err reports the error. A Write that blocks blocks the program and Wait.
	Stdout, Stderr io.Writer
	// Speaks reports that what the program writes is taken for its own words. Another process
	// cannot write in its name: the output, and the input of an interactive program, are sockets,
	// which unlike pipes cannot be opened through /proc/PID/fd. For the same reason the program
	// cannot open /dev/stdout. The output ends when the program does, even if it left behind
	// processes that could still write.
	Speaks bool
	// Grace is the time between SIGTERM and SIGKILL for processes that the program leaves behind
	// when it ends, and how long output of escaped processes is still read unless Speaks is set;
	// zero means five seconds.
	Grace time.Duration
	// Sandbox is what the program may do; nil means everything that this process may do.
	Sandbox *sandbox.Policy

	// For tests: what the system can enforce, nil meaning what it really can; that it grants no
	// control groups; and how long starting and killing may take.
	simulated  *sandbox.Support
	noGroups   bool
	startLimit time.Duration
	killTime   time.Duration
}

// ID identifies a process. A pid alone does not, because the system reuses pids.
type ID struct {
	PID int `json:"pid"`
	// Started is the start time of the process as the system reports it. Use it only for
	// comparison.
	Started string `json:"started"`
	// Group is the folder of the control group of a program, on Linux; "" if it has none.
	Group string `json:"group,omitempty"`
}

// LeftError means that processes of a program did not end, whatever was done to end them. They may
// still change what the program could change, so nothing that depends on its work should happen
// before they have ended.
type LeftError struct {
	Processes []Left
	// Gone is closed when they have ended. It is nil if nothing waits for that.
	Gone <-chan struct{}
}

// Left is a process that did not end.
type Left struct {
	PID  int
	Name string
}

// maxNamed is how many processes an error names.
const maxNamed = 10

func (e *LeftError) Error() string {
	var names []string
	for _, p := range e.Processes[:min(len(e.Processes), maxNamed)] {
		names = append(names, fmt.Sprintf("%d (%s)", p.PID, p.Name))
	}
	if n := len(e.Processes) - maxNamed; n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	return "processes that it started did not end: " + strings.Join(names, ", ")
}

// Exit describes how a program ended.
type Exit struct {
	// Code is the exit status; 128 plus the signal number if a signal ended it.
	Code int
	// Signal is the name of the signal that ended it, such as SIGKILL, or "".
	Signal string
	// Exceeded is the limit of its sandbox that it exceeded, such as memory, or "".
	Exceeded string
	// Unreachable is why the only server that it may reach could not be reached when it last
	// tried, or "".
	Unreachable string
	// Stopped reports that Stop was called before it ended.
	Stopped bool
	// Err reports that output could not be written or that the exit status is unknown. A *LeftError
	// reports that processes are left.
	Err error
}

// Environ returns the environment of this process without signalbox's own variables: an agent must
// not know where the key is, nor act under another session.
func Environ() (env []string) {
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, ownPrefix) {
			env = append(env, entry)
		}
	}
	return env
}

// IsProxyVariable reports whether an entry of an environment names a proxy, or what needs none.
func IsProxyVariable(entry string) bool {
	name, _, _ := strings.Cut(strings.ToUpper(entry), "=")
	switch name {
	case "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY":
		return true
	}
	return false
}

// Transient reports whether a program could not be started only because the system was out of
// resources at that moment.
func Transient(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) ||
		errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// Find returns the file of a program as Start does: from the PATH of env (nil means Environ()), or
// relative to dir. Relative folders in PATH are ignored, because they would name files of a
// workspace. The error is a *signalbox.Error.
func Find(program, dir string, env []string) (string, error) {
	if env == nil {
		env = Environ()
	}
	if program == "" {
		return "", signalbox.CodeUsage.Errorf("name a program in the command",
			"no program to start")
	}
	if strings.ContainsRune(program, '/') || runtime.GOOS == "windows" &&
		strings.ContainsAny(program, `\:`) {
		return findAt(program, dir)
	}
	for _, folder := range filepath.SplitList(Getenv(env, "PATH")) {
		if !filepath.IsAbs(folder) {
			continue
		}
		if file, err := exec.LookPath(filepath.Join(folder, program)); err == nil {
			return file, nil
		}
	}
	return "", signalbox.CodeNotFound.Errorf("install it, or give its full path",
		"program %s was not found in PATH", program)
}

func findAt(program, dir string) (string, error) {
	file := program
	if !filepath.IsAbs(file) {
		abs, err := filepath.Abs(filepath.Join(dir, file))
		if err != nil {
			return "", fmt.Errorf("find %s: %w", program, err)
		}
		file = abs
	}
	found, err := exec.LookPath(file)
	switch {
	case err == nil:
		return found, nil
	case errors.Is(err, fs.ErrPermission):
		return "", signalbox.CodeFailed.Errorf("make it executable with chmod +x",
			"program %s cannot be run: %w", file, fs.ErrPermission)
	}
	return "", signalbox.CodeNotFound.Errorf(
		"check the path; a relative path starts at the folder in which the program runs",
		"program %s was not found", file)
}

// Getenv returns the value of a variable in an environment, "" if it is not set. The last of
// several entries counts.
func Getenv(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
