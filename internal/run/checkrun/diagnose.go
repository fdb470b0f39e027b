package checkrun

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/contain"
	"signalbox/internal/lazy"
)

// Cause is a reason why a check cannot pass that no agent should have to repair: something is
// missing on this machine, a file that the command names is not there, or the check does not get
// something that the user has.
type Cause struct {
	// What is missing, and Fix is what to do.
	What, Fix string
	// Sure means that the check cannot pass. Otherwise it probably cannot.
	Sure bool
	// File means that a file of the project is missing, which something that runs before the check
	// may create.
	File bool
}

// Diagnose looks for causes why a check cannot pass in a folder, without running anything. It reads
// the command as far as it certainly runs: up to the first part that depends on a variable, a
// condition or on what an earlier part does. contained is what the check gets; nil means everything
// that this process has.
func Diagnose(files fs.FS, check Check, environment Environment,
	contained *contain.Program) []Cause {
	d := newDiagnosis(files, environment, contained)
	if len(environment.Run) > 0 { // the command runs elsewhere, such as in a container
		d.program(environment.Run[0], "the environment "+environment.Name)
	} else {
		d.command(check.Command)
		d.ignored = true // the check may not need the variable
		for _, name := range usedVariables(check.Command) {
			d.variable(name)
		}
	}
	if !strings.Contains(check.Command, "submodule") {
		d.submodules()
	}
	return d.causes
}

func newDiagnosis(files fs.FS, environment Environment, contained *contain.Program) *diagnosis {
	d := &diagnosis{files: files, path: os.Getenv("PATH"), env: environment.Env, dir: ".",
		contained: contained}
	if custom, set := environment.Env["PATH"]; set {
		d.path = custom
	}
	return d
}

// DiagnoseFailure is Diagnose for a check that has failed. Its exit status and output may tell
// more.
func DiagnoseFailure(files fs.FS, check Check, environment Environment, contained *contain.Program,
	result Result) []Cause {
	d := newDiagnosis(files, environment, contained)
	d.causes = Diagnose(files, check, environment, contained)
	if len(environment.Run) == 0 {
		d.output(result.Output)
	}
	sure := slices.ContainsFunc(d.causes, func(c Cause) bool { return c.Sure })
	if found := notFound().FindSubmatch(result.Output); found != nil && !sure &&
		result.Exit == exitNotFound {
		name := cmp.Or(string(found[1]), string(found[2]))
		if file, shown := d.inPath(name); file == "" || shown || len(environment.Run) > 0 {
			d.add(true, fixProgram, "%s was not found", name)
		} else {
			d.hidden(file, true)
		}
	}
	return d.causes
}

// exitNotFound is the exit status of a shell that did not find a program.
const exitNotFound = 127

// notFound matches what shells and env print about a program that is not there.
var notFound = lazy.Regexp(
	`(?m)^(?:.*[ :])?([^\s:]+): (?:command )?not found\r?$|^(?:/usr/bin/)?env: ['‘"]?([^'’":\s]+)['’"]?: No such file`)

// diagnosis reads the command of a check.
type diagnosis struct {
	files fs.FS
	path  string // the search path for programs
	env   map[string]string
	dir   string // where the command is by now
	// contained is what the check gets; nil means everything.
	contained *contain.Program
	// ignored means that the check may pass although the current command fails.
	ignored bool
	causes  []Cause
}

func (d *diagnosis) add(sure bool, fix, format string, args ...any) {
	if c := (Cause{fmt.Sprintf(format, args...), fix, sure && !d.ignored,
		fix == fixFile}); !slices.Contains(d.causes, c) {
		d.causes = append(d.causes, c)
	}
}

const fixProgram = "install it, or correct the command of the check"

// program looks for a program in the search path.
func (d *diagnosis) program(name, user string) {
	if !strings.Contains(name, "/") {
		if file, shown := d.inPath(name); file == "" {
			d.add(true, fixProgram, "%s needs the program %s, which is not in the PATH", user, name)
		} else if !shown {
			d.hidden(file, true)
		}
		return
	}
	if path.IsAbs(name) {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			d.add(true, fixProgram, "%s needs %s, which does not exist", user, name)
		} else {
			d.hidden(name, true)
		}
		return
	}
	d.script(name, true)
}

// inPath returns the file of a program in the search path, and whether the check can see it. A file
// that it can see counts first.
func (d *diagnosis) inPath(name string) (file string, shown bool) {
	for _, dir := range filepath.SplitList(d.path) {
		found := filepath.Join(cmp.Or(dir, "."), name)
		if _, err := exec.LookPath(found); err != nil && !errors.Is(err, exec.ErrDot) {
			continue
		}
		if !filepath.IsAbs(found) || d.contained.Shows(found) {
			return found, true
		}
		file = cmp.Or(file, found)
	}
	return file, false
}

