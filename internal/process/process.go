// Package process starts programs in process groups of their own and ends them whole.
//
// A program begins only after its identity was handed to the caller, who can note it: if this process dies before that,
// the program never runs; if it dies later, another one finds the program by pid and start time, and ends it with
// EndOrphan. A program has no terminal, so nothing that it starts can wait for somebody to type.
//
// What a program leaves behind when it ends is ended too: the members of its group; on Linux also those of its session
// of the system, and everything else that carries the same SIGNALBOX_SESSION in its environment, wherever it fled to.
//
// It works on Linux and macOS. Elsewhere Start returns an error that says so.
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
	"strings"
	"syscall"
	"time"

	"signalbox"
)

// SessionVariable is the environment variable by which the processes of a session are known.
const SessionVariable = "SIGNALBOX_SESSION"

// within separates a session from one within it; no id has it.
const within = "/"

// Within names a session for programs that are ended apart from others, but with all of the session of this process, if
// it is in one: an agent that starts programs may be killed before it can end them.
func Within(session string) string {
	if outer := os.Getenv(SessionVariable); outer != "" {
		return outer + within + session
	}
	return session
}

// ownPrefix begins the names of the variables that are for this program and not for those that it starts.
const ownPrefix = "SIGNALBOX_"

// defaultGrace is how long what a program left behind has to end by itself.
const defaultGrace = 5 * time.Second

// Spec is a program to start.
type Spec struct {
	// Argv is the program and its arguments. A program without a slash is looked for in the PATH of Env; a relative one
	// is relative to Dir.
	Argv []string
	// Dir is where it runs; empty is the folder of this process.
	Dir string
	// Env is its whole environment; nil is Environ(). Of several values for a name the last counts. PWD is set to Dir. Names
	// that are none to a shell, such as those with a dash, may not arrive.
	Env []string
	// Stdin is given to the program, whose input is then closed. Nil is no input at all.
	Stdin []byte
	// Interactive keeps the input open after Stdin, for Say.
	Interactive bool
	// Stdout and Stderr take what the program writes. They may be the same, which is then never written to by two at a
	// time. Nil throws it away. A writer that fails is not written to again; the program does not notice, Exit.Err does. One
	// that blocks holds up the program, and Wait.
	Stdout, Stderr io.Writer
	// Grace is how long what the program leaves behind, when it ends, has between TERM and KILL, and how long output may
	// still come from what escaped; zero is five seconds.
	Grace time.Duration
}

// ID is the identity of a process: a pid alone is given to another one sooner or later.
type ID struct {
	PID int `json:"pid"`
	// Started is the system's start time of the process. It can be compared and means nothing else.
	Started string `json:"started"`
}

// Exit is how a program ended.
type Exit struct {
	// Code is its exit status; 128 and the number if a signal ended it.
	Code int
	// Signal is the name of the signal that ended it, such as SIGKILL, or empty.
	Signal string
	// Err says that its output could not be passed on or its end could not be learnt.
	Err error
}

// Environ is the environment of this process without the variables that are for signalbox itself: an agent must not see
// where the key is, nor act under the session of another.
func Environ() (env []string) {
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, ownPrefix) {
			env = append(env, entry)
		}
	}
	return env
}

// Transient tells whether a program could not be started only because the system had no room for another just then.
func Transient(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// Find returns the file of a program as Start does: in the PATH of env (nil is Environ()), or relative to dir. Folders in
// PATH that are relative are passed over, since they would name files of a workspace. The error is a *signalbox.Error.
func Find(program, dir string, env []string) (string, error) {
	if env == nil {
		env = Environ()
	}
	if program == "" {
		return "", &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("no program to start"),
			Hint: "name one in the command"}
	}
	if strings.ContainsRune(program, '/') || runtime.GOOS == "windows" && strings.ContainsAny(program, `\:`) {
		return findAt(program, dir)
	}
	for _, folder := range filepath.SplitList(lookup(env, "PATH")) {
		if !filepath.IsAbs(folder) {
			continue
		}
		if file, err := exec.LookPath(filepath.Join(folder, program)); err == nil {
			return file, nil
		}
	}
	return "", &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("program %s was not found in PATH", program),
		Hint: "install it, or name its file with the whole path"}
}

func findAt(program, dir string) (string, error) {
	file := program
	if !filepath.IsAbs(file) {
		whole, err := filepath.Abs(filepath.Join(dir, file))
		if err != nil {
			return "", fmt.Errorf("find %s: %w", program, err)
		}
		file = whole
	}
	found, err := exec.LookPath(file)
	switch {
	case err == nil:
		return found, nil
	case errors.Is(err, fs.ErrPermission):
		return "", &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("program %s cannot be run: %w", file, fs.ErrPermission),
			Hint: "make it executable with chmod +x"}
	}
	return "", &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("program %s was not found", file),
		Hint: "check the path; a relative one begins in the folder in which the program runs"}
}

// lookup returns the last value of a variable, which is the one that counts.
func lookup(env []string, name string) (value string) {
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}
