package workspace

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// bundle returns a bundle.
func (k *kit) bundle(b Bundle) []byte {
	k.t.Helper()
	b.Branch = k.Base
	var out bytes.Buffer
	must.Succeed(k.t, k.WriteBundle(k.t.Context(), &out, b))
	return out.Bytes()
}

// emptyClone returns a repository without commits.
func emptyClone(t *testing.T) *Repo {
	t.Helper()
	r, err := NewClone(t.Context(), filepath.Join(newDir(t), "clone"), false)
	must.Succeed(t, err)
	return r
}

// readAsNamed reads a bundle that the ledger describes as it is.
func readAsNamed(t *testing.T, r *Repo, bundle []byte) (Bundle, error) {
	t.Helper()
	b, err := readHeader(bufio.NewReader(bytes.NewReader(bundle)))
	if err != nil {
		b.Commits = []string{strings.Repeat("0", 40)}
	}
	return b, r.ReadBundle(t.Context(), bytes.NewReader(bundle), b.Commits[0], b.Needs)
}

func read1(t *testing.T, r *Repo, bundle []byte) Bundle {
	t.Helper()
	b, err := readAsNamed(t, r, bundle)
	must.Succeed(t, err)
	return b
}

func TestBundle(t *testing.T) {
	t.Parallel()
	large := "" // more than the rest
	for i := range 1000 {
		large += fmt.Sprintln(i * i)
	}
	k := newKit(t, map[string]string{"a": "1\n", "sub/b": large})
	first := k.base()
	full := k.bundle(Bundle{Commits: []string{first}})
	clone := emptyClone(t)
	if b := read1(t, clone, full); b.Branch != "main" || b.Commits[0] != first {
		t.Errorf("read %+v", b)
	}
	must.Succeed(t, clone.CheckOut(t.Context(), "main", first))
	wantFiles(t, clone.Root, map[string]string{"a": "1\n", "sub/b": large})
	there := &kit{t: t, dir: clone.Root, folder: filepath.Join(filepath.Dir(clone.Root), "trees")}
	there.find()
	there.sound()
	if _, err := NewClone(t.Context(), clone.Root,
		false); signalbox.CodeOf(err) != signalbox.CodeConflict {
		t.Errorf("a clone over another: %v", err)
	}

	// Any git reads it.
	file := filepath.Join(newDir(t), "full.bundle")
	must.Succeed(t, os.WriteFile(file, full, 0o600))
	gitRun(t, filepath.Dir(file), "clone", "--quiet", "--branch", "main", file, "plain")

	saved, _ := k.work("T1", map[string]string{"a": "2\n"}).Commit(t.Context())
	write(t, k.dir, map[string]string{"c": "1\n"})
	second := k.commit("by hand")
	step := k.bundle(Bundle{Commits: []string{second, saved}, Needs: []string{first}})
	if len(step) >= len(full) {
		t.Errorf("%d bytes, the first bundle has %d", len(step), len(full))
	}
	empty := emptyClone(t)
	if _, err := readAsNamed(t, empty, step); err == nil ||
		!strings.Contains(err.Error(), "needs the commit "+first[:12]) {
		t.Errorf("without the commit that it needs: %v", err)
	}
	read1(t, there.Repo, step)
	read1(t, there.Repo, step) // again
	shared, err := there.SharedCommits(t.Context())
	if err != nil || len(shared) != 3 {
		t.Errorf("shared %v, %v", shared, err)
	}
	must.Succeed(t, there.DropShared(t.Context(), second))
	if shared, _ = there.SharedCommits(t.Context()); len(shared) != 2 {
		t.Errorf("shared %v", shared)
	}
	// with nothing in it
	read1(t, there.Repo, k.bundle(Bundle{Commits: []string{first}, Needs: []string{second}}))
	gitRun(t, there.dir, "fsck", "--no-progress")
}

