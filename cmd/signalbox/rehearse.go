package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/rehearsal"
)

// What an agent's process is told of itself by whoever runs it.
const (
	roleVariable    = "SIGNALBOX_ROLE"
	workVariable    = "SIGNALBOX_WORK"
	attemptVariable = "SIGNALBOX_ATTEMPT"
)

const (
	maxScript = 4 << 20
	maxPrompt = 64 << 20
)

type rehearseCommands struct {
	Agent rehearseAgentCommand `cmd:"" help:"Be the agent that a script describes."`
	Model rehearseModelCommand `cmd:"" help:"Serve the model that a script describes."`
	Check rehearseCheckCommand `cmd:"" help:"Check a script and list what is in it."`
}

func (rehearseCommands) Help() string {
	return `A scripted agent is a real process that writes what an agent program would write, really edits files, and misbehaves on cue. Use it to try a plan without a model, and to see what happens when agents fail. A scripted model is a server that real agent programs can be pointed at. docs/rehearsal.md has both languages.

Examples:

    signalbox rehearse check agents.script
    signalbox rehearse model examples/model/hello.yaml
    signalbox rehearse agent agents.script --role developer --task T1 < prompt.txt`
}

type rehearseAgentCommand struct {
	Script      string           `arg:"" help:"What agents do."`
	Format      signalbox.Format `default:"plain" placeholder:"F" help:"What it writes: plain, claude, codex, gemini or opencode. Default: plain."`
	Role        given            `placeholder:"R" help:"What the agent is; else SIGNALBOX_ROLE."`
	Task        given            `placeholder:"T" help:"What it works on; else SIGNALBOX_WORK."`
	Attempt     int              `placeholder:"N" help:"The how manieth time this role is run on this task; else SIGNALBOX_ATTEMPT, else 1."`
	Prompt      *string          `xor:"prompt" placeholder:"TEXT" help:"What it is asked; else that is read from standard input."`
	PromptFile  *string          `xor:"prompt" placeholder:"FILE" help:"The file with what it is asked."`
	Pace        time.Duration    `placeholder:"D" help:"How long each step takes at least, for people who watch."`
	Interactive bool             `help:"The prompt ends at a line with nothing but a full stop, and standard input goes on for listen."`
}

func (rehearseAgentCommand) Help() string {
	return `Reads the prompt from standard input to its end, and plays the first section of the script that fits the role, the task and the attempt. A script:

    on developer T1 attempt 1:
        say I will look at the file first.
        read counter.go
        replace counter.go "old" "new"
        run go test ./...
        signal READY_FOR_REVIEW: {task}
            Summary: it counts.
    on critic,auditor *:
        crash
    on *:
        signal TASK_INCOMPLETE: {task}

Steps: ` + strings.Join(rehearsal.Verbs(), ", ") + `. docs/rehearsal-reference.md explains each.

The exit status is what the script says, 0 if it does not; 3 if the prompt lacks what the script expects, or no section fits.

Examples:

    signalbox rehearse agent agents.script --role developer --task T1 < prompt.txt
    signalbox rehearse agent agents.script --format claude --role critic --task T1 --attempt 2 --prompt "Review T1."`
}

func (c *rehearseAgentCommand) Run(p *program) error {
	script, err := p.script(c.Script)
	if err != nil {
		return err
	}
	opts, err := c.options(p)
	if err != nil {
		return err
	}
	// Interrupts end the process, as they end an agent that does not expect them.
	err = script.Play(context.Background(), opts)
	if exit := (*rehearsal.Exit)(nil); errors.As(err, &exit) {
		os.Exit(exit.Code) // any status at all, which errors of the program do not have
	}
	if err != nil && isClosedPipe(err) {
		return errReaderWentAway
	}
	return err
}

func (c *rehearseAgentCommand) options(p *program) (rehearsal.Options, error) {
	opts := rehearsal.Options{
		Format: c.Format, Role: string(c.Role), Task: string(c.Task), Attempt: c.Attempt, Session: p.getenv(sessionVariable),
		Prompt: c.Prompt, Pace: c.Pace, Interactive: c.Interactive, Stdin: p.stdin, Stdout: p.stdout, Stderr: p.stderr,
	}
	if opts.Role == "" {
		opts.Role = p.getenv(roleVariable)
	}
	if opts.Task == "" {
		opts.Task = p.getenv(workVariable)
	}
	if named := p.getenv(attemptVariable); opts.Attempt == 0 && named != "" {
		n, err := strconv.Atoi(named)
		if err != nil {
			return opts, &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("%s is %q", attemptVariable, named),
				Hint: "set it to a number from 1, or unset it"}
		}
		opts.Attempt = n
	}
	if opts.Attempt < 0 {
		return opts, &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("there is no attempt %d", opts.Attempt),
			Hint: "the first attempt is 1"}
	}
	if c.PromptFile != nil {
		text, err := p.readAll(c.PromptFile, maxPrompt)
		if err != nil {
			return opts, err
		}
		prompt := string(text)
		opts.Prompt = &prompt
	}
	if opts.Prompt == nil && isTerminal(p.stdin) {
		p.notef("reading the prompt from standard input; Ctrl-D ends it")
	}
	return opts, nil
}

// script reads a script of rehearsal.
func (p *program) script(name string) (*rehearsal.Script, error) {
	text, err := p.readAll(&name, maxScript)
	if err != nil {
		return nil, err
	}
	return rehearsal.Parse(name, text)
}

type rehearseCheckCommand struct {
	Script string `arg:"" help:"What agents do, or in a file .yaml or .json what a model answers."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

func (rehearseCheckCommand) Help() string {
	return `Reads a script and lists its sections in the order in which they are tried, each with its line and the number of its steps. A file that ends in .yaml, .yml or .json is the script of a model: its conversations are listed, with their turns. The exit status is 1 if something is wrong with it; the message names the line and what to write.

Examples:

    signalbox rehearse check agents.script
    signalbox rehearse check --json agents.script
    signalbox rehearse check model.yaml`
}

// checkedSection is a section in the answer of check.
type checkedSection struct {
	Line    int      `json:"line"`
	Section string   `json:"section"`
	Steps   []string `json:"steps"`
}

func (c *rehearseCheckCommand) Run(p *program) error {
	switch strings.ToLower(filepath.Ext(c.Script)) {
	case ".yaml", ".yml", ".json":
		return c.checkModel(p)
	}
	script, err := p.script(c.Script)
	if err != nil {
		return err
	}
	for i := range script.Sections {
		s := &script.Sections[i]
		row := checkedSection{s.Line, s.String(), []string{}}
		for _, step := range s.Steps {
			row.Steps = append(row.Steps, step.Verb)
		}
		if c.JSON {
			err = p.printJSON(row, "")
		} else {
			_, err = fmt.Fprintf(p.out, "%d\t%s\t%d steps\n", row.Line, printable(row.Section), len(row.Steps))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
