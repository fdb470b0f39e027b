//go:build !windows

package workspace

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/config"
	"signalbox/internal/testkit/must"
)

// protectedKit returns a repository with protected files, a submodule and links.
func protectedKit(t *testing.T) (*kit, *config.Config) {
	t.Helper()
	k := newKit(t, map[string]string{"test.sh": "test\n", "ci/run.sh": "run\n", "ci/deep/x": "x\n",
		"scripts/check.sh": "check\n", "scripts/lib/a": "a\n", "other.sh": "other\n",
		".gitmodules": "[submodule \"sub\"]\n\tpath = vendor/sub\n\turl = x\n\tignore = all\n"})
	for name, target := range map[string]string{"check": "scripts/check.sh",
		"tools": "./scripts/lib", "alias": "tools"} {
		link(t, k.dir, target, name)
	}
	appendTo(t, filepath.Join(k.dir, ".git", "config"), "[advice]\ngraftFileDeprecated = false\n")
	gitRun(t, k.dir, "update-index", "--add", "--cacheinfo", "160000,"+k.base()+",vendor/sub")
	gitRun(t, k.dir, "add", "-A", ":!vendor")
	gitRun(t, k.dir, "commit", "--quiet", "-m", "links")
	return k, &config.Config{Protected: []string{"test.sh", "ci", "check", "alias/**", "vendor/*",
		"hooks/*.sh"}}
}

