//go:build !windows

package git

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// user runs git as a user would, not through the package.
func user(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git",
		append([]string{"-c", "user.name=somebody", "-c", "user.email=somebody@localhost"},
			args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, name, text string) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o700))
	must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
}

// newRepository returns a folder with a repository, and an empty home folder.
func newRepository(t *testing.T) (dir string) {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	must.Succeed(t, err)
	t.Setenv("HOME", filepath.Join(top, "home"))
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(top, "home", ".config"))
	dir = filepath.Join(top, "project")
	user(t, top, "init", "--quiet", "--template=", "-b", "main", dir)
	write(t, filepath.Join(dir, "a"), "1\n")
	user(t, dir, "add", "a")
	user(t, dir, "commit", "--quiet", "-m", "start")
	return dir
}

func locate(t *testing.T, dir string) *Repository {
	t.Helper()
	r, err := Locate(t.Context(), dir)
	if err == nil {
		err = r.UseView(filepath.Join(filepath.Dir(dir), "view"))
	}
	must.Succeed(t, err)
	return r
}

func (r *Repository) output(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := r.Run(t.Context(), Call{Worktree: r.Root, Dir: r.Dir, Args: args, Stdout: &out,
		Stderr: &out})
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), err
}

// An agent cannot make us take another folder for the worktree, or another repository for this one.
func TestLocateRefusesOtherFolders(t *testing.T) {
	for name, attack := range map[string]func(t *testing.T, dir, other string){
		"core.worktree": func(t *testing.T, dir,
			other string) {
			user(t, dir, "config", "core.worktree", other)
		},
		"core.worktree of a repository": func(t *testing.T, dir, other string) {
			user(t, other, "init", "--quiet", "--template=")
			user(t, dir, "config", "core.worktree", other)
		},
		"commondir": func(t *testing.T, dir, other string) {
			user(t, dir, "clone", "--quiet", "--template=", ".", other)
			write(t, filepath.Join(dir, ".git", "commondir"), filepath.Join(other, ".git")+"\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newRepository(t)
			other := filepath.Join(filepath.Dir(dir), "other")
			must.Succeed(t, os.Mkdir(other, 0o700))
			attack(t, dir, other)
			if r, err := Locate(t.Context(), dir); err == nil {
				t.Errorf("found %+v", r)
			}
		})
	}
}

// The main worktree is found from every worktree, even if its git folder is elsewhere.
func TestMainWorktree(t *testing.T) {
	dir := newRepository(t)
	linked := filepath.Join(filepath.Dir(dir), "linked")
	user(t, dir, "worktree", "add", "--quiet", linked)
	if got := locate(t, linked).mainWorktree(t); got != dir {
		t.Errorf("from a linked worktree: %s", got)
	}
	elsewhere := filepath.Join(filepath.Dir(dir), "elsewhere", ".git")
	must.Succeed(t, os.Mkdir(filepath.Dir(elsewhere), 0o700))
	must.Succeed(t, os.Rename(filepath.Join(dir, ".git"), elsewhere))
	replace(t, filepath.Join(dir, ".git"), elsewhere)
	if got := locate(t, dir).mainWorktree(t); got != dir {
		t.Errorf("with a link to the git folder: %s", got)
	}
}

// mainWorktree returns the worktree that has the branch main checked out.
func (r *Repository) mainWorktree(t *testing.T) string {
	t.Helper()
	out, err := r.output(t, "for-each-ref", "--format=%(worktreepath)", "refs/heads/main")
	if err != nil {
		t.Fatal(err, out)
	}
	return r.Worktree(strings.TrimSpace(out))
}

