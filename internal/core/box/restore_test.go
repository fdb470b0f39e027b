package box

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/testkit/must"
	"signalbox/ledger"
)

// A flipped bit in any entry is detected.
func TestRestoreDetectsFlippedBit(t *testing.T) {
	f := newFull(t)
	data := f.backup(t)
	entries := entriesOf(t, data)
	for _, want := range []string{manifestEntry, keyEntry, checkpointEntry,
		settingPrefix + config.FileName, eventsEntry(1), blobPrefix + f.first.String(), sumsEntry} {
		if !slices.ContainsFunc(entries, func(e entry) bool { return e.Name == want }) {
			t.Errorf("there is no entry %s", want)
		}
	}
	for _, e := range entries {
		for _, in := range []int{0, len(e.content) - 1} {
			if _, _, err := f.restore(t,
				flipped(data, e.at+in)); codeOf(err) != signalbox.CodeUnverified {
				t.Errorf("%s, byte %d: %v", e.Name, in, err)
			}
		}
		for _, in := range []int{0, 124, 148, 257} { // name, size, sum, magic
			if _, _, err := f.restore(t,
				flipped(data, e.at-512+in)); codeOf(err) != signalbox.CodeUnverified {
				t.Errorf("the header of %s, byte %d: %v", e.Name, in, err)
			}
		}
	}
}

func codeOf(err error) signalbox.Code {
	if classified := (*signalbox.Error)(nil); errors.As(err, &classified) {
		return classified.Code
	}
	return 0
}

func TestRestoreTruncatedBackup(t *testing.T) {
	f := newFull(t)
	data := f.backup(t)
	entries := entriesOf(t, data)
	end := entries[len(entries)-1]
	complete := end.at + len(end.content) // the padding after it is optional
	for _, e := range entries {
		for _, at := range []int{e.at - 512, e.at - 100, e.at + 1, e.at + len(e.content)} {
			if at >= complete {
				continue
			}
			want := "truncated"
			if at < entries[0].at+len(entries[0].content) {
				want = ""
			}
			checkRefused(t, f.kit, data[:at], want)
		}
	}
	for _, garbage := range []string{"", "x", "PK\x03\x04", "\x1f\x8b",
		"\x1f\x8b\x08garbage that is not", strings.Repeat("garbage ", 1000),
		strings.Repeat("\x00", 10240)} {
		checkRefused(t, f.kit, []byte(garbage), "not a signalbox backup")
	}
	checkRefused(t, f.kit, zipped(t, []byte(strings.Repeat("garbage ", 1000))),
		"not a signalbox backup")
	checkRefused(t, f.kit, slices.Concat(data, []byte("more")), "data after its end")
	checkRefused(t, f.kit, zipped(t, slices.Concat(data, bytes.Repeat([]byte{0}, maxTrailing+1))),
		"data after its end")
	if _, _, err := f.restore(t, slices.Concat(data, make([]byte, 10240))); err != nil {
		t.Errorf("with the zeros that tar programs add: %v", err)
	}
}

// change returns a backup in which one entry has other content, with correct sums.
func change(t *testing.T, entries []entry, name string, edit func(string) string) []byte {
	t.Helper()
	changed := slices.Clone(entries)
	i := slices.IndexFunc(changed, func(e entry) bool { return e.Name == name })
	if i < 0 {
		t.Fatalf("there is no entry %s", name)
	}
	before := changed[i].content
	if changed[i].content = edit(before); changed[i].content == before {
		t.Fatalf("%s was not changed", name)
	}
	return pack(t, changed, false)
}

func replace(old, by string) func(string) string {
	return func(text string) string { return strings.Replace(text, old, by, 1) }
}

