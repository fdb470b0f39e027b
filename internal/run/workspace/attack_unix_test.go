//go:build !windows

package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/config"
	"signalbox/internal/git"
	"signalbox/internal/testkit/must"
)

// attack plants a command in every place where git looks for one. Each leaves a mark of its own.
type attack struct {
	*kit
	marks string // a folder
	mu    sync.Mutex
	ran   map[string]bool // the git commands that the package ran
}

func newAttack(t *testing.T) *attack {
	a := &attack{kit: newKit(t, map[string]string{"a.txt": "1\n", "b.txt": "1\n"}),
		ran: map[string]bool{}}
	a.marks = filepath.Join(filepath.Dir(a.dir), "marks")
	must.Succeed(t, os.Mkdir(a.marks, 0o700))
	a.record(a.Repo)
	return a
}

// record notes which git commands a Repo runs.
func (a *attack) record(repo *Repo) {
	repo.started = func(args []string) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ran[args[0]] = true
	}
}

// command returns a shell command that leaves a mark, and works as a filter. It needs no PATH.
func (a *attack) command(mark string) string {
	return ": > '" + filepath.Join(a.marks, strings.ReplaceAll(mark, " ", "-")) + "'; /bin/cat"
}

// found returns the marks, and removes them.
func (a *attack) found() (marks []string) {
	a.t.Helper()
	entries, err := os.ReadDir(a.marks)
	must.Succeed(a.t, err)
	for _, entry := range entries {
		marks = append(marks, entry.Name())
		must.Succeed(a.t, os.Remove(filepath.Join(a.marks, entry.Name())))
	}
	return marks
}

func (a *attack) script(name, mark string) {
	a.t.Helper()
	text := "#!/bin/sh\n" + a.command(mark) + "\n"
	must.Succeed(a.t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o700),
		os.WriteFile(name, []byte(text), 0o700), os.Chmod(name, 0o700)))
}

// evilSettings name a command CMD, or make git run one.
var evilSettings = map[string]string{
	"core.fsmonitor": "CMD", "core.sshCommand": "CMD", "core.pager": "CMD", "core.editor": "CMD",
	"core.gitProxy": "CMD",
	"core.askPass":  "CMD", "core.alternateRefsCommand": "CMD", "core.attributesFile": "ATTRIBUTES",
	"credential.helper": "!CMD",
	"diff.external":     "CMD", "diff.x.textconv": "CMD", "diff.x.command": "CMD",
	"diff.submodule": "log", "diff.orderFile": "/dev/null",
	"merge.x.driver": "CMD", "merge.default": "x", "merge.renames": "true", "filter.x.clean": "CMD",
	"filter.x.smudge": "CMD", "filter.x.process": "CMD",
	"filter.y.clean": "CMD", "filter.y.smudge": "CMD", "filter.y.required": "true",
	"filter.lfs.clean": "CMD", "filter.lfs.smudge": "CMD",
	"gpg.program": "CMD", "gpg.ssh.program": "CMD", "gpg.x509.program": "CMD",
	"commit.gpgSign": "true", "tag.gpgSign": "true",
	"log.showSignature": "true", "gpg.ssh.defaultKeyCommand": "CMD", "user.signingKey": "x",
	"uploadpack.packObjectsHook": "CMD", "remote.origin.url": "ext::CMD",
	"remote.origin.uploadpack": "CMD", "remote.origin.vcs": "x",
	"remote.origin.promisor": "true", "protocol.allow": "always", "protocol.ext.allow": "always",
	"url.ext::CMD.insteadOf": "https://",
	"submodule.sub.update":   "!CMD", "submodule.sub.active": "true", "submodule.recurse": "true",
	"submodule.sub.ignore": "none", "fetch.recurseSubmodules": "true",
	"status.submoduleSummary": "true", "status.showUntrackedFiles": "all",
	"diff.ignoreSubmodules":  "none",
	"interactive.diffFilter": "CMD", "sequence.editor": "CMD", "gc.recentObjectsHook": "CMD",
	"gc.auto": "1", "gc.autoDetach": "false", "maintenance.auto": "true",
	"trailer.Signalbox-Task.command": "CMD", "trailer.x.cmd": "CMD", "pager.status": "CMD",
	"pager.log": "CMD", "pager.diff": "CMD",
	"hook.x.command": "CMD", "hook.x.event": "reference-transaction", "hook.y.command": "CMD",
	"hook.y.event":   "post-index-change",
	"core.hooksPath": "HOOKS", "init.templateDir": "HOOKS", "man.x.cmd": "CMD",
	"browser.x.cmd": "CMD", "tar.x.command": "CMD",
	"alias.status": "!CMD", "alias.read-tree": "!CMD", "alias.update-ref": "!CMD",
	"bundle.uri": "ext::CMD", "transfer.bundleURI": "true",
	"core.untrackedCache": "true", "core.splitIndex": "true", "index.sparse": "true",
	"rerere.enabled": "true", "core.virtualFilesystem": "CMD",
}

