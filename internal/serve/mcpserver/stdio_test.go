package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// process starts this test binary as a server.
func process(t *testing.T, dir, session string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+dir, sessionVariable+"="+session,
		"GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

func TestStdioProcess(t *testing.T) {
	dir := newBox(t)
	c := callerOver(t, &mcp.CommandTransport{Command: process(t, dir, ""),
		TerminateDuration: time.Minute})
	if len(c.tools) != 17 {
		t.Errorf("%d tools", len(c.tools))
	}
	c.ok("open_work", args{"work": "w"})
	claimed := c.ok("claim_work", args{"work": "w", "role": "developer"})
	c.ok("submit_exit", args{"session": claimed.string("session"),
		"phase_completed": "IMPLEMENTATION", "exit_reason": "completed"})
	c.ok("scan_transcript", args{"text": "READY_FOR_REVIEW: w\nSummary: done\n"})
	if err := c.session.Close(); err != nil {
		t.Errorf("the process did not end well: %v", err)
	}
	// What it wrote was signed before it exited.
	if a := newCaller(t, newServer(t, dir, nil)).ok("verify_ledger", nil); !a.has("all_signed") {
		t.Errorf("verify: %s", a.text)
	}
}

func TestStdioProcessWithSession(t *testing.T) {
	dir := newBox(t)
	order(t, dir, rules.OpenWork{Work: "w", Actor: "ann"},
		rules.Claim{Work: "w", Role: signalbox.RoleDeveloper, Session: "s-1", Actor: "bob",
			Lease: "l"})
	c := callerOver(t, &mcp.CommandTransport{Command: process(t, dir, "s-1"),
		TerminateDuration: time.Minute})
	c.fails("open_work", "not_allowed", args{"work": "x"})
	c.ok("submit_exit", args{"phase_completed": "IMPLEMENTATION", "exit_reason": "completed"})
}

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// TestPipedCalls writes all calls at once and closes the input, like a shell pipe.
func TestPipedCalls(t *testing.T) {
	cmd := process(t, newBox(t), "")
	cmd.Stdin = strings.NewReader(hello +
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"verify_ledger"}}` + "\n" +
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"open_work","arguments":{"work":"w"}}}` + "\n")
	out, err := cmd.Output()
	must.Succeed(t, err)
	answered := map[float64]bool{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var message struct {
			Version string `json:"jsonrpc"`
			ID      float64
			Result  map[string]any
		}
		if err := json.Unmarshal(lines.Bytes(), &message); err != nil || message.Version != "2.0" {
			t.Fatalf("not a message: %s", lines.Text())
		}
		answered[message.ID] = message.Result != nil
	}
	if !answered[1] || !answered[2] || !answered[3] {
		t.Errorf("answered %v in %s", answered, out)
	}
}

func TestStdioEndsWithContext(t *testing.T) {
	s := newServer(t, newBox(t), nil)
	ctx, cancel := context.WithCancel(t.Context())
	in, feed := io.Pipe()
	defer feed.Close()
	out, sink := io.Pipe()
	done := make(chan error)
	go func() { done <- s.ServeStdio(ctx, in, sink) }()
	go io.WriteString(feed, hello)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil ||
		!strings.Contains(line, "signalbox") {
		t.Fatalf("hello: %s, %v", line, err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// TestStdioSkipsInvalidLines sends lines that are not messages between calls.
func TestStdioSkipsInvalidLines(t *testing.T) {
	s := newServer(t, newBox(t), nil)
	call := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"get_status"}}`, id) + "\n"
	}
	in := io.MultiReader(strings.NewReader(hello+"{nonsense\n"+call(2)+
		`{"jsonrpc":"2.0","id":9,"method":"`),
		bytes.NewReader(bytes.Repeat([]byte("x"), maxMessage+1)),
		strings.NewReader("\n"+call(3)))
	var out bytes.Buffer
	must.Succeed(t, s.ServeStdio(t.Context(), in, &out))
	answered, refused := map[float64]bool{}, 0
	for text := range strings.Lines(out.String()) {
		var message struct {
			ID    *float64
			Error *struct{ Code int }
		}
		if err := json.Unmarshal([]byte(text), &message); err != nil {
			t.Fatalf("not a message: %s", text)
		}
		switch {
		case message.ID != nil && message.Error == nil:
			answered[*message.ID] = true
		case message.ID == nil && message.Error != nil && message.Error.Code == -32700:
			refused++
		}
	}
	if refused != 2 || !answered[1] || !answered[2] || !answered[3] {
		t.Errorf("%d refused, answered %v in %s", refused, answered, out.String())
	}
}
