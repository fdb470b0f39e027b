package box

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// addBlob stores a blob, and an event that refers to it: a refused signal.
func addBlob(t *testing.T, b *Box, text string) {
	t.Helper()
	digest, err := b.Engine.PutBlob(t.Context(), strings.NewReader(text))
	must.Succeed(t, err)
	work := "w-" + digest.String()[:8]
	write(t, b, work)
	if _, err = b.Engine.Do(t.Context(), rules.Claim{Work: work, Role: signalbox.RoleDeveloper,
		Session: work, Lease: "l-" + work, Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	if _, err = b.Engine.Do(t.Context(), rules.Exit{Session: work, Fault: "it cannot be read",
		Blob: digest}); err == nil {
		t.Fatal("an invalid signal was accepted")
	}
}

// full is a box with everything that a backup can contain.
type full struct {
	*kit
	events        uint64
	first, second signalbox.Hash // blobs
	redacted      signalbox.Hash
}

func newFull(t *testing.T) *full {
	t.Helper()
	const first, second, secret = "the first words", "the second words", "a password"
	f := &full{events: 11, first: sha256.Sum256([]byte(first)),
		second: sha256.Sum256([]byte(second)), redacted: sha256.Sum256([]byte(secret))}
	f.kit = newFrom(t, "full", func(k *kit) {
		b := k.open(t)
		for _, text := range []string{first, second, secret} {
			addBlob(t, b, text)
		}
		if _, err := b.Redact(t.Context(), rules.RedactBlob{Blob: f.redacted, Reason: "secret",
			Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		if sign(t, b); b.Engine.Tail().Seq != f.events {
			t.Fatalf("it has %d events", b.Engine.Tail().Seq)
		}
		must.Succeed(t, errors.Join(b.Close(),
			os.Mkdir(filepath.Join(k.dir, promptFolder), 0o700)))
		k.put(t, config.FileName, "lease: {ttl: 1h}\n")
		k.put(t, "prompts/developer.md", "Do the work.\n")
	})
	return f
}

func (k *kit) backup(t *testing.T) []byte {
	t.Helper()
	var buf bytes.Buffer
	if _, err := Backup(t.Context(), k.ledger(t), &buf, BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// restore restores to a new folder, with the same key.
func (k *kit) restore(t *testing.T, data []byte) (*kit, *RestoreResult, error) {
	t.Helper()
	parent := t.TempDir()
	dir := filepath.Join(parent, FolderName)
	done, err := Restore(t.Context(), bytes.NewReader(data), dir, &RestoreOptions{Options: *k.opts})
	if err != nil {
		if left, _ := os.ReadDir(parent); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	return &kit{dir, k.opts, k.made}, done, err
}

func checkRefused(t *testing.T, k *kit, data []byte, want string) {
	t.Helper()
	_, _, err := k.restore(t, data)
	checkCode(t, err, signalbox.CodeUnverified)
	if err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("error %q, want one with %q", err, want)
	}
}

func TestBackupRoundTrip(t *testing.T) {
	f := newFull(t)
	name := filepath.Join(t.TempDir(), "backup.tar")
	done, err := BackupTo(t.Context(), f.ledger(t), name, BackupOptions{Version: "v1"})
	must.Succeed(t, err)
	data, err := os.ReadFile(name)
	must.Succeed(t, err)
	if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" &&
		info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	want := BackupResult{Box: f.made.ID, Events: f.events, Head: done.Head, Blobs: 2,
		Bytes: int64(len(data)), KeyFile: f.made.KeyFile}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Errorf("backed up (-want +got):\n%s", diff)
	}
	for what, secret := range map[string]string{"the private key": "PRIVATE+KEY",
		"the redacted blob": "a password"} {
		if bytes.Contains(data, []byte(secret)) {
			t.Errorf("%s is in the backup", what)
		}
	}

	k, restored, err := f.restore(t, data)
	must.Succeed(t, err)
	wantRestored := &RestoreResult{Dir: k.dir, Box: f.made.ID, Events: f.events, Head: done.Head,
		Blobs: 2, Signed: f.events, KeyFile: f.made.KeyFile, KeyHere: true}
	if diff := cmp.Diff(wantRestored, restored); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	checkVerified(t, k, f.events)
	for _, name := range []string{".gitignore", config.FileName, "prompts/developer.md",
		checkpointName, publicKeyName} {
		if got, want := k.read(t, name), f.read(t, name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	b := k.open(t)
	for digest, text := range map[signalbox.Hash]string{f.first: "the first words",
		f.second: "the second words"} {
		checkBlob(t, b, digest, text)
	}
	_, err = b.Blob(t.Context(), f.redacted)
	checkCode(t, err, signalbox.CodeNotFound)
	write(t, b, "next") // it continues, and signs
	sign(t, b)
	b.Close()
	checkVerified(t, k, f.events+1)

	if again := k.copy(t).backup(t); len(entriesOf(t, again)) != len(entriesOf(t, data)) {
		t.Error("a backup of the restored box has different entries")
	}
}

func checkBlob(t *testing.T, b *Box, digest signalbox.Hash, want string) {
	t.Helper()
	r, err := b.Blob(t.Context(), digest)
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != want {
		t.Errorf("blob %s has %q, %v; want %q", digest, got, err, want)
	}
}

func TestBackupCompressed(t *testing.T) {
	f := newFull(t)
	name := filepath.Join(t.TempDir(), "backup.tar.gz")
	done, err := BackupTo(t.Context(), f.ledger(t), name, BackupOptions{})
	must.Succeed(t, err)
	data, err := os.ReadFile(name)
	if err != nil || !bytes.HasPrefix(data, []byte("\x1f\x8b")) || done.Bytes != int64(len(data)) ||
		len(data) > len(f.backup(t)) {
		t.Errorf("%d bytes, %d reported, %v", len(data), done.Bytes, err)
	}
	if _, _, err := f.restore(t, data); err != nil {
		t.Error(err)
	}
	for _, cut := range []int{1, 4, 8, 9, len(data) / 2} {
		checkRefused(t, f.kit, data[:len(data)-cut], "truncated")
	}
	// the length, the sum, the content
	for _, at := range []int{len(data) - 1, len(data) - 8, len(data) / 2} {
		checkRefused(t, f.kit, flipped(data, at), "")
	}
	checkRefused(t, f.kit, slices.Concat(data, []byte("more than the end of the file")), "damaged")
}

func TestBackupFileIsNotOverwritten(t *testing.T) {
	k := newFull(t)
	l := k.ledger(t)
	dir := t.TempDir()
	name := filepath.Join(dir, "backup.tar")
	must.Succeed(t, os.WriteFile(name, []byte("precious"), 0o600))
	_, err := BackupTo(t.Context(), l, name, BackupOptions{})
	checkCode(t, err, signalbox.CodeFailed)
	if text, err := os.ReadFile(name); err != nil || string(text) != "precious" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if _, err := BackupTo(t.Context(), l, name, BackupOptions{Force: true}); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(name); err != nil || len(text) < 1000 {
		t.Errorf("the file has %d bytes, %v", len(text), err)
	}
	_, err = BackupTo(t.Context(), l, dir, BackupOptions{Force: true}) // a folder is never replaced
	checkCode(t, err, signalbox.CodeFailed)
	_, err = BackupTo(t.Context(), l, filepath.Join(dir, "gone", "backup.tar"), BackupOptions{})
	checkCode(t, err, signalbox.CodeFailed)

	late := filepath.Join(t.TempDir(), "late.tar") // another process creates it during the backup
	_, err = BackupTo(t.Context(), l, late, BackupOptions{Progress: func(_, _ uint64) {
		if err := os.WriteFile(late, []byte("precious"), 0o600); err != nil {
			t.Error(err)
		}
	}})
	checkCode(t, err, signalbox.CodeFailed)
	if text, err := os.ReadFile(late); err != nil || string(text) != "precious" {
		t.Errorf("the file has %q, %v", text, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	_, err = BackupTo(ctx, l, filepath.Join(dir, "interrupted.tar"),
		BackupOptions{Progress: func(_, _ uint64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// While another process appends, each backup has a complete history up to some event, with all its
// blobs.
func TestBackupDuringWrites(t *testing.T) {
	k := newKit(t)
	writing, stop := context.WithCancel(t.Context())
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- func() error {
			b, err := Open(context.WithoutCancel(writing), k.dir, k.opts)
			if err != nil {
				return err
			}
			defer b.Close()
			for i := 0; writing.Err() == nil; i++ {
				digest, err := b.Engine.PutBlob(context.WithoutCancel(writing),
					strings.NewReader(fmt.Sprint("words ", i)))
				if err == nil {
					_, err = b.Engine.Do(context.WithoutCancel(writing),
						rules.OpenWork{Work: fmt.Sprint("t-", i), Title: digest.String(),
							Actor: "ann"})
				}
				if err == nil && i%8 == 0 {
					_, err = b.Sign(context.WithoutCancel(writing))
				}
				if err != nil {
					return err
				}
				if i == 3 {
					close(started)
				}
			}
			return nil
		}()
	}()
	select {
	case <-started:
	case err := <-ended:
		t.Fatal(err)
	}
	var backups [][]byte
	for range 5 {
		backups = append(backups, k.backup(t))
	}
	stop()
	must.Succeed(t, <-ended)
	k.forget(t) // the writer continued after each
	for _, data := range backups {
		_, done, err := k.restore(t, data)
		must.Succeed(t, err)
		if done.Events < 5 || uint64(done.Blobs) != done.Events-1 {
			t.Errorf("%d events with %d blobs", done.Events, done.Blobs)
		}
	}
}

func TestBackupOfDamagedBox(t *testing.T) {
	f := newFull(t)
	backup := func(k *kit) (BackupResult, error) {
		return Backup(t.Context(), k.ledger(t), io.Discard, BackupOptions{})
	}
	path := func(k *kit, digest signalbox.Hash) string {
		return filepath.Join("blobs", digest.String()[:2], digest.String()[2:])
	}

	changed := f.copy(t)
	changed.tamper(t, "UPDATE events SET actor = 'eve' WHERE seq = 2")
	_, err := backup(changed)
	checkCode(t, err, signalbox.CodeUnverified)

	cut := f.copy(t)
	cut.tamper(t, "DELETE FROM events WHERE seq > 3")
	_, err = backup(cut)
	checkCode(t, err, signalbox.CodeUnverified)

	damaged := f.copy(t)
	damaged.put(t, path(damaged, f.first), "other words")
	_, err = backup(damaged)
	checkCode(t, err, signalbox.CodeUnverified)

	lost := f.copy(t)
	lost.remove(t, path(lost, f.first))
	done, err := backup(lost)
	if diff := cmp.Diff([]signalbox.Hash{f.first}, done.Missing); err != nil || diff != "" ||
		done.Blobs != 1 {
		t.Errorf("%d blobs, %v, absent (-want +got):\n%s", done.Blobs, err, diff)
	}
	if _, restored, err := f.restore(t, lost.backup(t)); err != nil || len(restored.Missing) != 1 {
		t.Errorf("restored %+v, %v", restored, err)
	}

	signed := newKit(t) // two histories that diverge, one with the checkpoint of the other
	replaced := signed.copy(t)
	signed.writeAndSign(t, "t1")
	signed.forget(t)
	replaced.writeAndSign(t, "t2", "t3")
	signed.forget(t)
	replaced.put(t, checkpointName, signed.read(t, checkpointName))
	_, err = backup(replaced)
	checkCode(t, err, signalbox.CodeUnverified)

	_, err = backup(&kit{dir: emptyBox(t)})
	checkCode(t, err, signalbox.CodeFailed)
}

// emptyBox returns what an interrupted Init leaves.
func emptyBox(t *testing.T) string {
	t.Helper()
	atHome(t)
	dir := filepath.Join(t.TempDir(), FolderName)
	interruptedInit(t, dir, 3)
	return dir
}

// A redacted blob is not backed up, even if its bytes still exist because the redaction was
// interrupted.
func TestBackupOmitsRedactedBlobs(t *testing.T) {
	f := newFull(t)
	b := f.open(t)
	if _, err := b.Journal.PutBlob(t.Context(), strings.NewReader("a password")); err != nil {
		t.Fatal(err)
	}
	if data := f.backup(t); bytes.Contains(data, []byte("a password")) {
		t.Error("the redacted blob is in the backup")
	}
}

func TestBackupSkipsOtherFiles(t *testing.T) {
	f := newFull(t)
	f.put(t, "prompts/.hidden", "x")
	f.put(t, "prompts/large.md", strings.Repeat("x", maxSetting+1))
	f.put(t, "notes.md", "kept")
	f.put(t, "key.txt", "PRIVATE+KEY+signalbox/box-1+00000000+x")
	f.put(t, "stray.db", "x")
	want := 2
	if runtime.GOOS != "windows" {
		must.Succeed(t, os.Symlink("/etc/passwd",
			filepath.Join(f.dir, "prompts", "link.md")))
		want++
	}
	var buf bytes.Buffer
	done, err := Backup(t.Context(), f.ledger(t), &buf, BackupOptions{})
	if err != nil || len(done.Skipped) != want+1 {
		t.Errorf("skipped %q, %v", done.Skipped, err)
	}
	var settings []string
	for _, e := range entriesOf(t, buf.Bytes()) {
		if name, ok := strings.CutPrefix(e.Name, settingPrefix); ok {
			settings = append(settings, name)
		}
	}
	if diff := cmp.Diff([]string{"notes.md", "prompts/developer.md", config.FileName},
		settings); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestBlobRefs(t *testing.T) {
	digest := func(i int) string { return fmt.Sprintf("%064x", 0xabcdef00+i) }
	n := newBlobRefs()
	for _, data := range []string{
		`{"blob":"` + digest(0) + `"}`,
		`{"deep":[{"prompt":"` + digest(1) + `"}],"body":"` + digest(2) + `","blob":"` + digest(0) +
			`"}`,
		`{"title":"` + digest(3) + `"}`,
		`{"note":"sha256:` + digest(4) + `, and \"blob\":\"` + digest(5) + `\""}`,
		`{"short":"` + digest(6)[1:] + `","long":"0` + digest(7) + `","upper":"` +
			strings.ToUpper(digest(8)) + `"}`,
	} {
		n.add(&signalbox.Event{Type: "SignalHeard", Data: []byte(data)})
	}
	n.add(&signalbox.Event{Type: "BlobRedacted",
		Data: []byte(`{"blob":"` + digest(1) + `","reason":"secret"}`)})
	var found, required []string
	for _, blob := range n.blobs {
		found = append(found, blob.String())
		if n.required[blob] {
			required = append(required, blob.String())
		}
	}
	if diff := cmp.Diff([]string{digest(0), digest(1), digest(2), digest(3), digest(4), digest(5)},
		found); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{digest(0), digest(1), digest(2)}, required); diff != "" {
		t.Errorf("required (-want +got):\n%s", diff)
	}
	if len(n.redacted) != 1 {
		t.Errorf("redacted: %v", n.redacted)
	}
}

func TestIsSetting(t *testing.T) {
	for name, want := range map[string]bool{
		"signalbox.yaml": true, "developer.md": true, "prompts/a": true, "prompts/a/b.tmpl": true,
		"": false, ".": false, "..": false, "../a.md": false, "prompts/../a.md": false,
		"/a.md": false, "prompts//a": false, "prompts/": false,
		"a.md.": false, ".a.md": false, "prompts/.a": false, `prompts\a`: false, "c:a.md": false,
		"ledger.db": false, "checkpoint": false,
		"other/a.md": false, "prompts/a b": false, "prompts/\x1b": false, "prompts/" +
			strings.Repeat("a", 300): false,
	} {
		if got := isSetting(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// entry is an entry of a backup, for tests that change it.
type entry struct {
	tar.Header
	content string
	at      int // offset of the content in the file
}

func entriesOf(t *testing.T, data []byte) (entries []entry) {
	t.Helper()
	source := bytes.NewReader(data)
	r := tar.NewReader(source)
	for {
		header, err := r.Next()
		if err == io.EOF {
			return entries
		}
		must.Succeed(t, err)
		at := len(data) - source.Len()
		content, err := io.ReadAll(r)
		must.Succeed(t, err)
		entries = append(entries, entry{*header, string(content), at})
	}
}

// pack writes a backup with correct sizes and, unless keepSums is set, correct sums.
func pack(t *testing.T, entries []entry, keepSums bool) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	sums := ""
	for _, e := range entries {
		if e.Name == sumsEntry && !keepSums {
			e.content = sums
		}
		sum := sha256.Sum256([]byte(e.content))
		sums += sumLine(sum[:], e.Name)
		header := e.Header
		header.Size = int64(len(e.content))
		if header.Typeflag != tar.TypeReg {
			header.Size = 0
		}
		err := w.WriteHeader(&header)
		if err == nil && header.Size > 0 {
			_, err = io.WriteString(w, e.content)
		}
		must.Succeed(t, err)
	}
	must.Succeed(t, w.Close())
	return buf.Bytes()
}

func flipped(data []byte, at int) []byte {
	changed := bytes.Clone(data)
	changed[at] ^= 1
	return changed
}

func zipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, err := w.Write(data)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// The backup has more events than one append allows, and more bytes than one entry.
func TestBackupInPieces(t *testing.T) {
	k := newKit(t)
	b := k.open(t)
	const works = 1200
	var all sync.WaitGroup
	for i := range works {
		all.Go(func() {
			if _, err := b.Engine.Do(t.Context(), rules.OpenWork{Work: fmt.Sprint("t-", i),
				Title: strings.Repeat("long ", 200), Actor: "ann"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	sign(t, b)
	b.Close()
	data := k.backup(t)
	pieces := 0
	for _, e := range entriesOf(t, data) {
		if strings.HasPrefix(e.Name, eventPrefix) {
			pieces++
		}
	}
	if pieces < 2 {
		t.Errorf("%d pieces", pieces)
	}
	restored, _, err := k.restore(t, data)
	must.Succeed(t, err)
	checkVerified(t, restored, works+1)
}
