package workspace

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// protects protects the files below a folder.
type protects string

func (p protects) Protects(
	path string) bool {
	return p != "" && strings.HasPrefix(path, string(p))
}
func (p protects) ProtectsExisting(path string) bool { return false }
func (p protects) ProtectsBelow(path string) bool    { return false }

// conflictKit is a task T1 that conflicts with the base.
type conflictKit struct {
	*kit
	tree     *Tree
	conflict *ConflictError
	draft    string
}

// newConflict returns a conflict between what two shell commands do, one in the worktree of the
// task and one in the checkout of the base. The worktree is at the draft.
func newConflict(t *testing.T, files map[string]string, task, base string,
	p Protection) *conflictKit {
	t.Helper()
	k := newKit(t, files)
	c := &conflictKit{kit: k, tree: k.open("T1")}
	c.shell(c.tree.Dir, task)
	if _, changed, err := c.tree.Save(t.Context(), "task"); err != nil || !changed {
		t.Fatal(changed, err)
	}
	c.shell(k.dir, base)
	k.commit("base")
	var err error
	if c.conflict, err = c.tree.Refresh(t.Context(), k.base()); err != nil || c.conflict == nil {
		t.Fatal(c.conflict, err)
	}
	if c.draft, err = k.Draft(t.Context(), c.conflict, p); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, c.tree.Advance(t.Context(), c.draft))
	if out := gitRun(t, c.tree.Dir, "status", "--porcelain"); out != "" {
		t.Errorf("the worktree of a draft is not clean: %s", out)
	}
	return c
}

// shell runs a shell command that can use "edit SCRIPT FILE", which is sed in place.
func (c *conflictKit) shell(dir, command string) {
	c.t.Helper()
	runShell(c.t, dir,
		`edit() { sed "$1" "$2" > .edited; cat .edited > "$2"; rm .edited; }; `+command)
}

// resolve runs a shell command as the author, saves the result, and resolves the conflict with it.
func (c *conflictKit) resolve(command string) (commit string, unresolved []string) {
	c.t.Helper()
	c.shell(c.tree.Dir, command)
	saved, _, err := c.tree.Save(c.t.Context(), "resolved")
	must.Succeed(c.t, err)
	commit, unresolved, err = c.ResolveConflict(c.t.Context(), "T1",
		Conflict{c.conflict.Ours, c.conflict.Theirs, c.draft}, saved, c.base())
	must.Succeed(c.t, err)
	if len(unresolved) == 0 {
		if diff := gitRun(c.t, c.dir, "diff", "--name-only", saved, commit); diff != "" {
			c.t.Errorf("the resolution has other files than the author saved: %s", diff)
		}
	}
	return commit, unresolved
}

// wantMerge checks that a commit is a merge of the task's commit and the base, and that the conflict does not come back.
func (c *conflictKit) wantMerge(commit string) {
	c.t.Helper()
	if got := gitRun(c.t, c.dir, "show", "-s", "--format=%P", commit); got != c.conflict.Ours+" "+
		c.conflict.Theirs {
		c.t.Errorf("the parents are %s, want %s %s", got, c.conflict.Ours, c.conflict.Theirs)
	}
	if again, err := c.Combine(c.t.Context(), "T1", commit, c.base()); again != commit ||
		err != nil {
		c.t.Errorf("combined again: %s, %v", again, err)
	}
}

const lines = "1\n2\n3\n4\n5\n6\n7\n8\n9\n"

