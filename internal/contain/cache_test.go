package contain

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/config"
	"signalbox/internal/durable"
	"signalbox/internal/process"
	"signalbox/internal/sandbox"
	"signalbox/internal/testkit/must"
)

// fillCache publishes a generation with one file in the Go cache.
func fillCache(t *testing.T, c *Cache, text string) {
	t.Helper()
	from, err := c.Use()
	must.Succeed(t, err)
	g, err := c.begin(from)
	from.Release()
	must.Succeed(t, err)
	folder := filepath.Join(g.folder, ".cache/go-build")
	must.Succeed(t, errors.Join(os.MkdirAll(folder, 0o700),
		os.WriteFile(filepath.Join(folder, text),
			[]byte(text), 0o600), g.publish(), c.Sweep()))
}

func generations(t *testing.T, c *Cache) (names []string) {
	t.Helper()
	all, err := os.ReadDir(c.dir)
	must.Succeed(t, err)
	for _, entry := range all {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names
}

// Whoever uses a generation keeps it until the end. A new one begins with the files of the last
// one, and does not share them.
func TestCacheGenerations(t *testing.T) {
	c := OpenCache(t.TempDir(), config.Default())
	if g, err := c.Use(); g != nil || err != nil {
		t.Fatalf("an empty cache: %v, %v", g, err)
	}
	fillCache(t, c, "one")
	first, err := c.Use()
	if err != nil || first == nil {
		t.Fatal(first, err)
	}
	fillCache(t, c, "two")
	second, err := c.Use()
	if err != nil || second.folder == first.folder {
		t.Fatal(second, err)
	}
	for _, name := range []string{"one", "two"} {
		if _, err := os.Stat(filepath.Join(second.folder, ".cache/go-build", name)); err != nil {
			t.Error(err)
		}
	}
	old, new := filepath.Join(first.folder, ".cache/go-build/one"),
		filepath.Join(second.folder, ".cache/go-build/one")
	if sameFile(old, new) {
		t.Error("the generations share a file")
	}
	if got := generations(t, c); len(got) != 2 {
		t.Errorf("one is used: %q", got)
	}
	// Go does not touch a file whose time is in the future, and the next generation knows when it
	// was used.
	info, err := os.Stat(new)
	if err != nil || time.Until(info.ModTime()) < 24*time.Hour {
		t.Errorf("%v, %v", info, err)
	}
	third, err := c.begin(second)
	must.Succeed(t, err)
	info, err = os.Stat(filepath.Join(third.folder, ".cache/go-build/one"))
	if err != nil || time.Since(info.ModTime()).Abs() > time.Hour {
		t.Errorf("%v, %v", info, err)
	}
	third.Release()
	if err := c.Sweep(); err != nil {
		t.Error(err)
	}
	first.Release()
	first.Release()
	if err := c.Sweep(); err != nil {
		t.Error(err)
	}
	if got := generations(t, c); len(got) != 1 || got[0] != filepath.Base(second.folder) {
		t.Errorf("one is left: %q", got)
	}
	second.Release()

	// A generation that was not published, because its process was killed, is removed. One that is
	// being made is not.
	killed, err := c.begin(nil)
	must.Succeed(t, err)
	if err := c.Sweep(); err != nil {
		t.Error(err)
	}
	if got := generations(t, c); len(got) != 2 {
		t.Errorf("one is being made: %q", got)
	}
	killed.lock.Close()
	if err := c.Sweep(); err != nil {
		t.Error(err)
	}
	// current, the generation and its lock
	if left, _ := filepath.Glob(filepath.Join(c.dir, "*")); len(left) != 3 {
		t.Errorf("left: %q", left)
	}
	// A name without a generation is an empty cache.
	must.Succeed(t, durable.Replace(filepath.Join(c.dir, currentFile), []byte("../../etc"),
		0o600))
	if g, err := c.Use(); g != nil || err != nil {
		t.Errorf("a missing generation: %v, %v", g, err)
	}
}

// A link that a command put in place of a folder of the cache is not followed, and nothing outside
// of the home folder gets into it.
func TestCacheFollowsNoLinks(t *testing.T) {
	box := t.TempDir()
	c := OpenCache(box, config.Default())
	secret := filepath.Join(t.TempDir(), "go-build")
	home := filepath.Join(box, "home")
	must.Succeed(t, errors.Join(os.MkdirAll(secret, 0o700), os.MkdirAll(home, 0o700),
		os.Symlink(filepath.Dir(secret), filepath.Join(home, ".cache")),
		os.MkdirAll(filepath.Join(home, "go/pkg"), 0o700),
		os.Symlink(secret, filepath.Join(home, "go/pkg/mod"))))
	g, err := c.begin(nil)
	must.Succeed(t, err)
	must.Succeed(t, c.move(home, g.folder))
	if got := g.has(); len(got) != 0 {
		t.Errorf("it has %q", got)
	}
	if _, err := os.Stat(secret); err != nil {
		t.Error(err)
	}
	must.Succeed(t, g.publish())
	if g, err := c.Use(); g != nil || err != nil {
		t.Errorf("an empty generation was published: %v, %v", g, err)
	}
}

// A folder that contains another one of the cache stands for both.
func TestCacheFolders(t *testing.T) {
	settings := config.Default()
	settings.Cache.Folders = []string{".cache", ".m2/repository", "go/pkg/mod"}
	got := OpenCache(t.TempDir(), settings).folders
	for _, name := range settings.Cache.Folders {
		ofOther := func(other string) bool { return other == name }
		if n := len(got) - len(slices.DeleteFunc(slices.Clone(got), ofOther)); n != 1 {
			t.Errorf("%s is there %d times", name, n)
		}
	}
	if slices.ContainsFunc(got, func(name string) bool { return strings.HasPrefix(name, ".cache/") }) {
		t.Errorf("the folders are %q", got)
	}
}

// A generation leaves room in a home folder that may not become larger than a limit.
func TestCacheLimit(t *testing.T) {
	settings := config.Default()
	settings.Limits.Tree = 8
	c := OpenCache(t.TempDir(), settings)
	fillCache(t, c, "1234")
	g, err := c.Use()
	must.Succeed(t, err)
	if g == nil {
		t.Fatal("what fits is not kept")
	}
	g.Release()
	larger, err := c.begin(nil)
	must.Succeed(t, err)
	must.Succeed(t, errors.Join(os.MkdirAll(filepath.Join(larger.folder, goCache), 0o700),
		os.WriteFile(filepath.Join(larger.folder, goCache, "x"), []byte("12345"), 0o600),
		larger.publish()))
	if current, err := c.Use(); err != nil || current.folder != g.folder {
		t.Errorf("%+v, %v", current, err)
	}
	to := t.TempDir()
	c.limit = 3
	must.Succeed(t, g.copyInto(to))
	if _, err := os.Lstat(filepath.Join(to, goCache)); err == nil {
		t.Error("more than the limit was copied")
	}
}

// All programs of a box find their modules under one path, which leads to their own home folder.
// The user's choice counts.
func TestModulesHaveOnePath(t *testing.T) {
	m := newMachine(t, "")
	m.Environ = append(m.Environ, "GOMODCACHE=/mine")
	const variable = "GOMODCACHE"
	one := m.agent(config.Agent{Command: []string{"sh"}})
	homes, err := m.OpenHomes("B-1", ChecksHome, false)
	must.Succeed(t, err)
	two := m.Check(Check{Work: "B-1", Dir: m.path("project/.signalbox/trees/T1"), Homes: homes})
	if !process.Support().Namespaces {
		if process.Getenv(one.Env, variable) != "" || one.Policy.Links != nil {
			t.Errorf("%q, %v", one.Env, one.Policy.Links)
		}
		return
	}
	path := process.Getenv(one.Env, variable)
	if path == "" || path != process.Getenv(two.Env, variable) {
		t.Errorf("%q and %q", one.Env, two.Env)
	}
	for _, p := range []*Program{one, two} {
		must.Succeed(t, p.Prepare())
		links := []sandbox.Link{{Path: path, Target: filepath.Join(p.Home(), "go/pkg/mod")}}
		if diff := cmp.Diff(links, p.Policy.Links); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if info, err := os.Lstat(links[0].Target); err != nil || !info.IsDir() {
			t.Errorf("%v, %v", info, err)
		}
	}
	passed := m.agent(config.Agent{Command: []string{"sh"}, EnvPass: []string{"GOMOD*"}})
	if passed.Policy.Links != nil || process.Getenv(passed.Env, variable) != "" {
		t.Errorf("%q, %v", passed.Env, passed.Policy.Links)
	}
}

// A copy has the content, the modes, the times and the links of the original, shares no file with
// it, and has a limit. It has no sockets.
func TestCloneTree(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	at := time.Unix(1_700_000_000, 0)
	must.Succeed(t, errors.Join(os.MkdirAll(filepath.Join(from, "d/e"), 0o700),
		os.WriteFile(filepath.Join(from, "d/e/run"), []byte("text"), 0o700),
		os.Symlink("/nowhere", filepath.Join(from, "link")),
		os.Chtimes(filepath.Join(from, "d/e/run"), at, at),
		os.Chmod(filepath.Join(from, "d/e"), 0o550), os.Chtimes(filepath.Join(from, "d/e"), at,
			at)))
	socket, err := net.Listen("unix", filepath.Join(from, "socket"))
	must.Succeed(t, err)
	t.Cleanup(func() { socket.Close() })
	t.Cleanup(func() { os.Chmod(filepath.Join(from, "d/e"), 0o700) })
	if size, err := cloneTree(from, to, 4); size != 4 || err != nil {
		t.Fatal(size, err)
	}
	info, err := os.Stat(filepath.Join(to, "d/e/run"))
	if err != nil || info.Mode().Perm() != 0o700 || !info.ModTime().Equal(at) ||
		sameFile(filepath.Join(from, "d/e/run"), filepath.Join(to, "d/e/run")) {
		t.Errorf("%+v, %v", info, err)
	}
	// Folders can be changed and removed by their owner, whatever the original says.
	if info, err := os.Stat(filepath.Join(to, "d/e")); err != nil || info.Mode().Perm() != 0o750 ||
		!info.ModTime().Equal(at) {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := os.Lstat(filepath.Join(to, "socket")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket: %v", err)
	}
	if target, err := os.Readlink(filepath.Join(to, "link")); target != "/nowhere" {
		t.Error(target, err)
	}
	if text, err := os.ReadFile(filepath.Join(to, "d/e/run")); string(text) != "text" {
		t.Error(string(text), err)
	}
	if _, err := cloneTree(from, to+"2", 3); !errors.Is(err, errTooMuch) {
		t.Errorf("more than the limit: %v", err)
	}
}

// Where the system has layers, it shows the cache in the home folders of agents, which may have
// been there for long, and copies nothing.
func TestAgentsGetTheCache(t *testing.T) {
	m := newMachine(t, "")
	m.Site.Cache = OpenCache(m.Box, m.Config)
	fillCache(t, m.Site.Cache, "one")
	for _, copies := range []bool{false, true} {
		m.Site.Cache.Copy = copies
		for _, role := range []string{"developer", "critic"} {
			g, err := m.Site.Cache.Use()
			must.Succeed(t, err)
			p := m.Agent(Agent{Name: "a", Config: config.Agent{Command: []string{"sh"}}, Role: role,
				Work: "T1", Dir: m.path("project/.signalbox/trees/T1"), Cache: g})
			home := process.Getenv(p.Env, "HOME")
			outside := filepath.Join(m.path("project"), "outside")
			must.Succeed(t, errors.Join(os.MkdirAll(outside, 0o700), os.RemoveAll(home),
				os.MkdirAll(home, 0o700),
				os.Symlink(outside, filepath.Join(home, ".cache"))))
			must.Succeed(t, p.Prepare())
			text, err := os.ReadFile(filepath.Join(home, ".cache/go-build/one"))
			if layered := len(p.Policy.Layers) == 1 &&
				slices.Equal(p.Policy.Layers[0].Only,
					[]string{".cache/go-build"}); layered == (err == nil) || err == nil &&
				string(text) != "one" {
				t.Errorf("%s, copies %v: layers %+v, %q, %v", role, copies, p.Policy.Layers, text,
					err)
			}
			if copies && err != nil {
				t.Errorf("%s: nothing is copied: %v", role, err)
			}
			for _, layer := range p.Policy.Layers {
				if _, err := os.Stat(layer.Work); err != nil {
					t.Errorf("%s: what the layer needs: %v", role, err)
				}
			}
			if left, _ := os.ReadDir(outside); len(left) > 0 {
				t.Errorf("%s: something was written through a link", role)
			}
			if layered := canLayer(m.path("project/.signalbox/tmp")) == nil; !copies &&
				layered != (len(p.Policy.Layers) > 0) {
				t.Errorf("the system has layers: %v", layered)
			}
			if err := p.Finish(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(home); (err == nil) != (role == "developer") {
				t.Errorf("%s: its home folder afterwards: %v", role, err)
			}
			if p.Policy.Mode != sandbox.Enforce {
				t.Error(p.Policy.Mode)
			}
		}
	}
	fillCache(t, m.Site.Cache, "two")
	if got := generations(t, m.Site.Cache); len(got) != 1 {
		t.Errorf("a finished agent still uses the cache: %q", got)
	}
}
