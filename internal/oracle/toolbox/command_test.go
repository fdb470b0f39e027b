//go:build linux || darwin

package toolbox

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/oracle/prompt"
	"signalbox/internal/process"
	"signalbox/internal/testkit/must"
	"signalbox/internal/tree/command"
)

// sh runs a shell command as a tool.
func sh(ctx context.Context, c Command, key, arguments string) Outcome {
	return Run(ctx, FromCommand("test", c), Call{Key: key, Arguments: json.RawMessage(arguments)})
}

func TestCommand(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		ok   bool
		want string
	}{
		"arguments":      {"cat", true, `{"n":1.50,"text":"<ä>"}`},
		"a line of them": {"read line; echo got it", true, "got it"},
		"reads nothing":  {"echo 1", true, "1"},
		"lines":          {`printf ' a\nb\n\n'`, true, " a\nb"},
		"nothing":        {"true", true, "(no output)"},
		"said aside":     {"echo aside >&2; echo 1", true, "1"},
		"no UTF-8":       {`printf 'a\377b'`, true, "a\uFFFDb"},
		"fails": {"exit 3", false,
			"the command failed with exit status 3 and printed nothing"},
		"fails, says why": {"echo out; echo ' no network ' >&2; exit 3", false,
			"the command failed with exit status 3: no network"},
		"fails aloud": {"echo no network; exit 3", false,
			"the command failed with exit status 3: no network"},
		"fails at length": {"seq 1 5000 >&2; exit 1", false,
			"the command failed with exit status 1: " + tailOfSeq(5000)},
		"killed": {"kill -9 $$", false,
			"the command failed with exit status 137 (SIGKILL) and printed nothing"},
		"no such program": {"exec no-such-program-anywhere 2>/dev/null", false,
			"the command failed with exit status 127 and printed nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			got := sh(t.Context(), Command{Line: c.line}, "r/1", `{"n":1.50,"text":"<ä>"}`)
			if diff := cmp.Diff(Outcome{OK: c.ok, Text: c.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	long := sh(t.Context(), Command{Line: "head -c 100000 /dev/zero | tr '\\0' x"}, "r/1", "")
	if !long.OK || len(long.Text) != MaxResult {
		t.Errorf("much: %v, %d bytes", long.OK, len(long.Text))
	}
	endless := sh(t.Context(), Command{Line: "yes"}, "r/1", "")
	if endless.OK {
		t.Error("without end: it succeeded")
	}
	has(t, endless.Text, "printed more than 1048576 bytes and was stopped", "y\ny\n")
}

// tailOfSeq returns the part of the output of seq that an error shows.
func tailOfSeq(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintln(&text, i+1)
	}
	said := strings.TrimSpace(text.String())
	return said[len(said)-maxComplaint:]
}

func TestCommandTool(t *testing.T) {
	c := Command{Line: "cat", Description: "Says it again.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"say":{"type":"string"}}}`),
		ReadOnly:   true, Timeout: time.Second}
	tool := FromCommand("echo", c)
	if tool.Name != "echo" || tool.Description != c.Description || tool.Kind != prompt.OtherTool ||
		!tool.ReadOnly || tool.Timeout != time.Second ||
		string(tool.Schema) != string(c.Parameters) {
		t.Errorf("%+v", tool)
	}
	fails(t, tool, args{"sya": "x"},
		`bad arguments for echo: unknown argument "sya", did you mean "say"?`)
	if err := Check([]Tool{FromCommand("echo", Command{Line: "cat"})}); err != nil {
		t.Error(err)
	}
}

// A command gets the key of its call and its own session, and none of the operator's variables.
func TestCommandEnvironment(t *testing.T) {
	t.Setenv("SIGNALBOX_ACTOR", "operator")
	t.Setenv("SIGNALBOX_SESSION", "another")
	t.Setenv("TOOL_TEST", "of the user")
	line := `env | grep -e ^SIGNALBOX_ -e ^TOOL_TEST= | sort`
	got := sh(t.Context(), Command{Line: line}, "s/1/call 2", "")
	want := "SIGNALBOX_SESSION=" + session("s/1/call 2") +
		"\nSIGNALBOX_TREE_KEY=s/1/call 2\nTOOL_TEST=of the user"
	if got.Text != want {
		t.Errorf("it sees %q, want %q", got.Text, want)
	}
	t.Setenv("MODEL_KEY", "secret")
	keys := Command{Line: `echo "${MODEL_KEY-unset} $TOOL_TEST"`, Env: []string{"PATH=" + os.Getenv("PATH"), "TOOL_TEST=its own"}}
	if got := sh(t.Context(), keys, "s/1/call 3", ""); got.Text != "unset its own" {
		t.Errorf("with an environment of its own it sees %q", got.Text)
	}
	if KeyVariable != command.KeyVariable {
		t.Errorf("the tools of trees know their key as %s", command.KeyVariable)
	}
	if got := sh(t.Context(), Command{Line: line}, "", ""); strings.Contains(got.Text,
		"SIGNALBOX_SESSION") {
		t.Errorf("a call without a key has a session: %s", got.Text)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Succeed(t, err)
	if got := sh(t.Context(), Command{Line: "pwd -P", Dir: dir}, "k", ""); got.Text != dir {
		t.Errorf("it runs in %s, want %s", got.Text, dir)
	}
	if got := sh(t.Context(), Command{Line: "pwd", Dir: filepath.Join(dir, "gone")}, "k",
		""); got.OK {
		t.Errorf("it runs in a folder that is not there: %s", got.Text)
	}
}

// pipe creates a named pipe. Reading from it ends when no process has it open for writing.
func pipe(t *testing.T) (name string, await func() (gone func())) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "pipe")
	must.Succeed(t, syscall.Mkfifo(name, 0o600))
	return name, func() func() {
		file, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return func() {}
		}
		r := bufio.NewReader(file)
		if _, err := r.ReadString('\n'); err != nil {
			t.Error(err)
		}
		return func() {
			io.Copy(io.Discard, r)
			file.Close()
		}
	}
}