// Every kind of conflict can be resolved by editing files only, and an unresolved one is found.
func TestResolve(t *testing.T) {
	t.Parallel()
	const binary = `printf 'x\0%s' `
	for _, tt := range []struct {
		name             string
		files            map[string]string
		task, base       string
		want             []string // the files in conflict; OURS and THEIRS are the commits
		note             string
		unresolved       []string // if the author changes nothing
		wrong, wrongFile string   // an attempt of the author that is refused
		right            string
		result           map[string]string
	}{
		{name: "both changed it", files: map[string]string{"a": lines, "b": "1\n"},
			task: "edit s/5/task/ a; echo task > new", base: "edit s/5/base/ a; echo base > b",
			want: []string{"a"}, note: "a: both sides changed it", unresolved: []string{"a"},
			wrong: "edit /^=/d a", wrongFile: "a", right: "edit '/^[<=>]/d' a",
			result: map[string]string{"a": strings.Replace(lines, "5", "task\nbase", 1),
				"b": "base\n", "new": "task\n"}},
		{name: "both added it", files: map[string]string{"x": "x\n"}, task: "echo task > a",
			base: "echo base > a",
			want: []string{"a"}, note: "a: both sides added it", unresolved: []string{"a"},
			wrong: "edit '/^[<>]/d' a", wrongFile: "a", right: "echo both > a",
			result: map[string]string{"a": "both\n", "x": "x\n"}},
		{name: "the task deleted it", files: map[string]string{"a": lines, "x": "x\n"},
			task: "rm a", base: "echo more >> a",
			want:  []string{"a"},
			note:  "a deleted in signalbox/T1 and modified in main. Version main of a left in tree.",
			right: "rm a", result: map[string]string{"x": "x\n"}},
		{name: "the base deleted it", files: map[string]string{"a": lines, "x": "x\n"},
			task: "echo more >> a", base: "rm a",
			want: []string{"a"},
			note: "a deleted in main and modified in signalbox/T1. Version signalbox/T1 of a left in tree.", right: "echo even more >> a", result: map[string]string{"a": lines + "more\neven more\n", "x": "x\n"}},
		{name: "both renamed it", files: map[string]string{"a": lines}, task: "mv a t",
			base: "mv a b",
			want: []string{"a", "b", "t"}, note: "a renamed to t in signalbox/T1 and to b in main.",
			right: "rm b", result: map[string]string{"t": lines}},
		{name: "renamed and changed", files: map[string]string{"a": lines},
			task: "mv a t; edit s/5/task/ t", base: "edit s/5/base/ a",
			want: []string{"t"}, unresolved: []string{"t"}, wrong: "mv t u", wrongFile: "u",
			right: "echo both > u", result: map[string]string{"u": "both\n"}},
		{name: "binary", files: map[string]string{"a": "x\x00"}, task: binary + "task > a",
			base:  binary + "base > a",
			want:  []string{"a"},
			note:  "a: both sides changed it. It is not text, so it has no markers: it is the version of signalbox/T1. See the other with: git show THEIRS:a",
			right: "git show main:a > a; echo task > b", result: map[string]string{"a": "x\x00base",
				"b": "task\n"}},
		{name: "mode", files: map[string]string{"x": "x\n"}, task: "echo same > a; chmod +x a",
			base: "echo same > a",
			want: []string{"a"},
			note: "a: both sides added it in the same way, but with other modes: 100755 in signalbox/T1, 100644 in main. The first is in place", right: "chmod -x a; echo y > x", result: map[string]string{"a": "same\n", "x": "y\n"}},
		{name: "a folder in the way", files: map[string]string{"x": "x\n"}, task: "echo task > a",
			base:       "mkdir a; echo base > a/b",
			want:       []string{"a~OURS"},
			note:       "directory in the way of a from signalbox/T1; moving it to a~OURS instead.",
			unresolved: []string{"a~OURS"}, right: "mv a~* c",
			result: map[string]string{"a/b": "base\n", "c": "task\n", "x": "x\n"}},
		{name: "a link and a file", files: map[string]string{"x": "x\n"}, task: "ln -s x a",
			base: "echo base > a",
			want: []string{"a", "a~THEIRS"}, unresolved: []string{"a~THEIRS"},
			right: "rm a; mv a~* a; echo task > b", result: map[string]string{"a": "base\n",
				"b": "task\n", "x": "x\n"}},
		{name: "headings that look like markers",
			files: map[string]string{"a": "Content\n=======\n\n1\n"},
			task:  "printf 'Changes\n=======\ntask\n' >> a",
			base:  "printf 'Missing\n=======\nbase\n' >> a",
			want:  []string{"a"}, unresolved: []string{"a"},
			right:  "edit '/^[<>]/d; /^task$/{n;d;}' a",
			result: map[string]string{"a": "Content\n=======\n\n1\nChanges\n=======\ntask\nMissing\n=======\nbase\n"}},
		{name: "markers that belong to the text",
			files: map[string]string{"a": "<<<<<<< an example\n=======\n>>>>>>> of markers\n1\n"},
			task:  "echo task >> a", base: "echo base >> a",
			want: []string{"a"}, unresolved: []string{"a"},
			right:  "edit '/^<<<<<<< [0-9a-f]*$/d; /^>>>>>>> [0-9a-f]*$/d; /^task$/{n;d;}' a",
			result: map[string]string{"a": "<<<<<<< an example\n=======\n>>>>>>> of markers\n1\ntask\nbase\n"}},
		{name: "markers with another text", files: map[string]string{"a": lines},
			task: "edit s/5/task/ a", base: "edit s/5/base/ a",
			want: []string{"a"}, unresolved: []string{"a"},
			wrong:     "edit 's/^<<<<<<<.*/<<<<<<< HEAD/; s/^>>>>>>>.*/>>>>>>> main/' a",
			wrongFile: "a", right: "echo both > a", result: map[string]string{"a": "both\n"}},
		{name: "long markers, and names that are patterns",
			files: map[string]string{".gitattributes": "* conflict-marker-size=12\n",
				"a*[b] c": lines}, task: "edit s/5/task/ 'a*[b] c'",
			base: "edit s/5/base/ 'a*[b] c'",
			want: []string{"a*[b] c"}, unresolved: []string{"a*[b] c"},
			wrong: "edit '/^>/d' 'a*[b] c'", wrongFile: "a*[b] c",
			right: "edit '/^[<=>]/d' 'a*[b] c'",
			result: map[string]string{".gitattributes": "* conflict-marker-size=12\n",
				"a*[b] c": strings.Replace(lines, "5", "task\nbase", 1)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newConflict(t, tt.files, tt.task, tt.base, protects(""))
			name := strings.NewReplacer("OURS", c.conflict.Ours, "THEIRS",
				c.conflict.Theirs).Replace
			var want, unresolved []string
			for _, file := range tt.want {
				want = append(want, name(file))
			}
			for _, file := range tt.unresolved {
				unresolved = append(unresolved, name(file))
			}
			if diff := cmp.Diff(want, c.conflict.Files); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if tt.note != "" && !slices.Contains(c.conflict.Notes, name(tt.note)) {
				t.Errorf("notes %q", c.conflict.Notes)
			}
			if commits := c.CommitsOn(t.Context(), c.conflict); len(commits) != 1 ||
				!strings.HasSuffix(commits[0], " base") {
				t.Errorf("commits %q", commits)
			}
			commit, left := c.resolve(":")
			if diff := cmp.Diff(unresolved, left); diff != "" {
				t.Errorf("unresolved (-want +got):\n%s", diff)
			}
			if left == nil {
				c.wantMerge(commit)
			}
			if tt.wrong != "" {
				if _, left := c.resolve(tt.wrong); !slices.Equal(left, []string{tt.wrongFile}) {
					t.Errorf("unresolved after a wrong attempt: %q", left)
				}
			}
			commit, left = c.resolve(tt.right)
			if left != nil {
				t.Fatalf("unresolved: %q", left)
			}
			wantFiles(t, c.tree.Dir, tt.result)
			c.wantMerge(commit)
		})
	}
}