// The view has the object format of the repository.
func TestObjectFormat(t *testing.T) {
	dir := newRepository(t)
	other := filepath.Join(filepath.Dir(dir), "sha256")
	user(t, dir, "init", "--quiet", "--template=", "--object-format=sha256", other)
	user(t, other, "commit", "--quiet", "--allow-empty", "-m", "start")
	if out, err := locate(t, other).output(t, "rev-parse",
		"HEAD"); len(strings.TrimSpace(out)) != 64 || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// Git gets the user's settings for names and line ends, and none that runs a command.
func TestSettings(t *testing.T) {
	dir := newRepository(t)
	write(t, filepath.Join(os.Getenv("HOME"), ".gitconfig"), `
[user]
	name = Ada
[core]
	autocrlf = input
	fsmonitor = evil
	excludesFile = ~/ignored
	symlinks = false
[filter "lfs"]
	clean = evil
[include]
	path = more
`)
	write(t, filepath.Join(os.Getenv("HOME"), "more"), "[core]\n\teol = lf\n\tpager = evil\n")
	user(t, dir, "config", "user.email", "ada@localhost")
	user(t, dir, "config", "core.autocrlf", "true")
	user(t, dir, "config", "core.attributesFile", "evil")
	user(t, dir, "config", "filter.own.process", "evil")
	r := locate(t, dir)
	slices.Sort(r.Settings)
	if diff := cmp.Diff([]string{"core.autocrlf=input", "core.eol=lf",
		"core.excludesfile=~/ignored", "core.filemode=true", "user.email=ada@localhost",
		"user.name=Ada"}, r.Settings); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"lfs", "own"}, r.Filters); diff != "" || !r.Identity {
		t.Errorf("identity %v, filters (-want +got):\n%s", r.Identity, diff)
	}
	out, err := r.output(t, "config", "--list")
	if err != nil || strings.Contains(out, "evil") || strings.Contains(out, "symlinks") {
		t.Errorf("git's configuration: %v\n%s", err, out)
	}
}

// What somebody adds to the view, or changes in it, has no effect.
func TestViewIsRepaired(t *testing.T) {
	dir := newRepository(t)
	r := locate(t, dir)
	view := filepath.Join(filepath.Dir(dir), "view")
	mark := filepath.Join(filepath.Dir(dir), "mark")
	write(t, filepath.Join(view, "config"),
		"[core]\n\tbare = false\n[filter \"x\"]\n\tclean = \": > "+mark+"; /bin/cat\"\n")
	write(t, filepath.Join(view, "info", "attributes"), "* filter=x\n")
	must.Succeed(t, os.Remove(filepath.Join(view, "refs")))
	write(t, filepath.Join(view, "refs", "heads", "main"), "evil\n")
	write(t, filepath.Join(dir, "a"), "2\n")
	write(t, filepath.Join(dir, ".gitattributes"), "* filter=x\n")
	if out, err := r.output(t, "status", "--porcelain", "--untracked-files=no"); out != " M a\n" ||
		err != nil {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("git ran the command in the view")
	}
	entries, err := os.ReadDir(view)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if diff := cmp.Diff([]string{"HEAD", "config", "objects", "packed-refs", "refs", "shallow",
		"worktrees"}, names); diff != "" || err != nil {
		t.Errorf("%v, view (-want +got):\n%s", err, diff)
	}
}

// Even a git command that looks into submodules cannot start another git there.
func TestNoHelpers(t *testing.T) {
	dir := newRepository(t)
	sub, mark := filepath.Join(dir, "sub"), filepath.Join(filepath.Dir(dir), "mark")
	user(t, dir, "init", "--quiet", "--template=", sub)
	write(t, filepath.Join(sub, "s"), "1\n")
	user(t, sub, "add", "s")
	user(t, sub, "commit", "--quiet", "-m", "sub")
	user(t, dir, "-c", "advice.addEmbeddedRepo=false", "add", "sub")
	user(t, dir, "commit", "--quiet", "-m", "sub")
	write(t, filepath.Join(sub, ".git", "info", "attributes"), "* filter=x\n")
	user(t, sub, "config", "filter.x.clean", ": > "+mark+"; /bin/cat")
	write(t, filepath.Join(sub, "s"), "2\n")
	r := locate(t, dir)
	if out, err := r.output(t, "status", "--porcelain", "--ignore-submodules=none"); err == nil {
		t.Errorf("git looked into the submodule: %s", out)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("git ran the submodule's command")
	}
	user(t, dir, "status")
	if _, err := os.Stat(mark); err != nil {
		t.Error("the attack does not work")
	}
}

