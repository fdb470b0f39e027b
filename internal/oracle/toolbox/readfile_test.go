package toolbox

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/oracle/chunk"
)

func numbered(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "line %d\n", i+1)
	}
	return text.String()
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "three.txt", "one\ntwo\nthree\n")
	put(t, dir, "noend.txt", "one\ntwo")
	put(t, dir, "crlf.txt", "one\r\ntwo\r\n")
	put(t, dir, "bom.txt", "\uFEFFone\n")
	put(t, dir, "latin1.txt", "caf\xe9\n")
	put(t, dir, "blank.txt", "\n\n")
	put(t, dir, "empty.txt", "")
	tool := ReadFile(dir)
	for name, c := range map[string]struct {
		in   args
		want string
	}{
		"all": {args{"path": "three.txt"},
			"three.txt, lines 1 to 3 of 3:\n1\tone\n2\ttwo\n3\tthree\n"},
		"from": {args{"path": "three.txt", "from": 2},
			"three.txt, lines 2 to 3 of 3:\n2\ttwo\n3\tthree\n"},
		"to": {args{"path": "./three.txt", "to": 2},
			"three.txt, lines 1 to 2 of 3:\n1\tone\n2\ttwo\n(continue with from=3)\n"},
		"one": {args{"path": "three.txt", "from": 2, "to": 2},
			"three.txt, lines 2 to 2 of 3:\n2\ttwo\n(continue with from=3)\n"},
		"beyond": {args{"path": "three.txt", "from": 3, "to": 1000},
			"three.txt, lines 3 to 3 of 3:\n3\tthree\n"},
		"no end": {args{"path": "noend.txt"},
			"noend.txt, lines 1 to 2 of 2:\n1\tone\n2\ttwo\n"},
		"CRLF": {args{"path": "crlf.txt"},
			"crlf.txt, lines 1 to 2 of 2:\n1\tone\n2\ttwo\n"},
		"mark": {args{"path": "bom.txt"}, "bom.txt, lines 1 to 1 of 1:\n1\tone\n"},
		"no UTF-8": {args{"path": "latin1.txt"},
			"latin1.txt, lines 1 to 1 of 1:\n1\tcaf\uFFFD\n"},
		"blank": {args{"path": "blank.txt"}, "blank.txt, lines 1 to 2 of 2:\n1\t\n2\t\n"},
		"empty": {args{"path": "empty.txt"}, "empty.txt is empty"},
		"a whole path": {args{"path": filepath.Join(dir, "bom.txt")},
			"bom.txt, lines 1 to 1 of 1:\n1\tone\n"},
	} {
		if diff := cmp.Diff(c.want, ok(t, tool, c.in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	out := use(t, tool, args{"path": "three.txt", "from": 2})
	if diff := cmp.Diff([]chunk.Source{{Type: "code", Path: "three.txt", Line: 2}},
		out.Sources); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}

// A long file is read by continuing where the last result ended.
func TestReadFileContinued(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"many.txt": numbered(1234), "wide.txt": strings.Repeat(strings.Repeat("ä", 500)+"\n", 300),
		"both.txt": strings.Repeat("x\n", 3) + strings.Repeat("y", 100_000) + "\nz",
	} {
		put(t, dir, name, text)
		want := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		seen := 0
		for from := 1; from <= len(want); {
			got := ok(t, ReadFile(dir), args{"path": name, "from": from})
			if len(got) > maxReadText+200 || !utf8.ValidString(got) {
				t.Fatalf("%s: %d bytes", name, len(got))
			}
			has(t, got, fmt.Sprintf("of %d:\n", len(want)))
			lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")[1:]
			if len(lines) > maxReadLines+1 {
				t.Errorf("%s: %d lines", name, len(lines))
			}
			for _, line := range lines {
				var next int
				if n, _ := fmt.Sscanf(line, "(continue with from=%d)", &next); n == 1 &&
					next > from {
					from = next
					break
				}
				number, shown, _ := strings.Cut(line, "\t")
				seen++
				if number != fmt.Sprint(seen) ||
					!strings.HasPrefix(want[seen-1], strings.Split(shown, "…")[0]) {
					t.Fatalf("%s: line %d is %.100q", name, seen, line)
				}
				if seen == len(want) {
					from = seen + 1
				}
			}
		}
		if seen != len(want) {
			t.Errorf("%s: %d lines, want %d", name, seen, len(want))
		}
	}
	has(t, ok(t, ReadFile(dir), args{"path": "both.txt"}), strings.Repeat("y", maxReadLine)+
		"… (the line has 100001 bytes)\n5\tz\n")
}

func TestReadFileFails(t *testing.T) {
	dir := folderOf(t, "-- lib/server.go --\nx\n-- lib/client.go --\ny\n-- cmd/main.go --\nz\n")
	put(t, dir, "image.png", "\x89PNG\x00\x01")
	tool := ReadFile(dir)
	fails(t, tool, args{"path": "image.png"}, "image.png is a binary file (6 bytes)")
	fails(t, tool, args{"path": "lib/sever.go"},
		"lib/sever.go does not exist; did you mean lib/server.go?")
	fails(t, tool, args{"path": "lib/main.go"}, "did you mean cmd/main.go?")
	fails(t, tool, args{"path": "Main.go"}, "did you mean cmd/main.go?")
	fails(t, tool, args{"path": "lib/deep/unlike-all"},
		"lib/deep/unlike-all does not exist; list the folder with read_file and the path lib")
	fails(t, tool, args{"path": "lib/server.go/x"}, "lib/server.go/x")
	fails(t, tool, args{"path": "lib/server.go", "from": 2}, "lib/server.go has only 1 line")
	fails(t, tool, args{"path": "lib/server.go", "from": 3, "to": 2},
		"from (3) is greater than to (2)")
	fails(t, tool, args{"path": "lib/server.go", "from": 0},
		`argument "from" is not valid: minimum`)
	fails(t, tool, args{"path": strings.Repeat("x", 1001)},
		`argument "path" is not valid: maxLength`, `"maxLength":1000`)
	fails(t, tool, args{"path": strings.Repeat("x", 900)}, "x")
	fails(t, tool, args{}, `bad arguments for read_file: argument "path" is required`)
	fails(t, ReadFile(filepath.Join(dir, "gone")), args{"path": "."}, "cannot open the folder")
}

func TestReadFolder(t *testing.T) {
	dir := folderOf(t, "-- b.txt --\nhello\n-- a/x --\n-- .git/config --\n-- .signalbox/key --\n-- .github/y --\n")
	link(t, dir, "c", "b.txt")
	want := ". is a folder with 4 entries:\n.github/\na/\nb.txt (6 bytes)\nc (link)\n"
	for _, path := range []string{".", "", "./", dir} {
		if diff := cmp.Diff(want, ok(t, ReadFile(dir), args{"path": path})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", path, diff)
		}
	}
	for i := range maxListed + 10 {
		put(t, dir, fmt.Sprintf("a/%04d", i), "")
	}
	text := ok(t, ReadFile(dir), args{"path": "a"})
	has(t, text, "a is a folder with 411 entries:\n0000 (0 bytes)\n",
		"0399 (0 bytes)\n(and 11 more;")
}

func TestReadFileCancelled(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.txt", numbered(10))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ReadFile(dir).Use(ctx,
		Call{Arguments: json.RawMessage(`{"path":"a.txt"}`)}); err == nil {
		t.Error("it was read")
	}
}

