package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/process"
	"signalbox/internal/testkit/must"
)

func build(t *testing.T, c Command, values Values) process.Spec {
	t.Helper()
	spec, cleanup, err := c.Build(values)
	must.Succeed(t, err)
	t.Cleanup(cleanup)
	return spec
}

func TestBuild(t *testing.T) {
	values := Values{Prompt: []byte("say {task} and {prompt}\x00"), Dir: "/w", Role: "critic",
		Task: "t-1", Session: "w-1.2"}
	for _, tt := range []struct {
		name  string
		c     Command
		argv  []string
		stdin string
	}{
		{"stdin", Command{Argv: []string{"a", "{role}/{task}", "{workspace}", "{session}",
			"{other}"}},
			[]string{"a", "critic/t-1", "/w", "w-1.2", "{other}"}, string(values.Prompt)},
		{"argument", Command{Argv: []string{"a", "-p={prompt}"}},
			[]string{"a", "-p=say {task} and {prompt}\uFFFD"}, ""},
		{"model", Command{Argv: []string{"{model}", "a", "-m", "{model}", "b", "{model}",
			"--m={model}"}}, []string{"a", "b"}, string(values.Prompt)},
		{"interactive", Command{Argv: []string{"a"}, Interactive: true}, []string{"a"},
			string(values.Prompt) + "\n"},
		{"interactive argument", Command{Argv: []string{"a", "{prompt}"}, Interactive: true},
			[]string{"a", "say {task} and {prompt}\uFFFD"}, ""},
	} {
		spec := build(t, tt.c, values)
		if diff := cmp.Diff(tt.argv, spec.Argv); diff != "" {
			t.Errorf("%s: arguments (-want +got):\n%s", tt.name, diff)
		}
		if string(spec.Stdin) != tt.stdin || (spec.Stdin == nil) != (tt.stdin == "") {
			t.Errorf("%s: input %q", tt.name, spec.Stdin)
		}
		if spec.Dir != "/w" || spec.Interactive != tt.c.Interactive {
			t.Errorf("%s: %+v", tt.name, spec)
		}
	}
}

func TestPromptInAFile(t *testing.T) {
	long := strings.Repeat("long ", maxArgument)
	for _, tt := range []struct {
		name, argument, prompt string
		find                   func(argument string) string
	}{
		{"file", "@{prompt_file}", "do it",
			func(argument string) string { return strings.TrimPrefix(argument, "@") }},
		{"too long for an argument", "{prompt}", long, func(argument string) string {
			_, rest, _ := strings.Cut(argument, "in the file ")
			name, _, _ := strings.Cut(rest, ". Read")
			return name
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			spec, cleanup, err := Command{Argv: []string{"a", tt.argument}}.Build(
				Values{Prompt: []byte(tt.prompt), ScratchDir: dir})
			must.Succeed(t, err)
			name := tt.find(spec.Argv[1])
			text, err := os.ReadFile(name)
			if err != nil || string(text) != tt.prompt || filepath.Dir(name) != dir ||
				spec.Stdin != nil {
				t.Errorf("%s: %d bytes, %v, input %q", name, len(text), err, spec.Stdin)
			}
			if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 &&
				os.PathSeparator == '/' {
				t.Errorf("%v, %v: other users can read it", info, err)
			}
			cleanup()
			if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the file was not removed: %v", err)
			}
		})
	}
	if _, cleanup, err := (Command{Argv: []string{"a", "{prompt_file}"}}).Build(
		Values{ScratchDir: filepath.Join(t.TempDir(), "gone")}); err == nil || cleanup == nil {
		t.Errorf("a prompt in a missing folder: %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("INHERITED", "no")
	c := Command{Argv: []string{"a"}, Env: map[string]string{"TAKEN": "", "B": "2", "A": "1"}}
	env := build(t, c, Values{Session: "w-1.1", Base: []string{"TAKEN=away", "KEPT=yes"},
		Env: []string{"SIGNALBOX_TOKEN=its own", "A=9"}}).Env
	want := []string{"KEPT=yes", "A=1", "B=2", "SIGNALBOX_SESSION=w-1.1", "SIGNALBOX_TOKEN=its own",
		"A=9"}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestInvalidCommands(t *testing.T) {
	for _, tt := range []struct {
		c    Command
		says string
	}{
		{Command{}, "has no command"},
		{Command{Argv: []string{"a"}, Prompt: "pigeon"}, `pass its prompt: "pigeon"`},
		{Command{Argv: []string{"a"}, Prompt: DeliverArgument}, "passed by argument"},
		{Command{Argv: []string{"a"}, Prompt: DeliverFile}, "passed by file"},
		{Command{Argv: []string{"a", "{prompt}"}, Prompt: DeliverStdin}, "passed by stdin"},
		{Command{Argv: []string{"a", "{prompt_file}"}, Prompt: DeliverStdin}, "passed by stdin"},
	} {
		_, _, err := tt.c.Build(Values{})
		wantHint(t, err, signalbox.CodeUsage, tt.says, "")
		wantHint(t, tt.c.Check(), signalbox.CodeUsage, tt.says, "")
	}
}

func wantHint(t *testing.T, err error, code signalbox.Code, says, hint string) {
	t.Helper()
	e, ok := errors.AsType[*signalbox.Error](err)
	if !ok || e.Code != code || e.Hint == "" || !strings.Contains(e.Error(), says) ||
		!strings.Contains(e.Hint, hint) {
		t.Errorf("error %v (%#v), want code %d, %q, hint %q", err, err, code, says, hint)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	claude, _ := Preset("claude")
	wantHint(t, claude.Check(), signalbox.CodeNotFound, "claude was not found",
		"npm install -g @anthropic-ai/claude-code")
	wantHint(t, Command{Argv: []string{"mine"}}.Check(), signalbox.CodeNotFound,
		"mine was not found", "install")
	wantHint(t, Command{Argv: []string{filepath.Join(dir, "mine")}}.Check(), signalbox.CodeNotFound,
		"mine was not found", "path")
	if err := (Command{Argv: []string{"./in/its/workspace"}}).Check(); err != nil {
		t.Error(err)
	}
	if os.PathSeparator != '/' {
		return // programs have other names on Windows
	}
	for _, name := range []string{"mine", "claude"} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), nil, 0o700))
	}
	t.Setenv("IS_SANDBOX", "1")
	for _, c := range []Command{claude, {Argv: []string{"mine"}},
		{Argv: []string{filepath.Join(dir, "mine")}}} {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestClaudeAsRoot(t *testing.T) {
	claude, _ := Preset("claude")
	wantHint(t, claude.checkRoot(0, nil), signalbox.CodeFailed, "root", "IS_SANDBOX=1")
	cautious := Command{Argv: []string{"claude", "-p"}}
	other := Command{Argv: []string{"other", "bypassPermissions"}}
	for _, err := range []error{claude.checkRoot(1000, nil),
		claude.checkRoot(0, []string{"IS_SANDBOX=1"}), cautious.checkRoot(0, nil),
		other.checkRoot(0, nil)} {
		if err != nil {
			t.Error(err)
		}
	}
}
