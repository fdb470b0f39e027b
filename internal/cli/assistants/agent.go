package assistants

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/core/box"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/console"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/setup"
	"signalbox/internal/process"
	"signalbox/internal/run/agentsocket"
	"signalbox/internal/sandbox"
	"signalbox/internal/tree/treeruns"
	"signalbox/internal/tree/turnlog"
)

type AgentCommand struct {
	cli.BoxFlag
	Tree  string       `placeholder:"FILE" type:"existingfile" help:"The tree that decides the turns. Default: the built-in tree."`
	Model cli.NonEmpty `placeholder:"NAME" help:"A model of the configuration. Default: the model of the oracle."`
	Tools []string     `placeholder:"NAME" help:"Tools to allow besides the read-only ones, separated by commas; SERVER__* means all tools of an MCP server."`
}

func (AgentCommand) Help() string {
	return `Runs an agent that is a behaviour tree around a model. It reads its task from standard input, works in the current folder with the tools of the oracle, and prints chunks, one JSON object per line. signalbox run starts it for agents that have a tree in signalbox.yaml. Run it yourself to see what such an agent does with a task.

Line signals in its text, such as READY_FOR_REVIEW: T1, count as for any agent. Turn signals steer the tree. The text of a turn is printed when the turn is complete.

Examples:

    signalbox agent --tree critic.lua --model small < task.txt
    signalbox prompt critic T1 | signalbox agent --tree critic.lua | signalbox scan`
}

func (c *AgentCommand) Run(p *cli.Program) error {
	name := "-"
	task, err := p.ReadAll(&name, maxTask)
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(task)) == "" {
		return signalbox.CodeUsage.Errorf("see signalbox agent --help",
			"there is no task on standard input")
	}
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	p.Quiet = true
	if p.Socket() != "" { // the run has the ledger, and names the box
		conf, err := cli.SettingsOfRun(p)
		if err != nil {
			return err
		}
		return c.work(ctx, p, conf, p.Getenv(cli.BoxVariable), string(task),
			func(ctx context.Context, s turnlog.Signal) error { return reportTurn(ctx, p, s) })
	}
	return p.WithBoxOptions(ctx, c.BoxFlag, p.RunOptions(c.BoxFlag), func(b *box.Box) error {
		return c.work(ctx, p, b.Config, b.Dir, string(task),
			turnlog.To(b.Engine, cmp.Or(p.Getenv(cli.SessionVariable), p.ActorOf(""))))
	})
}

// work does a task. dir is the folder of the box. In a sandbox, logs and conversations are kept in
// the home folder.
func (c *AgentCommand) work(ctx context.Context, p *cli.Program, conf *config.Config, dir,
	task string, record func(context.Context, turnlog.Signal) error) error {
	keep := dir
	if p.Getenv(contain.NestedVariable) != "" && sandbox.Contained() {
		keep = filepath.Join(p.Getenv("HOME"), filepath.FromSlash(treeruns.KeepFolder))
		if err := os.MkdirAll(keep, 0o700); err != nil {
			return err
		}
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := process.Conceal(); err != nil { // the keys of models, from tools
		return err
	}
	o, err := setup.Open(ctx, conf, &setup.Options{Lookup: os.LookupEnv, Version: p.Build().Version,
		Record: record, Box: dir,
		Project: here, Code: here, Logs: filepath.Join(keep, "logs"), Model: string(c.Model),
		Tree: c.Tree, Agent: true,
		Tools: append([]string{setup.ReadOnly}, c.Tools...)})
	if err != nil {
		return oracleError(p, c.Tree, err)
	}
	printNotes(p, o)
	defer func() {
		if err := o.Close(); err != nil {
			p.Warnf("%v", err)
		}
	}()
	s, err := newSession(filepath.Join(keep, treeruns.AgentFolder), "A")
	if err != nil {
		return err
	}
	defer s.CloseAndPrune()
	said := false
	turns := console.NewTurnBuffer(func(one chunk.Chunk) error {
		text, is := one.(chunk.Content)
		said = said || is && strings.TrimSpace(text.Text) != ""
		return printChunk(p, one)
	})
	answer, err := o.Ask(ctx, s, task, turns.Add)
	if err != nil {
		return err
	}
	if answer.Error == nil && said && !decide.Reason(answer.Done.Reason).Incomplete() {
		return nil // signals count in every turn, so the last may be empty
	}
	err = answerError(answer)
	if classed := (*signalbox.Error)(nil); errors.As(err, &classed) {
		classed.Hint = "" // it names signalbox oracle
	}
	return err
}

const maxTask = 4 << 20

// reportTurn reports a turn signal of an agent that is a tree.
func reportTurn(ctx context.Context, p *cli.Program, s turnlog.Signal) error {
	report, err := turnlog.NewReport(s)
	if err != nil {
		return err
	}
	request := p.SocketRequest(agentsocket.CallTurn, p.Getenv(cli.SessionVariable), 0)
	request.Turn = &report
	return agentsocket.Invoke(ctx, p.Socket(), request, nil)
}
