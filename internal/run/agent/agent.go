// Package agent builds the command lines of agent programs: their arguments, how they get their
// prompt, and their environment, for known programs and for the agents of a configuration. It also
// keeps the register of running agents, so that the agents of a killed process can be found and
// ended. It starts no programs; package process does.
package agent

import (
	"bytes"
	"cmp"
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
	DeliverArgument Delivery = "argument" // as an argument, which replaces {prompt} in Argv
	DeliverFile     Delivery = "file"     // in a file, whose name replaces {prompt_file} in Argv
)

// maxArgument bounds a prompt that is passed as an argument: Linux allows 128 KiB for one, macOS 1
// MiB for all together.
const maxArgument = 100 << 10

// Command describes how to start an agent program.
type Command struct {
	// Argv is the program and its arguments. The fields {prompt}, {prompt_file}, {workspace},
	// {role}, {task}, {session} and {model} are replaced. Without a model, an argument that
	// contains {model} is omitted, and if the argument is exactly {model}, so is the flag before
	// it.
	Argv []string
	// Format is the format of the program's output; FormatAuto or "" means that it is detected.
	Format signalbox.Format
	// Prompt is how the prompt is passed. "" means that Argv decides: an argument if it contains
	// {prompt}, a file if it contains {prompt_file}, and otherwise standard input.
	Prompt Delivery
	// Env is added to the program's environment. An empty value removes a variable.
	Env map[string]string
	// CostFlag is the flag that tells the program how many dollars it may spend, "" if it has none.
	// Versions before CostFlagSince do not know it.
	CostFlag, CostFlagSince string
	// Interactive programs keep their standard input open and read messages from it, one per line.
	Interactive bool
	// Resume has the arguments with which the program continues one of its own sessions, whose id
	// replaces {session}. nil means that it cannot.
	Resume []string
	// NoProject and NoProjectEnv are the arguments and variables with which the program ignores
	// settings and instructions in the folder.
	NoProject    []string
	NoProjectEnv map[string]string
	// Elsewhere means that the program obeys the folder in which it is started even so. It must
	// start in another one; NoProject names the folder to work in.
	Elsewhere bool
	// Linger is how long the program may keep running after its output reports the end of the turn.
	// Some programs hang then. Zero means no limit.
	Linger time.Duration
}

// WithoutProject returns the command of a program that ignores, as far as it can, settings and
// instructions in the folder that it works in: they belong to what it judges.
func (c Command) WithoutProject() Command {
	end := len(c.Argv)
	if end > 0 && c.Argv[end-1] == "-" { // it says where the prompt comes from, and must be last
		end--
	}
	c.Argv = slices.Insert(slices.Clone(c.Argv), end, c.NoProject...)
	env := maps.Clone(c.NoProjectEnv)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, c.Env)
	c.Env = env
	return c
}

// Values has the values for the fields of a Command.
type Values struct {
	Prompt []byte
	// Dir is the workspace, in which the program runs. Start is another folder to start it in; ""
	// means Dir.
	Dir, Start                 string
	Role, Task, Session, Model string
	// Resume is the program's own session to continue; "" means a new one.
	Resume string
	// ScratchDir is the folder for prompt files. It must be outside every workspace. "" means the
	// system's folder for temporary files.
	ScratchDir string
	// Base is the environment that the program gets from this process, as KEY=VALUE, and Env is
	// added last.
	Base, Env []string
}

// Build returns a program that can be started. Its environment is Values.Base, then Command.Env,
// the session, and Values.Env. The caller sets where the output goes, and calls cleanup, which is
// never nil, after the program has ended.
func (c Command) Build(values Values) (spec process.Spec, cleanup func(), err error) {
	cleanup = func() {}
	if err := c.validate(); err != nil {
		return process.Spec{}, cleanup, err
	}
	spec = process.Spec{Dir: cmp.Or(values.Start, values.Dir), Interactive: c.Interactive, Env: c.environ(values.Base), Speaks: true}
	if values.Session != "" {
		spec.Env = append(spec.Env, process.SessionVariable+"="+values.Session)
	}
	spec.Env = append(spec.Env, values.Env...)

	var prompt, file string
	delivery := c.Delivery()
	switch {
	case delivery == DeliverStdin:
		spec.Stdin = input(values.Prompt, c.Interactive)
	case delivery == DeliverFile, len(values.Prompt) > maxArgument:
		if file, err = promptFile(values); err != nil {
			return process.Spec{}, cleanup, err
		}
		cleanup = func() { os.Remove(file) }
		prompt = "Your instructions are in the file " + file +
			". Read the whole file, then follow it."
	default:
		prompt = string(values.Prompt)
	}
	spec.Argv = c.withResume(c.arguments(values, prompt, file), values.Resume)
	return spec, cleanup, nil
}

// withResume adds the arguments that continue a session, before one that says where the prompt
// comes from.
func (c Command) withResume(argv []string, session string) []string {
	if session == "" || c.Resume == nil {
		return argv
	}
	end := len(argv)
	if argv[end-1] == "-" {
		end--
	}
	var args []string
	for _, arg := range c.Resume {
		args = append(args, strings.ReplaceAll(arg, "{session}", session))
	}
	return slices.Insert(argv, end, args...)
}

