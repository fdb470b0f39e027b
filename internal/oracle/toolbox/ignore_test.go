package toolbox

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

func TestIgnore(t *testing.T) {
	for _, c := range []struct {
		rules, path string
		folder      bool
		want        bool
	}{
		{"*.log", "a.log", false, true},
		{"*.log", "sub/a.log", false, true},
		{"*.log", "a.logs", false, false},
		{"build", "build", true, true},
		{"build", "sub/build", false, true},
		{"build/", "build", false, false},
		{"build/", "sub/build", true, true},
		{"/build", "build", false, true},
		{"/build", "sub/build", false, false},
		{"sub/build", "sub/build", false, true},
		{"sub/build", "x/sub/build", false, false},
		{"sub/*", "sub/a", false, true},
		{"sub/*", "sub/a/b", false, false},
		{"sub/**", "sub/a/b", false, true},
		{"sub/**", "sub", true, false},
		{"**/gen", "gen", true, true},
		{"**/gen", "a/b/gen", true, true},
		{"a/**/z", "a/z", false, true},
		{"a/**/z", "a/b/c/z", false, true},
		{"a/**/z", "b/a/z", false, false},
		{"?.txt", "a.txt", false, true},
		{"?.txt", "ab.txt", false, false},
		{"[ab].txt", "b.txt", false, true},
		{"[!ab].txt", "b.txt", false, false},
		{"[!ab].txt", "c.txt", false, true},
		{"[a-c].txt", "b.txt", false, true},
		{"a*b*c", "aXbXc", false, true},
		{"*.log\n!keep.log", "keep.log", false, false},
		{"!keep.log\n*.log", "keep.log", false, true},
		{"# *.log", "a.log", false, false},
		{`\#a`, "#a", false, true},
		{`\!a`, "!a", false, true},
		{"a.log  ", "a.log", false, true},
		{`a\ `, "a ", false, true},
		{"a.log\r\n", "a.log", false, true},
		{"\uFEFFa.log", "a.log", false, true},
		{"\n\n/\n", "a", true, false},
		{"[", "[", false, false}, // an invalid pattern is ignored
	} {
		var r *rules
		if got := r.with(".", c.rules).exclude(c.path, path.Base(c.path), c.folder); got != c.want {
			t.Errorf("%q of %s (folder: %v): %v, want %v", c.rules, c.path, c.folder, got, c.want)
		}
	}
}

func TestIgnoreIsNotExponential(t *testing.T) {
	deep := strings.Repeat("a/", 300) + "b"
	var r *rules
	r = r.with(".", strings.Repeat("**/a/", 100)+"c\n"+strings.Repeat("*a", 400)+"b")
	if r.exclude(deep, "b", false) || r.exclude(strings.Repeat("a", 250), strings.Repeat("a", 250),
		false) {
		t.Error("excluded") // the test is that it ends
	}
}

// TestIgnoreAsGit compares with git itself.
func TestIgnoreAsGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	empty := filepath.Join(t.TempDir(), "repository")
	if out, err := exec.Command("git", "init", "-q", "--bare", "--template=",
		empty).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	property.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "ignore")
		must.Succeed(t, err)
		defer os.RemoveAll(dir)
		name := rapid.SampledFrom([]string{"a", "b", "ab", "a.x", "b.x", "#c", "d e"})
		write := func(file, text string) {
			file = filepath.Join(dir, filepath.FromSlash(file))
			if os.MkdirAll(filepath.Dir(file), 0o700) == nil {
				os.WriteFile(file, []byte(text), 0o600) // fails if there is already a folder
			}
		}
		for range rapid.IntRange(1, 8).Draw(t, "files") {
			write(strings.Join(rapid.SliceOfN(name, 1, 4).Draw(t, "path"), "/"), "x")
		}
		pattern := rapid.SampledFrom([]string{"a", "b", "*", "*.x", "?", "a*", "[ab]", "[!a]", "**",
			"/", "/", "/", "!", "#c", " ", "d e", `\#c`, "ab"})
		rules := func(label string) string {
			var lines []string
			for range rapid.IntRange(1, 3).Draw(t, label) {
				lines = append(lines,
					strings.Join(rapid.SliceOfN(pattern, 1, 4).Draw(t, label+" line"), ""))
			}
			return strings.Join(lines, "\n") + "\n"
		}
		write(".gitignore", rules("top"))
		if rapid.Bool().Draw(t, "nested") {
			if info, err := os.Stat(filepath.Join(dir, "a")); err == nil && info.IsDir() {
				write("a/.gitignore", rules("below"))
			}
		}
		git := func(args ...string) string {
			cmd := exec.Command("git",
				append([]string{"-C", dir, "--git-dir=" + empty, "--work-tree=.", "-c",
					"core.excludesFile=/dev/null", "-c", "core.quotePath=false"}, args...)...)
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("git %v: %v", args, err)
			}
			return string(out)
		}
		want := strings.Split(strings.TrimSuffix(git("ls-files", "-z", "--others",
			"--exclude-standard"), "\x00"), "\x00")
		var got []string
		root, err := os.OpenRoot(dir)
		must.Succeed(t, err)
		defer root.Close()
		err = walk(t.Context(), root, ".", func(f file) { got = append(got, f.path) })
		must.Succeed(t, err)
		slices.Sort(got)
		slices.Sort(want)
		if want[0] == "" {
			want = want[1:]
		}
		if diff := cmp.Diff(append([]string{}, want...), append([]string{}, got...)); diff != "" {
			text, _ := os.ReadFile(filepath.Join(dir, ".gitignore"))
			below, _ := os.ReadFile(filepath.Join(dir, "a", ".gitignore"))
			t.Fatalf("%q and %q (-git +here):\n%s", text, below, diff)
		}
	})
}

func TestBraces(t *testing.T) {
	for in, want := range map[string][]string{
		"*.go":         {"*.go"},
		"*.{ts,tsx}":   {"*.ts", "*.tsx"},
		"{a,b}/*.{c,}": {"a/*.c", "a/*.", "b/*.c", "b/*."},
		"{a":           {"{a"},
		"{a{b,c}}":     {"{a{b,c}}"},
	} {
		if diff := cmp.Diff(want, braces(in, 16)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
	}
	if n := len(braces(strings.Repeat("{a,b,c,d,e,f,g,h}", 20), 16)); n != 16 {
		t.Errorf("%d", n)
	}
}