// Changes with correct sums are detected by the other checks.
func TestRestoreDetectsChangesWithCorrectSums(t *testing.T) {
	f := newFull(t)
	entries := entriesOf(t, f.backup(t))
	if _, _, err := f.restore(t, pack(t, entries, false)); err != nil {
		t.Fatalf("unchanged: %v", err)
	}
	lines := func(from, to int) func(string) string {
		return func(text string) string {
			all := strings.SplitAfter(text, "\n")
			return strings.Join(all[from:to], "")
		}
	}
	first, second := blobPrefix+f.first.String(), blobPrefix+f.second.String()
	for name, tt := range map[string]struct {
		entry string
		edit  func(string) string
		want  string
	}{
		"an event changed": {eventsEntry(1), replace(`"actor":"ann"`, `"actor":"eve"`),
			"event 1 was changed"},
		"an event removed": {eventsEntry(1),
			func(s string) string { return lines(0, 3)(s) + lines(4, len(strings.SplitAfter(s, "\n")))(s) }, "event 4 is missing"},
		"events cut off": {eventsEntry(1), lines(0, 3), ""},
		"an event twice": {eventsEntry(1),
			func(s string) string { return lines(0, 1)(s) + s }, "event 2 is missing"},
		"no JSON": {eventsEntry(1), func(string) string { return "nonsense\n" },
			"event 1 cannot be parsed"},
		"an unknown field": {eventsEntry(1), replace(`{"seq"`, `{"x":1,"seq"`),
			"event 1 cannot be parsed"},
		"two on a line": {eventsEntry(1), replace("\n", " "), "event 1 cannot be parsed"},
		"a blob changed": {first, func(string) string { return "other words" }, "blob " +
			f.first.String() + " was changed"},
		"a blob in another": {second, func(string) string { return "the first words" }, "blob " +
			f.second.String() + " was changed"},
		"another number": {manifestEntry, replace(`"events":`, `"events":1`), "according to"},
		"another head":   {manifestEntry, replace(`"head":"`, `"head":"0123`), manifestEntry},
		"another box": {manifestEntry, replace(f.made.ID, "box-other"),
			"not the public key of signalbox/box-other"},
		"no box": {manifestEntry, replace(f.made.ID, ".."), `names the box ".."`},
		"another key": {keyEntry,
			func(string) string { return newPublicKey(t, origin(f.made.ID)) },
			"its public key is not the one of this host"},
		"no key": {keyEntry, func(string) string { return "nonsense" },
			"is not the public key"},
		"another checkpoint": {checkpointEntry, replace("\n1", "\n2"), checkpointEntry},
		"a settings file huge": {settingPrefix + config.FileName,
			func(string) string { return strings.Repeat("#", maxSetting+1) }, "limit"},
	} {
		t.Run(name, func(t *testing.T) { checkRefused(t, f.kit, change(t, entries, tt.entry, tt.edit), tt.want) })
	}
	newer := change(t, entries, manifestEntry, replace(backupFormat, "signalbox-backup/v2"))
	if _, _, err := f.restore(t, newer); codeOf(err) != signalbox.CodeFailed ||
		!strings.Contains(err.Error(), "v2") {
		t.Errorf("a newer format: %v", err)
	}
}

func newPublicKey(t *testing.T, name string) string {
	t.Helper()
	_, public, err := ledger.GenerateKey(rand.Reader, name)
	must.Succeed(t, err)
	return public + "\n"
}