func TestProtectedEdits(t *testing.T) {
	t.Parallel()
	first, protection := protectedKit(t)
	first.open("T1")
	commit := func(t *testing.T, dir string) {
		t.Helper()
		gitRun(t, dir, "add", "-A")
		gitRun(t, dir, "commit", "--quiet", "-m", "mine")
	}
	for _, tt := range []struct {
		name string
		edit func(t *testing.T, k *kit, dir string)
		want string
	}{
		{"nothing", func(t *testing.T, k *kit,
			dir string) {
			write(t, dir, map[string]string{"other.sh": "mine\n"})
		}, ""},
		{"content", func(t *testing.T, k *kit, dir string) {
			write(t, dir, map[string]string{"test.sh": "mine\n", "ci/deep/x": "mine\n"})
		}, "ci/deep/x test.sh"},
		{"mode", func(t *testing.T, k *kit, dir string) { runShell(t, dir, "chmod +x test.sh") },
			"test.sh"},
		{"deleted", func(t *testing.T, k *kit,
			dir string) {
			write(t, dir, map[string]string{"test.sh": ""})
		}, "test.sh"},
		{"renamed", func(t *testing.T, k *kit,
			dir string) {
			runShell(t, dir, "git mv test.sh more.sh")
		}, "test.sh"},
		{"new", func(t *testing.T, k *kit,
			dir string) {
			write(t, dir, map[string]string{"ci/new": "mine\n"})
		}, "ci/new"},
		{"replaced by a link",
			func(t *testing.T, k *kit, dir string) { runShell(t, dir, "ln -sf other.sh test.sh") },
			"test.sh"},
		{"link changed", func(t *testing.T, k *kit,
			dir string) {
			runShell(t, dir, "ln -sf ../other.sh check")
		}, "check"},
		{"folder replaced by a link",
			func(t *testing.T, k *kit,
				dir string) {
				runShell(t, dir, "rm -r ci; ln -s scripts ci")
			},
			"ci ci/deep/x ci/run.sh"},
		{"folder replaced by a submodule", func(t *testing.T, k *kit, dir string) {
			runShell(t, dir, "rm -r ci; git rm -q -r --cached ci; git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),ci; git commit -q -m mine; mkdir ci")
		}, "ci ci/deep/x ci/run.sh"},
		{"link above a protected path",
			func(t *testing.T, k *kit, dir string) { runShell(t, dir, "ln -s scripts hooks") },
			"hooks"},
		{"behind a link", func(t *testing.T, k *kit, dir string) {
			write(t, dir, map[string]string{"scripts/check.sh": "mine\n"})
		}, "scripts/check.sh"},
		{"behind two links",
			func(t *testing.T, k *kit,
				dir string) {
				write(t, dir, map[string]string{"scripts/lib/a": "mine\n"})
			},
			"scripts/lib/a"},
		{"another case", func(t *testing.T, k *kit, dir string) {
			write(t, dir, map[string]string{"TEST.sh": "mine\n", "Ci/x": "mine\n"})
		}, "Ci/x TEST.sh"},
		{"ignored submodule", func(t *testing.T, k *kit, dir string) {
			runShell(t, dir, "git config submodule.sub.ignore all; git config diff.ignoreSubmodules all; git update-index --cacheinfo 160000,$(git rev-parse HEAD^{commit}),vendor/sub; git commit -q --allow-empty -m mine")
		}, "vendor/sub"},
		{"end of line", func(t *testing.T, k *kit, dir string) {
			write(t, dir, map[string]string{".gitattributes": "*.sh text eol=crlf\n"})
		}, "ci/run.sh test.sh"},
		{"encoding", func(t *testing.T, k *kit, dir string) {
			write(t, dir, map[string]string{".gitattributes": "/test.sh working-tree-encoding=UTF-16\n", "test.sh": "\xff\xfet\x00e\x00s\x00t\x00\n\x00"})
		}, "test.sh"},
		{"filter", func(t *testing.T, k *kit, dir string) {
			write(t, dir, map[string]string{".gitattributes": "test.* filter=x\n"})
		}, "test.sh"},
		{"ident", func(t *testing.T, k *kit, dir string) {
			write(t, dir, map[string]string{"ci/.gitattributes": "run.sh ident\n"})
		}, "ci/.gitattributes ci/run.sh"},
		{"macro", func(t *testing.T, k *kit, dir string) {
			write(t, dir, map[string]string{".gitattributes": "[attr]mine eol=crlf\ntest.sh mine\n"})
		}, "test.sh"},
		{"attributes of other files", func(t *testing.T, k *kit, dir string) {
			write(t, dir, map[string]string{".gitattributes": "*.md text\nother.sh eol=crlf\n"})
		}, ""},
		{"excluded", func(t *testing.T, k *kit, dir string) {
			write(t, k.dir, map[string]string{".git/info/exclude": "ci/*\n"})
			write(t, dir, map[string]string{"ci/new": "mine\n"})
		}, "ci/new"},
		{"replaced commit", func(t *testing.T, k *kit, dir string) {
			write(t, dir, map[string]string{"test.sh": "mine\n"})
			commit(t, dir)
			runShell(t, dir, "git replace HEAD HEAD^; git replace HEAD^{tree} HEAD^^{tree} || true")
		}, "test.sh"},
		{"grafted", func(t *testing.T, k *kit, dir string) {
			write(t, dir, map[string]string{"test.sh": "mine\n"})
			commit(t, dir)
			tip := gitRun(t, dir, "rev-parse", "HEAD")
			write(t, k.dir, map[string]string{".git/info/grafts": k.base() + " " + tip + "\n"})
		}, "test.sh"},
		{"no common history", func(t *testing.T, k *kit, dir string) {
			write(t, dir, map[string]string{"test.sh": "mine\n"})
			runShell(t, dir, "git checkout -q --orphan alone; git add -A; git commit -q -m alone; git update-ref refs/heads/signalbox/T1 HEAD; git symbolic-ref HEAD refs/heads/signalbox/T1")
		}, "test.sh"},
		{"undone", func(t *testing.T, k *kit, dir string) {
			write(t, dir, map[string]string{"test.sh": "mine\n"})
			commit(t, dir)
			write(t, dir, map[string]string{"test.sh": "test\n", "other.sh": "mine\n"})
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := first.copied(t)
			base, tree := k.base(), k.open("T1")
			tt.edit(t, k, tree.Dir)
			saved, _, err := tree.Save(t.Context(), "mine")
			must.Succeed(t, err)
			edits, err := k.ProtectedEdits(t.Context(), base, saved, protection)
			if diff := cmp.Diff(tt.want, strings.Join(edits, " ")); diff != "" || err != nil {
				t.Errorf("%v, edits (-want +got):\n%s", err, diff)
			}
			changed, err := tree.changed(t.Context())
			if tt.want != "" && (err != nil || len(changed) == 0) {
				t.Errorf("changed %v, %v", changed, err)
			}
		})
	}
}

