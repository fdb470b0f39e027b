package conflicts

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/transport"
	"signalbox/internal/run/workspace"
	"signalbox/internal/testkit/memory"
	"signalbox/internal/testkit/must"
)

func TestMain(m *testing.M) {
	memory.UseForTempFiles()
	os.Exit(m.Run())
}

// clash is a task T1 that has changed same.txt and added new.txt, in a repository whose base has
// changed same.txt, too.
type clash struct {
	t *testing.T
	Resolver
	dir  string
	tree *workspace.Tree
	task rules.Task
	body string // the last description
	// moved is where the branch was found, if somebody has moved it.
	moved string
}

const trees = ".signalbox/trees"

func newClash(t *testing.T) *clash {
	t.Helper()
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Succeed(t, err)
	c := &clash{t: t, dir: dir}
	c.shell(dir, "git init -q -b main; mkdir ci; echo one >same.txt; echo one >ci/run.sh; echo .signalbox >.gitignore; git add .; git commit -qm start")
	repo, err := workspace.Find(t.Context(), dir, filepath.Join(dir, trees))
	must.Succeed(t, err)
	c.Resolver = Resolver{Config: config.Default(), Repo: repo, Exchange: &transport.Exchange{},
		Work: "T1", Moved: func(_, found string) { c.moved = cmp.Or(c.moved, found) },
		Put: func(data []byte) (signalbox.Hash, error) {
			c.body = string(data)
			return signalbox.Hash{1}, nil
		},
		Report: func(found rules.Conflict) (rules.Answer, error) { // as the rules do
			if c.task.Conflict = &found; len(found.Files) == 0 {
				c.task.Conflict = nil
			}
			return rules.Answer{Lease: &signalbox.Lease{}}, nil
		}}
	c.open()
	c.save("echo second >same.txt; echo second >new.txt; echo second >ci/run.sh")
	c.shell(dir, "echo first >same.txt; git commit -qam 'the first change'")
	return c
}

// open opens the worktree of the task, as a session does.
func (c *clash) open() {
	c.t.Helper()
	var err error
	if c.tree, err = c.Repo.Open(c.t.Context(), "T1"); err != nil {
		c.t.Fatal(err)
	}
}

