package survey

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/config"
	"signalbox/internal/run/agent"
	"signalbox/internal/testkit/must"
)

func TestChecks(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files project
		want  []string // commands, and what they follow from
		setup string
	}{
		{"nothing", nil, nil, ""},
		{"go", project{"go.mod": "module x"},
			[]string{"go test ./... # go.mod", "go vet ./... # go.mod"}, ""},
		{"make", project{"Makefile": ".PHONY: test lint vet\ncheck := x\nall test: build\n\tcheck: y\n" +
			"# typecheck: no\nlint::\n\techo\n"},
			[]string{"make test # the target test of Makefile",
				"make lint # the target lint of Makefile"}, ""},
		{"the first makefile", project{"GNUmakefile": "check:", "Makefile": "test:"},
			[]string{"make check # the target check of GNUmakefile"}, ""},
		{"a rule on two lines", project{"makefile": "a \\\r\n test: b\r\n"},
			[]string{"make test # the target test of makefile"}, ""},
		{"cargo", project{"Cargo.toml": ""}, []string{"cargo test # Cargo.toml"}, ""},
		{"npm", project{"package.json": `{"scripts": {"test": "vitest", "lint": "eslint", "x": "y"}}`,
			"package-lock.json": ""},
			[]string{"npm run test # the script test of package.json",
				"npm run lint # the script lint of package.json"},
			"npm ci [package.json package-lock.json]"},
		{"npm init", project{"package.json": `{"scripts": {"test": "echo \"Error: no test specified\" && exit 1", "check": " "}}`},
			nil, ""},
		{"no lock", project{"package.json": `{"scripts": {"typecheck": "tsc"}}`},
			[]string{"npm run typecheck # the script typecheck of package.json"}, ""},
		{"pnpm", project{"package.json": `{"scripts": {"test": "x"}}`, "pnpm-lock.yaml": ""},
			[]string{"pnpm run test # the script test of package.json"},
			"pnpm install --frozen-lockfile [package.json pnpm-lock.yaml]"},
		{"yarn 1", project{"package.json": `{"scripts": {"test": "x"}}`,
			"yarn.lock": "# yarn lockfile v1\n"},
			[]string{"yarn run test # the script test of package.json"},
			"yarn install --frozen-lockfile [package.json yarn.lock]"},
		{"yarn 4", project{"package.json": `{"scripts": {"test": "x"}, "packageManager": "yarn@4.1.0"}`,
			"yarn.lock": "__metadata:", "package-lock.json": ""},
			[]string{"yarn run test # the script test of package.json"},
			"yarn install --immutable [package.json yarn.lock]"},
		{"bun", project{"package.json": `{"scripts": {"test": "x"}}`, "bun.lockb": "\x00"},
			[]string{"bun run test # the script test of package.json"},
			"bun install --frozen-lockfile [package.json bun.lockb]"},
		{"an unknown manager", project{
			"package.json": `{"scripts": {"test": "x", "lint": 1}, "packageManager": "npm\n#x@1"}`},
			[]string{"npm run test # the script test of package.json"}, ""},
		{"not JSON", project{"package.json": `{"scripts": {"test": `}, nil, ""},
		{"other JSON", project{"package.json": `{"scripts": ["test"]}`}, nil, ""},
		{"pytest", project{"pyproject.toml": "[project]\ndependencies = [\"pytest>=8\"]\n"},
			[]string{"pytest # pytest of pyproject.toml"}, ""},
		{"no pytest", project{"pyproject.toml": "[project]\n# \"pytest\"\nname = \"x\"\n"}, nil, ""},
		{"uv", project{"uv.lock": "", "pyproject.toml": "[tool.pytest.ini_options]\n[tool.ruff]\n[tool.mypy]\n"},
			[]string{"uv run pytest # pytest of pyproject.toml",
				"uv run ruff check . # the settings of ruff of pyproject.toml",
				"uv run mypy . # the settings of mypy of pyproject.toml"}, ""},
		{"poetry", project{"poetry.lock": "", "conftest.py": ""},
			[]string{"poetry run pytest # conftest.py"}, ""},
		{"tox", project{"tox.ini": "", "pytest.ini": ""}, []string{"tox # tox.ini"}, ""},
		{"tox settings", project{"pyproject.toml": "[tool.tox]\n"},
			[]string{"tox # the settings of tox of pyproject.toml"}, ""},
		{"maven", project{"pom.xml": ""}, []string{"mvn -B verify # pom.xml"}, ""},
		{"wrappers", project{"pom.xml": "", "mvnw": "", "gradlew": "", "build.gradle": ""},
			[]string{"./mvnw -B verify # mvnw", "./gradlew check # gradlew"}, ""},
		{"gradle", project{"build.gradle.kts": ""}, []string{"gradle check # build.gradle.kts"}, ""},
		{"others", project{"mix.exs": "", ".rspec": "", ".pre-commit-config.yaml": ""},
			[]string{"mix test # mix.exs", "bundle exec rspec # .rspec",
				"pre-commit run --all-files # .pre-commit-config.yaml"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, c := range tt.files.checks() {
				got = append(got, c.Command+" # "+c.source())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			setup := ""
			for _, c := range tt.files.setup() {
				setup += c.Command + " [" + strings.Join(c.Files, " ") + "]"
			}
			if setup != tt.setup {
				t.Errorf("setup %q, want %q", setup, tt.setup)
			}
			checkConfiguration(t, Found{Checks: tt.files.checks(), Setup: tt.files.setup()})
		})
	}
}

