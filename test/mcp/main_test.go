package mcp_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/testkit/built"
	"signalbox/internal/testkit/must"
)

// program is signalbox, built once for all tests.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "signalbox-mcp-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := 1
	if program, err = built.Program(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		status = m.Run()
	}
	kit.Remove()
	os.RemoveAll(dir)
	os.Exit(status)
}

func keyOf(dir string) string { return filepath.Join(filepath.Dir(dir), "box.key") }

// newBox creates a box with its key next to it, and returns the box's folder.
func newBox(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), box.FolderName)
	if _, err := box.Init(t.Context(), dir, "ann", &box.Options{KeyFile: keyOf(dir)}); err != nil {
		t.Fatal(err)
	}
	return dir
}

const token = "a-token-for-tests"

// server returns the command line that an agent uses to start the server, and its environment.
func server(t *testing.T, dir string) (args, env []string) {
	t.Helper()
	portfolio, err := filepath.Abs(filepath.Join("..", "..", "examples", "portfolio"))
	must.Succeed(t, err)
	return []string{program, "mcp"}, []string{"SIGNALBOX_BOX=" + dir, "SIGNALBOX_PORTFOLIO=" +
		portfolio, "SIGNALBOX_KEY=" + keyOf(dir), "SIGNALBOX_MCP_TOKEN=" + token,
		"SIGNALBOX_SESSION=", "SIGNALBOX_SECRET=", "SIGNALBOX_ACTOR=ann",
		signalbox.ExitFlag + "=true"}
}

// startHTTP starts a server over HTTP, with flags, and returns its address.
func startHTTP(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	args, env := server(t, dir)
	cmd := exec.Command(args[0], append(append(args[1:], "--http", "127.0.0.1:0"), flags...)...)
	cmd.Env = append(os.Environ(), env...)
	stderr, err := cmd.StderrPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		io.Copy(os.Stderr, stderr)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server failed: %v", err)
		}
	})
	line, err := bufio.NewReader(stderr).ReadString('\n')
	address, found := strings.CutPrefix(line, "note: serving MCP at ")
	address, _, ended := strings.Cut(address, ";")
	if err != nil || !found || !ended {
		t.Fatalf("the server did not start: %q, %v", line, err)
	}
	return address
}
