package workspace

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// cloned returns another clone of a repository.
func (k *kit) cloned(name string) *kit {
	k.t.Helper()
	top := newDir(k.t)
	there := &kit{t: k.t, dir: filepath.Join(top, name), folder: filepath.Join(top, "trees")}
	gitRun(k.t, k.dir, "clone", "--quiet", k.dir, there.dir)
	there.find()
	return there
}

func TestOpenAt(t *testing.T) {
	t.Parallel()
	here := newKit(t, map[string]string{"a": "1\n"})
	there := here.cloned("there")
	send := func(from, to *kit) *Tree {
		t.Helper()
		commit, err := from.open("T1").Commit(t.Context())
		must.Succeed(t, err)
		read1(t, to.Repo, from.bundle(Bundle{Commits: []string{commit}}))
		tree, err := to.OpenAt(t.Context(), "T1", commit)
		must.Succeed(t, err)
		if got, err := tree.Commit(t.Context()); got != commit || err != nil {
			t.Errorf("the branch is at %s, want %s: %v", got, commit, err)
		}
		return tree
	}
	here.work("T1", map[string]string{"a": "2\n"})
	wantFiles(t, send(here, there).Dir, map[string]string{"a": "2\n"})
	wantFiles(t, send(here, there).Dir, map[string]string{"a": "2\n"}) // again
	there.work("T1", map[string]string{"b": "2\n"})
	wantFiles(t, send(there, here).Dir, map[string]string{"a": "2\n", "b": "2\n"})
	if left := here.left("T1"); len(left) > 0 {
		t.Errorf("kept %s, which is not lost", left)
	}
	there.work("T1", map[string]string{"b": "3\n"})
	write(t, here.open("T1").Dir, map[string]string{"a": "local\n"})
	wantFiles(t, send(there, here).Dir, map[string]string{"a": "2\n", "b": "3\n"})
	if left := here.left("T1"); len(left) != 1 {
		t.Errorf("kept %s", left)
	} else if got := gitRun(t, here.dir, "show", left[0]+":a"); got != "local" {
		t.Errorf("kept %q", got)
	}
	must.Succeed(t, here.SetLastAuthor("T1", 7))
	if here.LastAuthor("T1") != 7 || here.LastAuthor("T2") != 0 || there.LastAuthor("T1") != 0 {
		t.Error("the last author is another")
	}
	if err := here.Close(t.Context(), "T1"); err != nil || here.LastAuthor("T1") != 0 {
		t.Errorf("the last author of work that is gone: %v", err)
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	here := newKit(t, map[string]string{"a": "1\n", "b": "1\n"})
	there := here.cloned("there")
	first := here.base()
	write(t, here.dir, map[string]string{"a": "2\n"})
	second := here.commit("second")
	read1(t, there.Repo, here.bundle(Bundle{Commits: []string{second}, Needs: []string{first}}))
	if err := there.Follow(t.Context(), first, second); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, there.dir, map[string]string{"a": "2\n", "b": "1\n"})
	there.sound()
	moved := (*MovedError)(nil)
	if err := there.Follow(t.Context(), first, second); !errors.As(err, &moved) ||
		moved.To != second {
		t.Errorf("from where it is not: %v", err)
	}

	// A person reset the branch elsewhere. What was there is kept, and so is what a person edits
	// here.
	write(t, there.dir, map[string]string{"b": "edited\n"})
	if err := there.Follow(t.Context(), second, first); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, there.dir, map[string]string{"a": "1\n", "b": "edited\n"})
	if left := there.left("base"); !slices.Equal(left, []string{second}) {
		t.Errorf("kept %q, want %s", left, second)
	}
	write(t, there.dir, map[string]string{"a": "edited\n"})
	must.Succeed(t, there.Follow(t.Context(), first, second))
	if at := gitRun(t, there.dir, "rev-parse", "main"); at != first || there.base() != second {
		t.Errorf("the branch is at %s and the base at %s, want %s and %s", at, there.base(), first,
			second)
	}
	// The base loses a commit again while the branch waits.
	must.Succeed(t, there.Follow(t.Context(), second, first))
	there.settled()
	wantFiles(t, there.dir, map[string]string{"a": "edited\n", "b": "edited\n"})
}

