package workspace

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// TestBehind: the base moves ahead while a person edits a file that it changes, and later work
// starts from it and is merged into it. The branch follows when the person is done.
func TestBehind(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", "b": "1\n"})
	k.work("T1", map[string]string{"a": "1\nT1\n"})
	write(t, k.dir, map[string]string{"a": "mine\n1\n"})
	merged, err := k.Merge(t.Context(), "T1", "", nil)
	must.Succeed(t, err)
	k.work("T2", map[string]string{"b": "T2\n"}) // from the base
	wantFiles(t, filepath.Join(k.folder, "T2"), map[string]string{"a": "1\nT1\n", "b": "T2\n"})
	second, err := k.Merge(t.Context(), "T2", "", nil)
	must.Succeed(t, err)
	if second.Before != merged.Commit || k.base() != second.Commit {
		t.Errorf("merged into %s, the base is %s", second.Before, k.base())
	}
	if landed, err := k.Landed(t.Context(), merged.Commit); !landed || err != nil {
		t.Errorf("landed %v: %v", landed, err)
	}
	wantFiles(t, k.dir, map[string]string{"a": "mine\n1\n", "b": "1\n"})
	gitRun(t, k.dir, "commit", "--quiet", "-am", "mine")
	mine := gitRun(t, k.dir, "rev-parse", "main")
	k.settled()
	wantFiles(t, k.dir, map[string]string{"a": "mine\n1\nT1\n", "b": "T2\n"})
	for _, commit := range []string{mine, merged.Commit, second.Commit} {
		gitRun(t, k.dir, "merge-base", "--is-ancestor", commit, "main")
	}
	k.sound()
}

// TestBehindConflict: a commit on the branch that conflicts with the base is left to the person,
// and the base continues without it.
func TestBehindConflict(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", "b": "1\n"})
	k.work("T1", map[string]string{"a": "T1\n"})
	write(t, k.dir, map[string]string{"a": "mine\n"})
	_, err := k.Merge(t.Context(), "T1", "", nil)
	must.Succeed(t, err)
	gitRun(t, k.dir, "commit", "--quiet", "-am", "mine")
	want := "commits on main conflict with merged work in a; nothing is lost, and the work " +
		"continues without your commits. Merge the two: git merge refs/signalbox/base/main, on main"
	waits := func() {
		t.Helper()
		found, err := FindBehind(t.Context(), k.dir, "")
		if err != nil || found == nil || found.Text != want {
			t.Errorf("found %+v, %v", found, err)
		}
		settled, err := k.Settle(t.Context())
		if err != nil || settled == nil || settled.Text != want {
			t.Errorf("settled %+v, %v", settled, err)
		}
	}
	waits()
	k.work("T2", map[string]string{"b": "T2\n"})
	if _, err = k.Merge(t.Context(), "T2", "", nil); err != nil {
		t.Fatal(err)
	}
	waits()
	_, err = gitTry(t, k.dir, "merge", "refs/signalbox/base/main")
	if err == nil {
		t.Error("git merged it")
	}
	write(t, k.dir, map[string]string{"a": "both\n"})
	if found, err := k.Settle(t.Context()); err != nil || found == nil || !found.Conflict {
		t.Errorf("during the merge: %+v, %v", found, err)
	}
	gitRun(t, k.dir, "commit", "--quiet", "-am", "both")
	resolved := gitRun(t, k.dir, "rev-parse", "main")
	if k.base() != resolved {
		t.Errorf("the base is %s, want %s", k.base(), resolved)
	}
	k.settled()
	wantFiles(t, k.dir, map[string]string{"a": "both\n", "b": "T2\n"})
	k.sound()
}

