package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// withRemote adds a bare repository that has the base branch, as origin.
func (k *kit) withRemote() (remote string) {
	k.t.Helper()
	remote = filepath.Join(newDir(k.t), "remote.git")
	gitRun(k.t, k.dir, "init", "--quiet", "--bare", "--template=", "-b", "main", remote)
	gitRun(k.t, k.dir, "remote", "add", "origin", remote)
	gitRun(k.t, k.dir, "push", "--quiet", "origin", "main")
	k.find()
	address, err := k.Remote(remote)
	if err != nil || address != remote {
		k.t.Fatalf("%s is %q: %v", remote, address, err)
	}
	return remote
}

func (k *kit) tip(task string) string {
	k.t.Helper()
	commit, err := k.open(task).Commit(k.t.Context())
	must.Succeed(k.t, err)
	return commit
}

func wantRef(t *testing.T, dir, name, want string) {
	t.Helper()
	if got := gitRun(t, dir, "for-each-ref", "--format=%(objectname)",
		name); got != want {
		t.Errorf("%s in %s is at %q, want %q", name, dir, got, want)
	}
}

func TestPush(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	remote := k.withRemote()
	// A hook, and settings of the repository that would run a command or push elsewhere, have no
	// effect.
	write(t, k.dir, map[string]string{".git/hooks/pre-push": "#!/bin/sh\ntouch " +
		filepath.Join(k.dir, "hooked") + "\nexit 1\n"})
	must.Succeed(t, os.Chmod(filepath.Join(k.dir, ".git", "hooks", "pre-push"), 0o700))
	gitRun(t, k.dir, "config", "url./nowhere/.insteadOf", remote)
	gitRun(t, k.dir, "config", "core.sshCommand", "false")

	k.work("T1", map[string]string{"a": "2\n"})
	first := k.tip("T1")
	for range 2 { // a repetition changes nothing
		must.Succeed(t, k.Push(t.Context(), Push{Task: "T1", Remote: remote, Commit: first}))
		wantRef(t, remote, "refs/heads/signalbox/T1", first)
	}
	k.work("T1", map[string]string{"a": "3\n"})
	second := k.tip("T1")
	squashed, err := k.DeliveryCommit(t.Context(),
		Delivery{Task: "T1", Commit: second, Base: k.base(), Squash: true, Message: "T1: all"})
	must.Succeed(t, err)
	// not a fast-forward
	must.Succeed(t, k.Push(t.Context(), Push{Task: "T1", Remote: remote, Commit: squashed,
		Last: first}))
	wantRef(t, remote, "refs/heads/signalbox/T1", squashed)
	// killed before the push was recorded
	must.Succeed(t, k.Push(t.Context(), Push{Task: "T1", Remote: remote, Commit: second,
		Last: first}))
	wantRef(t, remote, "refs/heads/signalbox/T1", second)
	if _, err := os.Stat(filepath.Join(k.dir, "hooked")); err == nil {
		t.Error("a hook ran")
	}
	k.sound()
}

// What somebody else pushed is not overwritten.
func TestPushKeepsOthersCommits(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	remote := k.withRemote()
	k.work("T1", map[string]string{"a": "2\n"})
	first := k.tip("T1")
	push := Push{Task: "T1", Remote: remote, Commit: first}
	must.Succeed(t, k.Push(t.Context(), push))
	clone := filepath.Join(newDir(t), "clone")
	gitRun(t, k.dir, "clone", "--quiet", "-b", "signalbox/T1", remote, clone)
	gitRun(t, clone, "commit", "--quiet",
		"--allow-empty", "-m", "of ann")
	gitRun(t, clone, "push", "--quiet")
	theirs := gitRun(t, clone, "rev-parse", "HEAD")
	k.work("T1", map[string]string{"a": "3\n"})
	push.Commit, push.Last = k.tip("T1"), first
	if err := k.Push(t.Context(), push); err == nil || signalbox.HintOf(err) == "" ||
		!strings.Contains(err.Error(), theirs[:12]) {
		t.Errorf("error %v", err)
	}
	wantRef(t, remote, "refs/heads/signalbox/T1", theirs)
}

