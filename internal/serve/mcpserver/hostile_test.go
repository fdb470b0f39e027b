package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox/brief"
	"signalbox/internal/serve/mcpserver/files"
	"signalbox/internal/testkit/must"
)

func TestBadArguments(t *testing.T) {
	c := newCaller(t, newServer(t, newBox(t), nil))
	huge := strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		tool string
		in   any
	}{
		{"get_work", nil}, {"get_work", args{"work": 7}}, {"get_work", args{"work": huge}},
		{"get_work", args{"work": "../etc"}}, {"get_work", args{"work": "a\nb"}},
		{"get_work", args{"work": ""}}, {"get_work", args{"work": nil}},
		{"get_work", args{"Work": "w"}}, {"get_work", []string{"work"}}, {"get_work", "work"},
		{"get_status", args{"x": 1}}, {"get_status", args{huge: huge}},
		{"list_work", args{"phase": "DONE"}}, {"list_work", args{"phase": huge}},
		{"claim_work", args{"role": "king"}},
		{"claim_work", args{"role": "developer", "ttl_seconds": 0}},
		{"claim_work", args{"role": "developer", "ttl_seconds": 1.5}},
		{"claim_work", args{"role": "developer", "ttl_seconds": 1e300}},
		{"renew_lease", args{"work": "w", "session": "s", "epoch": -1}},
		{"renew_lease", args{"work": "w", "session": "s", "epoch": "1"}},
		{"submit_exit", args{"session": "s", "phase_completed": "IMPLEMENTATION",
			"exit_reason": "tired"}},
		{"emit_signal", args{"session": "s", "signal": "unknown"}},
		{"emit_signal", args{"session": "s", "signal": "checkpoint",
			"details": args{huge: "x"}}},
		{"emit_signal", args{"session": "s", "signal": "checkpoint", "percent": 101}},
		{"scan_transcript", args{"text": strings.Repeat("y", maxTranscript+1)}},
		{"scan_transcript", args{"text": "x", "key": "two words"}},
		{"prove_event", args{"seq": 0}}, {"prove_event", args{"seq": 1e17}},
		{"check_exit_signals", args{}},
		{"check_exit_signals", args{"ticker": "SLV", "shares": "3"}},
		{"suggest_tax_loss_harvest", args{"format": "xml"}},
	} {
		a := c.fails(tt.tool, "invalid_arguments", tt.in)
		if len(a.text) > 2500 {
			t.Errorf("%s: what was wrong is repeated in %d bytes", tt.tool, len(a.text))
		}
	}
}

// TestHostileText passes allowed but hostile texts, which must be returned as plain text.
func TestHostileText(t *testing.T) {
	c := newCaller(t, newServer(t, newBox(t), nil))
	for i, title := range []string{"<script>alert(1)</script>", "line\nbreak\ttab",
		"right \u202e left", strings.Repeat("😀", 1000), `"}],"status":"success`} {
		work := fmt.Sprintf("w%d", i)
		c.ok("open_work", args{"work": work, "title": title})
		a := c.ok("get_work", args{"work": work})
		if strings.ContainsAny(a.string("title"), "\n\t\u202e") {
			t.Errorf("title %q came out as %q", title, a.string("title"))
		}
	}
	c.fails("open_work", "invalid_arguments", args{"work": "esc", "title": "\x1b[31mred"})
	raw := json.RawMessage("{\"work\":\"bytes\",\"title\":\"\xff\xfe\"}")
	c.ok("open_work", raw)
	if a := c.ok("scan_transcript",
		args{"text": "READY_FOR_REVIEW: \u0000\u001b[2J\n"}); strings.Contains(a.text, `\u001b`) {
		t.Errorf("control characters came through: %s", a.text)
	}
	if _, err := c.session.CallTool(t.Context(),
		&mcp.CallToolParams{Name: "no_such_tool"}); err == nil {
		t.Error("a tool that is not there answered")
	}
}