// Files that are protected only if they exist may be added, in every way that leaves the others as
// they are.
func TestProtectedExisting(t *testing.T) {
	t.Parallel()
	first, _ := protectedKit(t)
	first.open("T1")
	protection := &config.Config{ProtectedExisting: []string{"ci/**", "check", "alias/**"}}
	for _, tt := range []struct {
		name, edit, want string
	}{
		{"new files", "echo x >ci/new.sh; mkdir ci/more; echo x >ci/more/y; echo x >scripts/lib/b", ""},
		{"changed", "echo x >ci/run.sh", "ci/run.sh"},
		{"mode", "chmod +x ci/deep/x", "ci/deep/x"},
		{"deleted", "git rm -q ci/run.sh", "ci/run.sh"},
		{"renamed", "git mv ci/run.sh ci/ran.sh", "ci/run.sh"},
		{"replaced by a link", "ln -sf ../other.sh ci/run.sh", "ci/run.sh"},
		{"folder replaced by a link", "rm -r ci; ln -s scripts ci", "ci ci/deep/x ci/run.sh"},
		{"behind links", "echo x >scripts/check.sh; echo x >scripts/lib/a",
			"scripts/check.sh scripts/lib/a"},
		{"another case", "echo x >ci/RUN.sh; mkdir Ci; echo x >Ci/z", "ci/RUN.sh"},
		{"link with another case", "ln -s scripts Ci", "Ci"},
		{"attributes of all", "echo '*.sh eol=crlf' >.gitattributes; echo x >ci/new.sh",
			"ci/run.sh scripts/check.sh"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := first.copied(t)
			base, tree := k.base(), k.open("T1")
			runShell(t, tree.Dir, tt.edit)
			saved, _, err := tree.Save(t.Context(), "mine")
			must.Succeed(t, err)
			edits, err := k.ProtectedEdits(t.Context(), base, saved, protection)
			if diff := cmp.Diff(tt.want, strings.Join(edits, " ")); diff != "" || err != nil {
				t.Errorf("%v, edits (-want +got):\n%s", err, diff)
			}
		})
	}
}

// Links that form a circle have a limited number of aliases.
func TestAliases(t *testing.T) {
	links := map[string]string{"a": "b", "b": "a", "top": ".", "c/d": "e/f"}
	for name, want := range map[string]string{"e/f": "c/d", "e/f/g": "c/d/g", "e": "top/e",
		"b/x": "a/x", "e/fg": "top/e/fg"} {
		found := aliases(name, links)
		if !slices.Contains(found, want) || slices.Contains(found, "c/dg") ||
			len(found) > maxAliases+len(links) {
			t.Errorf("%s: %d aliases, want %s", name, len(found), want)
		}
	}
}

// A scratch worktree contains exactly the commit, whatever an agent sets in the repository that all
// worktrees share.
func TestScratchIsTheCommit(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"test.sh": "test\n"})
	start := k.base()
	link(t, k.dir, "test.sh", "link")
	commit := k.commit("link")
	appendTo(t, filepath.Join(k.dir, ".git", "config"),
		"[core]\nautocrlf = true\neol = crlf\nsymlinks = false\nsparseCheckout = true\n")
	write(t, k.dir, map[string]string{".git/info/attributes": "* eol=crlf\n",
		".git/info/sparse-checkout": "/link\n", ".git/refs/replace/" + commit: start + "\n"})
	k.find()
	k.wantScratch("T1", commit, map[string]string{"test.sh": "test\n", "link": "test\n"})
}
