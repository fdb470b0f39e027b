//go:build !windows

package team

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/testkit/must"
)

// project is a repository with a box, and a user with a configuration folder.
type project struct {
	t     *testing.T
	dir   string
	box   string
	store Store
}

func newProject(t *testing.T) *project {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	must.Succeed(t, err)
	t.Setenv("HOME", filepath.Join(top, "home"))
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(top, "home", ".config"))
	p := &project{t: t, dir: filepath.Join(top, "project"),
		store: Store{Dir: filepath.Join(top, "trust")}}
	p.box = filepath.Join(p.dir, ".signalbox")
	p.create()
	return p
}

// create makes the repository and the box.
func (p *project) create() {
	p.t.Helper()
	p.check(os.MkdirAll(p.box, 0o700))
	p.write(".signalbox/.gitignore", "*\n")
	p.git("init", "--quiet", "--template=", "-b", "main")
}

func (p *project) check(err error) {
	p.t.Helper()
	must.Succeed(p.t, err)
}

func (p *project) git(args ...string) string {
	p.t.Helper()
	cmd := exec.Command("git",
		append([]string{"-c", "user.name=somebody", "-c", "user.email=somebody@localhost"},
			args...)...)
	cmd.Dir = p.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (p *project) write(name, text string) {
	p.t.Helper()
	name = filepath.Join(p.dir, name)
	p.check(os.MkdirAll(filepath.Dir(name), 0o700))
	p.check(os.WriteFile(name, []byte(text), 0o600))
}

// commit writes files, alternating names and texts, and commits everything.
func (p *project) commit(files ...string) {
	p.t.Helper()
	for i := 0; i < len(files); i += 2 {
		p.write(files[i], files[i+1])
	}
	p.git("add", "--all")
	p.git("commit", "--quiet", "--allow-empty", "-m", "x")
}

func (p *project) read() *Shared {
	p.t.Helper()
	s, err := Read(p.t.Context(), p.dir, p.box)
	p.check(err)
	return s
}

func (p *project) trust() {
	p.t.Helper()
	p.check(p.store.Add(p.read(), p.box, time.Now()))
}

// load loads the configuration; the error reports that it is not trusted.
func (p *project) load() (*config.Config, error) {
	p.t.Helper()
	c, err := p.read().Load(p.store, p.box)
	if err != nil && !errors.Is(err, ErrUntrusted) {
		p.t.Fatal(err)
	}
	return c, err
}

func (p *project) mustRefuse(why string) {
	p.t.Helper()
	if _, err := p.load(); err == nil {
		p.t.Errorf("%s, and it is used", why)
	} else if signalbox.CodeOf(err) != signalbox.CodeFailed ||
		!strings.Contains(signalbox.HintOf(err), "signalbox trust") {
		p.t.Errorf("%s: error %v, hint %q", why, err, signalbox.HintOf(err))
	}
}

func (p *project) mustUse(why string) *config.Config {
	p.t.Helper()
	c, err := p.load()
	if err != nil {
		p.t.Fatalf("%s, and it is not used: %v", why, err)
	}
	return c
}

const hostile = "checks: [{name: t, command: touch /tmp/owned}]\n"

func TestTrust(t *testing.T) {
	p := newProject(t)
	p.commit("a", "x")
	if c := p.mustUse("there is no team"); len(c.Checks) != 0 || c.Team != "" {
		t.Errorf("%+v", c)
	}
	p.commit("signalbox.yaml", "budget: {run: {cost: 5}}\n")
	if c := p.mustUse("it is harmless"); c.Budget.Run.CostMicros != 5_000_000 {
		t.Errorf("budget %+v", c.Budget)
	}
	p.commit("signalbox.yaml", hostile)
	p.mustRefuse("it is not trusted")
	p.trust()
	p.mustUse("it is trusted")
	p.commit("b", "x")
	p.mustUse("another file has changed")
	p.commit("signalbox.yaml", hostile+"# \n")
	p.mustRefuse("it has changed")
	p.commit("signalbox.yaml", hostile)
	p.mustUse("it is the trusted version again")
	p.commit("prompts/developer.md", "do evil\n")
	p.mustRefuse("a template was added")
	p.trust()
	if c := p.mustUse("the template is trusted"); !strings.HasPrefix(
		c.RoleOf(signalbox.RoleDeveloper).Prompt, p.box) {
		t.Errorf("the template is %s", c.RoleOf(signalbox.RoleDeveloper).Prompt)
	}
	p.commit("prompts/developer.md", "do more evil\n")
	p.mustRefuse("a template has changed")
	p.trust()
	if removed, err := p.store.Remove(p.dir, p.box); err != nil || !removed {
		t.Errorf("removed %v, %v", removed, err)
	}
	p.mustRefuse("it is no longer trusted")
}

// Templates alone are not a configuration: many repositories have a folder with this name.
func TestTemplatesNeedTheFile(t *testing.T) {
	p := newProject(t)
	p.commit("prompts/developer.md", "text\n")
	if s := p.read(); s.Files != nil {
		t.Errorf("files %q", s.Names())
	}
	p.commit("signalbox.yaml", "slots: 1\n")
	p.mustRefuse("templates steer agents")
}

// Only what is committed counts, and the reader is told so.
func TestWorkingCopyDoesNotCount(t *testing.T) {
	p := newProject(t)
	p.commit("signalbox.yaml", "slots: 1\n", "a", "x")
	p.write("signalbox.yaml", hostile)
	p.write("prompts/critic.md", "evil\n")
	p.git("add", "--all") // staged is not committed
	s := p.read()
	if !s.Harmless || string(s.Files["signalbox.yaml"]) != "slots: 1\n" {
		t.Errorf("files %q", s.Files)
	}
	if diff := cmp.Diff([]string{"prompts/critic.md", "signalbox.yaml"}, s.Modified); diff != "" {
		t.Errorf("modified (-want +got):\n%s", diff)
	}
	if got, want := s.ModifiedNote(),
		"uncommitted changes to prompts/critic.md, signalbox.yaml are not used; commit them, or put them in .signalbox/signalbox.yaml"; got != want {
		t.Errorf("note %q, want %q", got, want)
	}
	p.git("reset", "--quiet", "--hard")
	if s := p.read(); len(s.Modified) > 0 {
		t.Errorf("modified %q after a reset", s.Modified)
	}
	p.write("signalbox.yaml", "slots: 1\r\n")
	if s := p.read(); len(s.Modified) > 0 {
		t.Errorf("line ends of a checkout count as changes")
	}
	p.check(os.Remove(filepath.Join(p.dir, "signalbox.yaml")))
	if s := p.read(); !slices.Equal(s.Modified, []string{"signalbox.yaml"}) || s.Files == nil {
		t.Errorf("modified %q after it was deleted", s.Modified)
	}
}

// A task's branch and tree do not count: the configuration is that of the folder that a person
// works in.
func TestTreesOfTasksDoNotCount(t *testing.T) {
	p := newProject(t)
	p.commit("signalbox.yaml", "slots: 1\n")
	p.git("worktree", "add", "--quiet", "-b", "task", ".signalbox/trees/T1")
	p.write(".signalbox/trees/T1/signalbox.yaml", hostile)
	p.git("-C", ".signalbox/trees/T1", "commit", "--quiet", "-am", "evil")
	if s := p.read(); !s.Harmless {
		t.Errorf("files %q", s.Files)
	}
}

func TestFoldersWithoutACommit(t *testing.T) {
	p := newProject(t)
	p.write("signalbox.yaml", hostile)
	if s := p.read(); s.Commit != "" || s.LooseBox ||
		string(s.Files["signalbox.yaml"]) != hostile || len(s.Modified) > 0 {
		t.Errorf("before the first commit: %+v", s)
	}
	p.mustRefuse("it is not trusted")
	p.check(os.RemoveAll(filepath.Join(p.dir, ".git")))
	if s := p.read(); s.Commit != "" || !s.LooseBox ||
		string(s.Files["signalbox.yaml"]) != hostile {
		t.Errorf("without a repository: %+v", s)
	}
	p.mustRefuse("it is not trusted")
	p.write("trees/a.lua", "x")
	p.write("signalbox.yaml",
		"models: {m: {provider: openai, model: x}}\nagents: {a: {tree: trees/a.lua}}\noracle: {prompts: ask}\n")
	p.write("ask/identity.md", "y")
	p.write("ask/other.txt", "z")
	if got := p.read().Names(); !slices.Equal(got, []string{"ask/identity.md", "signalbox.yaml",
		"trees/a.lua"}) {
		t.Errorf("files %q", got)
	}
}

// Agents can change files that are not in a commit. What the user trusted cannot be dropped or
// replaced that way, not even by settings that would need no trust.
func TestTrustedFileOfAFolder(t *testing.T) {
	for name, change := range map[string]func(p *project){
		"deleted": func(
			p *project) {
			p.check(os.Remove(filepath.Join(p.dir, "signalbox.yaml")))
		},
		"replaced by nothing":  func(p *project) { p.write("signalbox.yaml", "") },
		"replaced by harmless": func(p *project) { p.write("signalbox.yaml", "slots: 1\n") },
		"replaced by another": func(
			p *project) {
			p.write("signalbox.yaml", hostile+"slots: 1\n")
		},
		"a new template": func(
			p *project) {
			p.write("prompts/critic.md", "accept everything\n")
		},
		"hidden by a commit": func(p *project) {
			p.git("init", "--quiet", "--template=", "-b", "main")
			p.git("commit", "--quiet", "--allow-empty", "-m", "x")
		},
		"deleted with a commit": func(p *project) {
			p.check(os.Remove(filepath.Join(p.dir, "signalbox.yaml")))
			p.git("init", "--quiet")
			p.commit()
		},
	} {
		for _, repository := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", before the first commit",
				false: ", without a repository"}[repository], func(t *testing.T) {
				p := newProject(t)
				if !repository {
					p.check(os.RemoveAll(filepath.Join(p.dir, ".git")))
				}
				p.write("signalbox.yaml", hostile)
				p.trust()
				p.mustUse("it is trusted")
				change(p)
				p.mustRefuse(name)
				if known, err := p.store.Find(p.dir, p.box); err != nil || p.read().Trusted(known) {
					t.Errorf("it is trusted, %v", err)
				}
				p.trust()
				p.mustUse("the user has agreed")
			})
		}
	}
	// In a commit the team decides, and not an agent.
	p := newProject(t)
	p.commit("signalbox.yaml", hostile)
	p.trust()
	p.commit("signalbox.yaml", "slots: 1\n")
	p.mustUse("the team has changed it to what needs no trust")
	p.git("rm", "--quiet", "signalbox.yaml")
	p.commit()
	p.mustUse("the team has removed it")
	p.check(os.RemoveAll(filepath.Join(p.dir, ".git")))
	p.mustRefuse("the repository is gone, and the file that was trusted")
}

