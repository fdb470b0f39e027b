// Package rehearsals has the commands that play the part of agents and models by a script.
package rehearsals

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
	"signalbox/internal/cli"
	"signalbox/internal/rehearsal"
	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/text"
)

// Environment variables that a crew sets for an agent's process.
const (
	roleVariable = "SIGNALBOX_ROLE"
	workVariable = "SIGNALBOX_WORK"
)

const (
	maxScript = 4 << 20
	maxPrompt = 64 << 20
)

type RehearseCommands struct {
	Agent rehearseAgentCommand `cmd:"" help:"Act as a scripted agent."`
	Model rehearseModelCommand `cmd:"" help:"Serve a scripted model."`
	Check rehearseCheckCommand `cmd:"" help:"Check a script and list its sections."`
}

func (RehearseCommands) Help() string {
	return `A scripted agent is a real process that writes output like an agent program, edits files, and misbehaves on cue. Use it to try a plan without a model, and to see what happens when agents fail. A scripted model is a server for real agent programs. docs/how-to/rehearsal.md explains both kinds of scripts.

Examples:

    signalbox rehearse check agents.script
    signalbox rehearse model examples/model/hello.yaml
    signalbox rehearse agent agents.script --role developer --task T1 < prompt.txt`
}

type rehearseAgentCommand struct {
	cli.RawFlag
	Script      string           `arg:"" help:"The script of the agents."`
	Format      signalbox.Format `default:"plain" placeholder:"F" help:"The output format: plain, claude, codex, gemini or opencode. Default: plain."`
	Role        cli.NonEmpty     `placeholder:"R" help:"The role of the agent. Default: SIGNALBOX_ROLE."`
	Task        cli.NonEmpty     `placeholder:"T" help:"The task it works on. Default: SIGNALBOX_WORK."`
	Attempt     int              `placeholder:"N" help:"The attempt number of this role on this task. Default: SIGNALBOX_ATTEMPT, or else 1."`
	Prompt      *string          `xor:"prompt" placeholder:"TEXT" help:"The prompt. Default: read from standard input."`
	PromptFile  *string          `xor:"prompt" placeholder:"FILE" help:"A file with the prompt."`
	Resume      cli.NonEmpty     `placeholder:"ID" help:"Continue this session of the program, as an agent that was interrupted does."`
	Pace        time.Duration    `placeholder:"D" help:"The minimum duration of each step, for watching."`
	Interactive bool             `help:"End the prompt at a line with a single full stop, and keep standard input open for listen."`
}

func (rehearseAgentCommand) Help() string {
	return `Reads the whole prompt from standard input and plays the first section of the script that matches the role, the task and the attempt. A script looks like this:

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

Steps: ` + strings.Join(rehearsal.Verbs(), ", ") + `. docs/reference/rehearsal.md explains each.

The exit status is the one in the script, or else 0. It is 3 if the prompt lacks something that the script expects, or if no section matches.

Examples:

    signalbox rehearse agent agents.script --role developer --task T1 < prompt.txt
    signalbox rehearse agent agents.script --format claude --role critic --task T1 --attempt 2 --prompt "Review T1."`
}

func (c *rehearseAgentCommand) Run(p *cli.Program) error {
	script, err := script(p, c.Script)
	if err != nil {
		return err
	}
	opts, err := c.options(p)
	if err != nil {
		return err
	}
	// No context for interrupts: one kills the process, like an agent that does not handle it.
	err = script.Play(context.Background(), opts)
	if exit := (*rehearsal.Exit)(nil); errors.As(err, &exit) {
		os.Exit(exit.Code) // an arbitrary status, which errors of the program cannot express
	}
	if err != nil && cli.IsClosedPipe(err) {
		return cli.ErrReaderClosed
	}
	return err
}

func (c *rehearseAgentCommand) options(p *cli.Program) (rehearsal.Options, error) {
	opts := rehearsal.Options{
		Format: c.Format, Role: string(c.Role), Task: string(c.Task), Attempt: c.Attempt,
		Session: p.Getenv(cli.SessionVariable),
		Resume:  string(c.Resume), Prompt: c.Prompt, Pace: c.Pace, Interactive: c.Interactive,
		Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr,
	}
	if cli.IsTerminal(p.Stdout) && !c.Raw {
		opts.Stdout = text.NewEscaper(p.Stdout)
	}
	if cli.IsTerminal(p.Stderr) && !c.Raw {
		opts.Stderr = text.NewEscaper(p.Stderr)
	}
	if opts.Role == "" {
		opts.Role = p.Getenv(roleVariable)
	}
	if opts.Task == "" {
		opts.Task = p.Getenv(workVariable)
	}
	if named := p.Getenv(cli.AttemptVariable); opts.Attempt == 0 && named != "" {
		n, err := strconv.Atoi(named)
		if err != nil {
			return opts, signalbox.CodeUsage.Errorf("set it to a number from 1 up, or unset it",
				"%s is %q", cli.AttemptVariable, named)
		}
		opts.Attempt = n
	}
	if opts.Attempt < 0 {
		return opts, signalbox.CodeUsage.Errorf("the first attempt is 1", "there is no attempt %d",
			opts.Attempt)
	}
	if c.PromptFile != nil {
		text, err := p.ReadAll(c.PromptFile, maxPrompt)
		if err != nil {
			return opts, err
		}
		prompt := string(text)
		opts.Prompt = &prompt
	}
	if opts.Prompt == nil && cli.IsTerminal(p.Stdin) {
		p.Notef("reading the prompt from standard input; press Ctrl-D to end it")
	}
	return opts, nil
}

// script reads and parses the script of agents.
func script(p *cli.Program, name string) (*rehearsal.Script, error) {
	text, err := p.ReadAll(&name, maxScript)
	if err != nil {
		return nil, err
	}
	return rehearsal.Parse(name, text)
}

type rehearseCheckCommand struct {
	Script string `arg:"" help:"The script of agents, or of a model if the file ends in .yaml, .yml or .json."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

func (rehearseCheckCommand) Help() string {
	return `Checks a script and lists its sections in the order in which they are tried, with the line and the number of steps of each. A file that ends in .yaml, .yml or .json is the script of a model; its conversations are listed with their number of turns. The exit status is 1 if the script has a fault; the message has the line and what to write.

Examples:

    signalbox rehearse check agents.script
    signalbox rehearse check --json agents.script
    signalbox rehearse check model.yaml`
}

// checkedSection is a section in the JSON answer of rehearse check.
type checkedSection struct {
	Line    int      `json:"line"`
	Section string   `json:"section"`
	Steps   []string `json:"steps"`
}

func (c *rehearseCheckCommand) Run(p *cli.Program) error {
	switch strings.ToLower(filepath.Ext(c.Script)) {
	case ".yaml", ".yml", ".json":
		return c.checkModel(p)
	}
	script, err := script(p, c.Script)
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
			err = p.PrintJSON(row, "")
		} else {
			_, err = fmt.Fprintf(p.Out, "%d\t%s\t%s\n", row.Line, cli.Printable(row.Section),
				text.Count(len(row.Steps), "step"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkModel lists the conversations of a model's script.
func (c *rehearseCheckCommand) checkModel(p *cli.Program) error {
	script, text, err := readModelScript(p, &c.Script)
	if err != nil {
		return err
	}
	for _, row := range modelserver.Summarize(script, text) {
		if c.JSON {
			err = p.PrintJSON(row, "")
		} else {
			_, err = fmt.Fprintf(p.Out, "%d\t%s\t%d turns\n", row.Line,
				cli.Printable(row.Conversation), row.Turns)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
