package checkrun

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"signalbox/internal/testkit/must"
)

// diagnoseKit is a folder with files, and a search path with the programs tool, sh, python3 and
// make.
func diagnoseKit(t *testing.T) (files fstest.MapFS, environment Environment) {
	t.Helper()
	bin := t.TempDir()
	for _, name := range []string{"tool", "sh", "python3", "make", "env"} {
		must.Succeed(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755))
	}
	return fstest.MapFS{
		"ok.sh":       {Data: []byte("#!/bin/sh\ntrue\n"), Mode: 0o755},
		"plain.sh":    {Data: []byte("#!/bin/sh\ntrue\n"), Mode: 0o644},
		"old.py":      {Data: []byte("#!/usr/bin/env python9\n"), Mode: 0o755},
		"gone.rb":     {Data: []byte("#!/nowhere/bin/ruby -w\n"), Mode: 0o755},
		"sub/test.sh": {Data: []byte("true\n"), Mode: 0o644},
		"data.json":   {Data: []byte("{}")},
	}, Environment{Env: map[string]string{"PATH": bin}}
}

// What a command needs and what is not there is found without running it.
func TestDiagnose(t *testing.T) {
	const none = ""
	for command, want := range map[string]string{
		"pytest -q":                  "sure: the check needs the program pytest, which is not in the PATH",
		"set -e\npytest -q\ntool":    "sure: the check needs the program pytest, which is not in the PATH",
		"pytest -q; tool":            "perhaps: the check needs the program pytest, which is not in the PATH",
		"pytest 2>&1 | tool":         "perhaps: the check needs the program pytest, which is not in the PATH",
		"A=1 B='x y' pytest":         "sure: the check needs the program pytest, which is not in the PATH",
		"exec env A=1 pytest":        "sure: the check needs the program pytest, which is not in the PATH",
		"'pytest' # run them":        "sure: the check needs the program pytest, which is not in the PATH",
		"/nowhere/tool":              "sure: the check needs /nowhere/tool, which does not exist",
		"./missing.sh":               "sure: the check runs ./missing.sh, which does not exist",
		"sh tools/missing.sh":        "sure: the check runs tools/missing.sh, which does not exist",
		"sh -eu missing.sh arg":      "sure: the check runs missing.sh, which does not exist",
		"python3 missing.py":         "sure: the check runs missing.py, which does not exist",
		"cd nowhere && tool":         "sure: the check changes to the folder nowhere, which does not exist",
		"cd sub && sh gone.sh":       "sure: the check runs gone.sh, which does not exist",
		". ./missing.env && tool":    "sure: the check runs ./missing.env, which does not exist",
		"./plain.sh":                 "sure: the check runs ./plain.sh, which is not executable",
		"./old.py":                   "sure: ./old.py needs the interpreter python9, which is not installed",
		"./gone.rb":                  "sure: ./gone.rb needs the interpreter /nowhere/bin/ruby, which is not installed",
		"make test":                  "sure: the check runs make, but there is no Makefile",
		"make -f build.mk test":      "sure: the check runs build.mk, which does not exist",
		"tool missing.json":          "perhaps: the check names missing.json, which does not exist",
		"test -f missing":            "perhaps: the check names missing, which does not exist",
		"[ -s missing.txt ]":         "perhaps: the check names missing.txt, which does not exist",
		"./ok.sh && ./made-by-it.sh": none,
		"sh sub/test.sh":             none,
		"cd sub && sh test.sh":       none,
		"tool data.json":             none,
		"tool -o out.json":           none,
		"touch out.json":             "sure: the check needs the program touch, which is not in the PATH",
		"tool example.com ./... v1":  none,
		"tool && pytest":             none, // tool may install it
		"pytest || tool":             none,
		"tool && pytest || true":     none,
		"pytest & tool":              none,
		"! pytest":                   none,
		"if pytest; then tool; fi":   none,
		"$TOOL test":                 none,
		"sh \"$DIR/x.sh\"":           none,
		"PATH=/x:$PATH pytest":       none,
		"export PATH=x; pytest":      none,
		"(pytest)":                   none,
		"python3 -m pytest":          none,
		"python3 -u missing.py":      "sure: the check runs missing.py, which does not exist",
		"sh -c 'pytest'":             none,
		"! test -f broken":           none,
		"test -n missing":            none,
		"exit 1":                     none,
		"tool 'unfinished":           none,
		"tool \\":                    none,
		"":                           none,
	} {
		files, environment := diagnoseKit(t)
		var got []string
		for _, cause := range Diagnose(files, Check{Command: command}, environment, nil) {
			how := "perhaps: "
			if cause.Sure {
				how = "sure: "
			}
			if cause.Fix == "" {
				t.Errorf("%q: %s has no fix", command, cause.What)
			}
			got = append(got, how+cause.What)
		}
		if got := strings.Join(got, "; "); got != want {
			t.Errorf("%q\ngot  %s\nwant %s", command, got, want)
		}
	}
}

