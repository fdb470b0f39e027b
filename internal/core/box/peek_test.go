package box

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// files returns the size and the time of the last change of all files in a folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		all[name] = info.ModTime().String()
		return nil
	})
	must.Succeed(t, err)
	return all
}

// Peek sees what was recorded, also while the box is in use, and changes nothing.
func TestPeek(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), FolderName)
	options := &Options{KeyFile: filepath.Join(t.TempDir(), "key")}
	if _, err := Init(ctx, dir, "op", options); err != nil {
		t.Fatal(err)
	}
	b, err := Open(ctx, dir, options)
	must.Succeed(t, err)
	if _, err := b.Engine.Do(ctx, rules.OpenWork{Work: "w", Title: "t", Actor: "op"}); err != nil {
		t.Fatal(err)
	}
	// Neither an invalid configuration nor a folder that cannot be written is in the way.
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "signalbox.yaml"), []byte("no: ["),
		0o600))
	peek := func() (found bool) {
		t.Helper()
		before := files(t, dir)
		must.Succeed(t, Peek(ctx, dir, nil, func(s *rules.State) { _, found = s.Work("w") }))
		if diff := cmp.Diff(before, files(t, dir)); diff != "" {
			t.Errorf("files were changed (-before +after):\n%s", diff)
		}
		return found
	}
	if !peek() {
		t.Error("the work is missing while the box is open")
	}
	must.Succeed(t, b.Close())
	if !peek() {
		t.Error("the work is missing after the box was closed")
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := Peek(ended, dir, nil, func(*rules.State) { t.Error("it looked") }); !errors.Is(err,
		context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	if err := Peek(ctx, t.TempDir(), nil, func(*rules.State) { t.Error("it looked") }); err == nil {
		t.Error("a folder without a box")
	}
}
