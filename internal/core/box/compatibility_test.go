package box

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/testkit/must"
)

// Backups of earlier versions can be restored. testdata/backup-v1.tar.gz is a backup of the box of
// `signalbox demo`, with a redacted blob, a missing blob and a prompt.
func TestRestoreOldBackup(t *testing.T) {
	file, err := os.Open("testdata/backup-v1.tar.gz")
	must.Succeed(t, err)
	defer file.Close()
	dir := filepath.Join(t.TempDir(), FolderName)
	opts := &Options{KeyFile: filepath.Join(t.TempDir(), "none.key")}
	got, err := Restore(t.Context(), file, dir, &RestoreOptions{Options: *opts,
		PublicKey: "signalbox/box-7f9ac845df51+5c4d1466+AQCY3FOGkWY4ofHlW4zdWqjTKZLYndeybe8CmmALoPkn"})
	must.Succeed(t, err)
	hash := func(text string) (h signalbox.Hash) {
		must.Succeed(t, h.UnmarshalText([]byte(text)))
		return h
	}
	want := &RestoreResult{Dir: dir, Box: "box-7f9ac845df51", Events: 279, Signed: 278, Blobs: 99, KeyFile: opts.KeyFile,
		Head: hash("28c8a020f0db2b85b06e54319e6ac4f7d1b706242df00b49dbaa3e05ea1f2033"),
		Missing: []signalbox.Hash{hash(
			"8eee077bd57896323f8e05aa08dccb2fda98950c125daaf1ca15fc84bebcc30d")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	k := &kit{dir: dir, opts: opts}
	if report := verify(t, k, VerifyOptions{NoBlobs: true}); !report.OK || report.Events != 279 {
		t.Errorf("report %+v", report)
	}
	if report := verify(t, k, VerifyOptions{}); report.OK || report.Events != 279 ||
		report.FirstBad != 270 {
		t.Errorf("with blobs: report %+v, want that event 270 refers to a missing one", report)
	}
	if got := k.read(t, "prompts/developer.md"); got != "Do the work.\n" {
		t.Errorf("the prompt is %q", got)
	}
	if _, err := config.Load(dir); err != nil {
		t.Error(err)
	}
	b := k.open(t)
	write(t, b, "next")
}