func TestJoin(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", "b": "1\n"})
	gitRun(t, k.dir, "branch", "other")
	write(t, k.dir, map[string]string{"a": "2\n"})
	ours := k.commit("ours")
	gitRun(t, k.dir, "switch", "--quiet", "other")
	write(t, k.dir, map[string]string{"b": "2\n"})
	gitRun(t, k.dir, "commit", "--quiet", "-a", "-m", "theirs")
	theirs := gitRun(t, k.dir, "rev-parse", "HEAD")
	joined, err := k.Join(t.Context(), ours, theirs)
	must.Succeed(t, err)
	for _, commit := range []string{ours, theirs} {
		if contains, err := k.Contains(t.Context(), joined, commit); !contains || err != nil {
			t.Errorf("%s is not in it: %v", commit, err)
		}
	}
	write(t, k.dir, map[string]string{"a": "3\n"})
	gitRun(t, k.dir, "commit", "--quiet", "-a", "-m", "conflict")
	if _, err := k.Join(t.Context(), ours,
		gitRun(t, k.dir, "rev-parse", "HEAD")); !NeedsAgent(err) {
		t.Errorf("a conflict: %v", err)
	}
}

func TestSharedRemote(t *testing.T) {
	t.Parallel()
	here := newKit(t, map[string]string{"a": "1\n"})
	there := here.cloned("there")
	remote := filepath.Join(newDir(t), "remote.git")
	gitRun(t, here.dir, "init", "--quiet", "--bare", remote)
	ref := func(work, commit string) SharedRef {
		return SharedRef{Remote: remote, Box: "b-1", Work: work, Commit: commit}
	}
	first := here.base()
	saved, _ := here.work("T1", map[string]string{"a": "2\n"}).Commit(t.Context())
	write(t, here.dir, map[string]string{"c": "1\n"})
	second := here.commit("second")
	for _, s := range []SharedRef{ref("", first), ref("T1", saved), ref("", second),
		ref("", second)} {
		must.Succeed(t, here.PushShared(t.Context(), s))
	}
	must.Succeed(t, there.FetchShared(t.Context(), ref("T1", saved)))
	if has, err := there.Has(t.Context(), saved); !has || err != nil {
		t.Errorf("fetched: %t %v", has, err)
	}
	if err := there.FetchShared(t.Context(),
		ref("T2", saved)); signalbox.CodeOf(err) != signalbox.CodeNotFound {
		t.Errorf("what is not there: %v", err)
	}
	gitRun(t, remote, "update-ref", ref("", saved).name(), second)
	must.Succeed(t, there.DropShared(t.Context(), saved))
	fresh := emptyClone(t)
	if err := fresh.FetchShared(t.Context(), ref("", saved)); err == nil {
		t.Error("another commit was taken for it")
	}
	must.Succeed(t, here.PruneShared(t.Context(), remote, "b-1", second,
		func(work string) bool { return work == "T1" }))
	left, err := fresh.ListShared(t.Context(), remote, "b-1")
	must.Succeed(t, err)
	if left.Branch != "main" || left.Commit != second || !left.Has(ref("", second)) ||
		left.Has(ref("", first)) || left.Has(ref("T1", saved)) {
		t.Errorf("left %+v", left)
	}
	if other, err := fresh.ListShared(t.Context(), remote, "b-2"); err != nil ||
		other.Branch != "" {
		t.Errorf("another box has %+v, %v", other, err)
	}
}

