package checkrun

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/testkit/must"
)

// sandboxKit creates a home folder with tools, and variables that a check does not get. It returns
// the folder, and what the check in the settings gets.
func sandboxKit(t *testing.T, settings string) (home string, contained *contain.Program) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	must.Succeed(t, err)
	home = filepath.Join(root, "home")
	for _, folder := range []string{"tools", "shown"} {
		must.Succeed(t, os.MkdirAll(filepath.Join(home, folder), 0o755))
		must.Succeed(t, os.WriteFile(filepath.Join(home, folder, "mytool"), []byte("#!/bin/sh\n"),
			0o755))
	}
	must.Succeed(t, os.WriteFile(filepath.Join(home, "data.json"), nil, 0o644))
	t.Setenv("HOME", home)
	t.Setenv("TMPDIR", "/elsewhere") // the home folder is a temporary one only for the test
	c, err := config.Parse([]byte(strings.ReplaceAll(settings, "HOME", home)))
	must.Succeed(t, err)
	site := contain.Site{Config: c, Box: filepath.Join(root, "box"),
		Project: filepath.Join(root, "project"),
		Host: contain.Host{Home: home, Environ: []string{"PATH=/usr/bin:/bin", "HOME=" + home,
			"DATABASE_URL=x", "GIVEN=x", "PWD=/", "API_BASE=x"}}}
	return home, site.Check(contain.Check{Config: c.Checks[0], Work: "B-1", Session: "s",
		Dir: filepath.Join(root, "box", "trees", "B-1")})
}

const sandboxed = "checks: [{name: unit, command: x, env_pass: [GIVEN], sandbox: {read: [HOME/shown]}}]"

func whats(causes []Cause) string {
	var all []string
	for _, c := range causes {
		how := "perhaps: "
		if c.Sure {
			how = "sure: "
		}
		all = append(all, how+c.What+" ("+c.Fix+")")
	}
	return strings.Join(all, "; ")
}

const (
	notShown  = " exists, but the check's sandbox does not show it (add it to sandbox.read of the check, or set sandbox: off for it)"
	notPassed = "perhaps: the check uses $DATABASE_URL, which is in your environment but is not passed on (add env_pass: [DATABASE_URL] to the check)"
)

// What the user has and the check does not get is a cause of its own, with what to do about it.
func TestDiagnoseSandbox(t *testing.T) {
	home, contained := sandboxKit(t, sandboxed)
	files, environment := diagnoseKit(t)
	bin := environment.Env["PATH"]
	environment.Env["PATH"] += string(filepath.ListSeparator) + filepath.Join(home, "tools")
	environment.Env["SET"] = "x"
	for command, want := range map[string]string{
		"HOME/tools/mytool --all":                      "sure: HOME/tools/mytool" + notShown,
		"mytool":                                       "sure: HOME/tools/mytool" + notShown,
		"/bin/sh HOME/tools/mytool":                    "sure: HOME/tools/mytool" + notShown,
		"/bin/cat HOME/data.json":                      "perhaps: HOME/data.json" + notShown,
		"test -f HOME/data.json":                       "perhaps: HOME/data.json" + notShown,
		"cd HOME/tools && ./mytool":                    "sure: HOME/tools" + notShown,
		"HOME/shown/mytool":                            "",
		"cd / && /bin/true":                            "",
		"test -e /dev/null":                            "",
		`/bin/true "$DATABASE_URL"`:                    notPassed,
		"/bin/true ${DATABASE_URL}":                    notPassed,
		"/bin/true ${DATABASE_URL:?unset}":             notPassed,
		"/bin/sh -c 'true $DATABASE_URL'":              notPassed,
		"/bin/true && /bin/echo a$DATABASE_URL":        notPassed,
		"/bin/true ${DATABASE_URL:-none}":              "",
		`[ -z "${DATABASE_URL+x}" ] || x`:              "",
		"DATABASE_URL=y; /bin/true $DATABASE_URL":      "",
		"export DATABASE_URL=y; true $DATABASE_URL":    "",
		"/bin/echo '$DATABASE_URL' \\$DATABASE_URL":    "",
		"/bin/true $GIVEN $SET $PWD $HOME $UNKNOWN $1": "",
	} {
		got := strings.ReplaceAll(whats(Diagnose(files,
			Check{Command: strings.ReplaceAll(command, "HOME/", home+"/")}, environment,
			contained)), home, "HOME")
		if got != want {
			t.Errorf("%q\ngot  %s\nwant %s", command, got, want)
		}
	}
	environment.Env["PATH"] = bin
	if got := whats(Diagnose(files, Check{Command: home + "/tools/mytool $DATABASE_URL"},
		Environment{Name: "box", Run: []string{"/bin/sh"}}, contained)); got != "" {
		t.Errorf("in a container: %s", got)
	}
}

