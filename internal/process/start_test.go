//go:build linux || darwin

package process

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"signalbox"
	"signalbox/internal/testkit/must"
)

func TestArgumentsInputAndEnvironment(t *testing.T) {
	dir := t.TempDir()
	var out, errs bytes.Buffer
	spec := shell(`printf '%s|%s|%s|%s' "$A" "$1" "$PWD" "$(cat)"; [ "$(pwd -P)" = "$(cd "$2" && pwd -P)" ] || echo elsewhere; echo oh >&2; exit 3`)
	spec.Argv = append(spec.Argv, "sh", "an argument\nof two lines; $A", dir)
	spec.Dir, spec.Env, spec.Stdin = dir, append(Environ(), "A=first", "A=last"),
		[]byte("its input")
	spec.Stdout, spec.Stderr = &out, &errs
	wantExit(t, start(t, spec).Wait(), 3, "")
	if got, want := out.String(), "last|an argument\nof two lines; $A|"+dir+
		"|its input"; got != want {
		t.Errorf("it wrote %q, want %q", got, want)
	}
	if got := errs.String(); got != "oh\n" {
		t.Errorf("standard error is %q", got)
	}
}

func TestPWD(t *testing.T) {
	dir := t.TempDir()
	exit, out := run(t, Spec{Argv: []string{"printenv", "PWD"}, Dir: dir,
		Env: []string{"PATH=" + os.Getenv("PATH")}})
	wantExit(t, exit, 0, "")
	if out != dir+"\n" {
		t.Errorf("PWD is %q", out)
	}
}

func TestNoKeyFilesOrTerminal(t *testing.T) {
	t.Setenv("SIGNALBOX_KEY", "secret")
	const count = `ls /dev/fd | wc -w`
	open, err := exec.Command("sh", "-c", count).Output() // files that the test process inherited
	must.Succeed(t, err)
	// the keeper closes them; left are the standard ones and the folder that ls opens
	if runtime.GOOS == "linux" {
		open = []byte("4\n")
	}
	exit, out := run(t, shell(`echo "${SIGNALBOX_KEY-none}"; cat; `+count+
		`; tty >/dev/null || echo no terminal; : </dev/tty && echo a terminal`))
	lines := strings.Split(out, "\n")
	if exit.Code == 0 {
		t.Error("the program has a terminal")
	}
	if len(lines) < 3 || lines[0] != "none" || lines[1]+"\n" != string(open) ||
		lines[2] != "no terminal" {
		t.Errorf("output %q; want %s open files", out, open)
	}
}

func TestProgramNotFound(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "plain"), nil, 0o600))
	for _, tt := range []struct {
		name string
		spec Spec
		code signalbox.Code
		says string
	}{
		{"no argv", Spec{}, signalbox.CodeUsage, "no program"},
		{"not in PATH", Spec{Argv: []string{"gone"}}, signalbox.CodeNotFound,
			"gone was not found in PATH"},
		{"no PATH", Spec{Argv: []string{"sh"}, Env: []string{}}, signalbox.CodeNotFound,
			"sh was not found in PATH"},
		{"relative PATH", Spec{Argv: []string{"sh"}, Dir: "/", Env: []string{"PATH=bin:"}},
			signalbox.CodeNotFound, "in PATH"},
		{"no such file", Spec{Argv: []string{"./gone"}, Dir: dir}, signalbox.CodeNotFound,
			filepath.Join(dir, "gone")},
		{"not executable", Spec{Argv: []string{"./plain"}, Dir: dir}, signalbox.CodeFailed,
			"cannot be run"},
		{"no such folder", Spec{Argv: []string{"sh"}, Dir: filepath.Join(dir, "gone")},
			signalbox.CodeFailed, "no such file"},
		{"too long", Spec{Argv: []string{"sh", "-c", "exit", strings.Repeat("x", 4<<20)}},
			signalbox.CodeFailed, "too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Start(tt.spec, nil)
			wantHint(t, err, tt.code, tt.says)
		})
	}
}

func TestRelativeProgram(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "it"), []byte("#!/bin/sh\necho here\n"),
		0o700))
	if exit, out := run(t, Spec{Argv: []string{"./it"}, Dir: dir}); exit.Code != 0 ||
		out != "here\n" {
		t.Errorf("%+v, %q", exit, out)
	}
}

func TestLargeInputAndOutput(t *testing.T) {
	input := bytes.Repeat([]byte("0123456789abcdef"), 256<<10)
	exit, out := run(t, Spec{Argv: []string{"cat"}, Stdin: input})
	wantExit(t, exit, 0, "")
	if out != string(input) {
		t.Errorf("got %d of %d bytes", len(out), len(input))
	}
}

func TestUnreadInput(t *testing.T) {
	exit, _ := run(t, Spec{Argv: []string{"sh", "-c", "exit 4"}, Stdin: make([]byte, 1<<20)})
	wantExit(t, exit, 4, "")
}