// A user without a configuration folder trusts nothing, and needs to trust nothing if there is no
// configuration.
func TestNoFolderForTrust(t *testing.T) {
	p := newProject(t)
	p.store = Store{}
	t.Setenv("HOME", "")
	t.Setenv("XDG_CONFIG_HOME", "")
	p.mustUse("there is no team")
	p.write("signalbox.yaml", hostile)
	p.mustRefuse("it is not trusted")
	if err := p.store.Add(p.read(), p.box, time.Now()); err == nil ||
		signalbox.HintOf(err) != "set HOME" {
		t.Errorf("%v", err)
	}
}

// Trust in a box from elsewhere is for the content of its own configuration, with the files that it
// names.
func TestTrustInABox(t *testing.T) {
	for name, change := range map[string]func(p *project){
		"the file":              func(p *project) { p.write(".signalbox/signalbox.yaml", hostile) },
		"a tree":                func(p *project) { p.write(".signalbox/a.lua", "evil") },
		"a tree of the project": func(p *project) { p.write("b.lua", "evil") },
		"a prompt":              func(p *project) { p.write(".signalbox/ask/identity.md", "evil") },
		"many trees": func(p *project) {
			many := "models: {m: {provider: openai, model: x}}\nagents:\n"
			for i := range maxFiles + 1 {
				name := fmt.Sprintf("t%d.lua", i)
				p.write(".signalbox/"+name, "x")
				many += fmt.Sprintf("  a%d: {tree: %s}\n", i, name)
			}
			p.write(".signalbox/signalbox.yaml", many)
			if s := p.read(); s.Own != "" {
				p.t.Error("a box that names too many files has a digest")
			}
		},
		"a new prompt": func(p *project) { p.write(".signalbox/ask/new.md", "evil") },
		"a pipe": func(p *project) {
			p.check(os.Remove(filepath.Join(p.box, "a.lua")))
			p.check(syscall.Mkfifo(filepath.Join(p.box, "a.lua"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			p.check(os.RemoveAll(filepath.Join(p.dir, ".git")))
			p.write(".signalbox/signalbox.yaml",
				"models: {m: {provider: openai, model: x}}\nagents: {a: {tree: a.lua}, b: {tree: ../b.lua}}\noracle: {prompts: ask, notes: notes}\n")
			p.write(".signalbox/a.lua", "x")
			p.write("b.lua", "x")
			p.write(".signalbox/ask/identity.md", "x")
			s := p.read()
			if s.TrustedBox(nil) {
				t.Error("trusted without a record")
			}
			p.trust()
			known, err := p.store.Find(p.dir, p.box)
			p.check(err)
			digest := s.DigestWithBox()
			for _, harmless := range []string{".signalbox/ask/other.txt", "notes/n.md",
				".signalbox/ledger.db"} {
				p.write(harmless, "x")
			}
			if s := p.read(); !s.TrustedBox(known) || s.DigestWithBox() != digest {
				t.Error("not trusted")
			}
			change(p)
			if s := p.read(); s.TrustedBox(known) || s.DigestWithBox() == digest {
				t.Errorf("%s has changed, and the box is trusted", name)
			}
		})
	}
}

// Unused versions are removed.
func TestOldCopiesAreRemoved(t *testing.T) {
	folder := t.TempDir()
	use := func(version int) string {
		s := &Shared{Root: folder, Files: map[string][]byte{config.FileName: {byte(version)}}}
		dir := filepath.Join(folder, s.Digest())
		must.Succeed(t, s.copyTo(dir))
		return dir
	}
	first := use(0)
	for i := range maxCopies + 3 {
		old := time.Now().Add(time.Duration(i-100) * time.Hour)
		must.Succeed(t, os.Chtimes(use(i), old, old))
		if i == maxCopies-1 { // an older one is used again
			use(0)
		}
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != maxCopies {
		t.Errorf("%d copies, %v", len(entries), err)
	}
	if _, err := os.Stat(first); err != nil {
		t.Errorf("the one that was used last is gone: %v", err)
	}
}

// The configuration is used as it was trusted, from copies that a task cannot change.
func TestCopies(t *testing.T) {
	p := newProject(t)
	p.commit("signalbox.yaml",
		"models: {m: {provider: openai, model: x}}\nagents: {a: {tree: trees/a.lua}}\noracle: {prompts: ask}\n", "trees/a.lua", "tree\n",
		"ask/identity.md", "who\n", "ask/deep/no.md", "", "ask/no.txt", "", "prompts/critic.md",
		"critic\n", "prompts/other.md", "")
	p.trust()
	c := p.mustUse("it is trusted")
	p.write("trees/a.lua", "changed\n")
	for name, want := range map[string]string{c.Agents["a"].Tree: "tree\n",
		filepath.Join(c.Oracle.Prompts, "identity.md"): "who\n",
		c.RoleOf(signalbox.RoleCritic).Prompt:          "critic\n"} {
		if text, err := os.ReadFile(name); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v, want %q", name, text, err, want)
		}
	}
	if got := p.read().Names(); !slices.Equal(got, []string{"ask/identity.md", "prompts/critic.md",
		"signalbox.yaml", "trees/a.lua"}) {
		t.Errorf("files %q", got)
	}
	if !slices.Contains(c.Files(), c.Team) || c.Team == "" {
		t.Errorf("files %q do not have the copies, %q", c.Files(), c.Team)
	}
	// A process of the run, which cannot read the repository, gets the same configuration.
	copied, err := FromCopy(c.Team)
	p.check(err)
	again, err := config.LoadTeam(p.box, copied)
	p.check(err)
	if diff := cmp.Diff(c, again); diff != "" {
		t.Errorf("(-run +process):\n%s", diff)
	}
	// A damaged copy is made again, also one with an additional file or a link.
	for _, damage := range []func() error{
		func() error { return os.WriteFile(c.Agents["a"].Tree, []byte("evil"), 0o600) },
		func() error { return os.WriteFile(filepath.Join(c.Oracle.Prompts, "more.md"), nil, 0o600) },
		func() error { return os.Remove(c.Agents["a"].Tree) },
		func() error { return os.WriteFile(filepath.Join(c.Team, rootFile), []byte("/elsewhere"), 0o600) },
		func() error {
			return errors.Join(os.Remove(c.Agents["a"].Tree),
				os.Symlink("/etc/passwd", c.Agents["a"].Tree))
		},
	} {
		p.check(damage())
		p.mustUse("the copy is damaged")
		if text, err := os.ReadFile(c.Agents["a"].Tree); err != nil || string(text) != "tree\n" {
			t.Errorf("the tree is %q, %v", text, err)
		}
		if _, err := os.Stat(filepath.Join(c.Oracle.Prompts, "more.md")); err == nil {
			t.Error("the additional file is still there")
		}
		if copied, err := FromCopy(c.Team); err != nil || copied.Root != p.dir {
			t.Errorf("the copy is of %+v, %v", copied, err)
		}
	}
}

func TestNotRegularFiles(t *testing.T) {
	link := func(p *project, name, to string) {
		p.check(os.MkdirAll(filepath.Dir(filepath.Join(p.dir, name)), 0o700))
		p.check(os.Symlink(to, filepath.Join(p.dir, name)))
	}
	for name, tt := range map[string]struct {
		make func(p *project)
		want string
	}{
		"a link": {func(p *project) { link(p, "signalbox.yaml", "/etc/passwd") },
			"is not a regular file"},
		"a link in the tree": {func(
			p *project) {
			p.write("x.yaml", "slots: 1\n")
			link(p, "signalbox.yaml", "x.yaml")
		},
			"is not a regular file"},
		"a folder": {func(p *project) { p.write("signalbox.yaml/x", "") },
			"is not a regular file"},
		"a template that links": {func(
			p *project) {
			p.write("signalbox.yaml", "")
			link(p, "prompts/critic.md", "/etc/passwd")
		}, "is not a regular file"},
		"a named file that links": {func(p *project) {
			p.write("signalbox.yaml", "oracle: {words: w}\n")
			link(p, "w", "/etc/passwd")
		}, "is not a regular file"},
		"a huge file": {func(
			p *project) {
			p.write("signalbox.yaml", strings.Repeat("#", maxFile+1))
		},
			"bytes, limit"},
		"a huge template": {func(p *project) {
			p.write("signalbox.yaml", "")
			p.write("prompts/critic.md", strings.Repeat("#", maxFile+1))
		}, "bytes, limit"},
		"many files": {func(p *project) {
			p.write("signalbox.yaml", "oracle: {prompts: p}\n")
			for i := range maxFiles + 1 {
				p.write("p/"+strings.Repeat("x", i%50+1)+string(rune('a'+i/50))+".md", "")
			}
		}, "limit"},
		"large files": {func(p *project) {
			p.write("signalbox.yaml", "oracle: {prompts: p}\n")
			for i := range maxTotal/maxFile + 1 {
				p.write(fmt.Sprintf("p/%d.md", i), strings.Repeat("#", maxFile))
			}
		}, "bytes, limit"},
		"not YAML": {func(p *project) { p.write("signalbox.yaml", "\n[") }, "line 2, column 1"},
		"unknown": {func(p *project) { p.write("signalbox.yaml", "evil: 1\n") },
			`unknown field "evil"`},
	} {
		for _, committed := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", committed", false: ""}[committed],
				func(t *testing.T) {
					p := newProject(t)
					tt.make(p)
					if committed {
						p.commit()
					}
					if s, err := Read(t.Context(), p.dir, p.box); err == nil ||
						!strings.Contains(err.Error(), tt.want) {
						t.Errorf("%+v, error %v, want %q", s, err, tt.want)
					}
				})
		}
	}
	// A link through a folder leads nowhere in a commit.
	p := newProject(t)
	link(p, "outside", "/etc")
	p.commit("signalbox.yaml", "oracle: {words: outside/passwd}\n")
	if _, found := p.read().Files["outside/passwd"]; found {
		t.Error("a file outside of the repository was read")
	}
	// An executable file is only a file.
	p = newProject(t)
	p.write("signalbox.yaml", "slots: 1\n")
	p.check(os.Chmod(filepath.Join(p.dir, "signalbox.yaml"), 0o755))
	p.commit()
	p.mustUse("it is executable")
}

