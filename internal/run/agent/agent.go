// Package agent knows how agent programs are started: which command line, how they get their prompt, what they may see
// of the environment. It also keeps the register of those that run, by which the agents of a killed run are found and
// ended. It starts nothing itself; package process does.
package agent

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/process"
)

// Delivery is how a prompt reaches an agent.
type Delivery string

const (
	DeliverStdin    Delivery = "stdin"    // on standard input
	DeliverArgument Delivery = "argument" // in place of {prompt} in Argv
	DeliverFile     Delivery = "file"     // in a file whose name is in place of {prompt_file} in Argv
)

// longestArgument is how long an argument can safely be: Linux allows 128 KiB for one, macOS 1 MiB for all together.
const longestArgument = 100 << 10

// Command is how an agent program is started.
type Command struct {
	// Argv is the program and its arguments, in which {prompt}, {prompt_file}, {workspace}, {role}, {task}, {session} and
	// {model} are replaced. Without a model, an argument with {model} is left out, and if it is nothing else, so is the
	// flag before it.
	Argv []string
	// Format is in which form the program writes; FormatAuto, or nothing, if that is to be recognised.
	Format signalbox.Format
	// Prompt is how the prompt is passed; empty is what Argv says: an argument if {prompt} is in it, a file if
	// {prompt_file} is, else standard input.
	Prompt Delivery
	// Env is set in the program's environment. An empty value takes a variable away.
	Env map[string]string
	// Interactive programs keep their standard input, and hear messages on it as lines.
	Interactive bool
	// Linger is how long the program may go on after its stream said that the turn is over, before it is ended: some hang
	// then. Zero is for ever.
	Linger time.Duration
}

// Fill is what a command is filled with to become a program that can be started.
type Fill struct {
	Prompt []byte
	// Dir is the workspace, where the program runs.
	Dir                        string
	Role, Task, Session, Model string
	// ScratchDir is where a prompt is put that goes through a file. It must be outside every workspace. Empty is the
	// system's folder for temporary files.
	ScratchDir string
	// Env is more of the environment, as KEY=VALUE. It comes last.
	Env []string
}

// Build makes a program of a command. Its environment is that of this process, without what is signalbox's own, then
// Command.Env, the session, and Fill.Env. Where its output goes is left to the caller. The caller calls cleanup, which is
// never nil, after the program has ended.
func (c Command) Build(fill Fill) (spec process.Spec, cleanup func(), err error) {
	cleanup = func() {}
	if err := c.check(); err != nil {
		return process.Spec{}, cleanup, err
	}
	spec = process.Spec{Dir: fill.Dir, Interactive: c.Interactive, Env: c.environ()}
	if fill.Session != "" {
		spec.Env = append(spec.Env, process.SessionVariable+"="+fill.Session)
	}
	spec.Env = append(spec.Env, fill.Env...)

	var prompt, file string
	delivery := c.delivery()
	switch {
	case delivery == DeliverStdin:
		spec.Stdin = input(fill.Prompt, c.Interactive)
	case delivery == DeliverFile, len(fill.Prompt) > longestArgument:
		if file, err = promptFile(fill); err != nil {
			return process.Spec{}, cleanup, err
		}
		cleanup = func() { os.Remove(file) }
		prompt = "Your instructions are in the file " + file + ". Read all of it, then do what it says."
	default:
		prompt = string(fill.Prompt)
	}
	spec.Argv = c.arguments(fill, prompt, file)
	return spec, cleanup, nil
}

// input is the prompt as a program reads it. It is never nil, which would be no input at all. One that is read line by
// line has to end as a line.
func input(prompt []byte, interactive bool) []byte {
	text := append([]byte{}, prompt...)
	if interactive && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	return text
}

func promptFile(fill Fill) (string, error) {
	f, err := os.CreateTemp(fill.ScratchDir, "prompt-*.md") // which only its owner may read
	if err != nil {
		return "", fmt.Errorf("write the prompt: %w", err)
	}
	_, err = f.Write(fill.Prompt)
	if err := errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return "", fmt.Errorf("write the prompt: %w", err)
	}
	name, err := filepath.Abs(f.Name()) // the program runs elsewhere
	if err != nil {
		os.Remove(f.Name())
		return "", fmt.Errorf("write the prompt: %w", err)
	}
	return name, nil
}