// evilConfig returns the text of a configuration file with all of evilSettings.
func (a *attack) evilConfig(place string) string {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(evilSettings)) {
		dot, last := strings.Index(key, "."), strings.LastIndex(key, ".")
		section := key[:dot]
		if last > dot {
			section += " " + strconv.Quote(key[dot+1:last])
		}
		value := strings.NewReplacer("CMD", a.command(place+" "+key), "HOOKS", a.hooks(),
			"ATTRIBUTES", filepath.Join(a.marks, "..", "attributes")).Replace(evilSettings[key])
		text.WriteString("[" + section + "]\n\t" + key[last+1:] + " = " + strconv.Quote(value) +
			"\n")
	}
	return text.String()
}

// hooks returns a folder with all hooks.
func (a *attack) hooks() string { return filepath.Join(filepath.Dir(a.marks), "hooks") }

var hookNames = strings.Fields(`applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit
	pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update reference-transaction
	push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman post-index-change`)

const evilAttributes = "* filter=x diff=x merge=x\n*.txt filter=y\n*.bin filter=lfs\n"

// plant plants commands in the shared git folder and in the worktree.
func (a *attack) plant(tree *Tree) {
	t := a.t
	t.Helper()
	common := filepath.Join(a.dir, ".git")
	for _, hook := range hookNames {
		a.script(filepath.Join(a.hooks(), hook), "hooksPath "+hook)
		a.script(filepath.Join(common, "hooks", hook), "hooks "+hook)
		a.script(filepath.Join(tree.gitDir, "hooks", hook), "worktree hooks "+hook)
	}
	write(t, filepath.Dir(a.marks), map[string]string{"attributes": evilAttributes,
		"included": a.evilConfig("included")})
	appendTo(t, filepath.Join(common, "config"), a.evilConfig("config")+"[include]\n\tpath = "+
		filepath.Join(filepath.Dir(a.marks), "included")+
		"\n[extensions]\n\tworktreeConfig = true\n")
	write(t, common, map[string]string{"config.worktree": a.evilConfig("config.worktree"),
		"info/attributes": evilAttributes, "info/exclude": "hidden\n"})
	write(t, tree.gitDir,
		map[string]string{"config.worktree": a.evilConfig("worktrees config.worktree"),
			"info/attributes": evilAttributes,
			"config":          a.evilConfig("worktrees config")})
	a.plantIn(tree.Dir)
}

// plantIn plants commands in the files of a worktree: attributes, a submodule, a repository of
// another kind in it, and programs with the names of git's own.
func (a *attack) plantIn(dir string) {
	t := a.t
	t.Helper()
	plain := func(dir string, args ...string) { // git without the traps that are already set
		t.Helper()
		gitRun(t, dir, append([]string{"-c", "core.hooksPath=/dev/null", "-c",
			"core.fsmonitor=false", "-c", "commit.gpgSign=false", "-c", "gc.auto=0", "-c",
			"core.splitIndex=false"}, args...)...)
	}
	sub := filepath.Join(dir, "sub")
	plain(filepath.Dir(a.marks), "init", "--quiet", "--template=", sub)
	write(t, sub, map[string]string{"s.txt": "1\n"})
	plain(sub, "add", "-A")
	plain(sub, "commit", "--quiet", "-m", "sub")
	appendTo(t, filepath.Join(sub, ".git", "config"), a.evilConfig("submodule"))
	for _, hook := range hookNames {
		a.script(filepath.Join(sub, ".git", "hooks", hook), "submodule hooks "+hook)
	}
	write(t, sub, map[string]string{".git/info/attributes": evilAttributes, "s.txt": "2\n",
		"new.txt": "new\n"})
	write(t, dir, map[string]string{".gitattributes": evilAttributes, "a.txt": "changed\n",
		"c.txt": "new\n", "d.bin": "new\n",
		".gitmodules": "[submodule \"sub\"]\n\tpath = sub\n\turl = ext::" +
			a.command("gitmodules url") + "\n\tfetchRecurseSubmodules = true\n\tignore = none\n",
		"bare.git/HEAD": "ref: refs/heads/main\n", "bare.git/config": a.evilConfig("bare"),
		"bare.git/objects/x": "x", "bare.git/refs/x": "x", "hidden": "x\n"})
	for _, name := range []string{"git", "sh", "git-remote-ext", "git-lfs", "cat", "less"} {
		a.script(filepath.Join(dir, name), "program "+name)
	}
	// Without config and filters, as the submodule would be recorded by an agent.
	head := gitRun(t, sub, "-c", "core.fsmonitor=false", "rev-parse", "HEAD")
	plain(dir, "update-index", "--add", "--cacheinfo", "160000,"+head+",sub")
}

