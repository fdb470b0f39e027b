//go:build !windows

package rehearsal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/transcript"
)

// agent is a scripted agent in a separate process and process group.
type agent struct {
	*exec.Cmd
	t      *testing.T
	pipe   *os.File
	stdout *bufio.Reader // of the pipe
}

func start(t *testing.T, format signalbox.Format, steps string) *agent {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "REHEARSAL_STEPS="+steps, "REHEARSAL_FORMAT="+string(format),
		"GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	})
	return &agent{cmd, t, stdout.(*os.File), bufio.NewReader(stdout)}
}

// line reads a line of its output.
func (a *agent) line() string {
	a.t.Helper()
	line, err := a.stdout.ReadString('\n')
	must.Succeed(a.t, err)
	return line
}

// end reads the rest of the output, waits for the process, and returns its status.
func (a *agent) end() (rest string, status syscall.WaitStatus) {
	a.t.Helper()
	output, err := io.ReadAll(a.stdout)
	must.Succeed(a.t, err)
	if err := a.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		a.t.Fatal(err)
	}
	return string(output), a.ProcessState.Sys().(syscall.WaitStatus)
}

func (a *agent) touch(name string) {
	a.t.Helper()
	must.Succeed(a.t, os.WriteFile(filepath.Join(a.Dir, name), nil, 0o666))
}

func TestSignalKill(t *testing.T) {
	rest, status := start(t, "", "    say Last words.\n    signal-kill\n    say Never.\n").end()
	if !status.Signaled() || status.Signal() != syscall.SIGKILL || rest != "Last words.\n" {
		t.Errorf("%v, %q", status, rest)
	}
}

func TestCrash(t *testing.T) {
	rest, status := start(t, signalbox.FormatCodex, "    crash 42\n").end()
	if status.ExitStatus() != 42 || strings.Contains(rest, "turn.") {
		t.Errorf("%v, %q", status, rest)
	}
}

// TestIgnoreTerm checks that an agent exits on SIGTERM, unless it ignores it.
func TestIgnoreTerm(t *testing.T) {
	const work = "    say Ready.\n    wait for go\n    signal READY_FOR_REVIEW: {task}\n"
	deaf := start(t, "", "    ignore TERM\n"+work)
	deaf.line()
	must.Succeed(t, deaf.Process.Signal(syscall.SIGTERM))
	deaf.touch("go")
	if rest, status := deaf.end(); status.ExitStatus() != 0 || rest != "READY_FOR_REVIEW: t1\n" {
		t.Errorf("ignoring: %v, %q", status, rest)
	}
	obedient := start(t, "", work)
	obedient.line()
	must.Succeed(t, obedient.Process.Signal(syscall.SIGTERM))
	if rest, status := obedient.end(); status.Signal() != syscall.SIGTERM || rest != "" {
		t.Errorf("not ignoring: %v, %q", status, rest)
	}
}

func TestHang(t *testing.T) {
	for format, steps := range map[signalbox.Format]string{
		signalbox.FormatPlain:    "    say Hm.\n    hang\n",
		signalbox.FormatOpencode: "    hang after result\n",
	} {
		a := start(t, format, steps)
		for heard := ""; !strings.Contains(heard, "Hm.") &&
			!strings.Contains(heard, `"reason":"stop"`); heard = a.line() {
		}
		must.Succeed(t, a.Process.Signal(syscall.SIGTERM))
		if _, status := a.end(); status.Signal() != syscall.SIGTERM {
			t.Errorf("%s: %v", format, status)
		}
	}
}