// What another machine sends may be anything.
func TestHostileBundles(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	first := k.base()
	write(t, k.dir, map[string]string{"b": "1\n"})
	second := k.commit("second")
	full, step := k.bundle(Bundle{Commits: []string{first}}),
		k.bundle(Bundle{Commits: []string{second}, Needs: []string{first}})
	incomplete := bytes.Replace(step, []byte("-"+first+" \n"), nil, 1)
	damaged := bytes.Clone(full)
	damaged[len(damaged)-30] ^= 1
	// A file that git would take for its own configuration.
	evil := func(commits int) []byte { // many are kept as a pack
		stored := func(input string, args ...string) []string {
			out, err := gitInput(k.dir, input, append([]string{"hash-object", "-w"}, args...)...)
			if err != nil {
				t.Fatal(out, err)
			}
			return strings.Fields(out)
		}
		id, err := hex.DecodeString(stored("x\n", "--stdin")[0])
		must.Succeed(t, err)
		tree := stored("100644 .git\x00"+string(id), "-t", "tree", "--literally", "--stdin")
		dir, files := newDir(t), ""
		for i := range commits {
			name := fmt.Sprint(i)
			write(t, dir, map[string]string{name: fmt.Sprintf(
				"tree %s\nparent %s\nauthor x <x> %d +0000\ncommitter x <x> 0 +0000\n\nevil\n",
				tree[0], second, i)})
			files += filepath.Join(dir, name) + "\n"
		}
		return k.bundle(Bundle{Commits: stored(files, "-t", "commit", "--stdin-paths"),
			Needs: []string{second}})
	}
	for name, bundle := range map[string][]byte{
		"nothing":         {},
		"junk":            []byte("junk"),
		"an endless line": []byte(bundleV2 + strings.Repeat("x", 1<<20)),
		"no commits":      []byte(bundleV2 + "\nPACK"),
		"an option":       []byte(bundleV2 + "--upload-pack=x refs/heads/main\n\nPACK"),
		"no pack":         full[:bytes.Index(full, []byte("PACK"))],
		"half a pack":     full[:len(full)-40],
		"a damaged pack":  damaged,
		"without a need":  incomplete,
		"another commit":  bytes.Replace(full, []byte(first), []byte(second), 1),
		"another ref": bytes.Replace(full, []byte("refs/heads/main"), []byte("refs/tags/main"),
			1),
		"a branch -": bytes.Replace(full, []byte("refs/heads/main"),
			[]byte("refs/heads/-main"), 1),
		"more refs": bytes.Replace(full, []byte("\n\nPACK"),
			[]byte("\n"+first+" refs/heads/other\n\nPACK"), 1),
	} {
		clone := emptyClone(t)
		_, err := readAsNamed(t, clone, bundle)
		if content := (*BundleError)(nil); !errors.As(err, &content) {
			t.Errorf("%s: %v", name, err)
		}
		if has, err := clone.Has(t.Context(), second); has || err != nil {
			t.Errorf("%s: a commit without all that it needs: %t %v", name, has, err)
		}
	}
	clone := emptyClone(t)
	read1(t, clone, full)
	read1(t, clone, step)
	content := (*BundleError)(nil)
	if err := clone.ReadBundle(t.Context(), bytes.NewReader(step), second, nil); !errors.As(err,
		&content) || !strings.Contains(err.Error(), "builds on "+first[:12]) {
		t.Errorf("builds on a commit that the ledger does not name: %v", err)
	}
	if err := clone.ReadBundle(t.Context(), bytes.NewReader(full), second, nil); !errors.As(err,
		&content) || !strings.Contains(err.Error(), "the bundle of "+first[:12]) {
		t.Errorf("the bundle of another commit: %v", err)
	}
	for _, commits := range []int{1, smallPack} {
		if _, err := readAsNamed(t, clone, evil(commits)); err == nil ||
			!strings.Contains(err.Error(), ".git") {
			t.Errorf("a file .git in %d commits: %v", commits, err)
		}
	}
}

// packed returns a pack with objects, each of which begins with its header.
func packed(objects ...[]byte) []byte {
	pack := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(objects)))
	pack = append(pack, bytes.Join(objects, nil)...)
	sum := sha1.Sum(pack)
	return append(pack, sum[:]...)
}

// packedObject returns an object of a pack. base is what a delta refers to.
func packedObject(kind byte, size uint64, base, content []byte) []byte {
	out := []byte{kind<<4 | byte(size&15)}
	for size >>= 4; size > 0; size >>= 7 {
		out[len(out)-1] |= 0x80
		out = append(out, byte(size&0x7f))
	}
	var compressed bytes.Buffer
	w := zlib.NewWriter(&compressed)
	_, _ = w.Write(content)
	_ = w.Close()
	return slices.Concat(out, base, compressed.Bytes())
}