func appendTo(t *testing.T, name, text string) {
	t.Helper()
	file, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString(text)
		err = errors.Join(err, file.Close())
	}
	must.Succeed(t, err)
}

// No operation runs a command that an agent planted, wherever it planted it.
func TestPlantedCommands(t *testing.T) {
	a := newAttack(t)
	ctx := t.Context()
	for _, name := range []string{"GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_PAGER", "GIT_EDITOR",
		"GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_SEQUENCE_EDITOR"} {
		t.Setenv(name, a.command("environment "+name))
	}
	// The submodules that two agents plant are then the same commit, which signalbox finds in the
	// checkout and puts into worktrees.
	t.Setenv("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z")
	t.Setenv("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
	start, tree := a.base(), a.open("T1")
	a.open("T2")
	other := a.open("T3")
	a.plant(tree)
	a.plantIn(other.Dir)
	appendTo(t, filepath.Join(other.Dir, "a.txt"), "other\n")

	armed := exec.Command("git", "-C", tree.Dir, "status")
	armed.Env = append(slices.DeleteFunc(os.Environ(),
		func(v string) bool { return strings.HasPrefix(v, "GIT_") }), "GIT_CONFIG_GLOBAL=/dev/null")
	if out, err := armed.CombinedOutput(); err != nil {
		t.Logf("git status: %v\n%s", err, out)
	}
	marks := strings.Join(a.found(), " ")
	for _, want := range []string{"-core.fsmonitor", "-filter.", "submodule-"} {
		if !strings.Contains(marks, want) {
			t.Fatalf("the traps are not armed: %s is missing in %s", want, marks)
		}
	}

	var saved string
	var bundle bytes.Buffer
	check := func(context.Context, string) error { return nil }
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"find", func() error {
			repo, err := Find(ctx, a.dir, a.folder)
			if err != nil {
				return err
			}
			a.Repo = repo
			a.record(repo)
			return repo.inspect(ctx, nil)
		}},
		{"base commit", func() error { _, err := a.BaseCommit(ctx); return err }},
		{"tasks", func() error { _, err := a.Tasks(ctx); return err }},
		{"open", func() (err error) { tree, err = a.Open(ctx, "T1"); return err }},
		{"save", func() (err error) { saved, _, err = tree.Save(ctx, "mine"); return err }},
		{"save nothing", func() error { _, _, err := tree.Save(ctx, "mine"); return err }},
		{"hide and save", func() error {
			gitRun(t, tree.Dir, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
				"-c", "core.splitIndex=false", "update-index", "--skip-worktree", "a.txt")
			gitRun(t, tree.Dir, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
				"-c", "core.splitIndex=false", "update-index", "--skip-worktree", "b.txt")
			a.found()
			write(t, tree.Dir, map[string]string{"a.txt": "hidden\n", "b.txt": ""})
			_, _, err := tree.Save(ctx, "hidden")
			return err
		}},
		{"save on another branch", func() error {
			gitRun(t, tree.Dir, "-c", "core.hooksPath=/dev/null", "symbolic-ref", "HEAD",
				"refs/heads/feature")
			gitRun(t, tree.Dir, "-c", "core.hooksPath=/dev/null", "update-ref",
				"refs/heads/feature", saved)
			a.found()
			write(t, tree.Dir, map[string]string{"e.txt": "elsewhere\n"})
			_, _, err := tree.Save(ctx, "elsewhere")
			return err
		}},
		{"commit", func() error { _, err := tree.Commit(ctx); return err }},
		{"changed", func() error { _, err := tree.changed(ctx); return err }},
		{"protected edits", func() error {
			_, err := a.ProtectedEdits(ctx, start, saved, &config.Config{Protected: []string{"**"}})
			return err
		}},
		{"branch commit", func() error { _, err := a.BranchCommit(ctx, "T1"); return err }},
		{"scratch", func() error {
			scratch, err := a.OpenScratch(ctx, "T1", saved)
			if err != nil {
				return err
			}
			return scratch.Close()
		}},
		{"merge", func() error { _, err := a.Merge(ctx, "T1", "", check); return err }},
		{"landed", func() error { _, err := a.Landed(ctx, saved); return err }},
		{"commits", func() error {
			if added, _ := a.CommitsBetween(ctx, start, saved); len(added) == 0 {
				return errors.New("there are none")
			}
			return nil
		}},
		{"refresh", func() error { other, err := a.Open(ctx, "T2"); return errors.Join(err, refresh(ctx, other)) }},
		{"save and refresh", func() error {
			if _, _, err := other.Save(ctx, "other"); err != nil {
				return err
			}
			return refresh(ctx, other)
		}},
		{"resolve a conflict", func() error {
			ours := a.work("T5", map[string]string{"b.txt": "task\n"})
			theirs, err := a.Open(ctx, "T6")
			write(t, theirs.Dir, map[string]string{"b.txt": "base\n"})
			base, _, saveErr := theirs.Save(ctx, "base")
			conflict, refreshErr := ours.Refresh(ctx, base)
			if err := errors.Join(err, saveErr, refreshErr); err != nil || conflict == nil {
				return fmt.Errorf("%v, %w", conflict, err)
			}
			draft, err := a.Draft(ctx, conflict, protects("b.txt"))
			if err != nil {
				return err
			}
			if err := ours.Advance(ctx, draft); err != nil {
				return err
			}
			commit, left, err := a.ResolveConflict(ctx, "T5", Conflict{conflict.Ours, base, draft},
				draft, base)
			if len(left) > 0 || commit == draft {
				return fmt.Errorf("%s, unresolved %q", commit, left)
			}
			a.CommitsOn(ctx, conflict)
			return errors.Join(err, a.Close(ctx, "T5"), a.Close(ctx, "T6"))
		}},
		{"finish a move", func() error {
			here, err := tree.Commit(ctx)
			// the beginning of the other version
			write(t, tree.Dir, map[string]string{"a.txt": "1"})
			err = errors.Join(err, tree.recordMove(moving{From: here, To: start, Branch: here}))
			if err == nil {
				tree, err = a.Open(ctx, "T1")
			}
			return err
		}},
		{"merge over a local change", func() error {
			// The checkout has the submodule too, and a change of its own.
			sub := filepath.Join(a.dir, "sub")
			if err := errors.Join(os.RemoveAll(sub),
				os.CopyFS(sub, os.DirFS(filepath.Join(other.Dir, "sub"))),
				os.WriteFile(filepath.Join(a.dir, "c.txt"), []byte("local\n"), 0o600)); err != nil {
				return err
			}
			if err := a.inspect(ctx, nil); err == nil { // the change is refused
				return errors.New("the checkout is clean")
			}
			a.work("T4", map[string]string{"c.txt": "theirs\n", "f.txt": "1\n"})
			_, err := a.Merge(ctx, "T4", "", check)
			return err
		}},
		{"push and fetch", func() error {
			top := newDir(t)
			remote, clone := filepath.Join(top, "remote.git"), filepath.Join(top, "clone")
			gitRun(t, top, "init", "--quiet", "--bare", "--template=", remote)
			if err := a.Push(ctx, Push{Task: "T1", Remote: remote, Commit: saved}); err != nil {
				return err
			}
			gitRun(t, top, "clone", "--quiet", "-b", Branch("T1"), remote, clone)
			gitRun(t, clone, "checkout", "--quiet", "-b", a.Base)
			gitRun(t, clone, "commit", "--quiet", "--allow-empty", "-m", "theirs")
			gitRun(t, clone, "push", "--quiet", "origin", a.Base)
			_, err := a.Fetch(ctx, remote)
			return err
		}},
		{"review", func() error {
			review, err := OpenReview(ctx, a.dir, a.folder)
			if err != nil {
				return err
			}
			defer review.Close()
			a.record(review.repo)
			write(t, tree.Dir, map[string]string{"new.txt": "not saved\n"})
			var diff strings.Builder
			_, err = review.WorkingBase(ctx, "T1", start, start)
			err = errors.Join(err, review.DiffWorking(ctx, &diff, "T1", saved, DiffOptions{}),
				review.Diff(ctx, io.Discard, start, saved, DiffOptions{}),
				review.Diff(ctx, io.Discard, start, saved, DiffOptions{Stat: true}))
			if err == nil && !strings.Contains(diff.String(), "+not saved") {
				err = fmt.Errorf("the new file is missing in:\n%s", diff.String())
			}
			return err
		}},
		{"discard", func() error { return tree.Discard(ctx, saved) }},
		{"bundle", func() error {
			files := map[string]string{}
			for i := range smallPack {
				files[fmt.Sprintf("many/%d", i)] = fmt.Sprintln(i)
			}
			commit, err := a.work("T5", files).Commit(ctx)
			if err != nil {
				return err
			}
			many := new(bytes.Buffer)
			if err := a.WriteBundle(ctx, many,
				Bundle{Commits: []string{commit}, Needs: []string{start},
					Branch: a.Base}); err != nil {
				return err
			}
			if err := a.ReadBundle(ctx, many, commit, []string{start}); err != nil {
				return err
			}
			return a.WriteBundle(ctx, &bundle,
				Bundle{Commits: []string{saved}, Needs: []string{start}, Branch: a.Base})
		}},
		{"read the bundle", func() error {
			return a.ReadBundle(ctx, &bundle, saved, []string{start})
		}},
		{"share", func() error {
			shared := SharedRef{filepath.Join(newDir(t), "remote.git"), "b-1", "T1", saved}
			gitRun(t, filepath.Dir(shared.Remote), "init", "--quiet", "--bare", "--template=",
				shared.Remote)
			return errors.Join(a.PushShared(ctx, shared), a.FetchShared(ctx, shared),
				a.PruneShared(ctx, shared.Remote, "b-1", start, func(string) bool { return true }))
		}},
		{"open at", func() error { _, err := a.OpenAt(ctx, "T1", start); return err }},
		{"open new", func() error { _, err := a.OpenNew(ctx, "T1"); return err }},
		{"repair", func() error {
			tree, err := a.Open(ctx, "T1")
			if err == nil {
				err = os.Remove(filepath.Join(tree.Dir, ".git"))
			}
			_, again := a.Open(ctx, "T1")
			return errors.Join(err, again)
		}},
		{"close", func() error { return errors.Join(a.Close(ctx, "T1"), a.Close(ctx, "T3")) }},
		{"prune", func() error { return a.Prune(ctx) }},
	} {
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if marks := a.found(); len(marks) > 0 {
			t.Errorf("%s ran commands of the agent: %v", step.name, marks)
		}
	}
	if diff := cmp.Diff(gitCommands(t), slices.Sorted(maps.Keys(a.ran))); diff != "" {
		t.Errorf("git commands of this package (-in the source +in this test), add a step that runs them:\n%s", diff)
	}
}