// TestBehindDuringOperations: the branch does not move while git is in the middle of something.
func TestBehindDuringOperations(t *testing.T) {
	t.Parallel()
	first := newKit(t, map[string]string{"a": "1\n", "b": "1\n"})
	first.work("T1", map[string]string{"b": "T1\n"})
	gitRun(t, first.dir, "switch", "--quiet", "-c", "other")
	write(t, first.dir, map[string]string{"a": "other\n"})
	gitRun(t, first.dir, "commit", "--quiet", "-am", "other")
	gitRun(t, first.dir, "switch", "--quiet", "main")
	write(t, first.dir, map[string]string{"a": "mine\n"})
	gitRun(t, first.dir, "commit", "--quiet", "-am", "mine")
	for _, operation := range []string{"merge", "rebase", "cherry-pick"} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			k := first.copied(t)
			if out, err := gitTry(t, k.dir, operation, "other"); err == nil {
				t.Fatal(out)
			}
			before := gitRun(t, k.dir, "rev-parse", "main")
			_, err := k.Merge(t.Context(), "T1", "", nil)
			must.Succeed(t, err)
			want := "the branch main waits, because a " + operation + " is in progress in " + k.dir +
				": finish it, or abort it: git " + operation + " --abort."
			found, err := k.Settle(t.Context())
			if err != nil || found == nil || !strings.HasPrefix(found.Text, want) ||
				gitRun(t, k.dir, "rev-parse", "main") != before {
				t.Fatalf("%+v, %v", found, err)
			}
			// also if the branch is not checked out
			if shown, err := FindBehind(t.Context(), k.dir, ""); err != nil || shown == nil ||
				shown.Text != found.Text {
				t.Errorf("shown %+v, %v", shown, err)
			}
			write(t, k.dir, map[string]string{"a": "both\n"})
			gitRun(t, k.dir, "add", "a")
			gitRun(t, k.dir, "-c", "core.editor=true", operation, "--continue")
			if operation == "rebase" { // of commits that the base has
				gitTry(t, k.dir, "merge", "--quiet", "-X", "ours", aheadPrefix+"main")
			}
			k.settled()
			wantFiles(t, k.dir, map[string]string{"a": "both\n", "b": "T1\n"})
			k.sound()
		})
	}
}

// TestMovedBackIfTheBranchCannotMove: files that were moved go back when the checkout cannot be
// updated completely.
func TestMovedBackIfTheBranchCannotMove(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root can write everywhere")
	}
	k := newKit(t, map[string]string{"a": "1\n", "dir/b": "1\n"})
	k.work("T1", map[string]string{"a": "2\n", "dir/b": "2\n", "dir/c": "2\n"})
	before := k.base()
	must.Succeed(t, os.Chmod(filepath.Join(k.dir, "dir"), 0o500))
	t.Cleanup(func() { os.Chmod(filepath.Join(k.dir, "dir"), 0o700) })
	merged, err := k.Merge(t.Context(), "T1", "", nil)
	if err != nil || k.base() != merged.Commit || gitRun(t, k.dir, "rev-parse", "main") != before {
		t.Fatal(err)
	}
	k.sound()
	must.Succeed(t, os.Chmod(filepath.Join(k.dir, "dir"), 0o700))
	k.settled()
	k.sound()
}

// TestNothingMergedIsLost has a person do random things with git in the checkout between merges of
// tasks. Every line that was merged must be in the base in the end, unless git told the person of a
// conflict.
func TestNothingMergedIsLost(t *testing.T) {
	t.Parallel()
	for seed := range uint64(personSeeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			newPerson(t, seed).live()
		})
	}
}

const personSeeds, personSteps = 6, 30

// person edits the checkout. Lines are far apart, so that only edits of the same place conflict.
type person struct {
	*kit
	random *rand.Rand
	origin string // a repository that others push to
	number int
	lines  []string // what was merged
	said   bool     // git said something about a conflict or a refusal
	steps  []string
}

const places, between = 8, 4

