package luatree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
	"signalbox/internal/tree/luatree/boundedlua"
)

const versionOf = `return BT.tree("NAME", {root=BT.script("x", function(t) return t:fail("NAME") end)})`

func version(name string) string { return strings.ReplaceAll(versionOf, "NAME", name) }

func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.lua")
	write := func(content string) func() {
		return func() {
			t.Helper()
			must.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
			// The content decides, not the modification time.
			must.Succeed(t, os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
		}
	}
	remove := func() {
		must.Succeed(t, os.Remove(path))
	}
	write(version("aa"))()
	source, err := Open(t.Context(), path, nil)
	must.Succeed(t, err)
	var seen []*File
	for i, step := range []struct {
		do       func()
		want     string
		reloaded bool
		fails    string
	}{
		{func() {}, "aa", false, ""},
		{write(version("bb")), "bb", true, ""},
		{func() {}, "bb", false, ""},
		{write("return BT.nope()"), "bb", false, "t.lua:1: there is no BT.nope"},
		{func() {}, "bb", false, ""},
		{write("\nreturn BT.nope()"), "bb", false, "t.lua:2: there is no BT.nope"},
		{write(`return BT.tree("x", {root=BT.sequence({})})`), "bb", false,
			"t.lua:1: sequence has 0 children"},
		{write(version("bb")), "bb", false, ""},
		{write(`return BT.tree("x", {root=BT.sequence({})})`), "bb", false,
			"t.lua:1: sequence has 0 children"},
		{write(version("cc")), "cc", true, ""},
		{remove, "cc", false, "no such file"},
		{func() {}, "cc", false, ""},
		{write(""), "cc", false, "t.lua:1: the file declares no tree"},
		{func() {}, "cc", false, ""},
		{remove, "cc", false, "no such file"},
		{write(version("cc")), "cc", false, ""},
		{remove, "cc", false, "no such file"},
		{write(version("dd")), "dd", true, ""},
		{write(strings.Repeat("-", boundedlua.MaxSource+1)), "dd", false, "is larger than"},
		{func() {}, "dd", false, ""},
		{write(version("aa")), "aa", true, ""},
	} {
		step.do()
		f, reloaded, err := source.Next(t.Context())
		if f == nil || f.Tree().Name() != step.want || reloaded != step.reloaded {
			t.Errorf("step %d: got %v, reloaded %v; want %s, %v", i, f.Tree().Name(), reloaded,
				step.want, step.reloaded)
		}
		if (err == nil) != (step.fails == "") || err != nil &&
			!strings.Contains(err.Error(), step.fails) {
			t.Errorf("step %d: got the error %v, want %q", i, err, step.fails)
		}
		if strings.Contains(step.fails, "no such") && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("step %d: the error does not say that the file vanished: %v", i, err)
		}
		if reloaded {
			seen = append(seen, f)
		}
	}
	// Every version stays usable.
	for i, want := range []string{"bb", "cc", "dd", "aa"} {
		run, st := ticked(t, seen[i], nil)
		if got := run.View(0).Err; st != tree.Failure || got != want {
			t.Errorf("version %d answered %s: %s, want %s", i, st, got, want)
		}
	}
}

// A load that its context stopped is tried again, because the file may be valid.
func TestReloadAfterCancel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.lua")
	must.Succeed(t, os.WriteFile(path, []byte(version("a")), 0o600))
	source, err := Open(t.Context(), path, nil)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(path, []byte(version("b")), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if f, reloaded, err := source.Next(ctx); f.Tree().Name() != "a" || reloaded || err == nil {
		t.Errorf("got %s, %v, %v", f.Tree().Name(), reloaded, err)
	}
	if f, reloaded, err := source.Next(t.Context()); f.Tree().Name() != "b" || !reloaded ||
		err != nil {
		t.Errorf("got %s, %v, %v", f.Tree().Name(), reloaded, err)
	}
}

func TestOpenFails(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.lua")
	must.Succeed(t, os.WriteFile(bad, []byte("return 5"), 0o600))
	for path, want := range map[string]string{
		bad:                           "bad.lua:1: the file returns the number 5",
		dir:                           "is not a regular file",
		filepath.Join(dir, "nothing"): "no such file",
	} {
		if s, err := Open(t.Context(), path, nil); s != nil || err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}
