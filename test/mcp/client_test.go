//go:build linux || darwin

package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/mcpclient"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/npm"
)

// The official example servers.
var (
	everything = filepath.Join("node_modules", "@modelcontextprotocol", "server-everything", "dist",
		"index.js")
	filesystem = filepath.Join("node_modules", "@modelcontextprotocol", "server-filesystem", "dist",
		"index.js")
)

func startServer(t *testing.T, server mcpclient.Server, changed chan struct{}) *mcpclient.Client {
	t.Helper()
	c, err := mcpclient.Start(t.Context(), server, &mcpclient.Options{Grace: 200 * time.Millisecond,
		Changed: func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		}})
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func call(ctx context.Context, c *mcpclient.Client, name,
	arguments string) (toolbox.Result, error) {
	for _, tool := range c.Tools() {
		if tool.Name == name {
			return tool.Use(ctx, toolbox.Call{Arguments: json.RawMessage(arguments)})
		}
	}
	return toolbox.Result{}, fmt.Errorf("the server has no tool %s", name)
}

// serveEverything starts the server over HTTP and returns its address.
func serveEverything(t *testing.T, k *npm.Kit) string {
	t.Helper()
	preload, err := filepath.Abs(filepath.Join("testdata", "loopback.mjs"))
	must.Succeed(t, err)
	cmd := exec.Command(k.Node, "--import", preload, everything, "streamableHttp")
	cmd.Dir = k.Dir
	stderr, err := cmd.StderrPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		io.Copy(io.Discard, stderr)
		cmd.Wait()
	})
	lines := bufio.NewReader(stderr)
	line, err := lines.ReadString('\n')
	var port int
	if _, scanErr := fmt.Sscanf(line, "port %d", &port); err != nil || scanErr != nil {
		t.Fatalf("the server printed %q: %v, %v", line, err, scanErr)
	}
	go io.Copy(io.Discard, lines)
	return fmt.Sprintf("http://127.0.0.1:%d/mcp", port)
}

func TestEverythingServer(t *testing.T) {
	k := needKit(t)
	t.Setenv("SOME_API_KEY", "a secret of the user")
	dir := t.TempDir()
	for _, transport := range []string{"stdio", "http"} {
		t.Run(transport, func(t *testing.T) {
			server := mcpclient.Server{Name: "every", Dir: dir}
			if transport == "http" {
				server.URL = serveEverything(t, k)
			} else {
				server.Command = []string{k.Node, filepath.Join(k.Dir, everything), "stdio"}
			}
			changed := make(chan struct{}, 1)
			c := startServer(t, server, changed)
			tryEverything(t, c)
			tryRoots(t, c, changed, dir)
			if r, err := call(t.Context(), c, "every__get-env", `{}`); err != nil ||
				transport == "stdio" && strings.Contains(r.Text, "SOME_API_KEY") {
				t.Errorf("the server's environment: %v\n%s", err, r.Text)
			}
			tryTimeout(t, c)
		})
	}
}

func tryEverything(t *testing.T, c *mcpclient.Client) {
	t.Helper()
	for _, tt := range []struct{ tool, arguments, want string }{
		{"echo", `{"message":"hello"}`, "Echo: hello"},
		{"get-sum", `{"a":2,"b":40}`, "The sum of 2 and 40 is 42."},
		{"get-tiny-image", `{}`,
			"Here's the image you requested:\n[image/png, 4,033 bytes]\nThe image above is the MCP logo."},
		{"get-annotated-message", `{"messageType":"error","includeImage":true}`,
			"Error: Operation failed\n[image/png, 4,033 bytes]"},
		{"get-structured-content", `{"location":"Chicago"}`,
			`{"temperature":36,"conditions":"Light rain / drizzle","humidity":82}`},
		{"trigger-long-running-operation", `{"duration":0.1,"steps":2}`,
			"Long running operation completed. Duration: 0.1 seconds, Steps: 2."},
	} {
		if r, err := call(t.Context(), c, "every__"+tt.tool, tt.arguments); err != nil ||
			r.Text != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.tool, r.Text, err, tt.want)
		}
	}
	for _, tt := range []struct{ tool, arguments, want string }{
		{"get-sum", `{"a":"two"}`, "number"},
		{"get-resource-reference", `{"resourceType":"Text","resourceId":-1}`, "resourceId"},
	} {
		if r, err := call(t.Context(), c, "every__"+tt.tool, tt.arguments); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %q, %v, want an error with %q", tt.tool, r.Text, err, tt.want)
		}
	}
	r, err := call(t.Context(), c, "every__get-resource-links", `{"count":2}`)
	want := []chunk.Source{
		{Type: "every__get-resource-links", Path: "demo://resource/dynamic/blob/1",
			Title: "Blob Resource 1"},
		{Type: "every__get-resource-links", Path: "demo://resource/dynamic/text/2",
			Title: "Text Resource 2"},
	}
	if diff := cmp.Diff(want, r.Sources); err != nil || diff != "" {
		t.Errorf("links: %v, sources (-want +got):\n%s", err, diff)
	}
	r, err = call(t.Context(), c, "every__get-resource-reference",
		`{"resourceType":"Text","resourceId":1}`)
	if err != nil || len(r.Sources) != 1 ||
		!strings.Contains(r.Text, "\n[resource demo://resource/dynamic/text/1, text/plain, ") {
		t.Errorf("resource: %+v, %v", r, err)
	}
}