func newPerson(t *testing.T, seed uint64) *person {
	text := ""
	for i := range places {
		text += fmt.Sprintf("place %d\n%s", i, strings.Repeat("-\n", between))
	}
	p := &person{kit: newKit(t, map[string]string{"a": text, "b": text}),
		random: rand.New(rand.NewPCG(seed, 1))}
	p.origin = filepath.Join(filepath.Dir(p.dir), "origin")
	gitRun(t, p.dir, "clone", "--quiet", p.dir, p.origin)
	gitRun(t, p.dir, "remote", "add", "origin", p.origin)
	gitRun(t, p.dir, "config", "core.editor", "true")
	return p
}

// add adds a line at a random place of a file, and returns it.
func (p *person) add(dir, who string) string {
	name := filepath.Join(dir, []string{"a", "b"}[p.random.IntN(2)])
	p.number++
	line := fmt.Sprintf("%s %d\n", who, p.number)
	place := fmt.Sprintf("place %d\n", p.random.IntN(places))
	text := textOf(p.t, "", name)
	write(p.t, "", map[string]string{name: strings.Replace(text, place, place+line, 1)})
	return line
}

// git runs git in the checkout. If git refuses, it has said so.
func (p *person) git(args ...string) {
	out, err := gitTry(p.t, p.dir, args...)
	p.steps = append(p.steps, fmt.Sprintf("git %s: %v", strings.Join(args, " "), err))
	if err == nil {
		return
	}
	// A person solves a conflict by taking a side, which drops merged lines.
	if !strings.Contains(out, "CONFLICT") {
		return
	}
	p.said = true
	p.t.Log("said", len(p.lines))
	gitTry(p.t, p.dir, "checkout", "--ours", ".")
	gitTry(p.t, p.dir, "add", "-A")
	for _, operation := range []string{"merge", "rebase"} {
		if _, err := gitTry(p.t, p.dir, operation, "--continue"); err == nil {
			return
		}
	}
	gitTry(p.t, p.dir, "rebase", "--abort")
	gitTry(p.t, p.dir, "reset", "--quiet")
}

// merge merges a task. If it conflicts with the base, it is not merged.
func (p *person) merge() {
	p.number++
	task := fmt.Sprint("T", p.number)
	tree := p.open(task)
	line := p.add(tree.Dir, task)
	p.steps = append(p.steps, "merge "+task)
	if _, _, err := tree.Save(p.t.Context(), task); err != nil {
		p.t.Fatal(err)
	}
	if p.random.IntN(2) == 0 { // meanwhile
		p.step()
	}
	_, err := p.Merge(p.t.Context(), task, "", nil)
	if _, conflict := asConflict(err); conflict {
		return
	}
	must.Succeed(p.t, err)
	p.lines = append(p.lines, line)
}

// step does something in the checkout.
func (p *person) step() {
	switch p.random.IntN(9) {
	case 0, 1:
		p.steps = append(p.steps, "edit")
		p.add(p.dir, "person")
	case 2:
		p.git("add", "-A")
	case 3:
		p.git("commit", "--quiet", "-m", "staged")
	case 4:
		p.git("commit", "--quiet", "-am", "all")
	case 5:
		p.git("stash", "--quiet")
	case 6:
		p.git("stash", "pop", "--quiet")
	case 7:
		p.add(p.origin, "other")
		gitRun(p.t, p.origin, "commit", "--quiet", "-am", "other")
		how := []string{"--no-rebase", "--rebase"}[p.random.IntN(2)]
		p.git("pull", "--quiet", how, "origin", "main")
	case 8:
		p.git([]string{"merge", "rebase"}[p.random.IntN(2)], "refs/signalbox/base/main")
	}
}

func (p *person) live() {
	for range personSteps {
		switch p.random.IntN(4) {
		case 0:
			p.merge()
		case 1:
			_, err := p.Settle(p.t.Context())
			must.Succeed(p.t, err)
			p.steps = append(p.steps, "settle")
		default:
			p.step()
		}
		p.check()
	}
	p.git("add", "-A")
	p.git("commit", "--quiet", "-m", "the end")
	behind, err := p.Settle(p.t.Context())
	must.Succeed(p.t, err)
	if behind != nil && behind.Conflict {
		p.git("merge", aheadPrefix+"main")
		behind, err = p.Settle(p.t.Context())
		must.Succeed(p.t, err)
	}
	if behind != nil {
		p.t.Errorf("the branch waits: %s\n%s", behind.Text, strings.Join(p.steps, "\n"))
	}
	p.check()
}

