//go:build linux || darwin

package process

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"signalbox"
)

func TestProgramGetsWhatItWasGiven(t *testing.T) {
	dir := t.TempDir()
	var out, errs bytes.Buffer
	spec := shell(`printf '%s|%s|%s|%s' "$A" "$1" "$PWD" "$(cat)"; [ "$(pwd -P)" = "$(cd "$2" && pwd -P)" ] || echo elsewhere; echo oh >&2; exit 3`)
	spec.Argv = append(spec.Argv, "sh", "an argument\nof two lines; $A", dir)
	spec.Dir, spec.Env, spec.Stdin = dir, append(Environ(), "A=first", "A=last"), []byte("its input")
	spec.Stdout, spec.Stderr = &out, &errs
	wantExit(t, start(t, spec).Wait(), 3, "")
	if got, want := out.String(), "last|an argument\nof two lines; $A|"+dir+"|its input"; got != want {
		t.Errorf("it wrote %q, want %q", got, want)
	}
	if got := errs.String(); got != "oh\n" {
		t.Errorf("it wrote %q as errors", got)
	}
}

func TestProgramKnowsItsFolder(t *testing.T) {
	dir := t.TempDir()
	exit, out := run(t, Spec{Argv: []string{"printenv", "PWD"}, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")}})
	wantExit(t, exit, 0, "")
	if out != dir+"\n" {
		t.Errorf("PWD is %q", out)
	}
}

func TestNothingBeyondWhatItWasGiven(t *testing.T) {
	t.Setenv("SIGNALBOX_KEY", "secret")
	const count = `ls /dev/fd | wc -w`
	open, err := exec.Command("sh", "-c", count).Output() // what this process itself inherited is not for us to close
	if err != nil {
		t.Fatal(err)
	}
	exit, out := run(t, shell(`echo "${SIGNALBOX_KEY-none}"; cat; `+count+`; tty >/dev/null || echo no terminal; : </dev/tty && echo a terminal`))
	lines := strings.Split(out, "\n")
	if exit.Code == 0 {
		t.Error("it has a terminal")
	}
	if len(lines) < 3 || lines[0] != "none" || lines[1]+"\n" != string(open) || lines[2] != "no terminal" {
		t.Errorf("it wrote %q; %s files should be open", out, open)
	}
}

func TestProgramThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plain"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		spec Spec
		code signalbox.Code
		says string
	}{
		{"no argv", Spec{}, signalbox.CodeUsage, "no program"},
		{"not in PATH", Spec{Argv: []string{"gone"}}, signalbox.CodeNotFound, "gone was not found in PATH"},
		{"no PATH", Spec{Argv: []string{"sh"}, Env: []string{}}, signalbox.CodeNotFound, "sh was not found in PATH"},
		{"relative PATH", Spec{Argv: []string{"sh"}, Dir: "/", Env: []string{"PATH=bin:"}}, signalbox.CodeNotFound, "in PATH"},
		{"no such file", Spec{Argv: []string{"./gone"}, Dir: dir}, signalbox.CodeNotFound, filepath.Join(dir, "gone")},
		{"not executable", Spec{Argv: []string{"./plain"}, Dir: dir}, signalbox.CodeFailed, "cannot be run"},
		{"no such folder", Spec{Argv: []string{"sh"}, Dir: filepath.Join(dir, "gone")}, signalbox.CodeFailed, "no such file"},
		{"too long", Spec{Argv: []string{"sh", "-c", "exit", strings.Repeat("x", 4<<20)}}, signalbox.CodeFailed, "too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Start(tt.spec, nil)
			wantHint(t, err, tt.code, tt.says)
		})
	}
}

func TestProgramIsFoundFromItsFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "it"), []byte("#!/bin/sh\necho here\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if exit, out := run(t, Spec{Argv: []string{"./it"}, Dir: dir}); exit.Code != 0 || out != "here\n" {
		t.Errorf("%+v, %q", exit, out)
	}
}

func TestLargeInputAndOutput(t *testing.T) {
	input := bytes.Repeat([]byte("0123456789abcdef"), 256<<10)
	exit, out := run(t, Spec{Argv: []string{"cat"}, Stdin: input})
	wantExit(t, exit, 0, "")
	if out != string(input) {
		t.Errorf("%d bytes came back of %d", len(out), len(input))
	}
}

func TestInputThatNobodyReads(t *testing.T) {
	exit, _ := run(t, Spec{Argv: []string{"sh", "-c", "exit 4"}, Stdin: make([]byte, 1<<20)})
	wantExit(t, exit, 4, "")
}