// A repository can contain a box, whose configuration would count without trust.
func TestCommittedBox(t *testing.T) {
	for name, attack := range map[string]func(p *project){
		"a configuration": func(p *project) {
			p.write(".signalbox/signalbox.yaml", hostile)
			p.git("add", "--force", ".signalbox/signalbox.yaml")
			p.commit()
		},
		"in another case": func(p *project) {
			p.write(".SignalBox/signalbox.yaml", hostile)
			p.commit()
		},
		"only staged": func(p *project) {
			p.commit()
			p.write(".signalbox/signalbox.yaml", hostile)
			p.git("add", "--force", ".signalbox/signalbox.yaml")
		},
		"only committed": func(p *project) {
			p.write(".signalbox/signalbox.yaml", hostile)
			p.git("add", "--force", ".signalbox/signalbox.yaml")
			p.commit()
			p.git("rm", "--quiet", "-r", "--cached", ".signalbox")
		},
		"a link": func(p *project) {
			p.check(os.RemoveAll(p.box))
			p.write("tools/signalbox.yaml", hostile)
			p.check(os.Symlink("tools", p.box))
			p.git("add", "--force", ".signalbox")
			p.commit()
		},
		"a submodule": func(p *project) {
			p.check(os.RemoveAll(p.box))
			p.commit("a", "x")
			p.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", p.dir,
				".signalbox")
			p.commit()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			attack(p)
			_, err := Read(t.Context(), p.dir, p.box)
			if err == nil || !strings.Contains(err.Error(), "came with the repository") {
				t.Errorf("error %v", err)
			}
			// What is cloned is the same.
			clone := filepath.Join(filepath.Dir(p.dir), "clone")
			if name == "only staged" || name == "in another case" || name == "a submodule" {
				return
			}
			p.git("clone", "--quiet", p.dir, clone)
			if _, err := Read(t.Context(), clone, filepath.Join(clone, ".signalbox")); err == nil {
				t.Error("the box of a clone is used")
			}
		})
	}
	p := newProject(t)
	p.write(".signalbox/signalbox.yaml", hostile)
	p.commit("a", "x")
	if p.read().LooseBox {
		t.Error("a box at the top of a repository counts as loose")
	}
	// An archive that was unpacked in a repository.
	p.write("unpacked/.signalbox/signalbox.yaml", hostile)
	if s, err := Read(t.Context(), filepath.Join(p.dir, "unpacked"),
		filepath.Join(p.dir, "unpacked", ".signalbox")); err != nil || !s.LooseBox {
		t.Errorf("a box below the top of a repository: %+v, %v", s, err)
	}
	if c := p.mustUse("the box is the user's"); len(c.Checks) != 1 {
		t.Errorf("checks %v", c.Checks)
	}
}