// refresh merges the base branch into the task's branch.
func refresh(ctx context.Context, tree *Tree) error {
	base, err := tree.repo.BaseCommit(ctx)
	if err != nil {
		return err
	}
	_, err = tree.Refresh(ctx, base)
	return err
}

// gitCommands returns the git commands that the source of this package names: the first string of a
// call of a method that runs git, and the first element of a list of arguments.
func gitCommands(t *testing.T) []string {
	t.Helper()
	builtin := strings.Fields(gitRun(t, ".", "--list-cmds=builtins"))
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	found := map[string]bool{}
	add := func(list []ast.Expr) {
		for _, element := range list {
			if literal, ok := element.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				name, _ := strconv.Unquote(literal.Value)
				if slices.Contains(builtin, name) {
					found[name] = true
				}
				if name != "" { // an input
					return
				}
			}
		}
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		must.Succeed(t, err)
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.CallExpr:
				if method, ok := node.Fun.(*ast.SelectorExpr); ok &&
					slices.Contains(
						[]string{"git", "gitIn", "line", "network", "args"}, method.Sel.Name) {
					add(node.Args)
				}
			case *ast.CompositeLit:
				add(node.Elts)
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(found))
}

// A merge does not write to a folder that an agent has registered as the checkout of the base
// branch.
func TestPlantedCheckout(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n"})
	k.work("T1", map[string]string{".profile": "evil\n"})
	gitRun(t, k.dir, "checkout", "--quiet", "--detach")
	home := filepath.Join(filepath.Dir(k.dir), "home")
	gitRun(t, filepath.Dir(k.dir), "init", "--quiet", "--template=", home)
	write(t, home, map[string]string{"mine": "mine\n"})
	gitRun(t, home, "add", "mine")
	write(t, k.dir, map[string]string{".git/worktrees/evil/gitdir": filepath.Join(home, ".git") +
		"\n", ".git/worktrees/evil/commondir": "../..\n",
		".git/worktrees/evil/HEAD": "ref: refs/heads/main\n"})
	if found, err := k.refs(t.Context(), "main"); err != nil || found["main"].checkout != home {
		t.Fatalf("the attack does not work: %+v, %v", found, err)
	}
	if _, err := k.Merge(t.Context(), "T1", "", noCheck); err != nil {
		t.Error(err)
	}
	wantFiles(t, home, map[string]string{"mine": "mine\n"})
}