// A push that fails does not make the next one forget what the remote has.
func TestPushFails(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	remote := k.withRemote()
	var squashed []string
	for _, text := range []string{"2\n", "3\n", "4\n"} {
		k.work("T1", map[string]string{"a": text})
		commit, err := k.DeliveryCommit(t.Context(), Delivery{Task: "T1", Commit: k.tip("T1"),
			Base: k.base(), Squash: true, Message: "T1: all"})
		must.Succeed(t, err)
		squashed = append(squashed, commit)
	}
	push := func(i int) error { return k.Push(t.Context(), Push{Task: "T1", Remote: remote, Commit: squashed[i]}) }
	must.Succeed(t, push(0))
	refuse := func(yes string) { gitRun(t, remote, "config", "receive.denyNonFastForwards", yes) }
	refuse("true")
	if err := push(1); err == nil {
		t.Fatal("it was pushed")
	}
	refuse("false")
	wantRef(t, remote, "refs/heads/signalbox/T1", squashed[0])
	// it took place nevertheless
	gitRun(t, k.dir, "push", "--quiet", "--force", remote, squashed[1]+":refs/heads/signalbox/T1")
	must.Succeed(t, push(2))
	wantRef(t, remote, "refs/heads/signalbox/T1", squashed[2])
	// somebody went back
	gitRun(t, k.dir, "push", "--quiet", "--force", remote, squashed[0]+":refs/heads/signalbox/T1")
	if err := push(1); err == nil {
		t.Error("what somebody pushed was overwritten")
	}
	gitRun(t, k.dir, "push", "--quiet", "--force", remote, squashed[2]+":refs/heads/signalbox/T1")
	refuse("true")
	if err := push(0); err == nil {
		t.Fatal("it was pushed")
	}
	refuse("false")
	if err := push(1); err != nil { // the branch is still where it was before the push that failed
		t.Fatal(err)
	}
	wantRef(t, remote, "refs/heads/signalbox/T1", squashed[1])
}

func TestRemoteAddresses(t *testing.T) {
	k := newKit(t, map[string]string{"a": "1\n"})
	gitRun(t, k.dir, "remote", "add", "evil", "ext::touch "+filepath.Join(k.dir, "pwned"))
	gitRun(t, k.dir, "config", "remote.option.url", "--upload-pack=touch")
	gitRun(t, k.dir, "remote", "add", "two", "https://example.org/fetch")
	gitRun(t, k.dir, "remote", "set-url", "--push", "two", "https://example.org/push")
	// A push to a folder would run the hooks there.
	folder := filepath.Join(newDir(t), "folder.git")
	gitRun(t, k.dir, "remote", "add", "folder", folder)
	gitRun(t, k.dir, "remote", "add", "relative", "folder.git")
	gitRun(t, k.dir, "remote", "add", "colon", "./a:b")
	gitRun(t, k.dir, "remote", "add", "file", "file://"+filepath.ToSlash(folder))
	gitRun(t, k.dir, "remote", "add", "scp", "git@example.org:shop.git")
	gitRun(t, k.dir, "config", "remote."+folder+"/shadowed.url", folder)
	k.find()
	for _, name := range []string{"evil", "option", "missing", "ext::date", "folder", "relative",
		"colon", "file", folder + "/shadowed"} {
		if address, err := k.Remote(name); err == nil {
			t.Errorf("%s is %s", name, address)
		}
	}
	for name, want := range map[string]string{"two": "https://example.org/push",
		"https://example.org/x": "https://example.org/x", "scp": "git@example.org:shop.git",
		folder: folder, "file:///a": "file:///a"} {
		if address, err := k.Remote(name); err != nil || address != want {
			t.Errorf("%s is %s: %v", name, address, err)
		}
	}
	// Not even if the address gets past the check, and the user allows it.
	config := filepath.Join(newDir(t), "config")
	write(t, filepath.Dir(config),
		map[string]string{"config": "[protocol \"ext\"]\nallow = always\n"})
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	err := k.Push(t.Context(), Push{Task: "T1", Remote: "ext::touch " +
		filepath.Join(k.dir, "pwned"), Commit: k.base()})
	if err == nil {
		t.Error("it was pushed")
	}
	if _, err := os.Stat(filepath.Join(k.dir, "pwned")); err == nil {
		t.Error("the command of an address ran")
	}
}

