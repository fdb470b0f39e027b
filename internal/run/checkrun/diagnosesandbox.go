package checkrun

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"signalbox/internal/lazy"
	"signalbox/internal/sandbox"
)

// hidden looks whether a file exists that the check cannot see. sure means that the check fails
// without it.
func (d *diagnosis) hidden(name string, sure bool) {
	if !path.IsAbs(name) || d.contained.Shows(name) {
		return
	}
	if _, err := os.Stat(name); err != nil {
		return
	}
	// otherwise the system may not enforce it
	sure = sure && d.contained.Policy.Mode == sandbox.Enforce
	d.add(sure, "add it to sandbox.read of the check, or set sandbox: off for it",
		"%s exists, but the check's sandbox does not show it", name)
}

// ownVariables are variables that a shell sets itself.
var ownVariables = []string{"_", "IFS", "LINENO", "OLDPWD", "OPTARG", "OPTIND", "PPID", "PS1",
	"PS2", "PS4", "PWD", "SHLVL"}

// variable looks whether the user has a variable that the check does not get.
func (d *diagnosis) variable(name string) {
	if _, set := d.env[name]; set || slices.Contains(ownVariables, name) ||
		!d.contained.Withholds(name) {
		return
	}
	d.add(false, "add env_pass: ["+name+"] to the check",
		"the check uses $%s, which is in your environment but is not passed on", name)
}

var (
	// variableUse matches what a shell replaces by a variable: $NAME, ${NAME}, and what is in
	// braces after the name.
	variableUse = lazy.Regexp(
		`\\.|\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{#?([A-Za-z_][A-Za-z0-9_]*)(:?[-+=])?)`)
	// singleQuoted matches text that the shell leaves as it is. After an option such as -c it is a
	// script for another shell.
	singleQuoted = lazy.Regexp(`(\s-[a-z]*c\s+)?'[^']*'|"(?:\\.|[^"\\])*"|\\.`)
)

// usedVariables returns the variables that a command uses. It leaves out those that the command
// sets, and those that it has a default for.
func usedVariables(command string) (names []string) {
	text := singleQuoted().ReplaceAllStringFunc(command, func(quoted string) string {
		if quoted[0] == '\'' {
			return "''"
		}
		return quoted
	})
	for _, found := range variableUse().FindAllStringSubmatch(text, -1) {
		name := found[1] + found[2]
		if name == "" || found[3] != "" || slices.Contains(names, name) {
			continue
		}
		sets := regexp.MustCompile(`(^|[\s;&|({'"])(` + name + `=|(for|read|read -r)\s+` + name +
			`\b)`)
		if handled := regexp.MustCompile(`\$\{` + name + `:?[-+=]`); !sets.MatchString(command) &&
			!handled.MatchString(text) {
			names = append(names, name)
		}
	}
	return names
}

var (
	// fileTrouble matches lines about files that cannot be used, and variableTrouble those about
	// variables that are not set.
	fileTrouble = lazy.Regexp(
		`(?im)^.*(?:not found|no such file|permission denied|cannot open|can't open|does not exist|ENOENT|EACCES).*$`)
	variableTrouble = lazy.Regexp(
		`(?im)^.*(?:not set|unset|unbound|undefined|not defined|missing|required|must be set|KeyError|environment variable).*$`)
	absolutePath = lazy.Regexp("/[^\\s:;,'\"‘’`()<>\\[\\]]+")
	variableName = lazy.Regexp(`\b[A-Z][A-Z0-9_]{2,}\b`)
)

// output looks at what a failed check wrote, for files that the check cannot see and variables that
// it does not get.
func (d *diagnosis) output(text []byte) {
	for _, line := range fileTrouble().FindAll(text, -1) {
		for _, name := range absolutePath().FindAll(line, -1) {
			d.hidden(string(name), true)
			d.ownHome(string(name))
		}
	}
	for _, line := range variableTrouble().FindAll(text, -1) {
		for _, name := range variableName().FindAll(line, -1) {
			d.variable(string(name))
		}
	}
}

// ownHome looks whether a file that the check did not find in its own home folder is in the home
// folder of the user.
func (d *diagnosis) ownHome(name string) {
	rel, ok := d.contained.InHome(name)
	home, err := os.UserHomeDir()
	if !ok || rel == "." || err != nil {
		return
	}
	users := filepath.Join(home, rel)
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if _, err := os.Stat(users); err == nil && !strings.HasPrefix(name, users) {
		d.add(true, "name it by its full path and add it to sandbox.read of the check, or set sandbox: off for it",
			"%s exists, but the check's sandbox has a home folder of its own", users)
	}
}