// A submodule keeps the task's version, and is reported.
func TestResolveSubmodule(t *testing.T) {
	t.Parallel()
	set := func(digit string) string {
		return "mkdir -p lib; git update-index --add --cacheinfo 160000," +
			strings.Repeat(digit, 40) + ",lib; git commit -qm lib" + digit
	}
	c := newConflict(t, map[string]string{"a": lines}, set("2")+"; edit s/5/task/ a", set("3")+
		"; edit s/5/base/ a", protects(""))
	if diff := cmp.Diff([][]string{{"a", "lib"}, {"lib"}},
		[][]string{c.conflict.Files, c.conflict.Submodules}); diff != "" {
		t.Errorf("conflict (-want +got):\n%s", diff)
	}
	commit, left := c.resolve("echo both > a")
	if left != nil {
		t.Fatalf("unresolved: %q", left)
	}
	if got := gitRun(t, c.dir, "ls-tree", commit, "lib"); !strings.Contains(got,
		strings.Repeat("2", 40)) {
		t.Errorf("lib: %s", got)
	}
}

// In protected files the draft has the base's version, so that its author need not edit them.
func TestDraftOfProtectedFiles(t *testing.T) {
	t.Parallel()
	c := newConflict(t, map[string]string{"ci/a": lines, "ci/b": lines, "ci/c": lines, "d": lines},
		"edit s/5/task/ ci/a; edit s/5/task/ d; rm ci/b; echo task > ci/new; echo task >> ci/c",
		"edit s/5/base/ ci/a; edit s/5/base/ d; echo base >> ci/b; echo base > ci/new; rm ci/c",
		protects("ci/"))
	if diff := cmp.Diff([]string{"ci/a", "ci/b", "ci/c", "ci/new", "d"},
		c.conflict.Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	commit, left := c.resolve("echo both > d")
	if left != nil {
		t.Fatalf("unresolved: %q", left)
	}
	wantFiles(t, c.tree.Dir, map[string]string{"ci/a": strings.Replace(lines, "5", "base", 1),
		"ci/b": lines + "base\n", "ci/new": "base\n", "d": "both\n"})
	if edits, err := c.ProtectedEdits(t.Context(), c.base(), commit,
		protects("ci/")); len(edits) > 0 || err != nil {
		t.Errorf("edits %q, %v", edits, err)
	}
	c.wantMerge(commit)
	if _, err := c.Repo.Merge(t.Context(), MergeRequest{Task: "T1", Commit: commit,
		Base: c.base()}); err != nil {
		t.Errorf("merge: %v", err)
	}
	c.sound()
}

// An author may commit, undo the merge, merge by itself, or merge a newer base.
func TestResolveWhatAnAuthorDidWithGit(t *testing.T) {
	t.Parallel()
	first := newConflict(t, map[string]string{"a": lines, "b": "1\n"}, "edit s/5/task/ a",
		"edit s/5/base/ a", protects(""))
	begin := func(t *testing.T) *conflictKit {
		t.Parallel()
		c, conflict := *first, *first.conflict
		c.kit, c.conflict = first.copied(t), &conflict
		c.tree = c.open("T1")
		return &c
	}
	t.Run("commits", func(t *testing.T) {
		c := begin(t)
		commit, left := c.resolve(
			"echo one > a; git commit -qam one; echo two > a; git commit -qam two")
		if left != nil {
			t.Fatalf("unresolved: %q", left)
		}
		c.wantMerge(commit)
	})
	t.Run("undone", func(t *testing.T) {
		c := begin(t)
		commit, left := c.resolve("git reset -q --hard " + c.conflict.Ours + "; echo more > b")
		if left != nil || gitRun(t, c.dir, "rev-parse", commit+"^") != c.conflict.Ours {
			t.Errorf("%s, unresolved %q", commit, left)
		}
		if _, err := c.Combine(t.Context(), "T1", commit, c.base()); err == nil {
			t.Error("there is no conflict any more")
		}
	})
	t.Run("own merge", func(t *testing.T) {
		c := begin(t)
		merge := "git reset -q --hard " + c.conflict.Ours + "; git merge -q main || :; "
		if _, left := c.resolve(merge + "edit s/task/other/ a; git commit -qam own"); !slices.Equal(
			left, []string{"a"}) {
			t.Errorf("unresolved %q", left)
		}
		commit, left := c.resolve(merge + "echo both > a; git commit -qam own")
		if left != nil {
			t.Errorf("unresolved %q", left)
		}
		c.wantMerge(commit)
	})
	t.Run("newer base", func(t *testing.T) {
		c := begin(t)
		write(t, c.dir, map[string]string{"b": "2\n"})
		newer := c.commit("newer")
		commit, left := c.resolve("echo both > a; git commit -qam both; git merge -q main")
		if left != nil {
			t.Fatalf("unresolved: %q", left)
		}
		c.conflict.Theirs = newer
		c.wantMerge(commit)
	})
	t.Run("nothing, and the draft is gone", func(t *testing.T) {
		c := begin(t)
		tip, _ := c.tree.Commit(t.Context())
		commit, left, err := c.ResolveConflict(t.Context(), "T1",
			Conflict{c.conflict.Ours, c.conflict.Theirs, strings.Repeat("1", 40)}, c.conflict.Ours,
			c.base())
		if commit != c.conflict.Ours || left != nil || err != nil || tip != c.draft {
			t.Errorf("%s %q %v", commit, left, err)
		}
	})
}
