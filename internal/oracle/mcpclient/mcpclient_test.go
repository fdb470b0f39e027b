//go:build linux || darwin

package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/process"
	"signalbox/internal/testkit/must"
)

// short is a timeout for events that do not happen and programs that do not exit.
const short = 150 * time.Millisecond

func command(mode string) Server {
	return Server{Name: "test", Command: []string{os.Args[0]},
		Env: map[string]string{modeVariable: mode, "GORACE": "atexit_sleep_ms=0"}}
}

func start(t *testing.T, server Server, options *Options) *Client {
	t.Helper()
	c, err := Start(t.Context(), server, options)
	must.Succeed(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func find(t *testing.T, c *Client, name string) toolbox.Tool {
	t.Helper()
	for _, tool := range c.Tools() {
		if tool.Name == name {
			return tool
		}
	}
	t.Fatalf("no tool %s", name)
	return toolbox.Tool{}
}

func use(t *testing.T, c *Client, name, arguments string) (toolbox.Result, error) {
	t.Helper()
	return find(t, c, "test__"+name).Use(t.Context(),
		toolbox.Call{Arguments: json.RawMessage(arguments)})
}

func wantText(t *testing.T, c *Client, name, arguments, want string) {
	t.Helper()
	if r, err := use(t, c, name, arguments); err != nil || r.Text != want {
		t.Errorf("%s says %.300q, %v, want %q", name, r.Text, err, want)
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that says %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	if strings.ContainsAny(err.Error(), "\x1b\n") {
		t.Errorf("error %q is not one plain line", err)
	}
}

// said is a writer that sends its lines to a channel.
type said struct {
	mu    sync.Mutex
	text  bytes.Buffer
	lines chan string
}

func listen() *said { return &said{lines: make(chan string, 100)} }

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	for {
		line, err := s.text.ReadString('\n')
		if err != nil {
			s.text.WriteString(line)
			return len(p), nil
		}
		s.lines <- strings.TrimSpace(line)
	}
}

func TestTools(t *testing.T) {
	server := command("good")
	server.Timeout = 7 * time.Second
	c := start(t, server, nil)
	var names []string
	for _, tool := range c.Tools() {
		names = append(names, tool.Name)
	}
	want := []string{"test__ask", "test__die", "test__echo", "test__environment", "test__fail",
		"test__flood", "test__grow", "test__huge", "test__noise", "test__set", "test__wait"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	echo := find(t, c, "test__echo")
	if echo.Description != "says it again" || echo.Kind != prompt.OtherTool || !echo.ReadOnly ||
		echo.Timeout != 7*time.Second {
		t.Errorf("echo is %+v", echo)
	}
	if find(t, c, "test__fail").ReadOnly {
		t.Error("fail may change things, and is read-only")
	}
	if find(t, c, "test__set").ReadOnly {
		t.Error("set changes the same again, which others may have changed meanwhile, and is read-only")
	}
	wantSchema := `{"additionalProperties":false,"properties":{"message":{"type":"string"}},"required":["message"],"type":"object"}`
	if string(echo.Schema) != wantSchema {
		t.Errorf("schema %s, want %s", echo.Schema, wantSchema)
	}
	if notes := c.Notes(); notes != nil {
		t.Errorf("notes %q", notes)
	}
	// The caller owns the returned slice.
	c.Tools()[0].Name = "mine"
	if c.Tools()[0].Name != want[0] {
		t.Error("the list can be changed from outside")
	}
}

func TestCalls(t *testing.T) {
	c := start(t, command("good"), nil)
	wantText(t, c, "echo", `{"message":"hello"}`, "you said hello")
	wantText(t, c, "noise", ``, "after the noise")
	_, err := use(t, c, "fail", `{}`)
	if err == nil || err.Error() != "the disk is full" {
		t.Errorf("error %v", err)
	}
	_, err = use(t, c, "echo", `{"massage":"hello"}`)
	wantError(t, err, "massage")
	r, err := use(t, c, "huge", `{}`)
	if err != nil || len(r.Text) > maxText ||
		!strings.HasSuffix(r.Text, "é\n[cut here: the answer has 81,920 bytes]") {
		t.Errorf("%d bytes, %v, ending in %q", len(r.Text), err, r.Text[max(0, len(r.Text)-60):])
	}
	// Concurrent calls.
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { wantText(t, c, "echo", fmt.Sprintf(`{"message":"%d"}`, i), fmt.Sprintf("you said %d", i)) })
	}
	all.Wait()
}

func TestStartContextAppliesOnlyToStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, err := Start(ctx, command("good"), nil)
	must.Succeed(t, err)
	defer c.Close()
	cancel()
	wantText(t, c, "echo", `{"message":"still"}`, "you said still")
}