// shell runs a shell command in a folder and returns its output. WORK is the commit of the task
// that conflicts.
func (c *clash) shell(dir, command string) string {
	c.t.Helper()
	if c.task.Conflict != nil {
		command = strings.ReplaceAll(command, "WORK", c.task.Conflict.Commit)
	}
	cmd := exec.Command("sh", "-ec", command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_AUTHOR_NAME=a",
		"GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s: %v: %s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

// save runs a shell command as the author, and records what it changed.
func (c *clash) save(command string) {
	c.t.Helper()
	c.shell(c.tree.Dir, command)
	commit, _, err := c.tree.Save(c.t.Context(), "changes")
	must.Succeed(c.t, err)
	c.task.Saved = &rules.SavedWork{Commit: commit}
}

func (c *clash) base() string { return c.shell(c.dir, "git rev-parse main") }

// merge merges the base into the worktree, as before each author starts.
func (c *clash) merge() {
	c.t.Helper()
	tip, _, err := c.tree.Save(c.t.Context(), "changes of an interrupted agent")
	if err == nil {
		err = c.MergeBase(c.t.Context(), c.tree, &c.task, tip, c.base())
	}
	must.Succeed(c.t, err)
}

// wantDraft checks that the worktree is clean and has conflict markers, and that same.txt has some
// texts and not others.
func (c *clash) wantDraft(has, lacks string) {
	c.t.Helper()
	text := c.shell(c.tree.Dir, "git status --porcelain; cat same.txt")
	for _, word := range strings.Fields("<<<<<<< " + has) {
		if !strings.Contains(text, word) {
			c.t.Errorf("same.txt lacks %s:\n%s", word, text)
		}
	}
	if !strings.HasPrefix(text, "<<<<<<< ") || lacks != "" && strings.Contains(text, lacks) {
		c.t.Errorf("same.txt has\n%s", text)
	}
}

// wantResolved checks that what the author saved becomes a merge of the task and the base, with
// these files.
func (c *clash) wantResolved() {
	c.t.Helper()
	found := *c.task.Conflict
	resolved, left, err := c.Resolve(c.t.Context(), &found, c.task.Saved.Commit, c.base())
	if err != nil || len(left) > 0 {
		c.t.Fatalf("unresolved %v, %v", left, err)
	}
	commit, err := c.Repo.Combine(c.t.Context(), "T1", resolved, c.base())
	must.Succeed(c.t, err)
	if got := c.shell(c.dir, "git show "+commit+":same.txt; git show "+commit+
		":new.txt; git merge-base --is-ancestor WORK "+commit+"; git rev-list "+
		commit); !strings.HasPrefix(got, "both\nsecond\n") ||
		found.Draft != "" && strings.Contains(got, found.Draft) {
		c.t.Errorf("resolved to\n%s", got)
	}
}

// The author gets a draft with both sides, and a description. In a protected file the base's
// version is in place.
func TestMergeBase(t *testing.T) {
	c := newClash(t)
	c.Config.Protected = []string{"ci/**"}
	c.shell(c.dir, "echo base >ci/run.sh; git commit -qam 'the second change'")
	c.merge()
	c.wantDraft("first second", "")
	if got := c.shell(c.tree.Dir, "cat ci/run.sh"); got != "base" {
		t.Errorf("the protected file has %q", got)
	}
	if found := c.task.Conflict; !slices.Equal(found.Files, []string{"ci/run.sh", "same.txt"}) ||
		found.Commit != c.task.Saved.Commit || found.Base != c.base() || found.Draft == "" {
		t.Errorf("found %+v", found)
	}
	for _, part := range []string{"same.txt: both sides changed it",
		"- ci/run.sh: protected, so the version of main is in place. Leave it\n",
		"Commits of main since then, newest first:\n- ", "the first change"} {
		if !strings.Contains(c.body, part) {
			t.Errorf("%q is missing in:\n%s", part, c.body)
		}
	}
	c.save("echo both >same.txt")
	c.merge() // as for another author, if the first one did not get to report it
	c.wantResolved()
}

// After a crash, in whatever state it left the worktree, the next author gets the conflict, and
// nothing is lost.
func TestConflictAfterACrash(t *testing.T) {
	for name, crash := range map[string]string{
		"everything is there":  ":",
		"the worktree is gone": "rm -r " + trees + "/T1",
		"the branch is gone": "rm -r " + trees +
			"/T1; git worktree prune; git branch -q -D signalbox/T1",
		"the branch is elsewhere":   "cd " + trees + "/T1; git reset -q --hard WORK; rm same.txt",
		"the work is on the branch": "cd " + trees + "/T1; git reset -q --soft WORK",
	} {
		t.Run(name, func(t *testing.T) {
			c := newClash(t)
			c.merge()
			c.save("echo mine >half.txt")
			c.shell(c.dir, crash)
			c.open()
			c.merge()
			c.wantDraft("first second", "")
			if got := c.shell(c.tree.Dir, "cat new.txt half.txt"); got != "second\nmine" {
				t.Errorf("the next author gets %q", got)
			}
			if moves := strings.Contains(name, "branch"); (c.moved != "") != moves {
				t.Errorf("the branch was moved to %q", c.moved)
			}
			c.save("echo both >same.txt")
			c.wantResolved()
		})
	}
}

// The conflict is recorded before the worktree moves: a crash in between is repaired from the
// ledger.
func TestConflictIsRecordedFirst(t *testing.T) {
	c := newClash(t)
	c.task.Conflict = &rules.Conflict{Commit: c.task.Saved.Commit, Base: c.base(),
		Draft: strings.Repeat("1", 40), Files: []string{"same.txt"}}
	c.merge()
	c.wantDraft("first second", "")
}

// A draft on which no author has worked is made again with the latest base. One that has markers
// is kept.
func TestConflictWithTheLatestBase(t *testing.T) {
	c := newClash(t)
	c.merge()
	c.shell(c.dir, "echo third >same.txt; git commit -qam 'by hand'")
	c.merge()
	c.wantDraft("second third", "first")
	c.save("echo more >>same.txt")
	c.shell(c.dir, "echo fourth >same.txt; git commit -qam 'by hand'")
	c.merge()
	c.wantDraft("second third more", "fourth")
}

// A conflict that a person has resolved in the worktree, or that the base no longer has, is over.
func TestConflictIsOver(t *testing.T) {
	for name, resolve := range map[string]string{
		"merged by hand": "cd " + trees +
			"/T1; git reset -q --hard WORK; git merge -q main || :; echo both >same.txt; git commit -qam merged",
		"the base is as before": "git reset -q --hard HEAD~1; git commit -q --allow-empty -m empty",
	} {
		t.Run(name, func(t *testing.T) {
			c := newClash(t)
			c.merge()
			c.save(":")
			c.shell(c.dir, resolve)
			c.merge()
			if got := c.shell(c.tree.Dir, "cat same.txt"); c.task.Conflict != nil ||
				strings.Contains(got, "<<<<") {
				t.Errorf("%+v, same.txt has %s", c.task.Conflict, got)
			}
		})
	}
}

// What an author does with git does not matter.
func TestConflictIsResolvedWithGit(t *testing.T) {
	for name, resolve := range map[string]string{
		"commits":              "echo both >same.txt; git commit -qam mine; git merge -q main || git merge --abort",
		"merges by itself":     "git reset -q --hard HEAD~1; git merge -q main || :; echo both >same.txt; git commit -qam mine",
		"leaves its merge":     "git reset -q --hard HEAD~1; git merge -q main || :; echo both >same.txt",
		"on another branch":    "git checkout -q -b mine; echo both >same.txt; git commit -qam mine",
		"with a lying -s ours": "git reset -q --hard HEAD~1; git merge -q -s ours main; echo both >same.txt",
	} {
		t.Run(name, func(t *testing.T) {
			c := newClash(t)
			c.merge()
			c.save(resolve)
			c.wantResolved()
		})
	}
}