// input returns the prompt for standard input. It is never nil, because nil would mean no input at
// all. An interactive program reads lines, so its prompt must end with a line end.
func input(prompt []byte, interactive bool) []byte {
	text := append([]byte{}, prompt...)
	if interactive && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	return text
}

func promptFile(values Values) (string, error) {
	f, err := os.CreateTemp(values.ScratchDir, "prompt-*.md") // readable only by its owner
	if err != nil {
		return "", fmt.Errorf("write the prompt: %w", err)
	}
	_, err = f.Write(values.Prompt)
	if err := errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return "", fmt.Errorf("write the prompt: %w", err)
	}
	name, err := filepath.Abs(f.Name()) // the program runs in another folder
	if err != nil {
		os.Remove(f.Name())
		return "", fmt.Errorf("write the prompt: %w", err)
	}
	return name, nil
}

// arguments fills in Argv. All fields are replaced in one pass, so that braces in a prompt stay
// unchanged.
func (c Command) arguments(values Values, prompt, file string) (argv []string) {
	fields := strings.NewReplacer("{prompt}", prompt, "{prompt_file}", file, "{workspace}",
		values.Dir, "{role}", values.Role,
		"{task}", values.Task, "{session}", values.Session, "{model}", values.Model)
	for _, argument := range c.Argv {
		if values.Model == "" && strings.Contains(argument, "{model}") {
			if n := len(argv); argument == "{model}" && n > 1 && strings.HasPrefix(argv[n-1], "-") {
				argv = argv[:n-1]
			}
			continue
		}
		// Arguments cannot contain a zero byte.
		argv = append(argv, strings.ReplaceAll(fields.Replace(argument), "\x00", "\uFFFD"))
	}
	return argv
}

// environ returns the environment of the program without what Values.Env adds.
func (c Command) environ(base []string) []string {
	env := slices.DeleteFunc(slices.Clone(base), func(entry string) bool {
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

// Delivery returns how the prompt reaches the program.
func (c Command) Delivery() Delivery {
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
	return slices.ContainsFunc(c.Argv,
		func(argument string) bool { return strings.Contains(argument, field) })
}

// validate reports mistakes that do not depend on the machine.
func (c Command) validate() error {
	invalid := func(hint, format string, args ...any) error {
		return signalbox.CodeUsage.Errorf(hint,
			format, args...)
	}
	delivery := c.Delivery()
	switch {
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return invalid("name a program, or one of "+strings.Join(Presets(), ", "),
			"an agent has no command")
	case !slices.Contains([]Delivery{DeliverStdin, DeliverArgument, DeliverFile}, delivery):
		return invalid("use stdin, argument or file",
			"agent %s: unknown way to pass its prompt: %q", c.Argv[0], delivery)
	case (delivery == DeliverArgument) != c.has("{prompt}"):
		return invalid("put {prompt} in the arguments if, and only if, the prompt is passed as an argument",
			"agent %s: its prompt is passed by %s", c.Argv[0], delivery)
	case (delivery == DeliverFile) != c.has("{prompt_file}"):
		return invalid("put {prompt_file} in the arguments if, and only if, the prompt is passed in a file",
			"agent %s: its prompt is passed by %s", c.Argv[0], delivery)
	}
	return nil
}

// Check reports whether the program can be started here, as far as that is known without starting
// it. The error is a *signalbox.Error with a hint about what to install or set. A program whose
// path is relative to its workspace is not checked.
func (c Command) Check() error {
	if err := c.validate(); err != nil {
		return err
	}
	program := c.Argv[0]
	if strings.ContainsRune(program, '/') && !filepath.IsAbs(program) {
		return nil
	}
	env := c.environ(process.Environ())
	if _, err := process.Find(program, "", env); err != nil {
		if e, ok := errors.AsType[*signalbox.Error](err); ok && InstallCommand(program) != "" {
			return &signalbox.Error{Code: e.Code, Err: e.Err, Hint: "install it with " +
				InstallCommand(program) + ", or " +
				cmp.Or(Instead(program), "set the agent's command")}
		}
		return err
	}
	return c.checkRoot(os.Geteuid(), env)
}

// checkRoot reports that Claude Code refuses to bypass permissions when it runs as root.
func (c Command) checkRoot(user int, env []string) error {
	bypasses := slices.Contains(c.Argv, "bypassPermissions") ||
		slices.Contains(c.Argv, "--dangerously-skip-permissions")
	if user != 0 || filepath.Base(c.Argv[0]) != "claude" || !bypasses ||
		slices.Contains(env, "IS_SANDBOX=1") || slices.Contains(env, "CLAUDE_CODE_BUBBLEWRAP=1") {
		return nil
	}
	return signalbox.CodeFailed.Errorf(
		"run signalbox as another user, or, if this machine is a sandbox, set IS_SANDBOX=1 in the env of the agent",
		"claude does not bypass permissions as root")
}