// Git does not follow links that an agent put in place of the files that git writes.
func TestLinksInGitFolder(t *testing.T) {
	for name, attack := range map[string]func(t *testing.T, dir, profile string){
		"index": func(t *testing.T, dir,
			profile string) {
			replace(t, filepath.Join(dir, ".git", "index"), profile)
		},
		"packed-refs": func(t *testing.T, dir, profile string) {
			replace(t, filepath.Join(dir, ".git", "packed-refs"), profile)
		},
		"log of HEAD": func(t *testing.T, dir, profile string) {
			replace(t, filepath.Join(dir, ".git", "logs", "HEAD"), profile)
		},
		"log of the branch": func(t *testing.T, dir, profile string) {
			replace(t, filepath.Join(dir, ".git", "logs", "refs", "heads", "main"), profile)
		},
		"commondir": func(t *testing.T, dir, profile string) {
			other := filepath.Join(filepath.Dir(dir), "other")
			user(t, dir, "clone", "--quiet", "--bare", "--template=", ".", other)
			write(t, filepath.Join(dir, ".git", "commondir"), other+"\n")
			write(t, filepath.Join(other, "logs", "refs", "heads", "x"), "")
			replace(t, filepath.Join(other, "logs", "refs", "heads", "main"), profile)
		},
		"logs": func(t *testing.T, dir, profile string) {
			write(t, filepath.Join(filepath.Dir(profile), "HEAD"), "")
			replace(t, filepath.Join(dir, ".git", "logs"), filepath.Dir(profile))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newRepository(t)
			user(t, dir, "commit", "--quiet", "--allow-empty", "-m", "two")
			r := locate(t, dir)
			r.Settings = append(r.Settings, "user.name=x; evil", "user.email=x")
			profile := filepath.Join(filepath.Dir(dir), "profiles", "profile")
			write(t, profile, "")
			before := user(t, dir, "rev-parse", "main^")
			attack(t, dir, profile)
			for _, args := range [][]string{{"update-ref", "-m", "evil", "refs/heads/main", before},
				{"update-ref", "-d", "refs/heads/none"},
				{"read-tree", "HEAD"}, {"pack-refs", "--all"}, {"reset", "--quiet", "--hard"}} {
				// it may be refused
				_ = r.Run(t.Context(), Call{Worktree: r.Root, Dir: r.Dir, Args: args})
			}
			entries, err := os.ReadDir(filepath.Dir(profile))
			must.Succeed(t, err)
			for _, entry := range entries {
				if info, err := entry.Info(); err != nil || info.Size() > 0 || entry.IsDir() {
					text, _ := os.ReadFile(filepath.Join(filepath.Dir(profile), entry.Name()))
					t.Errorf("git wrote to %s: %q", entry.Name(), text)
				}
			}
		})
	}
}