func TestFetchAndFastForward(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	remote := k.withRemote()
	clone := filepath.Join(newDir(t), "clone")
	gitRun(t, k.dir, "clone", "--quiet", remote, clone)
	write(t, clone, map[string]string{"a": "2\n"})
	gitRun(t, clone, "commit", "--quiet",
		"-am", "of ann")
	gitRun(t, clone, "push", "--quiet")
	theirs := gitRun(t, clone, "rev-parse", "HEAD")
	commit, err := k.Fetch(t.Context(), remote)
	if err != nil || commit != theirs {
		t.Fatalf("fetched %s: %v", commit, err)
	}
	for range 2 {
		if err := k.FastForward(t.Context(), "T1", commit); err != nil {
			t.Fatal(err)
		}
		wantRef(t, k.dir, "refs/heads/main", theirs)
		wantFiles(t, k.dir, map[string]string{"a": "2\n"})
	}
	k.sound()
	write(t, k.dir, map[string]string{"b": "mine\n"})
	mine := k.commit("of mine")
	write(t, clone, map[string]string{"a": "3\n"})
	gitRun(t, clone, "commit", "--quiet",
		"-am", "of ann too")
	gitRun(t, clone, "push", "--quiet")
	if commit, err = k.Fetch(t.Context(), remote); err != nil {
		t.Fatal(err)
	}
	if err := k.FastForward(t.Context(), "T1", commit); !errors.Is(err, ErrDiverged) {
		t.Errorf("error %v", err)
	}
	wantRef(t, k.dir, "refs/heads/main", mine)
}

// A delivery can be repeated: it makes the same commit, with one parent and the work as its
// content.
func TestDeliveryCommit(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	base := k.base()
	k.work("T1", map[string]string{"a": "2\n"})
	k.work("T1", map[string]string{"b": "2\n"})
	tip := k.tip("T1")
	d := Delivery{Task: "T1", Commit: tip, Base: base,
		Message: CommitText("T1: two files", "Says 2.\nSignalbox-Task: T9")}
	if commit, err := k.DeliveryCommit(t.Context(), d); err != nil || commit != tip {
		t.Fatalf("%s: %v", commit, err)
	}
	d.Squash = true
	var commits []string
	for range 2 {
		commit, err := k.DeliveryCommit(t.Context(), d)
		must.Succeed(t, err)
		commits = append(commits, commit)
	}
	if commits[0] != commits[1] || commits[0] == tip {
		t.Errorf("commits %q", commits)
	}
	if got, want := gitRun(t, k.dir, "log", "-1", "--format=%P%n%B%n%(trailers:only)", commits[0]),
		base+"\nT1: two files\n\nSays 2.\n  Signalbox-Task: T9\n\nSignalbox-Task: T1\nSignalbox-Tip: "+tip+"\n\nSignalbox-Task: T1\nSignalbox-Tip: "+tip; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if out := gitRun(t, k.dir, "diff", "--stat", tip, commits[0]); out != "" {
		t.Errorf("it has other content:\n%s", out)
	}
	wantRef(t, k.dir, deliveredPrefix+"T1", commits[0])

	must.Succeed(t, k.CloseDelivered(t.Context(), "T1", tip, commits[0]))
	wantRef(t, k.dir, "refs/heads/signalbox/T1", commits[0])
	if _, err := os.Stat(filepath.Join(k.folder, "T1")); err == nil {
		t.Error("the worktree is still there")
	}
	gitRun(t, k.dir, "branch", "--force", "signalbox/T1", base) // by a person
	must.Succeed(t, k.CloseDelivered(t.Context(), "T1", tip, commits[0]))
	wantRef(t, k.dir, "refs/heads/signalbox/T1", base)
	k.sound()
}

func TestSquashedMerge(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	base := k.base()
	k.work("T1", map[string]string{"a": "2\n"})
	k.work("T1", map[string]string{"b": "2\n"})
	merged, err := k.Repo.Merge(t.Context(), MergeRequest{Task: "T1", Commit: k.tip("T1"),
		Base: base, Message: "T1: both", Squash: true})
	must.Succeed(t, err)
	if got := strings.TrimSpace(gitRun(t, k.dir, "log", "-1", "--format=%P %s",
		merged.Commit)); got != base+" T1: both" {
		t.Errorf("commit %q", got)
	}
	wantFiles(t, k.dir, map[string]string{"a": "2\n", "b": "2\n"})
	must.Succeed(t, k.Close(t.Context(), "T1"))
	k.sound()
}

