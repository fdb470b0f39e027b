package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"signalbox/internal/testkit/must"
)

// blobFiles are the files below blobs, with their paths there.
func blobFiles(t *testing.T, dir string) (files []string) {
	t.Helper()
	root := filepath.Join(dir, blobFolder)
	err := filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			files = append(files,
				filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator))))
		}
		return err
	})
	must.Succeed(t, err)
	return files
}

// TestBlobFiles checks where a blob lies, and that nothing else is left of it or of those that
// failed.
func TestBlobFiles(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, nil)
	for range 2 {
		if _, err := j.PutBlob(t.Context(), strings.NewReader("signalbox")); err != nil {
			t.Fatal(err)
		}
		if _, err := j.PutBlob(t.Context(), iotest.ErrReader(errors.New("broken"))); err == nil {
			t.Fatal("a reader's error was lost")
		}
		// The digest is that of printf signalbox | sha256sum.
		const want = "45/f2aebd240cb351b03dc860bf0f011e556afc25714fd5b234fc9b93090654fb"
		if files := blobFiles(t, dir); len(files) != 1 || files[0] != want {
			t.Errorf("files below blobs: %q, want %q", files, want)
		}
	}
}

// TestOrphanedBlobs removes what killed processes left a day ago, and nothing that may still be
// written.
func TestOrphanedBlobs(t *testing.T) {
	dir := closedBox(t, 0)
	folder := filepath.Join(dir, filepath.FromSlash(blobTempFolder))
	must.Succeed(t, os.MkdirAll(folder, 0o700))
	for name, age := range map[string]time.Duration{"old": 25 * time.Hour,
		"young": 23 * time.Hour} {
		path := filepath.Join(folder, name)
		must.Succeed(t, os.WriteFile(path, []byte("half a blob"), 0o600))
		then := time.Now().Add(-age)
		must.Succeed(t, os.Chtimes(path, then, then))
	}
	open(t, dir, nil)
	if files := blobFiles(t, dir); len(files) != 1 || files[0] != "tmp/young" {
		t.Errorf("left are %q, want the young one", files)
	}
}
