//go:build linux || darwin

package command

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
)

// use runs a tool.
func use(ctx context.Context, key, command string, args map[string]any) tree.Result {
	return Runner{}.Tool("test", command).Job(ctx, tree.Request{Key: key, Payload: args})
}

func TestTool(t *testing.T) {
	args := map[string]any{"n": int64(7), "list": []any{"a", true, nil}, "text": "<ä>\n"}
	long := strings.Repeat("x", maxOutput)
	for name, c := range map[string]struct {
		command string
		want    any
		err     string
	}{
		"arguments":            {"cat", args, ""},
		"arguments end a line": {"read line; echo got it", "got it", ""},
		"reads nothing":        {"echo 1", int64(1), ""},
		"text":                 {"echo in auth.go", "in auth.go", ""},
		"text of lines":        {`printf ' a\nb\n\n'`, " a\nb", ""},
		"nothing":              {"true", "", ""},
		"a number":             {"echo 2.5", 2.5, ""},
		"an object": {`echo '{"a": [1, null]}'`,
			map[string]any{"a": []any{int64(1), nil}}, ""},
		"not quite JSON":     {`echo '{"a": [1, null]'`, `{"a": [1, null]`, ""},
		"more than one JSON": {"echo 1; echo 2", "1\n2", ""},
		"output to stderr":   {"echo aside >&2; echo 1", int64(1), ""},
		"a failure":          {"echo 1; exit 3", nil, "exit status 3"},
		"a failure with a word": {"echo 1; echo ' no network ' >&2; exit 3", nil,
			"exit status 3: no network"},
		"a long error message": {"for i in $(seq 1000); do echo words >&2; done; exit 1", nil,
			"exit status 1: " + strings.Repeat("words\n", 84)[:maxErrors]},
		"killed": {"kill -9 $$", nil, "exit status 137"},
		"no such program": {"exec no-such-program-anywhere 2>/dev/null", nil,
			"exit status 127"},
		"as much as may be": {fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", maxOutput), long,
			""},
		"too much": {fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", maxOutput+1),
			nil, fmt.Sprintf("it printed more than %d bytes", maxOutput)},
		"without end": {"yes", nil, fmt.Sprintf("it printed more than %d bytes",
			maxOutput)},
		"much too much": {"head -c 20000000 /dev/zero", nil,
			fmt.Sprintf("it printed more than %d bytes", maxOutput)},
	} {
		t.Run(name, func(t *testing.T) {
			got := use(t.Context(), "r/1/1", c.command, args)
			want := tree.Result{Status: tree.Success, Writes: map[string]any{"result": c.want}}
			if c.err != "" {
				want = tree.Result{Status: tree.Failure, Err: strings.TrimSpace(c.err)}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A tool gets its key, runs in its own session, and does not see the operator's variables.
func TestToolEnvironment(t *testing.T) {
	t.Setenv("SIGNALBOX_ACTOR", "operator")
	t.Setenv("SIGNALBOX_SESSION", "another")
	t.Setenv("TREE_TEST", "of the user")
	got := use(t.Context(), "T-1/2/3", `env | grep -e ^SIGNALBOX_ -e ^TREE_TEST= | sort`, nil)
	want := "SIGNALBOX_SESSION=another/tree-T-1-2-3\nSIGNALBOX_TREE_KEY=T-1/2/3\nTREE_TEST=of the user"
	if got.Writes["result"] != want {
		t.Errorf("it sees %q, want %q (%s)", got.Writes["result"], want, got.Err)
	}
}

func TestModel(t *testing.T) {
	model := Runner{}.Model(
		`cat; printf ' %s %s' "$SIGNALBOX_TREE_KEY" "$SIGNALBOX_TREE_SETTINGS"; echo`)
	for name, c := range map[string]struct {
		payload map[string]any
		want    string
	}{
		"text": {map[string]any{"prompt": "hello", "system": "brief", "n": int64(1)},
			`hello r/1/1 {"n":1,"system":"brief"}` + "\n"},
		"structured": {map[string]any{"prompt": []any{map[string]any{"role": "user"}}},
			`[{"role":"user"}] r/1/1 {}` + "\n"},
	} {
		got := model.Job(t.Context(), tree.Request{Key: "r/1/1", Payload: c.payload})
		if got.Status != tree.Success || got.Writes["llm_response"] != c.want {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
	if got := (Runner{}).Model("echo busy >&2; exit 1").Job(t.Context(),
		tree.Request{Key: "r/1/1",
			Payload: map[string]any{"prompt": ""}}); got.Err != "exit status 1: busy" {
		t.Errorf("a model that fails: %+v", got)
	}
}

// line is a named pipe. Reading from it ends when no process writes to it any more.
type line struct {
	t    *testing.T
	name string
}

func newLine(t *testing.T) *line {
	t.Helper()
	l := &line{t, filepath.Join(t.TempDir(), "line")}
	must.Succeed(t, syscall.Mkfifo(l.name, 0o600))
	return l
}

// await waits until a process writes a line, and returns a function that waits until no process
// writes any more.
func (l *line) await() (gone func()) {
	l.t.Helper()
	file, err := os.Open(l.name)
	must.Succeed(l.t, err)
	r := bufio.NewReader(file)
	if _, err := r.ReadString('\n'); err != nil {
		l.t.Fatal(err)
	}
	return func() {
		io.Copy(io.Discard, r)
		file.Close()
	}
}

// staying returns a command that keeps a line open as long as it, or a process that it started, is
// alive.
func (l *line) staying() string {
	return "exec 8>" + l.name + "; echo here >&8; sleep 1000 & sleep 1000 & wait"
}

func TestCancel(t *testing.T) {
	l := newLine(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan tree.Result)
	go func() { ended <- use(ctx, "r/1/1", l.staying(), nil) }()
	gone := l.await()
	cancel()
	if got := <-ended; got.Status != tree.Failure || got.Err != context.Canceled.Error() {
		t.Errorf("%+v", got)
	}
	gone() // otherwise the test does not end
}

// Processes that a tool started end with it.
func TestBackgroundProcessesEnd(t *testing.T) {
	l := newLine(t)
	ended := make(chan tree.Result)
	go func() {
		ended <- use(t.Context(), "r/1/1", "exec 8>"+l.name+
			"; echo here >&8; sleep 1000 >/dev/null 2>&1 & echo done", nil)
	}()
	gone := l.await()
	if got := <-ended; got.Writes["result"] != "done" {
		t.Errorf("%+v", got)
	}
	gone()
}

// orphan starts a process as a killed run would have left it. The process notes its end.
func orphan(t *testing.T, key, diary string) (gone func()) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("processes of another can be found on Linux only")
	}
	l := newLine(t)
	cmd := exec.Command("sh", "-c", "trap 'echo orphan ended >>"+diary+"; exit' TERM; "+l.staying())
	cmd.Env = append(os.Environ(), "SIGNALBOX_SESSION="+session(key))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Succeed(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // and its children
		<-ended
	})
	return l.await()
}

// told returns the content of a diary.
func told(t *testing.T, diary string) string {
	t.Helper()
	text, err := os.ReadFile(diary)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

func TestOrphanIsStoppedFirst(t *testing.T) {
	diary := filepath.Join(t.TempDir(), "diary")
	gone := orphan(t, "r/1/1", diary)
	use(t.Context(), "r/1/1", "echo tool began >>"+diary, nil)
	if got := told(t, diary); got != "orphan ended\ntool began\n" {
		t.Errorf("the diary says %q", got)
	}
	gone()
}

func TestOtherWorkIsNotStopped(t *testing.T) {
	diary := filepath.Join(t.TempDir(), "diary")
	orphan(t, "r/1/12", diary)
	use(t.Context(), "r/1/1", "echo tool began >>"+diary, nil)
	if got := told(t, diary); got != "tool began\n" {
		t.Errorf("the diary says %q", got)
	}
}

// A job that is started with a context that is done only stops orphans.
func TestEndedContext(t *testing.T) {
	diary := filepath.Join(t.TempDir(), "diary")
	gone := orphan(t, "r/1/1", diary)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := use(ctx, "r/1/1", "echo tool began >>"+diary, nil)
	if said := told(t, diary); got.Err != context.Canceled.Error() || said != "orphan ended\n" {
		t.Errorf("%+v; the diary says %q", got, said)
	}
	gone()
}
