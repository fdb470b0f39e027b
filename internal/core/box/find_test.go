package box

import (
	"os"
	"path/filepath"
	"testing"

	"signalbox"
	"signalbox/internal/testkit/must"
)

func TestFind(t *testing.T) {
	root := t.TempDir()
	outer, inner := filepath.Join(root, "a", FolderName),
		filepath.Join(root, "a", "b", "c", FolderName)
	for _, dir := range []string{outer, inner, filepath.Join(root, "a", "b", "c", "d", "e"),
		filepath.Join(root, "a", "x")} {
		must.Succeed(t, os.MkdirAll(dir, 0o700))
	}
	// a file is not a box
	must.Succeed(t, os.WriteFile(filepath.Join(root, "a", "x", FolderName), nil, 0o600))
	for _, tt := range []struct{ start, named, want string }{
		{"a", "", outer},
		{"a/b", "", outer},
		{"a/b/c", "", inner},
		{"a/b/c/d/e", "", inner},
		{"a/x", "", outer},
		{"a/b/c", outer, outer},
		{"nowhere", outer, outer},
	} {
		got, err := Find(filepath.Join(root, filepath.FromSlash(tt.start)), tt.named)
		if err != nil || got != tt.want {
			t.Errorf("from %s, named %q: %s, %v; want %s", tt.start, tt.named, got, err, tt.want)
		}
	}
	for _, named := range []string{"", filepath.Join(root, "nowhere"),
		filepath.Join(root, "a", "x", FolderName)} {
		_, err := Find(root, named)
		checkCode(t, err, signalbox.CodeNotFound)
	}
	t.Chdir(filepath.Join(root, "a", "b", "c", "d"))
	if got, err := Find(".", ""); err != nil || !sameFile(t, got, inner) {
		t.Errorf("from here: %s, %v; want %s", got, err, inner)
	}
}

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

func TestOpenNotABox(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(t.Context(), dir, nil)
	checkCode(t, err, signalbox.CodeNotFound)
	_, err = OpenReadOnly(t.Context(), dir, nil)
	checkCode(t, err, signalbox.CodeNotFound)
	_, err = OpenLedger(t.Context(), dir, nil)
	checkCode(t, err, signalbox.CodeNotFound)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("opening left %v, %v", entries, err)
	}
}

func TestWrote(t *testing.T) {
	k := newKit(t)
	b := k.open(t)
	if b.Wrote() {
		t.Error("a box that was only opened was written to")
	}
	write(t, b, "t1")
	if !b.Wrote() {
		t.Error("a box that was written to was not")
	}
}