func TestConversation(t *testing.T) {
	spec := shell(`while read -r line; do echo "read $line"; done; echo over; exit 5`)
	spec.Interactive, spec.Stdin = true, []byte("the prompt\n")
	p, lines := startReading(t, spec)
	if got := nextLine(t, lines); got != "read the prompt" {
		t.Errorf("output %q", got)
	}
	for _, text := range []string{"one", "two"} {
		if err := p.WriteLine(text); err != nil {
			t.Error(err)
		}
		if got := nextLine(t, lines); got != "read "+text {
			t.Errorf("output %q", got)
		}
	}
	p.CloseInput()
	if got := nextLine(t, lines); got != "over" {
		t.Errorf("output %q", got)
	}
	wantExit(t, p.Wait(), 5, "")
	if p.WriteLine("three") == nil {
		t.Error("WriteLine to a program that has ended succeeds")
	}
	if start(t, shell("exit 0")).WriteLine("hello") == nil {
		t.Error("WriteLine to a program that is not interactive succeeds")
	}
}

// WriteLine does not block, even if the program reads nothing and the pipe is full.
func TestWriteLineDoesNotBlock(t *testing.T) {
	spec := shell(`while :; do sleep 1000; done`)
	spec.Interactive = true
	p := start(t, spec)
	for range 100 {
		must.Succeed(t, p.WriteLine(strings.Repeat("x", 64<<10)))
	}
	p.Stop(ample)
	wantExit(t, p.Wait(), 143, "SIGTERM")
	if p.WriteLine("more") == nil {
		t.Error("WriteLine to a program that was ended succeeds")
	}
}

func TestProgramRunsOnlyAfterCallback(t *testing.T) {
	dir := t.TempDir()
	refused := errors.New("the disk is full")
	var noted ID
	_, err := Start(agent(dir), func(id ID) error {
		noted = id
		if !id.Alive() {
			t.Error("there is no process when the callback runs")
		}
		if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
			t.Error("the program ran before the callback")
		}
		return refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	if noted.Alive() {
		t.Error("the process is still there")
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the program ran although the callback failed")
	}
}

func TestIdentity(t *testing.T) {
	var noted ID
	p, err := Start(shell(`echo $$`), func(id ID) error {
		noted = id
		if session, err := unix.Getsid(id.PID); session != id.PID || err != nil {
			t.Errorf("its system session is %d, %v; it may have a terminal", session, err)
		}
		return nil
	})
	must.Succeed(t, err)
	p.Wait()
	exit, out := run(t, shell(`kill -9 $$`))
	if out != "" {
		t.Errorf("it wrote %q", out)
	}
	wantExit(t, exit, 137, "SIGKILL")
	if p.ID() != noted || noted.PID == 0 || noted.Started == "" {
		t.Errorf("the callback got %+v, the program is %+v", noted, p.ID())
	}
}

// failing is a writer that fails from the second Write on.
type failing struct {
	mu     sync.Mutex
	writes int
}

var errFull = errors.New("no room")

func (f *failing) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes++
	return 0, errFull
}

func TestFailingWriter(t *testing.T) {
	to := new(failing)
	spec := Spec{Argv: []string{"cat"}, Stdin: make([]byte, 1<<20), Stdout: to}
	exit := start(t, spec).Wait()
	if exit.Code != 0 || !errors.Is(exit.Err, errFull) || to.writes != 1 {
		t.Errorf("exit %+v after %d writes", exit, to.writes)
	}
}

func TestNoLeakedFiles(t *testing.T) {
	open := func() int {
		names, err := os.ReadDir("/dev/fd")
		must.Succeed(t, err)
		return len(names)
	}
	const workers, programs = 4, 1000
	round := func(n int) {
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for i := range n / workers {
					var out bytes.Buffer
					p, err := Start(Spec{Argv: []string{"cat"}, Stdin: []byte("x"), Stdout: &out,
						Stderr: &out, Speaks: i%2 == 0}, nil)
					if err != nil {
						t.Error(err)
						return
					}
					if exit := p.Wait(); exit.Code != 0 || exit.Err != nil || out.String() != "x" {
						t.Errorf("exit %+v, output %q", exit, out.String())
					}
				}
			})
		}
		all.Wait()
	}
	round(2 * workers)
	before := open()
	round(programs)
	if after := open(); after > before {
		t.Errorf("%d open files, %d before", after, before)
	}
}

// Errors of the system get a hint, and callers can recognise the transient ones.
func TestStartErrors(t *testing.T) {
	for errno, transient := range map[syscall.Errno]bool{syscall.EAGAIN: true, syscall.ENOMEM: true,
		syscall.EMFILE: true, syscall.ENFILE: true,
		syscall.E2BIG: false, syscall.EACCES: false} {
		err := startError(Spec{Argv: []string{"agent"}},
			&os.PathError{Op: "fork/exec", Path: "/bin/sh", Err: errno})
		if Transient(err) != transient || !strings.Contains(err.Error(), "start agent: ") {
			t.Errorf("%v: %v", errno, err)
		}
	}
}