// Other machines write the ids of commits into the ledger. Text that git would understand as
// something else must not reach it.
func TestCommitsThatAreNoIDs(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	base := k.base()
	remote := filepath.Join(newDir(t), "remote.git")
	gitRun(t, filepath.Dir(remote), "init", "--quiet", "--bare", "--template=", remote)
	for _, name := range []string{"base/x", "work/T1/x"} {
		gitRun(t, k.dir, "push", "--quiet", remote, base+":refs/signalbox/b-1/"+name)
	}
	tree := k.open("T1")
	ctx := t.Context()
	refs := func() string { return gitRun(t, k.dir, "for-each-ref") + gitRun(t, remote, "for-each-ref") }
	before := refs()
	for _, commit := range []string{"x:refs/replace/" + base, "x:refs/heads/evil", base +
		":refs/heads/evil", "--upload-pack=touch evil", "--all", "HEAD", "main", base[:12],
		strings.ToUpper("abcdef") + base[6:], base + "\ncreate refs/heads/evil " + base, ""} {
		ref := SharedRef{Remote: remote, Box: "b-1", Commit: commit}
		ofWork := ref
		ofWork.Work = "T1"
		calls := map[string]error{
			"FetchShared": k.FetchShared(ctx, ref), "FetchShared of work": k.FetchShared(ctx,
				ofWork), "PushShared": k.PushShared(ctx, ref),
			"PushShared of work": k.PushShared(ctx, ofWork),
			"KeepShared":         k.KeepShared(ctx, commit),
			"DropShared":         k.DropShared(ctx, commit),
			"AddBranch":          k.AddBranch(ctx, "T2", commit),
			"CheckOut":           k.CheckOut(ctx, "main", commit),
			"WriteBundle": k.WriteBundle(ctx, io.Discard,
				Bundle{Commits: []string{commit}, Branch: "main"}),
			"Discard": tree.Discard(ctx, commit),
			"WriteBundle on it": k.WriteBundle(ctx, io.Discard,
				Bundle{Commits: []string{base}, Needs: []string{commit}, Branch: "main"}),
			"CloseDelivered": k.CloseDelivered(ctx, "T3", base, commit),
			"PruneShared": k.PruneShared(ctx, remote, "b-1", commit,
				func(string) bool { return true }),
		}
		_, calls["OpenAt"] = k.OpenAt(ctx, "T2", commit)
		_, calls["OpenScratch"] = k.OpenScratch(ctx, "s", commit)
		_, calls["Join"] = k.Join(ctx, commit, base)
		_, calls["Combine"] = k.Combine(ctx, "T1", commit, base)
		calls["Follow"] = k.Follow(ctx, base, commit)
		_, calls["Has"] = k.Has(ctx, commit)
		_, calls["DeliveryCommit"] = k.DeliveryCommit(ctx, Delivery{Task: "T2", Commit: commit})
		if commit != "" {
			_, calls["Contains"] = k.Contains(ctx, base, commit)
			_, calls["OpenNewAt"] = k.OpenNewAt(ctx, "T2", commit)
		}
		for name, err := range calls {
			if err == nil || !strings.Contains(err.Error(), "is not the full id of a commit") {
				t.Errorf("%s of %q: %v", name, commit, err)
			}
		}
	}
	for _, ref := range []SharedRef{{remote, "b-1/../b-2", "", base}, {remote, "b:c", "", base},
		{remote, "b-1", "T1:refs/heads/evil", base}, {remote, "", "", base}} {
		for name, err := range map[string]error{"FetchShared": k.FetchShared(ctx, ref),
			"PushShared": k.PushShared(ctx, ref)} {
			if err == nil || !strings.Contains(err.Error(), "id ") {
				t.Errorf("%s of %+v: %v", name, ref, err)
			}
		}
	}
	for _, branch := range []string{"", "a b", "a..b", "x\nrefs", "a:b", "-f", "a.lock",
		"../../config"} {
		if err := k.CheckOut(ctx, branch, base); err == nil ||
			!strings.Contains(err.Error(), "is not the name of a branch") {
			t.Errorf("the branch %q: %v", branch, err)
		}
	}
	if after := refs(); after != before {
		t.Errorf("refs before\n%s\nafter\n%s", before, after)
	}
}
