package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"signalbox/internal/sandbox"
	"signalbox/internal/testkit/must"
)

// withLayers gives a program a home folder that shows two folders below what it has itself. Their
// names have all characters that mean something to the system.
func withLayers(t *testing.T, script string) *fixture {
	t.Helper()
	f := newFixture(t, script)
	for _, name := range []string{`a:b,c\d/home`, `a:b,c\d/work`, `x,:\first/sub`,
		`x,:\second/sub`} {
		must.Succeed(t, os.MkdirAll(f.path(name), 0o700))
	}
	for name, text := range map[string]string{`x,:\first/sub/one`: "first\n",
		`x,:\second/sub/one`: "second\n", `x,:\second/sub/two`: "second\n"} {
		must.Succeed(t, os.WriteFile(f.path(name), []byte(text), 0o600))
	}
	home := f.path(`a:b,c\d/home`)
	t.Cleanup(func() { makeRemovable(f.path(`a:b,c\d/work`)) })
	f.spec.Env = append(f.spec.Env, "HOME="+home)
	f.spec.Sandbox.Write = append(f.spec.Sandbox.Write, home)
	f.spec.Sandbox.Layers = []sandbox.Layer{{Path: home,
		Below: []string{f.path(`x,:\first`), f.path(`x,:\second`)}, Work: f.path(`a:b,c\d/work`)}}
	return f
}

// makeRemovable lets an ordinary user remove what the system made.
func makeRemovable(dir string) error {
	return filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() {
			os.Chmod(name, 0o700)
		}
		return nil
	})
}

// wantText checks the content of a file; "" means that there is none.
func wantText(t *testing.T, name, want string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil && (want != "" || !errors.Is(err, os.ErrNotExist)) || string(text) != want {
		t.Errorf("%s: %q, %v, want %q", name, text, err, want)
	}
}

// A program sees what is below its folder and can change it, and nothing that it does changes what
// is below.
func TestLayers(t *testing.T) {
	needSupport(t, true)
	f := withLayers(t, `cd; cat sub/one sub/two; echo changed >sub/one; rm sub/two; ls sub; rm -r sub; mkdir sub; ls sub; echo new >sub/new
		ln sub/new sub/linked; mv sub/new sub/moved; cat sub/moved; ls "$HOME/../../x"* "$HOME/../work" 2>/dev/null`)
	// the last command finds nothing
	if exit, out := f.run(t); out != "first\nsecond\none\nnew\n" || exit.Code == 0 {
		t.Errorf("%+v, %q", exit, out)
	}
	wantText(t, f.path(`x,:\first/sub/one`), "first\n")
	wantText(t, f.path(`x,:\second/sub/one`), "second\n")
	wantText(t, f.path(`x,:\second/sub/two`), "second\n")
	// outside, the folder has what the program left
	wantText(t, f.path(`a:b,c\d/home/sub/moved`), "new\n")

	// The next program of the same home folder sees that, and needs no other folders.
	f.out.Reset()
	f.spec.Argv = shell(`cd; ls sub`).Argv
	if _, out := f.run(t); out != "linked\nmoved\n" {
		t.Errorf("%q", out)
	}

	// Another program with a new folder sees nothing of it, also through links in the way to its
	// folder.
	must.Succeed(t, errors.Join(makeRemovable(f.path(`a:b,c\d/work`)),
		os.RemoveAll(f.path(`a:b,c\d`)),
		os.MkdirAll(f.path(`a:b,c\d/home`), 0o700), os.MkdirAll(f.path(`a:b,c\d/work`), 0o700),
		os.Symlink(f.dir, filepath.Join(filepath.Dir(f.dir), "link"))))
	t.Cleanup(func() { os.Remove(filepath.Join(filepath.Dir(f.dir), "link")) })
	again := newFixture(t, `cat "$H/sub/one"; ls "$H/sub"`)
	link := func(name string) string { return filepath.Join(filepath.Dir(f.dir), "link", name) }
	again.spec.Env = append(again.spec.Env, "H="+link(`a:b,c\d/home`))
	again.spec.Sandbox.Write = append(again.spec.Sandbox.Write, link(`a:b,c\d/home`))
	again.spec.Sandbox.Layers = []sandbox.Layer{{Path: link(`a:b,c\d/home`),
		Below: []string{link(`x,:\first`), link(`x,:\second`)}, Work: link(`a:b,c\d/work`)}}
	if _, out := again.run(t); out != "first\none\ntwo\n" {
		t.Errorf("%q", out)
	}
}

