package main

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"signalbox"
	"signalbox/brief"
)

// program is one run of the command line, with everything it touches of the outside world but named files.
type program struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	getenv func(string) string
	args   []string

	// quiet leaves out notes: a program reads the answer.
	quiet bool

	// out buffers stdout; its first write error sticks, and run reports it.
	out *bufio.Writer
}

// commands is the grammar of the command line. Each command has a file of its own.
type commands struct {
	Run       runCommand       `cmd:"" help:"Run a plan with agents until it is done."`
	Demo      demoCommand      `cmd:"" help:"See it run, on a throw-away repository with rehearsal agents."`
	Questions questionsCommand `cmd:"" help:"Show what agents ask the human."`
	Answer    answerCommand    `cmd:"" help:"Answer a question."`
	Pause     pauseCommand     `cmd:"" help:"Dispatch no more work, of a task or at all."`
	Resume    resumeCommand    `cmd:"" help:"End a pause."`
	Cancel    cancelCommand    `cmd:"" help:"Give up a task, or the run."`
	Retry     retryCommand     `cmd:"" help:"Begin a task anew, or all that is blocked."`
	Approve   approveCommand   `cmd:"" help:"Say yes to a merge."`
	Worker    workerCommand    `cmd:"" help:"Join a box as a worker."`
	Plan      planCommands     `cmd:"" help:"Check and show plans."`
	Prompt    promptCommand    `cmd:"" help:"Show the prompt an agent would be given."`

	Init   initCommand    `cmd:"" help:"Make a box: a folder with a ledger, a key and a configuration."`
	Work   workCommands   `cmd:"" help:"Open, claim and move work by hand."`
	Ledger ledgerCommands `cmd:"" help:"Read, verify, prove and sign the record."`
	Blob   blobCommands   `cmd:"" help:"Read or redact what agents wrote."`

	Scan  scanCommand  `cmd:"" help:"Find the signals in what an agent wrote."`
	Strip stripCommand `cmd:"" help:"Remove turn signals from a model's reply."`
	Exit  exitCommands `cmd:"" help:"Check the exit signals of the agent exit protocol."`

	Agent  agentCommand  `cmd:"" help:"Play an agent that is a tree around a model."`
	Oracle oracleCommand `cmd:"" help:"Ask a model that looks things up, and knows when it is done."`
	Tree   treeCommands  `cmd:"" help:"Check, draw, run, replay and test behaviour trees."`

	Portfolio portfolioCommands `cmd:"" help:"Look after a portfolio: tax lots, losses to harvest, exit signals."`
	MCP       mcpCommand        `cmd:"" name:"mcp" help:"Serve all of it to agents that speak MCP."`

	Backup   backupCommand    `cmd:"" help:"Copy the whole box to a file, while it is in use."`
	Restore  restoreCommand   `cmd:"" help:"Make a box from a backup, and check all of it."`
	Doctor   doctorCommand    `cmd:"" help:"Look for what is wrong, and say what to do."`
	Rehearse rehearseCommands `cmd:"" help:"Play a scripted agent, or a scripted model."`
	Version  versionCommand   `cmd:"" help:"Print the version and how it was built."`

	Completion completionCommand `cmd:"" help:"Print a script that completes commands in your shell."`

	ShowVersion kong.VersionFlag `name:"version" help:"Print the version and exit."`
}

const description = `signalbox runs and hears AI agents, moves their work, and keeps a record that nobody can quietly change. Give it a plan, and it has agents develop, review and audit each task, runs the checks itself, merges what passes, asks you what only you can decide, and writes everything to a ledger of hashes.

Exit status: 0 done, 1 refused or failed, 2 wrong usage, 3 not found, 4 conflict (lost a race, or a stale lease), 5 verification failed; run and demo: 0 complete, 1 stuck, 130 interrupted; tree run: 0 success, 1 failure, 130 interrupted.

Examples:

    signalbox demo
    signalbox plan check plan.md
    signalbox run plan.md
    signalbox questions
    signalbox answer Q-1 'two decimals'
    signalbox ledger verify`

// run does what the arguments ask for and returns the exit status.
func (p *program) run() int {
	p.out = bufio.NewWriterSize(answer{p.stdout}, 64<<10)
	err := p.execute()
	if flushErr := p.out.Flush(); err == nil {
		err = flushErr
	}
	if err == nil || errors.Is(err, errReaderWentAway) {
		return 0
	}
	p.printError(err)
	return exitStatus(err)
}

func (p *program) execute() error {
	helped := false
	parser, err := kong.New(&commands{},
		kong.Name("signalbox"),
		kong.Description(description),
		kong.Writers(p.out, p.stderr),
		kong.Exit(func(int) { helped = true }), // kong exits after --help only
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.Bind(p),
		kong.Vars{"version": "signalbox " + currentBuild().Version, "formats": commaList(signalbox.Formats()), "roles": commaList(signalbox.Roles()),
			"briefFormats": commaList(brief.Formats()), "briefOutputs": commaList(brief.Outputs())},
	)
	if err != nil {
		return err
	}
	ctx, err := parser.Parse(p.args)
	if helped {
		return nil
	}
	if err != nil {
		return usageError(err, ctx)
	}
	return ctx.Run()
}

// usageError points to the help of the command that the arguments got as far as.
func usageError(err error, ctx *kong.Context) error {
	help := []string{"signalbox"}
	if parse := (*kong.ParseError)(nil); errors.As(err, &parse) {
		ctx = parse.Context
	}
	if ctx != nil && ctx.Selected() != nil {
		help = append(help, ctx.Selected().Path())
	}
	return &signalbox.Error{
		Code: signalbox.CodeUsage,
		Err:  err,
		Hint: "see " + strings.Join(help, " ") + " --help",
	}
}

// exitStatus is the one place where an error becomes the exit status of the process.
func exitStatus(err error) int {
	classed := (*signalbox.Error)(nil)
	if !errors.As(err, &classed) {
		return 1
	}
	switch classed.Code {
	case signalbox.CodeUsage:
		return 2
	case signalbox.CodeNotFound:
		return 3
	case signalbox.CodeConflict:
		return 4
	case signalbox.CodeUnverified:
		return 5
	case signalbox.CodeInterrupted:
		return 130
	}
	return 1
}
