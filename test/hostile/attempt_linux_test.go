package hostile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// attempt is one thing that a hostile program tries.
type attempt struct {
	// name says what it tries.
	name string
	// try makes the attempt, in a process of its own. It returns what it got, or the error that
	// stopped it.
	try func(a *attacker) (evidence string, err error)
	// effect reports whether the attempt had an effect that can be seen from outside. Nil: it has
	// none but the evidence.
	effect func(s *stage, a *attacker, evidence string) bool
	// private says that success inside is harmless if there is no effect outside: the sandbox has
	// its own version of the thing.
	private bool
	// open are words of the sentence in sandbox.Support.Open that admits it.
	open string
	// root says that the system allows it only to root, also without a sandbox.
	root bool
	// prevented says why it does not succeed without a sandbox either.
	prevented string
	// network says that it concerns the network. If the network is on, it is allowed.
	network bool
	// allowed says that it must succeed, with and without a sandbox.
	allowed bool
	// by are the programs that try it; empty means the agent and the check.
	by []string
}

// The programs that make attempts.
const (
	byAgent  = "agent"
	byCheck  = "check"
	byCritic = "critic"
)

// attempts are all attempts.
func attempts() []attempt {
	return slices.Concat(readAttempts(), writeAttempts(), gitAttempts(), linkAttempts(),
		processAttempts(), socketAttempts(), networkAttempts(),
		kernelAttempts(), plantAttempts(), allowedAttempts())
}

// isFor reports whether a program makes the attempt. The critic makes only those that are named for
// it.
func (t attempt) isFor(by string) bool {
	return slices.Contains(t.by, by) || len(t.by) == 0 && by != byCritic
}

// attacker is who makes an attempt.
type attacker struct {
	layout
	by   string // one of byAgent, byCheck and byCritic
	name string // of the attempt
	dir  string // its own worktree
}

// mark identifies the attempt in files and messages.
func (a *attacker) mark() string {
	return a.Tag + "-" + a.by + "-" + strings.NewReplacer(" ", "-", "/", "", "~", "", "'",
		"").Replace(a.name)
}

// number returns a number that differs for each program, for things that cannot carry a mark.
func (a *attacker) number(first int) int {
	return first + slices.Index([]string{byAgent, byCheck, byCritic}, a.by)
}

// outcome is the result of an attempt as the attacker sees it.
type outcome struct {
	Name     string `json:"name"`
	Evidence string `json:"evidence,omitempty"`
	Error    string `json:"error,omitempty"`
	// Missing says that the attempt is not possible on this system for reasons that have nothing to
	// do with a sandbox.
	Missing bool `json:"missing,omitempty"`
}

// errMissing says that this system does not have what an attempt uses.
var errMissing = errors.New("this system does not have it")

// missing reports whether an attempt failed because the system does not have what it uses.
func missing(err error) bool {
	for _, absent := range []error{errMissing, syscall.ENOSYS, syscall.EAFNOSUPPORT,
		syscall.EPROTONOSUPPORT, syscall.ESOCKTNOSUPPORT, syscall.ENOPKG,
		syscall.EOPNOTSUPP, syscall.ENODEV, syscall.ENXIO, exec.ErrNotFound} {
		if errors.Is(err, absent) {
			return true
		}
	}
	return false
}

// attemptTime is how long an attempt may take. One that hangs has not succeeded.
const attemptTime = time.Minute

// attack makes all attempts, and calls report with each outcome.
func attack(a *attacker, report func(outcome)) {
	for _, t := range attempts() {
		if !t.isFor(a.by) || a.Part == hiding && !strings.HasPrefix(t.name, "leave a process") {
			continue
		}
		cmd := exec.Command(executable(), partTry, a.by, t.name)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.WaitDelay = time.Second // some attempts leave processes that keep the output open
		err := cmd.Start()
		if err == nil {
			timer := time.AfterFunc(attemptTime, func() { cmd.Process.Kill() })
			err = cmd.Wait()
			timer.Stop()
		}
		var o outcome
		if json.Unmarshal(stdout.Bytes(), &o) != nil {
			o.Error = fmt.Sprintf("no result: %v %s", err, lastLine(stderr.String()))
		}
		o.Name = t.name
		report(o)
	}
}

// tryOne makes one attempt and prints its outcome.
func tryOne(args []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	a := &attacker{layout: readLayout(), by: args[0], name: args[1], dir: dir}
	i := slices.IndexFunc(attempts(), func(t attempt) bool { return t.name == a.name })
	var o outcome
	if o.Evidence, err = attempts()[i].try(a); err != nil {
		o.Error, o.Missing = err.Error(), missing(err)
	}
	return json.NewEncoder(os.Stdout).Encode(o)
}

// executable is the program that plays all parts. Its folder is on the PATH of agents and checks,
// and has the file with the layout.
func executable() string { return os.Args[0] }

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// readFile returns the beginning of a file.
func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	buffer := make([]byte, 4096)
	n, err := f.Read(buffer)
	return string(buffer[:n]), err
}

// in returns a path in a folder of the layout.
func in(folder func(*attacker) string, elements ...string) func(*attacker) string {
	return func(a *attacker) string { return filepath.Join(append([]string{folder(a)}, elements...)...) }
}

// The folders of the layout.
func home(a *attacker) string    { return a.Home }
func project(a *attacker) string { return a.Project }
func box(a *attacker) string     { return a.Box }
func gitDir(a *attacker) string  { return a.Git }
func ownTree(a *attacker) string { return a.dir }

// reads is an attempt to read a file that contains the secret.
func reads(name string, path func(*attacker) string) attempt {
	return attempt{name: "read " + name,
		try: func(a *attacker) (string, error) { return readFile(path(a)) }, effect: leaked}
}

// leaked is the effect of an attempt that gets the secret.
func leaked(s *stage, _ *attacker,
	evidence string) bool {
	return strings.Contains(evidence, s.secret)
}

// creates is an attempt to create a file in a folder. The sandbox may show an empty folder of that
// name.
func creates(name string, folder func(*attacker) string) attempt {
	path := func(a *attacker) string { return filepath.Join(folder(a), a.mark()) }
	return attempt{name: "create a file in " + name, private: true,
		try: func(a *attacker) (string,
			error) {
			return path(a), os.WriteFile(path(a), []byte(a.mark()), 0o644)
		},
		effect: func(_ *stage, a *attacker, _ string) bool {
			_, err := os.Lstat(path(a))
			return err == nil
		}}
}

// appends is an attempt to add a line to a file, as a comment.
func appends(name string, path func(*attacker) string) attempt {
	return attempt{name: "write " + name,
		try: func(a *attacker) (string, error) {
			f, err := os.OpenFile(path(a), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return "", err
			}
			_, err = fmt.Fprintf(f, "# %s\n", a.mark())
			return "written", errors.Join(err, f.Close())
		},
		effect: func(_ *stage, a *attacker, _ string) bool { return contains(path(a), a.mark()) }}
}

// contains reports whether a file contains a text.
func contains(path, text string) bool {
	data, _ := os.ReadFile(path)
	return bytes.Contains(data, []byte(text))
}

// run runs a program and returns its output.
func run(dir string, argv ...string) (string, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", argv[0], err, lastLine(string(out)))
	}
	return string(out), err
}