// FuzzPaths reads any path in a folder with links to files outside. Nothing from outside may be
// returned.
func FuzzPaths(f *testing.F) {
	top := f.TempDir()
	const secret = "what tools must not see"
	put(f, top, "secret.txt", secret+"\n")
	put(f, top, "in/.git/config", secret+"\n")
	put(f, top, "in/.signalbox/key", secret+"\n")
	put(f, top, "in/sub/.git", secret+"\n")
	put(f, top, "in/sub/open.txt", "open\n")
	put(f, top, "inside-not/secret.txt", secret+"\n")
	dir := filepath.Join(top, "in")
	for name, to := range map[string]string{"out": "..", "file": "../secret.txt",
		"whole": filepath.Join(top, "secret.txt"), "box": ".signalbox", "sub/up": "../..",
		"key": "sub/../.signalbox/key", "loop": "loop", "here": "."} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			f.Skip(err)
		}
	}
	for _, path := range []string{"sub/open.txt", ".", "..", "../secret.txt", "out/secret.txt",
		"file", "whole", "box/key", "key", "loop", "here/here/box", "here/../../secret.txt",
		".git", ".GIT/config", "sub/.git", "sub/up/secret.txt", "/", top, "../in-not", "*", "**/*",
		"../*", "out/*", "{.,..}/*", "[.][.]/*", "..\\secret.txt", "sub/../..", "\x00", "C:\\x",
		"//x"} {
		f.Add(path)
	}
	search, read := SearchCode(dir), ReadFile(dir)
	f.Fuzz(func(t *testing.T, path string) {
		for _, out := range []Outcome{use(t, search, args{"query": "tools must", "path": path}),
			use(t, search, args{"query": "who may know", "path": path}),
			use(t, read, args{"path": path})} {
			if strings.Contains(out.Text, secret) {
				t.Errorf("%q shows %s", path, out.Text)
			}
			if !utf8.ValidString(out.Text) || out.Text == "" {
				t.Errorf("%q: %q", path, out.Text)
			}
		}
	})
}