// Entries that are missing, unexpected, duplicate, out of place, or not regular files are refused.
func TestRestoreRefusesHostileEntries(t *testing.T) {
	f := newFull(t)
	entries := entriesOf(t, f.backup(t))
	add := func(header tar.Header, content string) []byte {
		if header.Typeflag == 0 {
			header.Typeflag = tar.TypeReg
		}
		at := slices.IndexFunc(entries,
			func(e entry) bool { return strings.HasPrefix(e.Name, eventPrefix) })
		return pack(t, slices.Insert(slices.Clone(entries), at, entry{header, content, 0}), false)
	}
	without := func(name string) []byte {
		return pack(t, slices.DeleteFunc(slices.Clone(entries),
			func(e entry) bool { return e.Name == name }), false)
	}
	for _, name := range []string{"../evil", "/evil", "settings/../../evil.md",
		"settings/../evil.md", "settings//evil.md", "settings/ledger.db",
		"settings/prompts/../../evil",
		"settings/.gitignore", "blobs/../../evil", "blobs/evil", "ledger.db", "events/../evil", ".",
		"settings/prompts", "settings/C:evil.md", `settings/prompts\..\evil`} {
		checkRefused(t, f.kit, add(tar.Header{Name: name}, "x"), "")
	}
	for _, kind := range []byte{tar.TypeSymlink, tar.TypeLink, tar.TypeDir, tar.TypeFifo,
		tar.TypeChar} {
		checkRefused(t, f.kit,
			add(tar.Header{Name: "settings/evil.md", Typeflag: kind, Linkname: "/etc/passwd"}, ""),
			"")
	}
	checkRefused(t, f.kit,
		add(tar.Header{Name: "settings/evil.md", Format: tar.FormatPAX,
			PAXRecords: map[string]string{"EVIL.x": "1"}}, ""), "attribute")
	checkRefused(t, f.kit, add(tar.Header{Name: "settings/prompts/developer.md"}, "twice"), "twice")
	checkRefused(t, f.kit, add(tar.Header{Name: keyEntry}, "x"), "out of place")
	checkRefused(t, f.kit, add(tar.Header{Name: eventsEntry(100)}, "x"), "is expected")
	checkRefused(t, f.kit, without(manifestEntry), "not a signalbox backup")
	checkRefused(t, f.kit, without(sumsEntry), "truncated")
	checkRefused(t, f.kit, without(eventsEntry(1)), "")
	checkRefused(t, f.kit, without(keyEntry), "no public key")
	checkRefused(t, f.kit, without(blobPrefix+f.first.String()), "blob "+f.first.String()+
		" is missing")
	checkRefused(t, f.kit,
		pack(t, slices.DeleteFunc(slices.Clone(entries),
			func(e entry) bool { return e.Name == settingPrefix+config.FileName }), true),
		sumsEntry)

	after := func(name, content string) []byte { // after the blobs
		return pack(t, slices.Insert(slices.Clone(entries), len(entries)-1,
			entry{tar.Header{Typeflag: tar.TypeReg, Name: name}, content, 0}), false)
	}
	checkRefused(t, f.kit, after(blobPrefix+f.redacted.String(), "a password"), "redacted")
	checkRefused(t, f.kit, after(blobPrefix+f.first.String(), "the first words"), "twice")
	checkRefused(t, f.kit, after(blobPrefix+strings.Repeat("ab", 32), "x"), "no event refers to")
	checkRefused(t, f.kit, after(absentEntry, strings.Repeat("ab", 32)+"\n"),
		"which no event requires")

	huge := bytes.Clone(pack(t, entries, false)) // a header that promises an exabyte
	blob := slices.IndexFunc(entries,
		func(e entry) bool { return strings.HasPrefix(e.Name, blobPrefix) })
	header := huge[entries[blob].at-512:][:512]
	copy(header[124:136], "\x80\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00")
	resum(header)
	checkRefused(t, f.kit, huge, "truncated")
}

// resum corrects the checksum in the header of an entry.
func resum(header []byte) {
	copy(header[148:156], "        ")
	sum := 0
	for _, b := range header {
		sum += int(b)
	}
	for i := range 6 {
		header[148+5-i] = byte('0' + sum>>(3*i)&7)
	}
	header[154], header[155] = 0, ' '
}