// arguments fills Argv. All is replaced in one go, so that braces in a prompt are left as they are.
func (c Command) arguments(fill Fill, prompt, file string) (argv []string) {
	fields := strings.NewReplacer("{prompt}", prompt, "{prompt_file}", file, "{workspace}", fill.Dir, "{role}", fill.Role,
		"{task}", fill.Task, "{session}", fill.Session, "{model}", fill.Model)
	for _, argument := range c.Argv {
		if fill.Model == "" && strings.Contains(argument, "{model}") {
			if n := len(argv); argument == "{model}" && n > 1 && strings.HasPrefix(argv[n-1], "-") {
				argv = argv[:n-1]
			}
			continue
		}
		// The system ends an argument at a zero byte, and Go refuses to start such a program.
		argv = append(argv, strings.ReplaceAll(fields.Replace(argument), "\x00", "\uFFFD"))
	}
	return argv
}

// environ is the environment of the program without what a Fill adds.
func (c Command) environ() []string {
	env := slices.DeleteFunc(process.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, replaced := c.Env[name]
		return replaced
	})
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if value := c.Env[name]; value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func (c Command) delivery() Delivery {
	switch {
	case c.Prompt != "":
		return c.Prompt
	case c.has("{prompt}"):
		return DeliverArgument
	case c.has("{prompt_file}"):
		return DeliverFile
	}
	return DeliverStdin
}

func (c Command) has(field string) bool {
	return slices.ContainsFunc(c.Argv, func(argument string) bool { return strings.Contains(argument, field) })
}

// check finds what is wrong with a command on any machine.
func (c Command) check() error {
	wrong := func(hint, format string, args ...any) error {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf(format, args...), Hint: hint}
	}
	delivery := c.delivery()
	switch {
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return wrong("name a program, or one of "+strings.Join(Presets(), ", "), "an agent without a command")
	case !slices.Contains([]Delivery{DeliverStdin, DeliverArgument, DeliverFile}, delivery):
		return wrong("it can be passed by stdin, argument or file", "agent %s: its prompt is passed by %q", c.Argv[0], delivery)
	case (delivery == DeliverArgument) != c.has("{prompt}"):
		return wrong("{prompt} belongs in the arguments if the prompt is passed as an argument, and only then",
			"agent %s: its prompt is passed by %s", c.Argv[0], delivery)
	case (delivery == DeliverFile) != c.has("{prompt_file}"):
		return wrong("{prompt_file} belongs in the arguments if the prompt is passed in a file, and only then",
			"agent %s: its prompt is passed by %s", c.Argv[0], delivery)
	}
	return nil
}

// Check reports whether the program can be started here, as far as can be told without starting it. The error is a
// *signalbox.Error that says what to install or set. A program that is named relative to its workspace is not looked for.
func (c Command) Check() error {
	if err := c.check(); err != nil {
		return err
	}
	program := c.Argv[0]
	if strings.ContainsRune(program, '/') && !filepath.IsAbs(program) {
		return nil
	}
	env := c.environ()
	if _, err := process.Find(program, "", env); err != nil {
		if e, ok := errors.AsType[*signalbox.Error](err); ok && installs(program) != "" {
			return &signalbox.Error{Code: e.Code, Err: e.Err, Hint: "install it with " + installs(program) + ", or set the agent's command"}
		}
		return err
	}
	return c.checkRoot(os.Geteuid(), env)
}

// checkRoot knows that Claude Code refuses to work without asking where it could do all the harm there is.
func (c Command) checkRoot(user int, env []string) error {
	bypasses := slices.Contains(c.Argv, "bypassPermissions") || slices.Contains(c.Argv, "--dangerously-skip-permissions")
	if user != 0 || filepath.Base(c.Argv[0]) != "claude" || !bypasses ||
		slices.Contains(env, "IS_SANDBOX=1") || slices.Contains(env, "CLAUDE_CODE_BUBBLEWRAP=1") {
		return nil
	}
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: errors.New("claude does not run as root without asking for permissions"),
		Hint: "run signalbox as another user, or, if this machine is a sandbox, set IS_SANDBOX=1"}
}