const fixFile = "commit it, or correct the command of the check: it runs in a fresh worktree, where only committed files are"

// ErrNotCommitted is what files report for a name that only the checkout has. It is an
// fs.ErrNotExist.
var ErrNotCommitted = fmt.Errorf("not committed: %w", fs.ErrNotExist)

const notCommitted = "is not committed"

// find looks for a file that the command names. missing is "" if it is there or outside of the
// folder, and otherwise says what is wrong.
func (d *diagnosis) find(name string) (full, missing string) {
	full = path.Join(d.dir, name)
	if path.IsAbs(name) || !fs.ValidPath(full) {
		return full, ""
	}
	switch _, err := fs.Stat(d.files, full); {
	case errors.Is(err, ErrNotCommitted):
		return full, notCommitted
	case errors.Is(err, fs.ErrNotExist):
		return full, "does not exist"
	}
	return full, ""
}

// script looks at a script: whether it exists, and if it is run directly, whether it can be run.
func (d *diagnosis) script(name string, direct bool) {
	full, missing := d.find(name)
	if missing != "" {
		d.add(true, fixFile, "the check runs %s, which %s", name, missing)
		return
	}
	d.hidden(name, true)
	if !direct || path.IsAbs(name) || !fs.ValidPath(full) {
		return
	}
	info, err := fs.Stat(d.files, full)
	// the check may have put a pipe there, which must not be opened
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	if info.Mode().Perm()&0o111 == 0 {
		d.add(true, "run git update-index --chmod=+x "+full+", and commit it",
			"the check runs %s, which is not executable", name)
		return
	}
	file, err := d.files.Open(full)
	if err != nil {
		return
	}
	defer file.Close()
	if interpreter := contain.Interpreter(file); interpreter != "" {
		d.interpreter(name, interpreter)
	}
}

// interpreter looks for the program that the first line of a script names.
func (d *diagnosis) interpreter(script, name string) {
	file, missing := name, false
	if path.IsAbs(file) {
		_, err := os.Stat(file)
		missing = errors.Is(err, fs.ErrNotExist)
	} else if !strings.Contains(file, "/") {
		found, shown := d.inPath(file)
		if missing = found == ""; !missing && !shown {
			file = found
		}
	}
	d.hidden(file, true)
	if missing {
		d.add(true, "install it, or correct the first line of "+script,
			"%s needs the interpreter %s, which is not installed", script, name)
	}
}

var submodulePath = lazy.Regexp(`(?m)^\s*path\s*=\s*"?(.*?)"?\s*$`)

// submodules looks for submodules whose files are not there. A fresh worktree has those that are on
// this machine.
func (d *diagnosis) submodules() {
	if info, err := fs.Stat(d.files, ".gitmodules"); err != nil || !info.Mode().IsRegular() {
		return
	}
	text, err := fs.ReadFile(d.files, ".gitmodules")
	if err != nil {
		return
	}
	var empty []string
	for _, found := range submodulePath().FindAllSubmatch(text, -1) {
		name := path.Clean(string(found[1]))
		if entries, err := fs.ReadDir(d.files, name); fs.ValidPath(name) &&
			(errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0) {
			empty = append(empty, name)
		}
	}
	if len(empty) > 0 {
		d.add(false, "fetch them in your checkout, from which worktrees get them: git submodule update --init --recursive",
			"submodules are not on this machine, so they are not in the worktree where the check runs: %s", strings.Join(empty, ", "))
	}
}

// command looks at what a command names, as far as it certainly runs.
func (d *diagnosis) command(text string) {
	for _, c := range parseShell(text) {
		if d.ignored = !c.decides; !d.simple(c.words) {
			return
		}
	}
}

// simple looks at a simple command. It reports whether the next one certainly runs in a known
// state.
func (d *diagnosis) simple(words []shellWord) bool {
	for len(words) > 0 && assignment().MatchString(words[0].text) {
		if strings.HasPrefix(words[0].text, "PATH=") {
			return false
		}
		words = words[1:]
	}
	if len(words) == 0 {
		return true
	}
	if !words[0].literal {
		return false
	}
	name, args := words[0].text, words[1:]
	switch name {
	case "set", ":", "true", "echo", "printf", "umask", "ulimit":
		return true
	case "cd":
		return d.changeDir(args)
	case "exec", "time", "nohup", "command", "env":
		return len(args) > 0 && !strings.HasPrefix(args[0].text, "-") && d.simple(args)
	case "test", "[":
		d.test(args)
		return false
	case ".", "source":
		if len(args) > 0 && args[0].literal && strings.Contains(args[0].text, "/") {
			d.script(args[0].text, false)
		}
		return false
	}
	if slices.Contains(otherBuiltins, name) {
		return false
	}
	d.program(name, "the check")
	switch base := path.Base(name); {
	case interpreters().MatchString(base):
		d.interpreted(args, base)
	case base == "make" || base == "gmake":
		d.make(args)
	case !slices.Contains(creators, base):
		d.arguments(args)
	}
	return false // it may create what comes next
}

