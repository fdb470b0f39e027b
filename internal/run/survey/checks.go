package survey

import (
	"encoding/json"
	"strings"

	"signalbox/internal/lazy"
)

// has reports whether the project has one of the files.
func (p project) has(names ...string) bool { return p.first(names...) != "" }

// first returns the first of the files that the project has, "" if it has none.
func (p project) first(names ...string) string {
	for _, name := range names {
		if _, ok := p[name]; ok {
			return name
		}
	}
	return ""
}

// targets are the targets and scripts that usually check a project and change nothing.
var targets = []string{"test", "check", "lint", "typecheck", "type-check", "vet"}

// checks returns the commands that probably check the project, those of the project's own first.
func (p project) checks() (found []Command) {
	add := func(name, command, file, part string) {
		found = append(found, Command{Name: name, Command: command, File: file, Part: part})
	}
	makefile := p.first(makefiles...)
	defined := rules(p[makefile])
	for _, target := range targets {
		if defined[target] {
			add("make "+target, "make "+target, makefile, "the target "+target)
		}
	}
	if p.has(goModule) {
		add("go test", "go test ./...", goModule, "")
		add("go vet", "go vet ./...", goModule, "")
	}
	if p.has(cargo) {
		add("cargo test", "cargo test", cargo, "")
	}
	manager, scripts := p.node()
	for _, script := range targets {
		if isScript(scripts[script]) {
			command := manager + " run " + script // bun test is something else
			add(command, command, packageJSON, "the script "+script)
		}
	}
	p.python(add)
	switch {
	case p.has(mvnw):
		add("mvn verify", "./mvnw -B verify", mvnw, "")
	case p.has(pom):
		add("mvn verify", "mvn -B verify", pom, "")
	}
	switch file := p.first(gradlew, gradle, gradleKotlin); file {
	case "":
	case gradlew:
		add("gradle check", "./gradlew check", file, "")
	default:
		add("gradle check", "gradle check", file, "")
	}
	if p.has(mix) {
		add("mix test", "mix test", mix, "")
	}
	if p.has(rspec) {
		add("rspec", "bundle exec rspec", rspec, "")
	}
	if p.has(preCommit) {
		add("pre-commit", "pre-commit run --all-files", preCommit, "")
	}
	return found
}

// pytestUse matches what mentions pytest in pyproject.toml: its settings, or a dependency. The
// others match the settings of the programs.
var (
	pytestUse = lazy.Regexp(`(?m)^\s*\[tool\.pytest\b|^[^#\n]*["']pytest\b|^\s*pytest\s*=`)
	ruffUse   = lazy.Regexp(`(?m)^\s*\[tool\.ruff\b`)
	mypyUse   = lazy.Regexp(`(?m)^\s*\[tool\.mypy\b`)
	toxUse    = lazy.Regexp(`(?m)^\s*\[tool\.tox\b`)
)

// python adds the checks of a Python project.
func (p project) python(add func(name, command, file, part string)) {
	text, prefix := p[pyproject], ""
	switch p.first(uvLock, poetryLock) {
	case uvLock:
		prefix = "uv run "
	case poetryLock:
		prefix = "poetry run "
	}
	switch pytest := p.first(pytestINI, conftest); {
	case p.has(tox):
		add("tox", prefix+"tox", tox, "")
	case toxUse().MatchString(text):
		add("tox", prefix+"tox", pyproject, "the settings of tox")
	case pytest != "":
		add("pytest", prefix+"pytest", pytest, "")
	case pytestUse().MatchString(text):
		add("pytest", prefix+"pytest", pyproject, "pytest")
	}
	if ruffUse().MatchString(text) {
		add("ruff", prefix+"ruff check .", pyproject, "the settings of ruff")
	}
	if mypyUse().MatchString(text) {
		add("mypy", prefix+"mypy .", pyproject, "the settings of mypy")
	}
}

// rules returns the targets that a makefile defines. It leaves out those of included files, and those
// that a variable or a pattern names.
func rules(text string) map[string]bool {
	found := map[string]bool{}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\\\n", " ")
	for line := range strings.SplitSeq(text, "\n") {
		names, rest, isRule := strings.Cut(line, ":")
		if !isRule || strings.HasPrefix(line, "\t") || strings.HasPrefix(line, " ") ||
			strings.ContainsAny(names, "#=") ||
			strings.HasPrefix(strings.TrimLeft(rest, ":"), "=") { // an assignment
			continue
		}
		for _, name := range strings.Fields(names) {
			found[name] = true
		}
	}
	return found
}

// node returns the package manager of a project and its scripts.
func (p project) node() (manager string, scripts map[string]string) {
	var file struct {
		Scripts        map[string]any `json:"scripts"`
		PackageManager any            `json:"packageManager"`
	}
	if json.Unmarshal([]byte(p[packageJSON]), &file) != nil {
		return "", nil
	}
	scripts = map[string]string{}
	for name, script := range file.Scripts {
		if line, ok := script.(string); ok {
			scripts[name] = line
		}
	}
	named, _ := file.PackageManager.(string)
	for _, known := range []string{"npm", "pnpm", "yarn", "bun"} {
		if strings.HasPrefix(named, known+"@") {
			return known, scripts
		}
	}
	switch p.first(pnpmLock, yarnLock, bunLock, bunLockBinary) {
	case pnpmLock:
		return "pnpm", scripts
	case yarnLock:
		return "yarn", scripts
	case bunLock, bunLockBinary:
		return "bun", scripts
	}
	return "npm", scripts
}

// isScript reports whether a script of package.json does something: npm init writes one that fails.
func isScript(line string) bool {
	return strings.TrimSpace(line) != "" && !strings.Contains(line, "no test specified")
}

// setup returns the commands that make a worktree ready for the checks: it has only what is
// committed, and so no packages.
func (p project) setup() []Command {
	manager, scripts := p.node()
	if len(scripts) == 0 {
		return nil
	}
	install := func(lock, command string) []Command {
		if lock == "" { // an installation would write it
			return nil
		}
		return []Command{{Name: command, Command: command, File: lock,

			Files: []string{packageJSON, lock}}}
	}
	switch manager {
	case "npm":
		return install(p.first(packageLock), "npm ci")
	case "pnpm":
		return install(p.first(pnpmLock), "pnpm install --frozen-lockfile")
	case "yarn":
		if strings.Contains(p[yarnLock], "# yarn lockfile v1") {
			return install(p.first(yarnLock), "yarn install --frozen-lockfile")
		}
		return install(p.first(yarnLock), "yarn install --immutable")
	}
	return install(p.first(bunLock, bunLockBinary), "bun install --frozen-lockfile")
}