func TestResourcesAreOwnFiles(t *testing.T) {
	dir := newBox(t)
	s := newServer(t, dir, nil)
	c := newCaller(t, s)
	a := c.ok("scan_transcript", args{"text": "READY_FOR_REVIEW: T1\nSummary: mine\n"})
	link := a.links[0]
	if want := filepath.Join(dir, "logs", "mcp"); filepath.Dir(*a.FilePath) != want {
		t.Errorf("the file is in %s, not in %s", filepath.Dir(*a.FilePath), want)
	}
	read, err := c.session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: link.URI})
	if err != nil || !strings.Contains(read.Contents[0].Text, "mine") {
		t.Fatalf("read: %+v, %v", read, err)
	}
	listed, err := c.session.ListResources(t.Context(), nil)
	if err != nil || len(listed.Resources) != 1 || listed.Resources[0].URI != link.URI {
		t.Errorf("listed: %+v, %v", listed, err)
	}
	beside := filepath.Join(filepath.Dir(*a.FilePath), "beside.json")
	must.Succeed(t, os.WriteFile(beside, []byte("{}"), 0o600))
	folder := strings.TrimSuffix(link.URI, filepath.Base(*a.FilePath))
	for _, uri := range []string{
		"", "file:///etc/passwd", files.URI(beside),
		files.URI(filepath.Join(dir, "signalbox.yaml")), *a.FilePath, folder, folder +
			"../../signalbox.yaml",
		folder + "./" + filepath.Base(*a.FilePath), folder + "%2e%2e/%2e%2e/signalbox.yaml",
		link.URI + "/..", link.URI + "?x", link.URI + "#x", link.URI + "\x00",
		strings.Repeat("a", 1<<16),
		strings.Replace(link.URI, "file://", "FILE://", 1), "http://127.0.0.1/",
	} {
		if _, err := c.session.ReadResource(t.Context(),
			&mcp.ReadResourceParams{URI: uri}); notFound(err) == nil {
			t.Errorf("%.80q: %v", uri, err)
		}
	}
	for name, replace := range map[string]func() error{
		"other content": func() error { return os.WriteFile(*a.FilePath, []byte("{}"), 0o600) },
		"as much of something else": func() error {
			return os.WriteFile(*a.FilePath, bytes.Repeat([]byte(" "), len(read.Contents[0].Text)),
				0o600)
		},
		"a link": func() error {
			return errors.Join(os.Remove(*a.FilePath),
				os.Symlink(filepath.Join(dir, "signalbox.yaml"), *a.FilePath))
		},
		"nothing": func() error { return os.Remove(*a.FilePath) },
	} {
		if err := replace(); err != nil {
			t.Skipf("%s: %v", name, err) // symbolic links are not supported
		}
		if _, err := c.session.ReadResource(t.Context(),
			&mcp.ReadResourceParams{URI: link.URI}); notFound(err) == nil {
			t.Errorf("%s in its place: %v", name, err)
		}
		if err := os.Remove(*a.FilePath); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		must.Succeed(t, os.WriteFile(*a.FilePath, nil, 0o600))
	}
}

func notFound(err error) *jsonrpc.Error {
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return wire
	}
	return nil
}

func TestOldFilesAreDeleted(t *testing.T) {
	dir := newBox(t)
	c := newCaller(t, newServer(t, dir, nil))
	var first *response
	for range files.MaxFiles + 1 {
		a := c.ok("scan_transcript", args{"text": "READY_FOR_REVIEW: T1\nSummary: x\n"})
		if first == nil {
			first = a
		}
	}
	names, err := os.ReadDir(filepath.Dir(*first.FilePath))
	if err != nil || len(names) != files.MaxFiles {
		t.Errorf("%d files, %v", len(names), err)
	}
	if _, err := c.session.ReadResource(t.Context(),
		&mcp.ReadResourceParams{URI: first.links[0].URI}); err == nil {
		t.Error("the oldest is still there")
	}
}

// A proof is kept, because the caller may have passed it on. Old temporary files of other servers
// are deleted.
func TestRequiredFilesAreKept(t *testing.T) {
	dir := newBox(t)
	c := newCaller(t, newServer(t, dir, nil))
	proof := c.ok("prove_event", args{"seq": 1})
	folder := filepath.Dir(*proof.FilePath)
	old := time.Now().Add(-30 * 24 * time.Hour)
	for _, name := range []string{"spare_scan_1.json", "proof_1.json"} {
		name = filepath.Join(folder, name)
		must.Succeed(t, os.WriteFile(name, nil, 0o600))
		must.Succeed(t, os.Chtimes(name, old, old))
	}
	for range files.MaxFiles + 1 {
		c.ok("scan_transcript", args{"text": "READY_FOR_REVIEW: T1\nSummary: x\n"})
	}
	if _, err := c.session.ReadResource(t.Context(),
		&mcp.ReadResourceParams{URI: proof.links[0].URI}); err != nil {
		t.Errorf("the proof is gone: %v", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "proof_1.json")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "spare_scan_1.json")); err == nil {
		t.Error("what an earlier server left a month ago is still there")
	}
}

// TestFileNotSaved has a regular file where the folder for files should be.
func TestFileNotSaved(t *testing.T) {
	dir := newBox(t)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "logs"), nil, 0o600))
	c := newCaller(t, newServer(t, dir, nil))
	a := c.ok("scan_transcript", args{"text": "READY_FOR_REVIEW: T1\nSummary: x\n"})
	if !a.has("file_not_saved") || strings.Contains(a.text, dir) {
		t.Errorf("scan: %s", a.text)
	}
	if a := c.call("prove_event", args{"seq": 1}); a.Status != brief.StatusError ||
		!a.has("file_not_saved") {
		t.Errorf("prove: %s", a.text)
	}
}