// uncomment removes the comment marks from the settings of a block that begins with a line.
func uncomment(t *testing.T, text, first string) string {
	t.Helper()
	_, block, found := strings.Cut(text, "\n# "+first+"\n")
	if !found {
		t.Fatalf("there is no block %s", first)
	}
	var b strings.Builder
	b.WriteString(first + "\n")
	for line := range strings.Lines(block) {
		setting, ok := strings.CutPrefix(line, "# ")
		if !ok {
			break
		}
		b.WriteString(setting)
	}
	return b.String()
}

// checkConfiguration checks that a configuration sets nothing but the agent, and that its comments
// set the commands.
func checkConfiguration(t *testing.T, found Found) {
	t.Helper()
	want := config.Default()
	if len(found.Agents) > 0 {
		want.Agent = config.AgentList{found.Agents[0].Name}
	}
	text := found.Box()
	got, err := config.Parse([]byte(text))
	must.Succeed(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := config.Parse([]byte(found.Team())); err != nil {
		t.Error(err)
	}
	if len(found.Checks) == 0 {
		return
	}
	for _, text := range []string{text, found.Team()} {
		settings := uncomment(t, text, "checks:")
		if len(found.Setup) > 0 {
			settings += uncomment(t, text, "setup:")
		}
		c, err := config.Parse([]byte(settings))
		must.Succeed(t, err)
		var commands []string
		for _, check := range c.Checks {
			commands = append(commands, check.Command)
		}
		for _, setup := range c.Setup {
			commands = append(commands, setup.Command)
		}
		var want []string
		for _, c := range slices.Concat(found.Checks, found.Setup) {
			want = append(want, c.Command)
		}
		if diff := cmp.Diff(want, commands); diff != "" {
			t.Errorf("(-want +got):\n%s\n%s", diff, settings)
		}
	}
}

func TestAgents(t *testing.T) {
	if got := (Found{}).Box(); got != config.Template {
		t.Error("without anything found, the configuration is not the template")
	}
	for _, names := range [][]string{{"claude"}, {"codex", "claude"}, {"opencode"}} {
		found := Found{}
		for _, name := range names {
			found.Agents = append(found.Agents, agent.Installation{Name: name})
		}
		found.Agents[len(names)-1].NoLogin = "run it once and log in"
		checkConfiguration(t, found)
		if text := found.Box(); !strings.Contains(text, "\nagent: "+names[0]+"\n") ||
			strings.Contains(text, "# agent: claude") {
			t.Errorf("%q:\n%s", names, text)
		}
		if strings.Contains(found.Team(), "\nagent:") {
			t.Error("the configuration of a team names an agent of this machine")
		}
	}
	found := Found{Agents: []agent.Installation{{Name: "codex"}, {Name: "claude", NoLogin: "log in"}},
		Checks: project{"go.mod": "", "Makefile": "test:"}.checks()}
	want := []string{
		"found codex, with no login missing as far as can be seen; s.yaml names it",
		"found claude, without a login: log in",
		"found probable checks in Makefile, go.mod: make test, go test, go vet; they are comments in s.yaml until you remove the \"# \" in front of them",
	}
	if diff := cmp.Diff(want, found.Notes("s.yaml")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A project cannot make the survey read another folder, wait, or read without end.
func TestReadProject(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no links")
	}
	dir, outside := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
	}
	write(filepath.Join(outside, "Makefile"), "test:\n")
	must.Succeed(t, os.Symlink(filepath.Join(outside, "Makefile"), filepath.Join(dir, "Makefile")))
	write(filepath.Join(dir, "build.mk"), "lint:\n")
	must.Succeed(t, os.Symlink("build.mk", filepath.Join(dir, "GNUmakefile"))) // within the project
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "go.mod"), 0o700))
	write(filepath.Join(dir, "package.json"), `{"scripts": {"test": "x"}}`+strings.Repeat(" ", maxFile))
	if diff := cmp.Diff(project{"GNUmakefile": "lint:\n", "package.json": ""},
		readProject(dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := readProject(filepath.Join(dir, "nothing")); len(got) > 0 {
		t.Errorf("a missing folder has %v", got)
	}
}

// FuzzChecks checks that no text of a project becomes part of the configuration.
func FuzzChecks(f *testing.F) {
	f.Add("test: x\nlint:\n", `{"scripts": {"test": "x"}}`, "[tool.ruff]\n", "# yarn lockfile v1")
	f.Add("test:\r# x\n", `{"packageManager": "pnpm@\nagent: x"}`, "\"pytest", "")
	allowed := map[string]bool{}
	for _, name := range targets {
		for _, runner := range []string{"make ", "npm run ", "yarn run ", "pnpm run ", "bun run "} {
			allowed[runner+name] = true
		}
	}
	for _, command := range []string{"pytest", "tox", "ruff check .", "mypy .", "npm ci",
		"yarn install --immutable", "yarn install --frozen-lockfile"} {
		allowed[command] = true
	}
	f.Fuzz(func(t *testing.T, makefile, packages, python, lock string) {
		p := project{"Makefile": makefile, packageJSON: packages, pyproject: python, yarnLock: lock}
		found := Found{Checks: p.checks(), Setup: p.setup()}
		for _, c := range slices.Concat(found.Checks, found.Setup) {
			if !allowed[c.Command] {
				t.Errorf("the command %q", c.Command)
			}
			if _, known := p[c.File]; !known {
				t.Errorf("the file %q", c.File)
			}
		}
		checkConfiguration(t, found)
		if _, err := json.Marshal(found); err != nil {
			t.Error(err)
		}
	})
}