// The folders below are not shown by themselves, and a program cannot mark files in its own folder
// so that it sees others.
func TestLayersCannotBeRedirected(t *testing.T) {
	needSupport(t, true)
	f := withLayers(t, `cd; cat planted/key folder/one file sub/one 2>/dev/null; ls "$HOME/../../x"* 2>/dev/null`)
	home := f.path(`a:b,c\d/home`)
	must.Succeed(t, errors.Join(os.Mkdir(filepath.Join(home, "planted"), 0o700),
		os.Mkdir(filepath.Join(home, "folder"), 0o700),
		os.WriteFile(filepath.Join(home, "file"), nil, 0o600)))
	for name, to := range map[string]string{"planted": "/../secret", "folder": "/sub",
		"file": "/sub/one"} {
		for attribute, value := range map[string]string{"user.overlay.redirect": to,
			"user.overlay.metacopy": ""} {
			if err := unix.Setxattr(filepath.Join(home, name), attribute, []byte(value),
				0); err != nil {
				t.Skip(err)
			}
		}
	}
	if _, out := f.run(t); out != "first\n" { // of sub, where it belongs
		t.Errorf("it read %q", out)
	}
}

// Without namespaces a program with layers is not started: it would not see what it should.
func TestLayersNeedNamespaces(t *testing.T) {
	f := withLayers(t, `cat "$HOME/sub/one"`)
	f.withoutNamespaces()
	if _, err := Start(f.spec, nil); err == nil {
		t.Error("it was started")
	}
	if Support().Namespaces {
		if err := Try(f.spec.Sandbox); err != nil {
			t.Error(err)
		}
	}
	f.spec.Sandbox.Layers[0].Work = f.path("missing")
	if err := Try(f.spec.Sandbox); err == nil {
		t.Error("it would start with a folder that does not exist")
	}
}

// A program has links that no one else sees and that it cannot change, also in a hidden folder
// that is behind another link.
func TestLinks(t *testing.T) {
	needSupport(t, true)
	f := withLayers(t, `cat "$BOX/link/one"; echo x >"$BOX/link/two" && (rm "$BOX/link" || mv "$BOX/link" "$BOX/x" || ln -sf /usr "$BOX/link") 2>/dev/null; ls "$BOX"`)
	box := f.path("box")
	must.Succeed(t, errors.Join(os.MkdirAll(filepath.Join(box, "secret"), 0o700),
		os.Symlink(f.dir, f.dir+"-link")))
	t.Cleanup(func() { os.Remove(f.dir + "-link") })
	home := f.path(`a:b,c\d/home`)
	must.Succeed(t, os.WriteFile(filepath.Join(home, "one"), []byte("one\n"), 0o600))
	f.spec.Env = append(f.spec.Env, "BOX="+f.dir+"-link/box")
	f.spec.Sandbox.Read = append(f.spec.Sandbox.Read, f.dir+"-link")
	f.spec.Sandbox.Hidden = append(f.spec.Sandbox.Hidden, box)
	f.spec.Sandbox.Links = []sandbox.Link{{Path: f.dir + "-link/box/link", Target: home}}
	if _, out := f.run(t); out != "one\nlink\n" {
		t.Errorf("%q", out)
	}
	wantText(t, filepath.Join(home, "two"), "x\n")
	if _, err := os.Lstat(filepath.Join(box, "link")); err == nil {
		t.Error("the link is there for everyone")
	}
}

// A layer can show only some folders. The rest of the home folder is the real one, in which the
// program sees what others write there.
func TestLayersOfSomeFolders(t *testing.T) {
	needSupport(t, true)
	f := withLayers(t, `cd; cat sub/one; ls; echo changed >sub/one; echo new >outside; ls /layer 2>/dev/null; ls "$HOME/sub"`)
	must.Succeed(t, errors.Join(os.Mkdir(f.path(`x,:\first/hidden`), 0o700),
		os.Mkdir(f.path(`a:b,c\d/home/sub`), 0o700)))
	f.spec.Sandbox.Layers[0].Only = []string{"sub"}
	if _, out := f.run(t); out != "first\nsub\none\ntwo\n" {
		t.Errorf("%q", out)
	}
	wantText(t, f.path(`x,:\first/sub/one`), "first\n")
	wantText(t, f.path(`a:b,c\d/home/sub/one`), "changed\n")
	wantText(t, f.path(`a:b,c\d/home/outside`), "new\n")
}