func TestUnusualServers(t *testing.T) {
	t.Run("newest protocol only", func(t *testing.T) {
		c := start(t, command("newest only"), nil)
		wantText(t, c, "echo", `{"message":"new"}`, "you said new")
	})
	t.Run("no tools", func(t *testing.T) {
		c := start(t, command("no tools"), nil)
		if len(c.Tools()) != 0 || len(c.Notes()) != 1 {
			t.Errorf("tools %v, notes %q", c.Tools(), c.Notes())
		}
	})
	t.Run("sloppy and endless", func(t *testing.T) {
		c := start(t, command("raw"), nil)
		var got []string
		for _, tool := range c.Tools() {
			got = append(got, tool.Name+" "+string(tool.Schema)+" "+tool.Description)
		}
		want := []string{`test__bare {"type":"object"} `,
			`test__php {"properties":{},"type":"object"} `,
			`test__untyped {"properties":{"a":{},"b":{}},"type":"object"} A title`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("tools (-want +got):\n%s", diff)
		}
		notes := strings.Join(c.Notes(), "\n")
		for _, part := range []string{"a duplicate", "a duplicate",
			"tool list is left out: its schema does not describe an object",
			"tool odd is left out: "} {
			if !strings.Contains(notes, part) {
				t.Errorf("notes do not say %q: %.500s", part, notes)
			}
		}
		_, err := use(t, c, "bare", `{}`)
		wantError(t, err, "hologram")
	})
}

