package main

import (
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/cli"
	"signalbox/internal/cli/about"
	"signalbox/internal/cli/assistants"
	"signalbox/internal/cli/boxes"
	"signalbox/internal/cli/byhand"
	"signalbox/internal/cli/ledgers"
	"signalbox/internal/cli/looking"
	"signalbox/internal/cli/orders"
	"signalbox/internal/cli/portfolios"
	"signalbox/internal/cli/rehearsals"
	"signalbox/internal/cli/running"
	"signalbox/internal/cli/serving"
)

// commands is the grammar of the command line.
type commands struct {
	Run       running.RunCommand      `cmd:"" help:"Run a plan with agents until it is complete."`
	Add       orders.AddCommand       `cmd:"" help:"Add a task that one sentence describes."`
	Demo      running.DemoCommand     `cmd:"" help:"Run a demo in a temporary repository with scripted agents."`
	Questions orders.QuestionsCommand `cmd:"" help:"Show what agents ask you."`
	Answer    orders.AnswerCommand    `cmd:"" help:"Answer a question."`
	Pause     orders.PauseCommand     `cmd:"" help:"Stop dispatching work, for a task or the whole run."`
	Resume    orders.ResumeCommand    `cmd:"" help:"End a pause."`
	Cancel    orders.CancelCommand    `cmd:"" help:"Cancel a task or the whole run."`
	Retry     orders.RetryCommand     `cmd:"" help:"Restart a task, or all blocked tasks."`
	Approve   orders.ApproveCommand   `cmd:"" help:"Approve a merge."`
	Reject    orders.RejectCommand    `cmd:"" help:"Reject a merge and send the task back with the reason."`
	Rework    orders.ReworkCommand    `cmd:"" help:"Send a task back to the developer with what you want."`
	Tell      orders.TellCommand      `cmd:"" help:"Give words to an agent of a task."`
	Waive     orders.WaiveCommand     `cmd:"" help:"Say that a finding need not be fixed."`
	Clean     orders.CleanCommand     `cmd:"" help:"Remove the worktrees of cancelled tasks."`
	Status    looking.StatusCommand   `cmd:"" help:"Show what is going on."`
	Logs      looking.LogsCommand     `cmd:"" help:"Show what the agents of a task wrote and did."`
	Diff      looking.DiffCommand     `cmd:"" help:"Show what a task changes."`
	Explain   looking.ExplainCommand  `cmd:"" help:"Show where the time and the money of a task went."`
	Stats     looking.StatsCommand    `cmd:"" help:"Show what the ledger has learned about agents."`
	Watch     running.WatchCommand    `cmd:"" help:"Watch a run that was started elsewhere."`
	Worker    running.WorkerCommand   `cmd:"" help:"Work on the plan of a box."`
	Plan      running.PlanCommands    `cmd:"" help:"Write, import, check, show and update plans."`
	Prompt    running.PromptCommand   `cmd:"" help:"Show the prompt for an agent."`

	Init   boxes.InitCommand      `cmd:"" help:"Create a box: a folder with a ledger and a configuration."`
	Invite boxes.InviteCommand    `cmd:"" help:"Print a token with which another machine joins a box."`
	Join   boxes.JoinCommand      `cmd:"" help:"Make this machine part of a box that another machine has."`
	Trust  boxes.TrustCommand     `cmd:"" help:"Decide whether the team's configuration may run things on this machine."`
	Config boxes.ConfigCommands   `cmd:"" help:"Show the configuration that counts."`
	Work   byhand.WorkCommands    `cmd:"" help:"Open, claim and move work by hand."`
	Ledger ledgers.LedgerCommands `cmd:"" help:"Read, verify, prove and sign the ledger."`
	Blob   ledgers.BlobCommands   `cmd:"" help:"Read or redact the output of agents."`

	Scan  byhand.ScanCommand  `cmd:"" help:"Find the signals in the output of an agent."`
	Strip byhand.StripCommand `cmd:"" help:"Remove turn signals from the reply of a model."`
	Exit  byhand.ExitCommands `cmd:"" help:"Check exit signals."`

	Sandbox boxes.SandboxCommands `cmd:"" help:"Show what agents and checks may do on this machine."`
	Notify  boxes.NotifyCommands  `cmd:"" help:"Test how you are notified."`

	Agent  assistants.AgentCommand  `cmd:"" help:"Run an agent that is a tree around a model."`
	Oracle assistants.OracleCommand `cmd:"" help:"Ask a model that can use tools."`
	Tree   assistants.TreeCommands  `cmd:"" help:"Check, draw, run, replay and test behaviour trees."`

	Portfolio portfolios.PortfolioCommands `cmd:"" help:"Show tax lots, losses to harvest and exit signals of a portfolio."`
	MCP       serving.MCPCommand           `cmd:"" name:"mcp" help:"Serve the tools of signalbox over MCP."`
	Serve     serving.ServeCommand         `cmd:"" help:"Serve a dashboard and an API over HTTP."`
	Token     serving.TokenCommands        `cmd:"" help:"Create, list and revoke what logs browsers and programs in."`

	Backup   ledgers.BackupCommand       `cmd:"" help:"Write a backup of a box to a file."`
	Restore  ledgers.RestoreCommand      `cmd:"" help:"Restore a box from a backup."`
	Doctor   boxes.DoctorCommand         `cmd:"" help:"Check the installation, the box and the configuration."`
	Rehearse rehearsals.RehearseCommands `cmd:"" help:"Run scripted agents and models."`
	Version  about.VersionCommand        `cmd:"" help:"Print the version."`

	Help       about.HelpCommand       `cmd:"" help:"Show the help of a command."`
	Completion about.CompletionCommand `cmd:"" help:"Print a completion script for your shell."`
	Manual     about.ManualCommand     `cmd:"" help:"Write the manual pages into a folder."`

	ShowVersion kong.VersionFlag `name:"version" help:"Print the version and exit."`
}

