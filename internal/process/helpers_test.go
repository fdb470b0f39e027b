//go:build linux || darwin

package process

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// childVariable makes this test binary run one of the functions below, as another process.
const childVariable = "PROCESS_TEST_CHILD"

// soon is a grace that ends at once, and ample one that no test waits for.
const (
	soon  = time.Millisecond
	ample = time.Hour
)

// children are what another process can do. Files for one system add to it.
var children = map[string]func(argument string) error{
	"hesitate": hesitate,
	"run":      runAgent,
	"hide":     runHidden,
	"obey":     obey,
	"conceal":  runTool,
	"visit":    visit,
	"forward":  forwardVisitor,
}

func TestMain(m *testing.M) {
	do, isChild := children[os.Getenv(childVariable)]
	if !isChild {
		os.Exit(m.Run())
	}
	if err := do(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// agent returns a program that leaves a mark when it runs, and does not end.
func agent(dir string) Spec {
	return shell(`echo ran > ` + filepath.Join(dir, "ran") +
		`; echo ready; while :; do sleep 1000; done`)
}

// hesitate starts a program, and never returns from the callback that records it.
func hesitate(dir string) error {
	_, err := Start(agent(dir), func(id ID) error {
		if err := json.NewEncoder(os.Stdout).Encode(id); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, os.Stdin) // never closed
		return err
	})
	return err
}

// hide is a script that starts a process which leaves the group, the system session and the session
// of signalbox, and whose parents end.
const hide = `env -i setsid sh -c 'trap "" TERM; (trap "" TERM; exec sh -c "echo \$\$; while :; do sleep 1000; done") & exit' & `

// runHidden starts a program that starts a hidden process, and waits for it.
func runHidden(string) error { return runAndWait(shell(hide + "while :; do sleep 1000; done")) }

// runAgent starts a program, prints its identity, and waits for it.
func runAgent(dir string) error {
	spec := agent(dir)
	spec.Env = append(Environ(), SessionVariable+"=test-"+filepath.Base(dir))
	return runAndWait(spec)
}

func runAndWait(spec Spec) error {
	spec.Stdout = os.Stdout
	p, err := Start(spec, func(id ID) error { return json.NewEncoder(os.Stdout).Encode(id) })
	if err != nil {
		return err
	}
	p.Wait()
	return nil
}

// obey exits with status 7 on SIGTERM. (A shell can miss a signal that arrives just before it
// waits.)
func obey(string) error {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	fmt.Println("ready")
	<-told
	os.Exit(7)
	return nil
}

// runTool starts a tool, which looks for the environment of all processes that it can see.
func runTool(concealed string) error {
	if concealed == "true" {
		if err := Conceal(); err != nil {
			return err
		}
	}
	spec := shell(`for p in /proc/[0-9]*; do cat $p/environ; done 2>/dev/null | tr '\0' '\n' | grep ^TOOL_TEST_KEY= | sort -u; echo end`)
	spec.Env = []string{"PATH=" + os.Getenv("PATH")}
	spec.Stdout = os.Stdout
	p, err := Start(spec, nil)
	if err != nil {
		return err
	}
	p.Wait()
	return nil
}

// visit visits servers, see visits.
func visit(what string) error {
	how, arg, _ := strings.Cut(what, " ")
	return visits[how](arg)
}

// parent starts another process that starts a program. It returns the process, the identity of the
// program, and its output.
func parent(t *testing.T, what, dir string) (*exec.Cmd, ID, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), childVariable+"="+what, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	_, noInput := cmd.StdinPipe()
	stdout, err := cmd.StdoutPipe()
	must.Succeed(t, errors.Join(err, noInput))
	must.Succeed(t, cmd.Start())
	lines := bufio.NewReader(stdout)
	var id ID
	line, err := lines.ReadBytes('\n')
	if err := errors.Join(err, json.Unmarshal(line, &id)); err != nil {
		t.Fatalf("the other process printed %q: %v", line, err)
	}
	t.Cleanup(func() { EndOrphan(id, soon) })
	return cmd, id, lines
}

func killAndReap(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must.Succeed(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil {
		t.Fatal("the process was not killed")
	}
}

// endLater ends a process at the end of the test, if it has not ended.
func endLater(t *testing.T, cmd *exec.Cmd) {
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
}

func shell(script string) Spec { return Spec{Argv: []string{"sh", "-c", script}} }

// start starts a program, which is stopped when the test ends.
func start(t *testing.T, spec Spec) *Process {
	t.Helper()
	p, err := Start(spec, nil)
	must.Succeed(t, err)
	t.Cleanup(func() {
		p.Stop(0)
		p.Wait()
	})
	return p
}

// run runs a program and returns its output.
func run(t *testing.T, spec Spec) (Exit, string) {
	t.Helper()
	var out bytes.Buffer
	spec.Stdout, spec.Stderr = &out, &out
	exit := start(t, spec).Wait()
	return exit, out.String()
}

// startReading starts a program and returns a reader of its output.
func startReading(t *testing.T, spec Spec) (*Process, *bufio.Reader) {
	t.Helper()
	r, w := io.Pipe()
	spec.Stdout = w
	p := start(t, spec)
	go func() {
		p.Wait()
		w.Close()
	}()
	return p, bufio.NewReader(r)
}

func nextLine(t *testing.T, lines *bufio.Reader) string {
	t.Helper()
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("read %q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// identify returns the identity of a pid that a program printed.
func identify(t *testing.T, text string) ID {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	must.Succeed(t, err)
	s, ok := lookUp(pid)
	if !ok {
		t.Fatalf("no process %d", pid)
	}
	return ID{PID: pid, Started: s.started}
}

func wantExit(t *testing.T, got Exit, code int, signal string) {
	t.Helper()
	if got.Code != code || got.Signal != signal || got.Err != nil {
		t.Errorf("exit %+v, want %d %s", got, code, signal)
	}
}

func wantHint(t *testing.T, err error, code signalbox.Code, text string) {
	t.Helper()
	var e *signalbox.Error
	if !errors.As(err, &e) || e.Code != code || e.Hint == "" ||
		!strings.Contains(err.Error(), text) {
		t.Errorf("error %#v (%v), want code %d, a hint, and %q", err, err, code, text)
	}
}