// Without a sandbox all files are there, but not all variables.
func TestDiagnoseWithoutSandbox(t *testing.T) {
	home, contained := sandboxKit(t, `checks: [{name: unit, command: x, sandbox: "off"}]`)
	files, environment := diagnoseKit(t)
	if got := whats(Diagnose(files, Check{Command: home + "/tools/mytool $DATABASE_URL"},
		environment, contained)); got != notPassed {
		t.Errorf("got %s", got)
	}
}

// A system that cannot enforce a sandbox may show the file.
func TestDiagnoseWarnedSandbox(t *testing.T) {
	home, contained := sandboxKit(t, `checks: [{name: unit, command: x, sandbox: warn}]`)
	files, environment := diagnoseKit(t)
	if got := whats(Diagnose(files, Check{Command: home + "/tools/mytool"}, environment,
		contained)); got != "perhaps: "+home+"/tools/mytool"+notShown {
		t.Errorf("got %s", got)
	}
}

// What a script of the project does not find is in its output.
func TestDiagnoseSandboxedFailure(t *testing.T) {
	home, contained := sandboxKit(t, sandboxed)
	files, environment := diagnoseKit(t)
	i := slices.IndexFunc(contained.Env,
		func(entry string) bool { return strings.HasPrefix(entry, "HOME=") })
	own := strings.TrimPrefix(contained.Env[i], "HOME=")
	environment.Env["PATH"] += string(filepath.ListSeparator) + filepath.Join(home, "tools")
	for _, tt := range []struct {
		output string
		exit   int
		want   string
	}{
		{"ok.sh: 3: HOME/tools/mytool: not found\n", 127, "sure: HOME/tools/mytool" + notShown},
		{"sh: 1: mytool: not found\n", 127, "sure: HOME/tools/mytool" + notShown},
		{"FileNotFoundError: [Errno 2] No such file or directory: 'HOME/data.json'\n", 1,
			"sure: HOME/data.json" + notShown},
		{"cat: HOME/data.json: Permission denied\n", 1, "sure: HOME/data.json" + notShown},
		{"sh: 1: OWN/tools/mytool: not found\n", 127,
			"sure: HOME/tools/mytool exists, but the check's sandbox has a home folder of its own " +
				"(name it by its full path and add it to sandbox.read of the check, or set sandbox: off for it)"},
		{"ok.sh: 2: DATABASE_URL: parameter not set\n", 2, notPassed},
		{"KeyError: 'DATABASE_URL'\n", 1, notPassed},
		{"cat: HOME/nothing: No such file or directory\n", 1, ""},
		{"reading HOME/data.json\nDATABASE_URL\nGIVEN is not set\n", 1, ""},
	} {
		output := strings.NewReplacer("HOME", home, "OWN", own).Replace(tt.output)
		causes := DiagnoseFailure(files, Check{Command: "./ok.sh"}, environment, contained,
			Result{Exit: tt.exit, Output: []byte(output)})
		if got := strings.ReplaceAll(whats(causes), home, "HOME"); got != tt.want {
			t.Errorf("%q\ngot  %s\nwant %s", tt.output, got, tt.want)
		}
	}
}