// A repository whose files need a filter is refused, because git would commit them without it.
func TestFilters(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", "secrets/key": "1\n",
		".gitattributes": "secrets/** filter=crypt\n"})
	k.find() // nothing defines the filter, so the user's git does not run it either
	gitRun(t, k.dir, "config", "filter.crypt.clean", "cat")
	_, err := Find(t.Context(), k.dir, k.folder)
	mustRefuse(t, err, "secrets/key in "+k.dir+
		" needs the git filter crypt; signalbox runs no filters, because an agent could replace them",
		"remove the filter from .gitattributes, or set workspace: shared in signalbox.yaml")
}

// Files outside the worktree are not touched through a link that an agent has put in it or in the
// git folder.
func TestLinksOutOfTheWorktree(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", "docs/x": "1\n", "docs/y": "1\n"})
	home := filepath.Join(filepath.Dir(k.dir), "home")
	files := map[string]string{"x": "1\n", "y": "1\n", "profile": "mine\n"}
	write(t, home, files)
	tree := k.open("T1")
	write(t, k.dir, map[string]string{"docs/x": ""})
	removed := k.commit("remove")
	before, err := tree.Commit(t.Context())
	must.Succeed(t, errors.Join(err, os.RemoveAll(filepath.Join(tree.Dir, "docs")),
		os.Symlink(home, filepath.Join(tree.Dir, "docs")),
		os.Symlink(filepath.Join(home, "profile"), filepath.Join(k.dir, ".git", indexCopy)),
		tree.recordMove(moving{From: before, To: removed, Branch: before})))
	if _, err := k.Open(t.Context(), "T1"); err != nil { // it finishes the move file by file
		t.Error(err)
	}
	wantFiles(t, home, files)
	k.work("T2", map[string]string{"a": "2\n"})
	if _, err := k.Merge(t.Context(), "T2", "", noCheck); err != nil {
		t.Error(err)
	}
	wantFiles(t, home, files)
	wantFiles(t, k.dir, map[string]string{"a": "2\n", "docs/y": "1\n"})
}

