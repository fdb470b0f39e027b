package workspace

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func TestBundle(t *testing.T) {
	t.Parallel()
	here := newKit(t, map[string]string{"a": "1\n"})
	there := &kit{t: t, dir: filepath.Join(filepath.Dir(here.dir), "clone"), folder: filepath.Join(filepath.Dir(here.dir), "others")}
	gitRun(t, here.dir, "clone", "--quiet", here.dir, there.dir)
	there.find()
	send := func(from, to *kit) *Tree {
		t.Helper()
		var bundle bytes.Buffer
		if err := from.open("T1").Bundle(t.Context(), &bundle); err != nil {
			t.Fatal(err)
		}
		tree, err := to.Unbundle(t.Context(), "T1", &bundle)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := from.open("T1").Commit(t.Context())
		if got, err := tree.Commit(t.Context()); got != want || err != nil {
			t.Errorf("the branch is at %s, want %s: %v", got, want, err)
		}
		return tree
	}
	here.open("T1")
	wantFiles(t, send(here, there).Dir, map[string]string{"a": "1\n"}) // without any work
	here.work("T1", map[string]string{"a": "2\n"})
	wantFiles(t, send(here, there).Dir, map[string]string{"a": "2\n"})
	wantFiles(t, send(here, there).Dir, map[string]string{"a": "2\n"}) // again
	there.work("T1", map[string]string{"b": "2\n"})
	write(t, here.open("T1").Dir, map[string]string{"a": "local\n"})
	wantFiles(t, send(there, here).Dir, map[string]string{"a": "2\n", "b": "2\n"})
	if left := gitRun(t, here.dir, "for-each-ref", "--format=%(refname)", "refs/signalbox/left/T1"); left == "" {
		t.Error("local changes are lost")
	} else if got := gitRun(t, here.dir, "show", left+":a"); got != "local" {
		t.Errorf("kept %q", got)
	}

	here.work("T2", map[string]string{"c": "1\n"})
	if _, err := here.Merge(t.Context(), "T2", "", nil); err != nil {
		t.Fatal(err)
	}
	tree := here.work("T3", map[string]string{"c": "2\n"})
	if _, err := tree.Refresh(t.Context(), here.base()); err != nil {
		t.Fatal(err)
	}
	bundle, w := io.Pipe()
	go func() { w.CloseWithError(tree.Bundle(t.Context(), w)) }()
	_, err := there.Unbundle(t.Context(), "T3", bundle)
	if err == nil || !strings.HasPrefix(err.Error(), "the bundle of T3 needs commits that this repository does not have") {
		t.Errorf("unbundled without the commits it needs: %v", err)
	}
	if _, err := there.Unbundle(t.Context(), "T3", strings.NewReader("junk")); err == nil {
		t.Error("unbundled junk")
	}
}
