package main

import (
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/must"
)

// newOracleBox returns a box with a scripted model.
func newOracleBox(t *testing.T, script string) *testBox {
	t.Helper()
	parsed, err := modelserver.ParseScript("model.yaml", []byte(script))
	must.Succeed(t, err)
	handler, err := modelserver.New(parsed, nil)
	must.Succeed(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	b := newTestBox(t)
	settings := fmt.Sprintf(
		"models: {main: {provider: openai, model: rehearsal, base_url: %q, tries: 1}}\n",
		server.URL+"/v1")
	must.Succeed(t, os.WriteFile(filepath.Join(b.dir, "signalbox.yaml"), []byte(settings),
		0o600))
	return b
}

func typed(text string) *fakeTerminal {
	t := new(fakeTerminal)
	t.WriteString(text)
	return t
}

const smallTalk = `
conversations:
  - match: {user: hello}
    turns:
      - {match: {user: hello}, parts: [{text: Hello.}]}
      - {match: {user: thanks}, parts: [{text: You are welcome.}]}
      - {match: {user: fail}, parts: [{text: x}], faults: [{kind: status, status: 503, times: -1}]}
`

// On a terminal, several questions are asked in one conversation. A failed question does not end
// it.
func TestOracleChat(t *testing.T) {
	b := newOracleBox(t, smallTalk)
	p, stdout, stderr := b.program("oracle")
	p.Stdin = typed("hello\n\nfail\nthanks\n")
	if status := execute(p); status != 0 || stdout.String() != "Hello.\nYou are welcome.\n" {
		t.Errorf("status %d, stdout %q, stderr %s", status, stdout, stderr)
	}
	if n := strings.Count(stderr.String(), "> "); n != 5 {
		t.Errorf("%d prompts, want 5: %s", n, stderr)
	}
	if !strings.Contains(stderr.String(), "signalbox: model rehearsal") {
		t.Errorf("the failure is not reported: %s", stderr)
	}
	if list := b.must("oracle", "--sessions", "--json"); strings.Count(list, "\n") != 1 ||
		!strings.Contains(list, `"questions":3`) {
		t.Errorf("want one conversation: %s", list)
	}
	p, _, stderr = b.program("oracle")
	p.Stdin = typed("")
	if status := execute(p); status != 0 {
		t.Errorf("without a question: status %d, stderr %s", status, stderr)
	}
	if list := b.must("oracle", "--sessions", "--json"); strings.Count(list, "\n") != 1 {
		t.Errorf("there is a conversation without a question: %s", list)
	}
}

// Each stream is coloured only if it is a terminal.
func TestOracleColoursTerminalsOnly(t *testing.T) {
	b := newOracleBox(t, smallTalk)
	p, stdout, _ := b.program("oracle", "hello")
	screen := new(fakeTerminal)
	p.Stderr = screen
	if status := execute(p); status != 0 || !strings.Contains(screen.String(), "\x1b[2m  ■") ||
		strings.Contains(stdout.String(), "\x1b") {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, screen.String())
	}
	p, _, stderr := b.program("oracle", "hello")
	screen = new(fakeTerminal)
	p.Stdout = screen
	if status := execute(p); status != 0 || strings.Contains(stderr.String(), "\x1b") {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	b.env["NO_COLOR"] = "1"
	p, _, _ = b.program("oracle", "hello")
	screen = new(fakeTerminal)
	p.Stderr = screen
	if status := execute(p); status != 0 || strings.Contains(screen.String(), "\x1b") {
		t.Errorf("NO_COLOR: status %d, stderr %q", status, screen.String())
	}
}

// The command fails if the reader closes the pipe.
func TestOracleWithoutAReader(t *testing.T) {
	b := newOracleBox(t, smallTalk)
	for _, args := range [][]string{{"oracle", "hello"}, {"oracle", "hello", "--json"},
		{"oracle", "hello", "--answer"}} {
		p, _, stderr := b.program(args...)
		reader, stdout := io.Pipe()
		reader.Close()
		p.Stdout = stdout
		if status := execute(p); status != 1 ||
			!strings.Contains(stderr.String(), "the reader closed standard output\n") {
			t.Errorf("%q: status %d, stderr %s", args, status, stderr)
		}
	}
}
