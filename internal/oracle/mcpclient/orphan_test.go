//go:build linux || darwin

package mcpclient

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/process"
	"signalbox/internal/testkit/must"
)

// Each server has its own session, nested in that of this process.
func TestServerSession(t *testing.T) {
	t.Setenv(process.SessionVariable, "T1-developer")
	sessions := map[string]bool{}
	for range 2 {
		r, err := use(t, start(t, command("good"), nil), "environment", `{}`)
		must.Succeed(t, err)
		for line := range strings.Lines(r.Text) {
			if value, found := strings.CutPrefix(strings.TrimSpace(line), process.SessionVariable+
				"="); found {
				sessions[value] = true
				if !strings.HasPrefix(value, process.NestedSession("mcp-test-")) ||
					!strings.HasPrefix(value, "T1-developer") {
					t.Errorf("its session is %s", value)
				}
			}
		}
	}
	if len(sessions) != 2 {
		t.Errorf("sessions %v", sessions)
	}
}

// End stops only the program of the call that a killed process left running.
func TestEndCall(t *testing.T) {
	stderr := listen()
	server := command("good")
	server.Stderr = stderr
	options := &Options{CallDir: filepath.Join(t.TempDir(), "calls"), Grace: short}
	left, now := start(t, server, options), start(t, command("good"), options)
	waiting := make(chan error)
	go func() {
		_, err := find(t, left, "test__wait").Use(t.Context(),
			toolbox.Call{Key: "s/1", Arguments: json.RawMessage(`{}`)})
		waiting <- err
	}()
	<-stderr.lines // it has started
	old, _ := left.current()
	own, _ := now.current()
	end := find(t, now, "test__wait").End
	if err := end("s/2"); err != nil || !old.program.process.ID().Alive() {
		t.Fatalf("the end of another call: %v", err)
	}
	if err := find(t, left, "test__wait").End("s/1"); err != nil ||
		!old.program.process.ID().Alive() {
		t.Fatalf("it ends its own server: %v", err)
	}
	must.Succeed(t, end("s/1"))
	if old.program.process.ID().Alive() || !own.program.process.ID().Alive() {
		t.Errorf("the orphan is alive: %v; the other: %v", old.program.process.ID().Alive(),
			own.program.process.ID().Alive())
	}
	wantError(t, <-waiting, "lost during the call")

	if err := end("s/1"); err != nil {
		t.Errorf("once more: %v", err)
	}
}

// A call has a file while it runs, unless it is read-only.
func TestCallRecords(t *testing.T) {
	options := &Options{CallDir: filepath.Join(t.TempDir(), "calls")}
	c := start(t, command("good"), options)
	call := func(name, arguments string) {
		t.Helper()
		if _, err := find(t, c, "test__"+name).Use(t.Context(),
			toolbox.Call{Key: "s/1", Arguments: json.RawMessage(arguments)}); err != nil {
			t.Error(err)
		}
	}
	call("echo", `{"message":"1"}`)
	if _, err := os.Stat(options.CallDir); err == nil {
		t.Error("a call that changes nothing was noted")
	}
	call("set", `{}`)
	if files, err := os.ReadDir(options.CallDir); err != nil || len(files) > 0 {
		t.Errorf("files %v, %v", files, err)
	}
}

// An incomplete file belongs to a call that was not made.
func TestEndCallNotMade(t *testing.T) {
	options := &Options{CallDir: t.TempDir(), Grace: short}
	c := start(t, command("good"), options)
	must.Succeed(t, os.WriteFile(c.recordPath("s/1"), []byte(`{"pid":`), 0o600))
	if err := c.endCall("s/1"); err != nil {
		t.Error(err)
	}
	if files, _ := os.ReadDir(options.CallDir); len(files) > 0 {
		t.Errorf("files %v", files)
	}
}