var (
	assignment   = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*=`)
	interpreters = lazy.Regexp(
		`^(sh|bash|dash|zsh|ksh|python[0-9.]*|pypy[0-9.]*|node|bun|deno|ruby|perl|php|lua[0-9.]*|Rscript)$`)
	// of the files that they name
	creators = []string{"cp", "curl", "install", "ln", "mkdir", "mv", "rm", "tee", "touch",
		"wget"}
	otherBuiltins = []string{"alias", "bg", "break", "continue", "eval", "exit", "export", "false",
		"fc", "fg", "getopts", "hash", "jobs", "kill", "local",
		"read", "readonly", "return", "shift", "times", "trap", "type", "unalias", "unset", "wait"}
)

func (d *diagnosis) changeDir(args []shellWord) bool {
	if len(args) != 1 || !args[0].literal || strings.HasPrefix(args[0].text, "-") {
		return false
	}
	full, missing := d.find(args[0].text)
	if missing != "" {
		d.add(true, fixFile, "the check changes to the folder %s, which %s", args[0].text, missing)
		return false
	}
	d.hidden(args[0].text, true)
	d.dir = full
	return !path.IsAbs(args[0].text) && fs.ValidPath(full)
}

// test looks at a condition on one file, such as test -f NAME.
func (d *diagnosis) test(args []shellWord) {
	if len(args) < 2 || !args[1].literal ||
		!slices.Contains([]string{"-d", "-e", "-f", "-r", "-s", "-x"}, args[0].text) ||
		len(args) > 2 && args[2].text != "]" {
		return
	}
	d.file(args[1].text)
}

// file looks at a file that the check names as an argument.
func (d *diagnosis) file(name string) {
	if _, missing := d.find(name); missing != "" {
		d.add(false, fixFile, "the check names %s, which %s", name, missing)
	}
	d.hidden(name, false)
}

// interpreted looks at the script in the arguments of an interpreter.
func (d *diagnosis) interpreted(args []shellWord, interpreter string) {
	noScript := "cemr" // options that give a program, an expression or a module instead
	if strings.HasSuffix(interpreter, "sh") {
		noScript = "cs"
	}
	for _, arg := range args {
		switch {
		case !arg.literal, strings.HasPrefix(arg.text, "-") &&
			strings.ContainsAny(arg.text, noScript), arg.text == "run", arg.text == "test":
			return // the program is an argument, or a module
		case !strings.HasPrefix(arg.text, "-"):
			d.script(arg.text, false)
			return
		}
	}
}

// make looks at the makefile.
func (d *diagnosis) make(args []shellWord) {
	for i, arg := range args {
		switch {
		case !arg.literal:
			return
		case arg.text == "-C" && i+1 < len(args) && args[i+1].literal:
			if !d.changeDir(args[i+1 : i+2]) {
				return
			}
		case arg.text == "-f" && i+1 < len(args) && args[i+1].literal:
			d.script(args[i+1].text, false)
			return
		case strings.HasPrefix(arg.text, "--"), strings.HasPrefix(arg.text, "-") &&
			strings.ContainsAny(arg.text, "Cf"):
			return
		}
	}
	wrong := "there is no Makefile"
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} {
		switch _, missing := d.find(name); missing {
		case "":
			return
		case notCommitted:
			wrong = "the Makefile " + missing
		}
	}
	d.add(true, fixFile, "the check runs make, but %s", wrong)
}

// arguments looks at arguments that are certainly names of files. What follows an option may be
// created.
func (d *diagnosis) arguments(args []shellWord) {
	for i, arg := range args {
		if !arg.literal || arg.quoted || !fileName().MatchString(arg.text) || i > 0 &&
			strings.HasPrefix(args[i-1].text, "-") ||
			// the check may create it
			strings.HasPrefix(arg.text, filepath.Clean(os.TempDir())+"/") {
			continue
		}
		d.file(arg.text)
	}
}

// fileName matches words with an extension that files have and that domains, packages and versions
// have not.
var fileName = lazy.Regexp(
	`^[A-Za-z0-9_./-]*[A-Za-z0-9_]\.(bash|bats|c|cc|cfg|conf|cpp|css|csv|go|h|hpp|html|ini|java|js|json|lua|mjs|md|mk|php|pl|proto|py|rb|rs|sh|sql|toml|ts|txt|xml|ya?ml)$`)