// TestFork checks that children outlive the agent and keep its output open, inside and outside its
// process group.
func TestFork(t *testing.T) {
	for _, how := range []string{"", "detached "} {
		a := start(t, "", "    fork 2 "+how+"into pids\n    say Bye.\n")
		if a.line() != "Bye.\n" {
			t.Fatal("it does not say good-bye")
		}
		if state, err := a.Process.Wait(); err != nil || !state.Success() {
			t.Fatal(state, err)
		}
		pids := strings.Fields((&performance{dir: a.Dir}).file(t, "pids"))
		if len(pids) != 2 {
			t.Fatalf("%q", pids)
		}
		for _, text := range pids {
			pid, err := strconv.Atoi(text)
			must.Succeed(t, err)
			group, err := syscall.Getpgid(pid)
			want := a.Process.Pid
			if how != "" {
				want = pid
			}
			if err != nil || group != want {
				t.Errorf("%schild %d is in group %d: %v", how, pid, group, err)
			}
			defer syscall.Kill(pid, syscall.SIGKILL)
		}
		if !a.outputIsOpen() {
			t.Errorf("%s: the output ended with the agent", how)
		}
		for _, text := range pids {
			pid, _ := strconv.Atoi(text)
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
		if rest, err := io.ReadAll(a.stdout); err != nil || len(rest) > 0 {
			t.Errorf("%q, %v", rest, err)
		}
	}
}

// outputIsOpen reports whether a process can still write to the pipe, which must be empty.
func (a *agent) outputIsOpen() bool {
	a.t.Helper()
	conn, err := a.pipe.SyscallConn()
	must.Succeed(a.t, err)
	var readErr error
	err = conn.Read(func(fd uintptr) bool {
		_, readErr = syscall.Read(int(fd), make([]byte, 1))
		return true
	})
	must.Succeed(a.t, err)
	return readErr == syscall.EAGAIN
}

// TestFloodPipe checks that a slow reader slows down a flood.
func TestFloodPipe(t *testing.T) {
	a := start(t, signalbox.FormatClaude,
		"    flood 5MB\n    flood 5MB in one line\n    signal READY_FOR_REVIEW: {task}\n")
	var heard []string
	for sig, err := range transcript.Signals(a.stdout,
		&transcript.Options{Format: signalbox.FormatClaude}) {
		must.Succeed(t, err)
		heard = append(heard, sig.Name+" "+strconv.FormatInt(sig.Offset, 10))
	}
	if len(heard) != 1 || heard[0] != "ready_for_review 10000000" {
		t.Errorf("heard %q", heard)
	}
}

func TestInteractiveProcess(t *testing.T) {
	r, w, err := os.Pipe()
	must.Succeed(t, err)
	script, err := Parse("s",
		[]byte("on *:\n    ask Which?\n    listen\n    signal CHECKPOINT: t1\n"))
	must.Succeed(t, err)
	out, in := io.Pipe()
	played := make(chan error, 1)
	go func() {
		played <- script.Play(t.Context(), Options{Interactive: true, Stdin: r, Stdout: in})
		in.Close()
	}()
	io.WriteString(w, "Do it.\n.\n")
	reader := bufio.NewReader(out)
	if line, err := reader.ReadString('\n'); line != "Which?\n" {
		t.Fatal(line, err)
	}
	io.WriteString(w, "The left one.\n")
	rest, err := io.ReadAll(reader)
	if want := "Heard: The left one.\nCHECKPOINT: t1\n"; err != nil || string(rest) != want {
		t.Errorf("%q, %v", rest, err)
	}
	if err := <-played; err != nil {
		t.Error(err)
	}
}

// TestRunInTheBackground checks that background processes of a command do not block the agent.
func TestRunInTheBackground(t *testing.T) {
	p := perform(t, "    run sleep 600 & echo $! >pid\n    signal READY_FOR_REVIEW: {task}\n", nil)
	pid, err := strconv.Atoi(strings.TrimSpace(p.file(t, "pid")))
	must.Succeed(t, err)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil || p.err != nil || p.taken() == nil {
		t.Errorf("%v, %v, %v", err, p.err, p.taken())
	}
}

// TestRunContext checks that the end of the context ends a command.
func TestRunContext(t *testing.T) {
	script, err := Parse("s",
		[]byte("on *:\n    run touch started; exec sleep 600\n    say Never.\n"))
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watcher := &player{Options: Options{Dir: t.TempDir()}}
	go func() {
		watcher.waitFor(ctx, "started")
		cancel()
	}()
	prompt := ""
	var stdout bytes.Buffer
	if err := script.Play(ctx, Options{Prompt: &prompt, Dir: watcher.Dir,
		Stdout: &stdout}); !errors.Is(err, context.Canceled) || stdout.Len() > 0 {
		t.Errorf("%v, %s", err, &stdout)
	}
}