// The author of a bundle chooses some of what git says about it, and must not be able to blame this
// machine.
func TestBundleBlamesMachine(t *testing.T) {
	t.Parallel()
	for name, modules := range map[string]string{
		"name": "[submodule \"../unable to write\"]\n\tpath = x\n\turl = https://example.com/x\n",
		"line": "[submodule \"x\"]\n\tpath = x\n\turl = \"-\\nfatal: unable to write: No space left on device\\n\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, map[string]string{"a": "1\n"})
			first := k.base()
			write(t, k.dir, map[string]string{".gitmodules": modules})
			bad := k.commit("bad")
			clone := emptyClone(t)
			read1(t, clone, k.bundle(Bundle{Commits: []string{first}}))
			bundle := k.bundle(Bundle{Commits: []string{bad}, Needs: []string{first}})
			content := (*BundleError)(nil)
			if err := clone.ReadBundle(t.Context(), bytes.NewReader(bundle), bad,
				[]string{first}); !errors.As(err, &content) || strings.Contains(err.Error(), "\n") {
				t.Errorf("read: %v", err)
			}
			if err := k.CheckBundle(t.Context(), bytes.NewReader(bundle), bad,
				[]string{first}); !errors.As(err, &content) {
				t.Errorf("checked: %v", err)
			}
			if has, err := clone.Has(t.Context(), bad); has || err != nil {
				t.Errorf("the commit is here: %t, %v", has, err)
			}
			if left, _ := filepath.Glob(filepath.Join(clone.Root, ".git", "objects", "*",
				"tmp_*")); len(left) > 0 {
				t.Errorf("left %q", left)
			}
			if left, _ := filepath.Glob(filepath.Join(clone.Root, ".git", "objects",
				"tmp_*")); len(left) > 0 {
				t.Errorf("left %q", left)
			}
		})
	}
	for name, kind := range map[string]byte{"a huge commit": 1, "a huge tree": 2,
		"a huge file": 3} {
		commit := strings.Repeat("a", 40)
		bundle := append([]byte(bundleV2+commit+" refs/heads/main\n\n"),
			packed(packedObject(kind, 1<<46, nil, []byte("x")))...)
		content := (*BundleError)(nil)
		if err := emptyClone(t).ReadBundle(t.Context(), bytes.NewReader(bundle), commit,
			nil); !errors.As(err, &content) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for stderr, local := range map[string]bool{
		"fatal: write error: No space left on device\n":                                        true,
		"error: x\nfatal: unable to create temporary file: Permission denied\n":                true,
		"fatal: Out of memory, malloc failed (tried to allocate 70368744177665 bytes)\n":       false,
		"error: object x: unable to write\nfatal: fsck error in packed object\n":               false,
		"error: -\nfatal: write error: No space left on device\nfatal: fsck error in packed\n": false,
		"error: unable to write\n": false,
		"":                         false,
	} {
		if got := isLocalFault(&gitError{command: "index-pack", status: 128,
			stderr: stderr}); got != local {
			t.Errorf("%q: %t", stderr, got)
		}
	}
}

// A commit that is here by chance does not become part of what machines share.
func TestBundleWithoutItsCommits(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	first := k.base()
	write(t, k.dir, map[string]string{"secret": "1\n"})
	secret := k.commit("secret")
	child := gitRun(t, k.dir, "commit-tree", "-p", secret, "-m", "child", first+"^{tree}")
	other := gitRun(t, k.dir, "commit-tree", "-p", first, "-m", "other", first+"^{tree}")

	// The child as a delta of the commit: git adds the commit to the pack.
	raw := func(commit string) []byte {
		out, err := exec.Command("git", "-C", k.dir, "cat-file", "commit", commit).Output()
		must.Succeed(t, err)
		return out
	}
	delta := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(raw(secret)))),
		uint64(len(raw(child))))
	for part := range slices.Chunk(raw(child), 100) {
		delta = append(append(delta, byte(len(part))), part...)
	}
	id, err := hex.DecodeString(secret)
	must.Succeed(t, err)
	thin := append([]byte(bundleV2+"-"+first+" \n"+child+" refs/heads/main\n\n"),
		packed(packedObject(7, uint64(len(delta)), id, delta))...)
	for name, bundle := range map[string][]byte{
		"in the header": bytes.Replace(k.bundle(Bundle{Commits: []string{other},
			Needs: []string{first}}), []byte("\n\nPACK"),
			[]byte("\n"+secret+" "+bundledPrefix+secret+"\n\nPACK"), 1),
		"as the parent": bytes.Replace(k.bundle(Bundle{Commits: []string{child},
			Needs: []string{secret}}), []byte("-"+secret), []byte("-"+first), 1),
		"as the base": thin,
	} {
		_, err := readAsNamed(t, k.Repo, bundle)
		if content := (*BundleError)(nil); !errors.As(err, &content) ||
			!strings.Contains(err.Error(), "it does not contain "+secret[:12]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for commit, want := range map[string]bool{first: true, secret: false,
		strings.Repeat("a", 40): false} {
		if got, err := k.IsShared(t.Context(), commit, first); got != want || err != nil {
			t.Errorf("shared %s: %t, %v", commit, got, err)
		}
	}
	must.Succeed(t, k.KeepShared(t.Context(), child))
	if got, err := k.IsShared(t.Context(), secret, ""); !got || err != nil {
		t.Errorf("shared with its child: %t, %v", got, err)
	}
}

func TestBundleOfShallowClone(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	k.commit("second")
	shallow := &kit{t: t, dir: filepath.Join(filepath.Dir(k.dir), "shallow"),
		folder: filepath.Join(filepath.Dir(k.dir), "others")}
	gitRun(t, k.dir, "clone", "--quiet", "--depth=1", "file://"+filepath.ToSlash(k.dir),
		shallow.dir)
	shallow.find()
	err := shallow.WriteBundle(t.Context(), &bytes.Buffer{},
		Bundle{Commits: []string{shallow.base()}, Branch: "main"})
	if err == nil || !strings.Contains(signalbox.HintOf(err), "--unshallow") {
		t.Errorf("a bundle of a shallow clone: %v", err)
	}
}