// tryRoots waits for a tool that the server offers only after the client has listed its roots.
func tryRoots(t *testing.T, c *mcpclient.Client, changed <-chan struct{}, dir string) {
	t.Helper()
	for !slices.ContainsFunc(c.Tools(),
		func(t toolbox.Tool) bool { return t.Name == "every__get-roots-list" }) {
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("the server never offered its tool for roots")
		}
	}
	if r, err := call(t.Context(), c, "every__get-roots-list", `{}`); err != nil ||
		!strings.Contains(r.Text, "file://"+dir) {
		t.Errorf("roots: %q, %v", r.Text, err)
	}
	for _, tool := range c.Tools() {
		if strings.Contains(tool.Name, "sampling") || strings.Contains(tool.Name, "elicitation") {
			t.Errorf("the server offers %s, which needs a capability that the client does not declare", tool.Name)
		}
	}
}

func tryTimeout(t *testing.T, c *mcpclient.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := call(ctx, c, "every__trigger-long-running-operation",
		`{"duration":3600,"steps":1}`); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that timed out: %v", err)
	}
	if r, err := call(t.Context(), c, "every__echo", `{"message":"still"}`); err != nil ||
		r.Text != "Echo: still" {
		t.Errorf("afterwards: %q, %v", r.Text, err)
	}
}

func TestFilesystemServer(t *testing.T) {
	k := needKit(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Succeed(t, err)
	c := startServer(t, mcpclient.Server{Name: "files",
		Command: []string{k.Node, filepath.Join(k.Dir, filesystem), dir},
		Tools:   []string{"edit_file", "list_directory", "read_text_file", "write_file"}}, nil)
	readOnly := map[string]bool{}
	for _, tool := range c.Tools() {
		readOnly[tool.Name] = tool.ReadOnly
	}
	// write_file is idempotent and edit_file is not, but neither is read-only.
	want := map[string]bool{"files__list_directory": true, "files__read_text_file": true,
		"files__write_file": false, "files__edit_file": false}
	if diff := cmp.Diff(want, readOnly); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	note := filepath.Join(dir, "note.txt")
	if _, err := call(t.Context(), c, "files__write_file",
		fmt.Sprintf(`{"path":%q,"content":"line one\nline two\n"}`, note)); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(note); err != nil || string(data) != "line one\nline two\n" {
		t.Errorf("the file has %q, %v", data, err)
	}
	if r, err := call(t.Context(), c, "files__read_text_file",
		fmt.Sprintf(`{"path":%q}`, note)); err != nil || r.Text != "line one\nline two\n" {
		t.Errorf("read %q, %v", r.Text, err)
	}
	if r, err := call(t.Context(), c, "files__list_directory",
		fmt.Sprintf(`{"path":%q}`, dir)); err != nil || r.Text != "[FILE] note.txt" {
		t.Errorf("list %q, %v", r.Text, err)
	}
	outside := filepath.Join(filepath.Dir(dir), "outside.txt")
	_, err = call(t.Context(), c, "files__write_file", fmt.Sprintf(`{"path":%q,"content":"x"}`,
		outside))
	if err == nil || !strings.Contains(err.Error(), "outside allowed directories") {
		t.Errorf("writing outside the folder: %v", err)
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("the file outside the folder was written")
	}
}
