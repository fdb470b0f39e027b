package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func (k *kit) review() *Review {
	k.t.Helper()
	v, err := OpenReview(k.t.Context(), k.dir, k.folder)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(v.Close)
	return v
}

func TestReviewShowsWhatATaskChanges(t *testing.T) {
	k := newKit(t, map[string]string{"a.txt": "one\n", "b.txt": "two\n"})
	tree := k.work("T1", map[string]string{"a.txt": "one more\n"})
	commit, _, err := tree.Save(t.Context(), "work")
	if err != nil {
		t.Fatal(err)
	}
	write(t, k.dir, map[string]string{"b.txt": "meanwhile\n"}) // the base moves
	k.commit("base")
	v := k.review()
	base, err := v.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	from, err := v.MergeBase(t.Context(), base, commit)
	if err != nil {
		t.Fatal(err)
	}
	var diff, stat strings.Builder
	if err := errors.Join(v.Diff(t.Context(), &diff, from, commit, DiffOptions{}), v.Diff(t.Context(), &stat, from, commit, DiffOptions{Stat: true, Width: 80})); err != nil {
		t.Fatal(err)
	}
	if got := diff.String(); !strings.Contains(got, "\n-one\n+one more\n") || strings.Contains(got, "b.txt") {
		t.Errorf("the diff is\n%s", got)
	}
	if got := stat.String(); !strings.Contains(got, " a.txt | 2 +-\n") {
		t.Errorf("the list is\n%s", got)
	}
	if _, err := v.MergeBase(t.Context(), base, strings.Repeat("1", 40)); err == nil || !strings.Contains(err.Error(), "is not in this repository") {
		t.Errorf("an unknown commit: %v", err)
	}
}

// What is not saved is shown with new files, and looking changes nothing.
func TestReviewShowsWhatIsNotSaved(t *testing.T) {
	k := newKit(t, map[string]string{"a.txt": "one\n", ".gitignore": "*.log\n"})
	tree := k.open("T1")
	v := k.review()
	head, err := v.TreeHead(t.Context(), "T1")
	if err != nil || head != k.base() {
		t.Fatalf("%s, %v", head, err)
	}
	if files, err := v.Uncommitted(t.Context(), "T1"); err != nil || len(files) != 0 {
		t.Errorf("before a change: %v, %v", files, err)
	}
	write(t, tree.Dir, map[string]string{"a.txt": "changed\n", "new/file.txt": "new\n", "x.log": "ignored\n"})
	before := gitRun(t, k.dir, "count-objects", "-v")
	files, err := v.Uncommitted(t.Context(), "T1")
	slices.Sort(files)
	if err != nil || !slices.Equal(files, []string{"a.txt", "new/file.txt"}) {
		t.Errorf("after it: %v, %v", files, err)
	}
	var diff strings.Builder
	if err := v.DiffWorking(t.Context(), &diff, "T1", head, DiffOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := diff.String(); !strings.Contains(got, "\n-one\n+changed\n") || !strings.Contains(got, "+++ b/new/file.txt\n@@ -0,0 +1 @@\n+new\n") || strings.Contains(got, "ignored") {
		t.Errorf("the diff is\n%s", got)
	}
	if after := gitRun(t, k.dir, "count-objects", "-v"); after != before {
		t.Errorf("objects before:\n%s\nand after:\n%s", before, after)
	}
	if _, err := v.Uncommitted(t.Context(), "T2"); !errors.Is(err, ErrNoTree) {
		t.Errorf("without a worktree: %v", err)
	}
	if err := v.DiffWorking(t.Context(), &diff, "../../etc", head, DiffOptions{}); err == nil {
		t.Error("it leaves the folder")
	}
}

// A diff runs no program that the repository names.
func TestReviewRunsNoPrograms(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the programs are scripts")
	}
	k := newKit(t, map[string]string{"a.txt": "one\n"})
	ran := filepath.Join(t.TempDir(), "ran")
	script := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho ran >>"+ran+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	tree := k.work("T1", map[string]string{"a.txt": "two\n", ".gitattributes": "* diff=evil filter=evil\n"})
	commit, _, err := tree.Save(t.Context(), "work")
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range []string{"diff.external", "diff.evil.command", "diff.evil.textconv", "filter.evil.clean", "filter.evil.smudge", "core.pager", "core.fsmonitor"} {
		gitRun(t, k.dir, "config", setting, script)
	}
	write(t, tree.Dir, map[string]string{"a.txt": "three\n", "new.txt": "new\n"})
	v := k.review()
	var diff strings.Builder
	if _, err := v.Uncommitted(t.Context(), "T1"); err != nil {
		t.Error(err)
	}
	err = errors.Join(v.Diff(t.Context(), &diff, k.base(), commit, DiffOptions{}), v.Diff(t.Context(), &diff, k.base(), commit, DiffOptions{Stat: true}), v.DiffWorking(t.Context(), &diff, "T1", commit, DiffOptions{}))
	if err != nil || !strings.Contains(diff.String(), "+two\n") || !strings.Contains(diff.String(), "+three\n") || !strings.Contains(diff.String(), "+new\n") {
		t.Errorf("%v:\n%s", err, diff.String())
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program ran")
	}
}