// A command that runs in a container finds its programs there.
func TestDiagnoseEnvironment(t *testing.T) {
	files, environment := diagnoseKit(t)
	environment.Name, environment.Run = "box", []string{"tool", "run"}
	if got := Diagnose(files, Check{Command: "pytest"}, environment, nil); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	environment.Run[0] = "dockerless"
	if got := Diagnose(files, Check{Command: "pytest"}, environment, nil); len(got) != 1 ||
		got[0].What != "the environment box needs the program dockerless, which is not in the PATH" {
		t.Errorf("got %+v", got)
	}
}

func TestDiagnoseSubmodules(t *testing.T) {
	files, environment := diagnoseKit(t)
	files[".gitmodules"] = &fstest.MapFile{Data: []byte(
		"[submodule \"a\"]\n\tpath = vendor/a\n\turl = x\n[submodule \"b\"]\n\tpath = b\n")}
	files["b/file"] = &fstest.MapFile{}
	got := Diagnose(files, Check{Command: "tool"}, environment, nil)
	if len(got) != 1 || got[0].What != "submodules are not on this machine, so they are not in the worktree where the check runs: vendor/a" || !strings.Contains(got[0].Fix, "git submodule update --init") {
		t.Errorf("got %+v", got)
	}
	if got := Diagnose(files, Check{Command: "git submodule update --init && tool"}, Environment{},
		nil); len(got) != 0 {
		t.Errorf("a check that fetches them: %+v", got)
	}
}

// If the command does not show it, the output of a check may say that a program is missing.
func TestDiagnoseFailure(t *testing.T) {
	for output, want := range map[string]string{
		"compiling\nsh: 1: pytest: not found\n":                      "pytest was not found",
		"bash: line 3: pytest: command not found\n":                  "pytest was not found",
		"/bin/sh: pytest: command not found\n":                       "pytest was not found",
		"env: 'python9': No such file or directory\n":                "python9 was not found",
		"/usr/bin/env: ‘python9’: No such file or directory\n":       "python9 was not found",
		"the page was not found\n":                                   "",
		"make: *** [Makefile:3: test] Error 127\nnothing was found.": "",
	} {
		files, environment := diagnoseKit(t)
		causes := DiagnoseFailure(files, Check{Command: "tool"}, environment, nil,
			Result{Exit: 127, Output: []byte(output)})
		got := ""
		if len(causes) > 0 {
			got = causes[0].What
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", output, got, want)
		}
		if causes := DiagnoseFailure(files, Check{Command: "tool"}, environment, nil,
			Result{Exit: 1, Output: []byte(output)}); len(causes) != 0 {
			t.Errorf("%q with exit status 1: %+v", output, causes)
		}
	}
}

// onlyInCheckout has the files of a commit, and knows which others the checkout has.
type onlyInCheckout struct {
	fs.FS
	checkout fs.FS
}

func (c onlyInCheckout) Open(name string) (fs.File, error) {
	file, err := c.FS.Open(name)
	if _, found := fs.Stat(c.checkout, name); err != nil && found == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrNotCommitted}
	}
	return file, err
}

func TestDiagnoseUncommitted(t *testing.T) {
	committed, environment := diagnoseKit(t)
	checkout := fstest.MapFS{"new.sh": {}, "new/new.sh": {}, "new.json": {}, "Makefile": {}}
	for command, want := range map[string]string{
		"./new.sh":           "the check runs ./new.sh, which is not committed",
		"sh new/new.sh":      "the check runs new/new.sh, which is not committed",
		"cd new && ./new.sh": "the check changes to the folder new, which is not committed",
		"tool new.json":      "the check names new.json, which is not committed",
		"test -f new.json":   "the check names new.json, which is not committed",
		"make test":          "the check runs make, but the Makefile is not committed",
		"sh gone.sh":         "the check runs gone.sh, which does not exist",
	} {
		got := Diagnose(onlyInCheckout{committed, checkout}, Check{Command: command}, environment,
			nil)
		if len(got) != 1 || got[0].What != want || !got[0].File ||
			!strings.HasPrefix(got[0].Fix, "commit it, ") {
			t.Errorf("%q: got %+v, want %s", command, got, want)
		}
	}
}