func TestAllowedTools(t *testing.T) {
	server := command("good")
	server.Tools = []string{"fail", "echo", "missing"}
	c := start(t, server, nil)
	if tools := c.Tools(); len(tools) != 2 || tools[0].Name != "test__echo" ||
		tools[1].Name != "test__fail" {
		t.Errorf("tools %v", tools)
	}
	if diff := cmp.Diff([]string{"it has no tool missing"}, c.Notes()); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	server.Tools = []string{}
	if tools := start(t, server, nil).Tools(); len(tools) != 0 {
		t.Errorf("none is allowed, and there are %v", tools)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SOME_API_KEY", "secret")
	t.Setenv("LC_ALL", "C")
	t.Setenv("https_proxy", "http://127.0.0.1:1")
	server := command("good")
	server.Env["GIVEN"] = "yes"
	server.Dir = t.TempDir()
	r, err := use(t, start(t, server, nil), "environment", `{}`)
	must.Succeed(t, err)
	lines := strings.Split(r.Text, "\n")
	for _, want := range []string{"GIVEN=yes", "LC_ALL=C", "https_proxy=http://127.0.0.1:1",
		"PATH=" + os.Getenv("PATH")} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(r.Text, "SOME_API_KEY") {
		t.Error("a key is passed on")
	}
	if dir, _ := filepath.EvalSymlinks(server.Dir); lines[0] != dir {
		t.Errorf("it runs in %s, want %s", lines[0], dir)
	}
}

func TestServerRequestsAreDeclined(t *testing.T) {
	wantText(t, start(t, command("good"), nil), "ask", `{}`,
		"sampling declined, elicitation declined, roots")
	server := command("good")
	server.Dir = filepath.Join(t.TempDir(), "a folder")
	must.Succeed(t, os.Mkdir(server.Dir, 0o700))
	wantText(t, start(t, server, nil), "ask", `{}`,
		"sampling declined, elicitation declined, roots, announced, file://"+
			strings.ReplaceAll(server.Dir, " ", "%20"))
}

func TestListChanged(t *testing.T) {
	for _, mode := range []string{"good", "newest only"} {
		changed := make(chan struct{}, 10)
		c := start(t, command(mode), &Options{Changed: func() { changed <- struct{}{} }})
		wantText(t, c, "grow", `{}`, "grown")
		<-changed
		wantText(t, c, "more", `{}`, "more")
	}
}

func TestTimeoutAndCancel(t *testing.T) {
	stderr := listen()
	server := command("good")
	server.Stderr, server.Timeout = stderr, short
	c := start(t, server, nil)
	_, err := use(t, c, "wait", `{}`)
	wantError(t, err, "MCP server test", "did not answer within 150ms", "may or may not")
	for _, want := range []string{"started", "cancelled"} {
		if got := <-stderr.lines; got != want {
			t.Fatalf("the server says %q, want %q", got, want)
		}
	}
	c.server.Timeout = time.Minute // only the call that never ends is to time out
	wantText(t, c, "echo", `{"message":"still"}`, "you said still")

	server.Timeout = 0
	c = start(t, server, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("enough")
	go func() {
		<-stderr.lines
		cancel(stopped)
	}()
	_, err = find(t, c, "test__wait").Use(ctx, toolbox.Call{})
	wantError(t, err, "cancelled", "enough")
	if !errors.Is(err, stopped) {
		t.Errorf("error %v does not wrap why", err)
	}
	if got := <-stderr.lines; got != "cancelled" {
		t.Errorf("the server says %q", got)
	}
}

// clock is a manual clock.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestDeath(t *testing.T) {
	const note = "[MCP server test had stopped and was restarted: its state in memory is lost]\n"
	now := &clock{now: time.Unix(1e9, 0)}
	c := start(t, command("good"), &Options{Now: now.Now})
	die := func() {
		t.Helper()
		_, err := use(t, c, "die", `{}`)
		wantError(t, err, "lost during the call", "exited with status 3", "out of cheese",
			"may or may not")
	}
	die()
	wantText(t, c, "echo", `{"message":"1"}`, note+"you said 1")
	wantText(t, c, "echo", `{"message":"2"}`, "you said 2")
	die()
	now.add(59 * time.Second)
	_, err := use(t, c, "echo", `{"message":"3"}`)
	wantError(t, err, "exited with status 3", "out of cheese", "for 1 more seconds")
	now.add(time.Second)
	wantText(t, c, "echo", `{"message":"4"}`, note+"you said 4")
}

func TestDeathBetweenCalls(t *testing.T) {
	now := &clock{now: time.Unix(1e9, 0)}
	c := start(t, command("good"), &Options{Now: now.Now})
	s, err := c.current()
	must.Succeed(t, err)
	syscall.Kill(s.program.process.ID().PID, syscall.SIGKILL)
	// Whether or not the client has noticed the death, a call that was not sent is sent after the
	// restart.
	var all sync.WaitGroup
	<-s.stopped
	for range 5 {
		all.Go(func() {
			if r, err := use(t, c, "echo", `{"message":"1"}`); err != nil ||
				!strings.HasSuffix(r.Text, "you said 1") {
				t.Errorf("%q, %v", r.Text, err)
			}
		})
	}
	all.Wait()
}

func TestRestartFails(t *testing.T) {
	now := &clock{now: time.Unix(1e9, 0)}
	server := command("dies once")
	server.Dir = t.TempDir()
	c := start(t, server, &Options{Now: now.Now})
	_, err := use(t, c, "die", `{}`)
	wantError(t, err, "lost during the call")
	_, err = use(t, c, "echo", `{"message":"1"}`)
	wantError(t, err, "restarting it failed", "exited with status 5", "no second life")
	_, err = use(t, c, "echo", `{"message":"1"}`)
	wantError(t, err, "exited with status 5", "for 60 more seconds")
	now.add(time.Minute)
	must.Succeed(t, os.Remove(filepath.Join(server.Dir, "died")))
	if r, err := use(t, c, "echo", `{"message":"1"}`); err != nil ||
		!strings.HasSuffix(r.Text, "you said 1") {
		t.Errorf("%q, %v", r.Text, err)
	}
}

// A call that finds the connection closed was not sent, so that it may be sent in a new session.
func TestDeathNoticedByCall(t *testing.T) {
	c := start(t, command("good"), nil)
	s, _ := c.current()
	syscall.Kill(s.program.process.ID().PID, syscall.SIGKILL)
	<-s.stopped
	c.mu.Lock()
	c.session = &session{client: s.client, program: s.program, stopping: make(chan struct{}),
		broken: make(chan struct{}), stopped: s.stopped}
	c.mu.Unlock()
	if r, err := use(t, c, "echo", `{"message":"1"}`); err != nil ||
		!strings.HasSuffix(r.Text, "you said 1") {
		t.Errorf("%q, %v", r.Text, err)
	}
}

// restartHanging kills a server whose restart hangs. It returns the pid of the second process,
// while a call waits for it.
func restartHanging(t *testing.T, ctx context.Context) (c *Client, pid int, dir string,
	failed <-chan error) {
	t.Helper()
	now, stderr := &clock{now: time.Unix(1e9, 0)}, listen()
	server := command("hangs later")
	server.Dir, server.Stderr = t.TempDir(), stderr
	c = start(t, server, &Options{Now: now.Now, Grace: short})
	_, err := use(t, c, "die", `{}`)
	wantError(t, err, "lost during the call")
	echo, answer := find(t, c, "test__echo"), make(chan error, 1)
	go func() {
		_, err := echo.Use(ctx, toolbox.Call{Arguments: json.RawMessage(`{"message":"1"}`)})
		answer <- err
	}()
	for line := range stderr.lines {
		if _, err := fmt.Sscanf(line, "second %d", &pid); err == nil {
			break
		}
	}
	return c, pid, server.Dir, answer
}

func TestCancelDuringRestart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, _, dir, failed := restartHanging(t, ctx)
	cancel()
	wantError(t, <-failed, "cancelled")
	// The server did not fail, so that the next call may restart it at once.
	must.Succeed(t, os.Remove(filepath.Join(dir, "died")))
	if r, err := use(t, c, "echo", `{"message":"2"}`); err != nil ||
		!strings.HasSuffix(r.Text, "you said 2") {
		t.Errorf("%q, %v", r.Text, err)
	}
}