func TestConversation(t *testing.T) {
	spec := shell(`while read -r line; do echo "heard $line"; done; echo over; exit 5`)
	spec.Interactive, spec.Stdin = true, []byte("the prompt\n")
	p, lines := startSaying(t, spec)
	if got := nextLine(t, lines); got != "heard the prompt" {
		t.Errorf("it says %q", got)
	}
	for _, text := range []string{"one", "two"} {
		if err := p.WriteLine(text); err != nil {
			t.Error(err)
		}
		if got := nextLine(t, lines); got != "heard "+text {
			t.Errorf("it says %q", got)
		}
	}
	p.CloseInput()
	if got := nextLine(t, lines); got != "over" {
		t.Errorf("it says %q", got)
	}
	wantExit(t, p.Wait(), 5, "")
	if p.WriteLine("three") == nil {
		t.Error("a program that has ended listens")
	}
	if start(t, shell("exit 0")).WriteLine("hello") == nil {
		t.Error("a program that is not interactive listens")
	}
}

// TestSayingToTheDeaf says far more than a pipe holds to a program that reads nothing.
func TestSayingToTheDeaf(t *testing.T) {
	spec := shell(`while :; do sleep 1000; done`)
	spec.Interactive = true
	p := start(t, spec)
	for range 100 {
		if err := p.WriteLine(strings.Repeat("x", 64<<10)); err != nil {
			t.Fatal(err)
		}
	}
	p.Stop(ample)
	wantExit(t, p.Wait(), 143, "SIGTERM")
	if p.WriteLine("more") == nil {
		t.Error("a program that was ended listens")
	}
}

func TestProgramBeginsOnlyWhenItIsNoted(t *testing.T) {
	dir := t.TempDir()
	refused := errors.New("the disk is full")
	var noted ID
	_, err := Start(agent(dir), func(id ID) error {
		noted = id
		if !id.Alive() {
			t.Error("it is not there when it is to be noted")
		}
		if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
			t.Error("it ran before it was noted")
		}
		return refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	if noted.Alive() {
		t.Error("it is still there")
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("it ran although it was not noted")
	}
}

func TestProgramIsTheOneNoted(t *testing.T) {
	var noted ID
	p, err := Start(shell(`echo $$`), func(id ID) error {
		noted = id
		if session, err := unix.Getsid(id.PID); session != id.PID || err != nil {
			t.Errorf("its session is %d, %v; it may have a terminal", session, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
	exit, out := run(t, shell(`kill -9 $$`))
	if out != "" {
		t.Errorf("it wrote %q", out)
	}
	wantExit(t, exit, 137, "SIGKILL")
	if p.ID() != noted || noted.PID == 0 || noted.Started == "" {
		t.Errorf("noted %+v, it is %+v", noted, p.ID())
	}
}

// failing is a writer that takes no more after the first time.
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

func TestOutputThatCannotBePassedOn(t *testing.T) {
	to := new(failing)
	spec := Spec{Argv: []string{"cat"}, Stdin: make([]byte, 1<<20), Stdout: to}
	exit := start(t, spec).Wait()
	if exit.Code != 0 || !errors.Is(exit.Err, errFull) || to.writes != 1 {
		t.Errorf("exit %+v after %d writes", exit, to.writes)
	}
}

func TestManyProgramsLeaveNothingOpen(t *testing.T) {
	open := func() int {
		names, err := os.ReadDir("/dev/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	const workers, programs = 4, 1000
	round := func(n int) {
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for range n / workers {
					var out bytes.Buffer
					p, err := Start(Spec{Argv: []string{"cat"}, Stdin: []byte("x"), Stdout: &out, Stderr: &out}, nil)
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
		t.Errorf("%d files are open, %d before", after, before)
	}
}

// TestStartErrors has what the system says become what people are told, and callers can tell what passes.
func TestStartErrors(t *testing.T) {
	for errno, transient := range map[syscall.Errno]bool{syscall.EAGAIN: true, syscall.ENOMEM: true, syscall.EMFILE: true, syscall.ENFILE: true,
		syscall.E2BIG: false, syscall.EACCES: false} {
		err := startError(Spec{Argv: []string{"agent"}}, &os.PathError{Op: "fork/exec", Path: "/bin/sh", Err: errno})
		if Transient(err) != transient || !strings.Contains(err.Error(), "start agent: ") {
			t.Errorf("%v: %v", errno, err)
		}
	}
}