// A pipe in a worktree, or a git that takes too long there, is for an agent to clean up. Nothing
// waits forever.
func TestPipesInAWorktree(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "1\n", "sub/b": "1\n"})
	k.repository.Limit = time.Minute
	tree := k.open("T1")
	start, err := tree.Commit(t.Context())
	must.Succeed(t, err)
	for _, name := range []string{"sub/.gitignore", "sub/.gitattributes"} {
		must.Succeed(t, syscall.Mkfifo(filepath.Join(tree.Dir, filepath.FromSlash(name)),
			0o600))
		if _, _, err := tree.Save(t.Context(), "x"); !NeedsAgent(err) ||
			!strings.Contains(err.Error(), name+" is not a regular file") {
			t.Errorf("save with %s: %v", name, err)
		}
		if err := tree.Discard(t.Context(), start); err != nil {
			t.Errorf("discard with %s: %v", name, err)
		}
		if _, _, err := tree.Save(t.Context(), "x"); err != nil {
			t.Errorf("save after %s: %v", name, err)
		}
	}
	k.repository.Limit = time.Nanosecond
	if _, _, err := tree.Save(t.Context(), "x"); !NeedsAgent(err) ||
		!errors.Is(err, git.ErrTooLong) {
		t.Errorf("with a limit: %v", err)
	}
	if _, err := k.refs(t.Context()); NeedsAgent(err) || !errors.Is(err, git.ErrTooLong) {
		t.Errorf("with a limit, in the repository: %v", err)
	}
}