func TestRestoreDoesNotOverwrite(t *testing.T) {
	f := newFull(t)
	data := f.backup(t)
	before := f.read(t, checkpointName)
	_, err := Restore(t.Context(), bytes.NewReader(data), f.dir, &RestoreOptions{Options: *f.opts})
	checkCode(t, err, signalbox.CodeFailed)
	if after := f.read(t, checkpointName); after != before {
		t.Error("the box was changed")
	}
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b", FolderName)
	if _, err := Restore(t.Context(), bytes.NewReader(data[:2000]), deep,
		nil); codeOf(err) != signalbox.CodeUnverified {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := Restore(t.Context(), bytes.NewReader(data), deep,
		&RestoreOptions{Options: *f.opts}); err != nil {
		t.Error(err)
	}
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	_, err = Restore(t.Context(), bytes.NewReader(data), filepath.Join(dir, "file", FolderName),
		nil)
	checkCode(t, err, signalbox.CodeFailed)
}

// brokenReader fails at the end: reading failed, but the backup is not damaged.
type brokenReader struct{ r io.Reader }

var errBroken = errors.New("the disk is on fire")

func (b brokenReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err == io.EOF {
		err = errBroken
	}
	return n, err
}

func TestRestoreDistinguishesReadErrorFromDamage(t *testing.T) {
	f := newFull(t)
	data := f.backup(t)
	for _, end := range []int{0, 100, 600, 5000} {
		dir := filepath.Join(t.TempDir(), FolderName)
		_, err := Restore(t.Context(), brokenReader{bytes.NewReader(data[:end])}, dir, nil)
		if !errors.Is(err, errBroken) || codeOf(err) != signalbox.CodeFailed {
			t.Errorf("after %d bytes: %v", end, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	_, err := Restore(ctx, bytes.NewReader(data), filepath.Join(dir, FolderName),
		&RestoreOptions{Options: *f.opts, Progress: func(_, _ uint64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// On a host without the private key the restored box works but does not sign.
func TestRestoreWithoutPrivateKey(t *testing.T) {
	f := newFull(t)
	data := f.backup(t)
	public := strings.TrimSpace(f.read(t, publicKeyName))
	here := func(key string) (*kit, *RestoreResult, error) {
		dir := filepath.Join(t.TempDir(), FolderName)
		opts := RestoreOptions{Options: Options{KeyFile: filepath.Join(filepath.Dir(dir),
			"none.key")}, PublicKey: key}
		done, err := Restore(t.Context(), bytes.NewReader(data), dir, &opts)
		return &kit{dir, &opts.Options, f.made}, done, err
	}
	for _, key := range []string{"", public} {
		k, done, err := here(key)
		if err != nil || done.KeyHere || done.KeyFile != k.opts.KeyFile {
			t.Fatalf("restored %+v, %v", done, err)
		}
		b := k.open(t)
		write(t, b, "next")
		if _, err := b.Sign(t.Context()); !errors.Is(err, ErrNoKey) {
			t.Errorf("signed without the key: %v", err)
		}
	}
	_, _, err := here(strings.TrimSpace(newPublicKey(t, origin(f.made.ID))))
	checkCode(t, err, signalbox.CodeUnverified)

	// A forged history is signed with the forger's key. Only a key from a trusted place reveals it.
	forged := otherKit(t)
	forged.writeAndSign(t, "forged")
	data = forged.backup(t)
	if _, _, err := here(""); err != nil {
		t.Errorf("a box of someone else: %v", err)
	}
	_, _, err = here(public)
	checkCode(t, err, signalbox.CodeUnverified)
}

// A signer refuses a backup that lacks what it signed, unless Forget is set.
func TestRestoreOlderBackup(t *testing.T) {
	k := newKit(t)
	k.writeAndSign(t, "t1")
	data := k.backup(t)
	k.writeAndSign(t, "t2", "t3")
	_, _, err := k.restore(t, data)
	checkCode(t, err, signalbox.CodeUnverified)
	if err == nil || !strings.Contains(err.Error(),
		"has 2 events, but this host signed 4: the last 2 would be lost") {
		t.Error(err)
	}
	dir := filepath.Join(t.TempDir(), FolderName)
	done, err := Restore(t.Context(), bytes.NewReader(data), dir,
		&RestoreOptions{Options: *k.opts, Forget: true})
	must.Succeed(t, err)
	if _, err := os.Stat(done.Forgotten); err != nil {
		t.Errorf("the signer's checkpoint was lost: %v", err)
	}
	restored := &kit{dir, k.opts, k.made}
	restored.writeAndSign(t, "another")
	checkVerified(t, restored, 3)

	// The original is now a different history.
	_, _, err = k.restore(t, k.copyBackup(t))
	checkCode(t, err, signalbox.CodeUnverified)
	if err == nil || !strings.Contains(err.Error(), "not the history that this host signed") {
		t.Error(err)
	}
}

// copyBackup backs up on a host that does not have the signer's last checkpoint.
func (k *kit) copyBackup(t *testing.T) []byte {
	t.Helper()
	elsewhere := k.copy(t)
	elsewhere.opts = &Options{KeyFile: filepath.Join(t.TempDir(), "none.key")}
	return elsewhere.backup(t)
}

// Events that are chained and signed but that signalbox would not have written are detected.
func TestRestoreDetectsImpossibleHistory(t *testing.T) {
	k := newKit(t)
	b := k.open(t)
	tail := b.Engine.Tail()
	impossible := []signalbox.Event{{Time: time.Now(), Type: "LeaseExpired", Work: "nothing",
		Actor: "ann", Data: []byte(`{"epoch":7}`)}}
	tail.Seal(impossible)
	must.Succeed(t, b.Journal.Append(t.Context(), 1, impossible))
	b.Close()
	checkRefused(t, k, k.backup(t), "event 2")

	newer := newKit(t)
	b = newer.open(t)
	tail = b.Engine.Tail()
	unknown := []signalbox.Event{{Time: time.Now(), Type: "NotInventedYet", Actor: "ann",
		Data: []byte(`{}`)}}
	tail.Seal(unknown)
	must.Succeed(t, b.Journal.Append(t.Context(), 1, unknown))
	b.Close()
	_, _, err := newer.restore(t, newer.backup(t))
	checkCode(t, err, signalbox.CodeFailed)
}