func TestCloseDuringRestart(t *testing.T) {
	c, pid, _, failed := restartHanging(t, t.Context())
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if syscall.Kill(pid, 0) == nil {
		t.Error("the second process is still running")
	}
	wantError(t, <-failed, "MCP server test")
}

func TestFlood(t *testing.T) {
	c := start(t, command("good"), nil)
	_, err := use(t, c, "flood", `{}`)
	wantError(t, err, "more than 16,777,216 bytes")
	if r, err := use(t, c, "echo", `{"message":"1"}`); err != nil ||
		!strings.HasSuffix(r.Text, "you said 1") {
		t.Errorf("%q, %v", r.Text, err)
	}
}

func TestStartErrors(t *testing.T) {
	absent := command("good")
	absent.Command = []string{"no-such-program-anywhere"}
	session := command("good")
	session.Env = map[string]string{process.SessionVariable: "s-1"}
	for name, tt := range map[string]struct {
		server Server
		code   signalbox.Code
		says   []string
	}{
		"exits": {command("exit"), signalbox.CodeFailed,
			[]string{"exited with status 4", "no licence file"}},
		"hangs": {command("hang"), signalbox.CodeFailed,
			[]string{"did not answer within 150ms"}},
		"refuses":    {command("refuses"), signalbox.CodeFailed, []string{"not today"}},
		"no program": {absent, signalbox.CodeNotFound, []string{"no-such-program-anywhere"}},
		"no name":    {Server{Command: []string{"x"}}, signalbox.CodeUsage, []string{"name"}},
		"bad name": {Server{Name: "a.b", Command: []string{"x"}}, signalbox.CodeUsage,
			[]string{"a.b"}},
		"nothing": {Server{Name: "a"}, signalbox.CodeUsage, []string{"command or a url"}},
		"both": {Server{Name: "a", Command: []string{"x"}, URL: "http://x"},
			signalbox.CodeUsage, []string{"remove one of them"}},
		"strange address": {Server{Name: "a", URL: "file:///x"}, signalbox.CodeUsage,
			[]string{"http://"}},
		"session": {session, signalbox.CodeUsage, []string{process.SessionVariable}},
	} {
		t.Run(name, func(t *testing.T) {
			options := &Options{Grace: short}
			if name == "hangs" {
				options.StartTimeout = short
			}
			c, err := Start(t.Context(), tt.server, options)
			wantError(t, err, append(tt.says, "mcp server", tt.server.Name)...)
			var known *signalbox.Error
			if c != nil || !errors.As(err, &known) || known.Code != tt.code || known.Hint == "" {
				t.Errorf("%v, %#v", c, known)
			}
		})
	}
}

