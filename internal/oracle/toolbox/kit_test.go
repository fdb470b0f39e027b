package toolbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"signalbox/internal/testkit/must"
)

type args map[string]any

// folderOf extracts an archive to a temporary folder.
func folderOf(t testing.TB, archive string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		put(t, dir, f.Name, string(f.Data))
	}
	return dir
}

func put(t testing.TB, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, filepath.FromSlash(name))
	must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o700))
	must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
}

func link(t testing.TB, dir, name, to string) {
	t.Helper()
	if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
		t.Skip(err) // needs a privilege on Windows
	}
}

func use(t testing.TB, tool Tool, in args) Outcome {
	t.Helper()
	text, err := json.Marshal(in)
	must.Succeed(t, err)
	return Run(t.Context(), tool, Call{Key: "k", Arguments: text})
}

// ok makes a call that must succeed, and returns its text.
func ok(t testing.TB, tool Tool, in args) string {
	t.Helper()
	out := use(t, tool, in)
	if !out.OK {
		t.Fatalf("%s %v failed: %s", tool.Name, in, out.Text)
	}
	return out.Text
}

// fails makes a call that must fail with a text that contains all words, and returns the text.
func fails(t testing.TB, tool Tool, in args, words ...string) string {
	t.Helper()
	out := use(t, tool, in)
	if out.OK {
		t.Errorf("%s %v did not fail: %s", tool.Name, in, out.Text)
	}
	has(t, out.Text, words...)
	return out.Text
}

func has(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("no %q in:\n%s", word, text)
		}
	}
}

func hasNot(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if strings.Contains(text, word) {
			t.Errorf("%q in:\n%s", word, text)
		}
	}
}