// replace puts a link in the place of a file or a folder.
// Git is not run if it would write refs through a link, or wait for the other end of a pipe.
func TestLinksAndPipesStopGit(t *testing.T) {
	for name, attack := range map[string]func(t *testing.T, git string){
		"link to a folder of refs": func(t *testing.T,
			git string) {
			replace(t, filepath.Join(git, "refs", "heads"), t.TempDir())
		},
		"pipe as packed-refs": func(t *testing.T, git string) {
			must.Succeed(t, syscall.Mkfifo(filepath.Join(git, "packed-refs"), 0o600))
		},
		"pipe as .gitignore": func(t *testing.T, git string) {
			must.Succeed(t, syscall.Mkfifo(filepath.Join(filepath.Dir(git), ".gitignore"),
				0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := locate(t, newRepository(t))
			call := Call{Worktree: r.Root, Dir: r.Dir,
				Args: []string{"update-ref", "refs/heads/other", "refs/heads/main"}}
			must.Succeed(t, r.Run(t.Context(), call))
			attack(t, r.Common)
			exit := (*exec.ExitError)(nil)
			if err := r.Run(t.Context(), call); err == nil || errors.As(err, &exit) {
				t.Errorf("git is run: %v", err)
			}
		})
	}
}

// Git is not run in a worktree in which it would wait for the other end of a pipe, wherever that
// is. Other pipes do not matter.
func TestPipesInTheWorktree(t *testing.T) {
	nested := func(t *testing.T, dir string) string {
		user(t, dir, "init", "--quiet", "--template=", "sub/nested")
		write(t, filepath.Join(dir, "sub", "nested", "b"), "1\n")
		user(t, filepath.Join(dir, "sub", "nested"), "add", "b")
		user(t, filepath.Join(dir, "sub", "nested"), "commit", "--quiet", "-m", "nested")
		return filepath.Join(dir, "sub", "nested", ".git")
	}
	pipe := func(t *testing.T, name string) {
		t.Helper()
		must.Succeed(t, os.RemoveAll(name))
		must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must.Succeed(t, syscall.Mkfifo(name, 0o600))
	}
	for name, tt := range map[string]struct {
		attack func(t *testing.T, dir string)
		want   string // what is refused; "" means that git runs
	}{
		".gitignore": {func(t *testing.T,
			dir string) {
			pipe(t, filepath.Join(dir, "sub", "deep", ".gitignore"))
		},
			"sub/deep/.gitignore"},
		".gitattributes": {func(t *testing.T,
			dir string) {
			pipe(t, filepath.Join(dir, "sub", ".gitattributes"))
		},
			"sub/.gitattributes"},
		".git": {func(t *testing.T,
			dir string) {
			pipe(t, filepath.Join(dir, "sub", ".git"))
		}, "sub/.git"},
		"HEAD of a nested repository": {func(t *testing.T,
			dir string) {
			pipe(t, filepath.Join(nested(t, dir), "HEAD"))
		}, "sub/nested/.git"},
		"commondir of a nested repository": {func(t *testing.T, dir string) {
			pipe(t, filepath.Join(dir, "other"))
			replace(t, filepath.Join(nested(t, dir), "commondir"), filepath.Join(dir, "other"))
		}, "sub/nested/.git"},
		"a branch of a nested repository elsewhere": {func(t *testing.T, dir string) {
			git, elsewhere := nested(t, dir), filepath.Join(filepath.Dir(dir), "elsewhere")
			must.Succeed(t, os.Rename(git, elsewhere))
			write(t, git, "gitdir: "+elsewhere+"\n")
			write(t, filepath.Join(elsewhere, "HEAD"), "ref: refs/heads/x\n")
			pipe(t, filepath.Join(elsewhere, "refs", "heads", "x"))
		}, "sub/nested/.git"},
		"another file": {func(t *testing.T,
			dir string) {
			pipe(t, filepath.Join(dir, "sub", "pipe"))
		}, ""},
		"a tracked file": {func(t *testing.T, dir string) { pipe(t, filepath.Join(dir, "a")) },
			""},
		"links": {func(t *testing.T,
			dir string) {
			replace(t, filepath.Join(dir, ".gitignore"), os.DevNull)
		}, ""},
		"a loop of links": {func(t *testing.T,
			dir string) {
			replace(t, filepath.Join(dir, "loop"), ".")
		}, ""},
		"a nested repository": {func(t *testing.T, dir string) { nested(t, dir) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := locate(t, newRepository(t))
			r.Limit = time.Minute // a git that waits is reported, and does not stop the test
			tt.attack(t, r.Root)
			for _, args := range [][]string{{"status", "--porcelain", "--untracked-files=all"},
				{"add", "--all", "--dry-run"}} {
				err := r.Run(t.Context(), Call{Worktree: r.Root, Dir: r.Dir, Args: args})
				if tt.want == "" && (errors.Is(err, ErrSpecialFile) || errors.Is(err, ErrTooLong)) {
					t.Errorf("git %s: %v", args[0], err)
				}
				if tt.want != "" && (!errors.Is(err, ErrSpecialFile) ||
					!strings.HasPrefix(err.Error(), tt.want+" ")) {
					t.Errorf("git %s: %v, want %s", args[0], err, tt.want)
				}
			}
		})
	}
}

// What agents leave in the box, which ignores everything in it, does not keep git from working
// around it. In our own worktrees nothing is overlooked.
func TestPipesInAnIgnoredFolder(t *testing.T) {
	r := locate(t, newRepository(t))
	r.Limit = time.Minute
	write(t, filepath.Join(r.Root, "box", ".gitignore"), "# nothing\n*\n")
	write(t, filepath.Join(r.Root, "box", "state", "x"), "")
	must.Succeed(t, syscall.Mkfifo(filepath.Join(r.Root, "box", "state", ".gitignore"),
		0o600))
	for _, args := range [][]string{{"status", "--porcelain", "--untracked-files=all"},
		{"add", "--all", "--dry-run"}} {
		if err := r.Run(t.Context(), Call{Worktree: r.Root, Dir: r.Dir, Args: args}); err != nil {
			t.Errorf("git %s: %v", args[0], err)
		}
		if err := r.Run(t.Context(), Call{Worktree: r.Root, Dir: r.Dir, Args: args,
			Ours: true}); !errors.Is(err, ErrSpecialFile) {
			t.Errorf("git %s in our own worktree: %v", args[0], err)
		}
	}
}

// A git that does not end is ended.
func TestGitTakesTooLong(t *testing.T) {
	r := locate(t, newRepository(t))
	r.Limit = 10 * time.Millisecond
	input, never, err := os.Pipe()
	must.Succeed(t, err)
	defer input.Close()
	defer never.Close()
	err = r.Run(t.Context(),
		Call{Worktree: r.Root, Dir: r.Dir, Args: []string{"cat-file", "--batch"}, Stdin: input})
	if !errors.Is(err, ErrTooLong) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = r.Run(ctx, Call{Worktree: r.Root, Dir: r.Dir, Args: []string{"cat-file", "--batch"},
		Stdin: input})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func replace(t *testing.T, name, target string) {
	t.Helper()
	must.Succeed(t, os.RemoveAll(name))
	must.Succeed(t, os.Symlink(target, name))
}