func TestStartErrorQuotesOutput(t *testing.T) {
	for _, tt := range []struct {
		mode  string
		cause error
		code  signalbox.Code
		says  []string
	}{
		{"hang", nil, signalbox.CodeInterrupted, []string{"cancelled"}},
		{"hang", errStartTimeout, signalbox.CodeFailed,
			[]string{"did not answer within 1m0s", "waiting for a friend"}},
		{"noise", errStartTimeout, signalbox.CodeFailed,
			[]string{"did not answer", `standard output`, `{"level":"info"}`}},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		stderr := listen()
		server := command(tt.mode)
		server.Stderr = stderr
		go func() {
			<-stderr.lines
			cancel(tt.cause) // time out when it has printed
		}()
		_, err := Start(ctx, server, &Options{Grace: short})
		wantError(t, err, tt.says...)
		if known := (*signalbox.Error)(nil); !errors.As(err, &known) || known.Code != tt.code {
			t.Errorf("%#v", err)
		}
	}
}

func TestCloseStopsEverything(t *testing.T) {
	stderr := listen()
	server := command("stubborn")
	server.Stderr = stderr
	c := start(t, server, &Options{Grace: short})
	var child int
	if _, err := fmt.Sscanf(<-stderr.lines, "child %d", &child); err != nil {
		t.Fatal(err)
	}
	s, _ := c.current()
	if !s.program.process.ID().Alive() || syscall.Kill(child, 0) != nil {
		t.Fatal("it is not there, and this test tries nothing")
	}
	waiting := make(chan error)
	go func() {
		_, err := use(t, c, "wait", `{}`)
		waiting <- err
	}()
	<-stderr.lines // it has started
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wantError(t, <-waiting, "stopped before it answered", "may or may not")
	all.Wait()
	if s.program.process.ID().Alive() {
		t.Error("the server is still there")
	}
	if runtime.GOOS == "linux" {
		if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child)); err == nil &&
			!strings.Contains(string(status), ") Z ") {
			t.Errorf("its child is still there: %s", status)
		}
	}
	_, err := use(t, c, "echo", `{"message":"1"}`)
	wantError(t, err, "closed")
}

// TestCloseRacesWithRestart calls Close at different points of a restart.
func TestCloseRacesWithRestart(t *testing.T) {
	for range 5 {
		c := start(t, command("good"), nil)
		s, _ := c.current()
		syscall.Kill(s.program.process.ID().PID, syscall.SIGKILL)
		<-s.broken
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { use(t, c, "echo", `{"message":"1"}`) })
		}
		all.Go(func() { c.Close() })
		all.Wait()
		if s, err := c.current(); err == nil || s != nil {
			t.Error("it is not closed")
		}
		if c.session.program.process.ID().Alive() {
			t.Error("it is still there")
		}
	}
}

func TestStderrWriteError(t *testing.T) {
	read, write := io.Pipe()
	read.Close()
	server := command("good")
	server.Stderr = write
	c := start(t, server, nil)
	_, err := use(t, c, "die", `{}`)
	wantError(t, err, "out of cheese")
}

func TestSourcesNameTheTool(t *testing.T) {
	result := linked()
	text, sources := render(result, "test__links")
	want := []chunk.Source{{Type: "test__links", Path: "file:///a", Title: "A"},
		{Type: "test__links", Path: "file:///b", Title: "b"},
		{Type: "test__links", Path: "note://1"}}
	if diff := cmp.Diff(want, sources); diff != "" {
		t.Errorf("sources of %q (-want +got):\n%s", text, diff)
	}
}