func TestStack(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	base := k.base()
	k.work("T1", map[string]string{"b": "1\n"})
	k.work("T2", map[string]string{"c": "1\n"})
	k.work("T3", map[string]string{"b": "2\n"})
	one, two, three := k.tip("T1"), k.tip("T2"), k.tip("T3")
	for want, commits := range map[string][]string{base: {base}, one: {base, one}} {
		if got, err := k.Stack(t.Context(), base, commits); got != want || err != nil {
			t.Errorf("%q: %s, %v", commits, got, err)
		}
	}
	both, err := k.Stack(t.Context(), base, []string{one, two})
	must.Succeed(t, err)
	if again, err := k.Stack(t.Context(), base, []string{one, two, one}); again != both ||
		err != nil {
		t.Errorf("%s, then %s: %v", both, again, err)
	}
	k.wantScratch("X", both, map[string]string{"a": "1\n", "b": "1\n", "c": "1\n"})
	if _, err := k.Stack(t.Context(), base, []string{one, three}); err == nil {
		t.Error("a conflict is not reported")
	}
}

func TestCommitText(t *testing.T) {
	for _, of := range []struct{ title, summary, want string }{
		{"T1: add", "", "T1: add"},
		{"T1: a\nb\x1b[31m", "one\r\n\r\n\r\ntwo  \n", "T1: a b\ufffd[31m\n\none\n\ntwo"},
		{"T1", "Signalbox-Task: T9\nsigned-off-by : x\n---\nCo-authored-by: me\n(cherry picked from commit 1)\nFrom x\nplain text: fine",
			"T1\n\n  Signalbox-Task: T9\n  signed-off-by : x\n  ---\n  Co-authored-by: me\n  (cherry picked from commit 1)\n  From x\nplain text: fine"},
	} {
		if got := CommitText(of.title, of.summary); got != of.want {
			t.Errorf("%q, %q: %q, want %q", of.title, of.summary, got, of.want)
		}
	}
	long := CommitText(strings.Repeat("é", 1000), strings.Repeat("é", 100_000))
	if title, body, _ := strings.Cut(long, "\n\n"); len([]rune(title)) != maxSubject ||
		len([]rune(body)) != maxSummary {
		t.Errorf("a title of %d and a body of %d characters", len([]rune(title)), len([]rune(body)))
	}
}

func TestUseBase(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	if err := k.UseBase(t.Context(), "release"); signalbox.CodeOf(err) != signalbox.CodeNotFound {
		t.Errorf("error %v", err)
	}
	gitRun(t, k.dir, "branch", "release")
	must.Succeed(t, k.UseBase(t.Context(), "release"))
	k.work("T1", map[string]string{"a": "2\n"})
	merged, err := k.Repo.Merge(t.Context(), MergeRequest{Task: "T1", Commit: k.tip("T1"),
		Base: k.base()})
	must.Succeed(t, err)
	wantRef(t, k.dir, "refs/heads/release", merged.Commit)
	wantFiles(t, k.dir, map[string]string{"a": "1\n"})
	k.sound()
}

// The commits that are made for a delivery have the time of the work, so that they are the same
// whenever they are made.
func TestDeliveryHasTheTimeOfTheWork(t *testing.T) {
	// of the gits in this test, not of those that the package starts
	t.Setenv("GIT_COMMITTER_DATE", "2020-01-01T00:00:00Z")
	k := newKit(t, map[string]string{"a": "1\n"})
	base := k.base()
	k.work("T1", map[string]string{"b": "1\n"})
	k.work("T2", map[string]string{"c": "1\n"})
	old := func(task string) string {
		return strings.TrimSpace(gitRun(t, k.dir, "commit-tree", "-p", base, "-m", "old",
			k.tip(task)+"^{tree}"))
	}
	one, two := old("T1"), old("T2")
	squashed, err := k.DeliveryCommit(t.Context(), Delivery{Task: "T1", Commit: one, Base: base,
		Squash: true, Message: "T1"})
	must.Succeed(t, err)
	stack, err := k.Stack(t.Context(), base, []string{one, two})
	must.Succeed(t, err)
	for _, commit := range []string{squashed, stack} {
		if got := strings.TrimSpace(gitRun(t, k.dir, "log", "-1", "--format=%at %ct",
			commit)); got != "1577836800 1577836800" {
			t.Errorf("%s is of %s", commit, got)
		}
	}
}