const description = `signalbox runs coding agents unattended. Give it a plan: agents develop, review and audit each task, signalbox runs your checks itself, merges what passes, asks you what only you can decide, and records everything on a tamper-evident ledger.

Exit status: 0 success, 1 failed or refused, 2 wrong usage, 3 not found, 4 conflict (lost a race, or a stale lease), 5 verification failed, 130 interrupted; run and demo: 0 complete, 1 stuck; tree run: 0 success, 1 failure.

Examples:

    signalbox demo
    signalbox plan check plan.md
    signalbox run plan.md
    signalbox add 'fix the typo in the README'
    signalbox questions
    signalbox answer Q-1 'two decimals'
    signalbox ledger verify`

// grammar returns the part of commands that the arguments name: to build all of it takes longer
// than most commands, and agents start many.
func grammar(args []string) any {
	if len(args) == 0 || slices.Contains(needAll, args[0]) {
		return &commands{}
	}
	all := reflect.TypeFor[commands]()
	version, _ := all.FieldByName("ShowVersion")
	if args[0] == "--version" && len(args) == 1 {
		return reflect.New(reflect.StructOf([]reflect.StructField{version})).Interface()
	}
	for command := range all.Fields() {
		if _, ok := command.Tag.Lookup("cmd"); ok && strings.ToLower(command.Name) == args[0] {
			return reflect.New(reflect.StructOf([]reflect.StructField{command, version})).Interface()
		}
	}
	return &commands{}
}

// needAll are the commands that show the other commands.
var needAll = []string{"help", "completion", "manual"}

// execute runs the command that the arguments name, and returns the exit status.
func execute(p *cli.Program) int { return p.Main(dispatch) }

// dispatch parses the arguments and runs the command. Without arguments it shows the help.
func dispatch(p *cli.Program) error {
	if len(p.Args) == 0 {
		p.Args = []string{"--help"}
	}
	helpShown := false
	parser, err := kong.New(grammar(p.Args),
		kong.Name("signalbox"),
		kong.Description(description),
		kong.Writers(p.Out, p.Stderr),
		kong.Exit(func(int) { helpShown = true }), // kong exits only after --help and --version
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true,
			WrapUpperBound: 100}),
		kong.Bind(p),
		kong.Vars{"version": "signalbox " + p.Build().Version,
			"formats":      cli.CommaList(signalbox.Formats()),
			"roles":        cli.CommaList(signalbox.Roles()),
			"briefFormats": cli.CommaList(brief.Formats()),
			"briefOutputs": cli.CommaList(brief.Outputs())},
	)
	if err != nil {
		return err
	}
	ctx, err := parser.Parse(p.Args)
	if helpShown {
		return nil
	}
	if err != nil {
		if right := flagsLast(p.Args); right != "" {
			return signalbox.CodeUsage.Errorf("flags follow the command: "+right, "%w", err)
		}
		return cli.UsageError(err, ctx)
	}
	return ctx.Run()
}

// flagsLast returns the command line with the flags after the command, if args have some before it,
// otherwise "".
func flagsLast(args []string) string {
	if !strings.HasPrefix(args[0], "-") {
		return ""
	}
	first := len(args)
	for command := range reflect.TypeFor[commands]().Fields() {
		at := slices.Index(args, strings.ToLower(command.Name))
		if _, ok := command.Tag.Lookup("cmd"); ok && at > 0 {
			first = min(first, at)
		}
	}
	if first == len(args) {
		return ""
	}
	return strings.Join(slices.Concat([]string{"signalbox"}, args[first:], args[:first]), " ")
}