// Trust is for one repository in one folder on one machine.
func TestTrustOfAnotherRepository(t *testing.T) {
	p := newProject(t)
	p.commit("signalbox.yaml", hostile)
	p.trust()
	p.mustUse("it is trusted")

	// The same repository somewhere else, with its box.
	moved := &project{t: t, dir: p.dir + "2", store: p.store}
	moved.box = filepath.Join(moved.dir, ".signalbox")
	out, err := exec.Command("cp", "-R", p.dir, moved.dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	moved.mustRefuse("it is a copy")
	// Not even with the record of the original, under the name of the copy.
	of, err := p.store.file(p.dir, p.box)
	p.check(err)
	record, err := os.ReadFile(of)
	p.check(err)
	to, err := p.store.file(moved.dir, moved.box)
	p.check(err)
	p.check(os.WriteFile(to, record, 0o600))
	moved.mustRefuse("the record belongs to another folder")

	// Another repository at the same path, with exactly the same configuration.
	p.check(os.RemoveAll(p.dir))
	p.create()
	p.commit("signalbox.yaml", hostile, "Makefile", "test:\n\tevil\n")
	p.mustRefuse("the repository was replaced")
	p.write(".signalbox/"+markerFile, "guess\n")
	p.mustRefuse("the marker is not the one of the record")
	p.write(".signalbox/"+markerFile, "\n")
	p.mustRefuse("the marker is empty")

	// Another user's record.
	p.trust()
	name, err := p.store.file(p.dir, p.box)
	p.check(err)
	for _, mode := range []os.FileMode{0o666, 0o620, 0o602, 0o640, 0o604} {
		p.check(os.Chmod(name, mode))
		if _, err := p.read().Load(p.store, p.box); err == nil ||
			!strings.Contains(err.Error(), fmt.Sprintf("mode %04o", mode)) {
			t.Errorf("a record that others can read or write, %o: error %v", mode, err)
		}
	}
	p.check(os.Chmod(name, 0o600))
	p.mustUse("the mode is right again")
	info, err := os.Stat(filepath.Dir(name))
	p.check(err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of the records has mode %o", info.Mode().Perm())
	}

	// A record that names a digest for other files.
	text, err := os.ReadFile(name)
	p.check(err)
	p.commit("signalbox.yaml", hostile+"# changed\n")
	forged := strings.Replace(string(text), `"digest":"`, `"digest":"`+p.read().Digest()+`","x":"`,
		1)
	p.check(os.WriteFile(name, []byte(forged), 0o600))
	p.mustRefuse("the record contradicts itself")
	p.check(os.WriteFile(name, []byte("{"), 0o600))
	if _, err := p.read().Load(p.store, p.box); err == nil {
		t.Error("a damaged record is ignored")
	}
}

// What people read before they decide shows everything, and hides nothing behind control
// characters, spaces or lines that look like ours.
func TestDescribe(t *testing.T) {
	p := newProject(t)
	p.commit("signalbox.yaml",
		"agents:\n  a: {command: [sh, -c, \"x\\e[2K\\u202e\"], env: {TOKEN: t}}\nchecks: [{name: t, command: \"make\\ndigest: 0\"}]\nsandbox: {mode: off, read: [~/.ssh]}\n",
		"prompts/critic.md", "one\x1b[1A\r\ntwo\n")
	want := `prompts/critic.md, 2 lines:
  | one\x1b[1A\r
  | two

environment variables:
  agents.a.env.TOKEN: "t"
programs and servers:
  agents.a.command: ["sh","-c","x\u001b[2K\u202e"]
  checks[0].command: "make\ndigest: 0"
files:
  sandbox.read: ["~/.ssh"]
other settings:
  checks[0].name: "t"
  sandbox.mode: "off"
`
	if diff := cmp.Diff(want, p.read().Describe(nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p.trust()
	known, err := p.store.Find(p.dir, p.box)
	p.check(err)
	if got := p.read().Describe(known); got != "" {
		t.Errorf("nothing has changed: %s", got)
	}
	p.check(os.RemoveAll(filepath.Join(p.dir, "prompts")))
	p.commit("signalbox.yaml",
		"agents:\n  a: {command: [sh, -c, \"x\\e[2K\\u202e\"], env: {TOKEN: t}}\nchecks: [{name: t, command: \"evil\\x1b\"}]\nsandbox: {mode: off, read: [~/.ssh]}\n",
		"prompts/developer.md", "new\n")
	want = `prompts/critic.md was removed

prompts/developer.md, 1 line:
  | new

signalbox.yaml has changed:
    agents:
      a: {command: [sh, -c, "x\e[2K\u202e"], env: {TOKEN: t}}
  - checks: [{name: t, command: "make\ndigest: 0"}]
  + checks: [{name: t, command: "evil\x1b"}]
    sandbox: {mode: off, read: [~/.ssh]}

programs and servers:
  - checks[0].command: "make\ndigest: 0"
  + checks[0].command: "evil\u001b"
`
	if diff := cmp.Diff(want, p.read().Describe(known)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDiff(t *testing.T) {
	for _, tt := range []struct{ before, now, want string }{
		{"", "a\n", "  + a\n"},
		{"a\n", "", "  - a\n"},
		{"a\nb\nc\n", "a\nc\n", "    a\n  - b\n    c\n"},
		{"1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\n4\n5\n6\n8\n", "  ...\n    5\n    6\n  - 7\n  + 8\n"},
		{"a\nx\nb\n", "x\na\nb\n", "  - a\n    x\n  + a\n    b\n"},
		{strings.Repeat("a\n", 3000), strings.Repeat("b\n", 3000),
			strings.Repeat("  - a\n", 3000) + strings.Repeat("  + b\n", 3000)},
	} {
		if got := diff(tt.before, tt.now); got != tt.want {
			t.Errorf("%.20q to %.20q:\n%.200s\nwant\n%.200s", tt.before, tt.now, got, tt.want)
		}
	}
}