// check checks that the base has every merged line.
func (p *person) check() {
	p.t.Helper()
	if p.said {
		p.lines, p.said = nil, false // they may have been dropped
	}
	base := p.base()
	text := gitRun(p.t, p.dir, "show", base+":a") + "\n" + gitRun(p.t, p.dir, "show", base+":b") + "\n"
	for _, line := range p.lines {
		if !strings.Contains(text, "\n"+line) {
			p.t.Fatalf("lost %q:\n%s", line, strings.Join(p.steps, "\n"))
		}
	}
}

// TestBehindHalfRecorded: if git was killed between the two refs of a base that moves ahead, the
// commits that a person makes on the branch are joined to the base all the same.
func TestBehindHalfRecorded(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", "b": "1\n"})
	k.work("T1", map[string]string{"a": "T1\n"})
	write(t, k.dir, map[string]string{"a": "mine\n"})
	_, err := k.Merge(t.Context(), "T1", "", nil)
	must.Succeed(t, err)
	gitRun(t, k.dir, "update-ref", "-d", waitPrefix+"main")
	write(t, k.dir, map[string]string{"a": "1\n", "b": "mine\n"})
	mine := k.commit("mine")
	if found, err := FindBehind(t.Context(), k.dir, ""); err != nil || found == nil {
		t.Errorf("found %+v, %v", found, err)
	}
	k.work("T2", map[string]string{"c": "T2\n"})
	if _, err = k.Merge(t.Context(), "T2", "", nil); err != nil {
		t.Fatal(err)
	}
	k.settled()
	gitRun(t, k.dir, "merge-base", "--is-ancestor", mine, "main")
	wantFiles(t, k.dir, map[string]string{"a": "T1\n", "b": "mine\n", "c": "T2\n"})
	k.sound()
}

// TestSwitchedWhileLanding: a person switches to another branch after the merge has found out what
// is checked out, and before it has locked the index.
func TestSwitchedWhileLanding(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	k.work("T1", map[string]string{"a": "T1\n"})
	k.step = func(name string) {
		if name == "recorded" {
			gitRun(t, k.dir, "switch", "--quiet", "-c", "other")
		}
	}
	merged, err := k.Merge(t.Context(), "T1", "", nil)
	must.Succeed(t, err)
	k.step = func(string) {}
	wantFiles(t, k.dir, map[string]string{"a": "1\n"})
	k.sound()
	k.settled()
	if at := gitRun(t, k.dir, "rev-parse", "main"); at != merged.Commit {
		t.Errorf("main is at %s, want %s", at, merged.Commit)
	}
}

// TestSettledByThePerson: who merges the base into the branch has settled it, and the next task is
// merged on top.
func TestSettledByThePerson(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", "b": "1\n"})
	k.work("T1", map[string]string{"a": "T1\n"})
	k.work("T2", map[string]string{"b": "T2\n"})
	write(t, k.dir, map[string]string{"a": "mine\n"})
	_, err := k.Merge(t.Context(), "T1", "", nil)
	must.Succeed(t, err)
	gitRun(t, k.dir, "checkout", "--quiet", "a")
	write(t, k.dir, map[string]string{"c": "mine\n"})
	k.commit("mine")
	gitRun(t, k.dir, "merge", "--quiet", aheadPrefix+"main")
	if _, err := k.Merge(t.Context(), "T2", "", nil); err != nil {
		t.Fatal(err)
	}
	k.settled()
	wantFiles(t, k.dir, map[string]string{"a": "T1\n", "b": "T2\n", "c": "mine\n"})
	k.sound()
}