// staying returns a command that keeps a pipe open as long as it, or a process that it started, is
// alive.
func staying(name string) string {
	return "exec 8>" + name + "; echo here >&8; sleep 1000 & sleep 1000 & wait"
}

func TestCommandCancelled(t *testing.T) {
	name, await := pipe(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan Outcome)
	go func() { ended <- sh(ctx, Command{Line: staying(name)}, "k", "") }()
	gone := await()
	cancel()
	if got := <-ended; got.OK || got.Text != "cancelled: test was stopped before it finished" {
		t.Errorf("%+v", got)
	}
	gone() // otherwise the test does not end
}

func TestCommandTimeout(t *testing.T) {
	got := sh(t.Context(), Command{Line: "sleep 1000", Timeout: 50 * time.Millisecond}, "k", "")
	if got.OK || !strings.HasPrefix(got.Text,
		"timeout: test took longer than 50ms and was stopped") {
		t.Errorf("%+v", got)
	}
}

// The background processes of a command are stopped with it.
func TestCommandStopsBackgroundProcesses(t *testing.T) {
	name, await := pipe(t)
	ended := make(chan Outcome)
	go func() {
		ended <- sh(t.Context(),
			Command{Line: "exec 8>" + name +
				"; echo here >&8; sleep 1000 >/dev/null 2>&1 & echo done"}, "k", "")
	}()
	gone := await()
	if got := <-ended; got.Text != "done" {
		t.Errorf("%+v", got)
	}
	gone()
}

// End stops what a killed process left running of the same call, and nothing of other calls.
func TestCommandEnd(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes of another can be found on Linux only")
	}
	name, await := pipe(t)
	diary := filepath.Join(t.TempDir(), "diary")
	cmd := exec.Command("sh", "-c", "trap 'echo orphan ended >>"+diary+"; exit' TERM; "+
		staying(name))
	cmd.Env = append(os.Environ(), process.SessionVariable+"="+session("k"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Succeed(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with everything it started
		<-ended
	})
	gone := await()
	sh(t.Context(), Command{Line: "echo another call >>" + diary}, "k2", "")
	sh(t.Context(), Command{Line: "echo tried again >>" + diary}, "k", "")
	text, err := os.ReadFile(diary)
	if err != nil || string(text) != "another call\norphan ended\ntried again\n" {
		t.Errorf("the diary says %q (%v)", text, err)
	}
	gone()
}
