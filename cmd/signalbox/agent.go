package main

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/console"
	"signalbox/internal/oracle/setup"
)

// agentFolder is where a box keeps the conversations of agents.
const agentFolder = "agents"

type agentCommand struct {
	boxFlag
	Tree  string   `placeholder:"FILE" type:"existingfile" help:"The tree that decides the turns; else the built-in one."`
	Model given    `placeholder:"NAME" help:"One of models in the configuration; else that of the oracle."`
	Tools []string `placeholder:"NAME" help:"Tools that it has beside the read-only ones, with commas between; SERVER__* are all of an MCP server."`
}

func (agentCommand) Help() string {
	return `Plays an agent that is a behaviour tree around a model: it reads its task from standard input, works in the current folder with the tools of the oracle, and prints what happens as chunks, one JSON object a line. A run starts it for agents with a tree in signalbox.yaml; by hand it shows what such an agent does with a task.

What it says is heard like the words of any agent: lines such as READY_FOR_REVIEW: T1 count, turn signals steer the tree. The text of a turn is printed when the turn is whole.

Examples:

    signalbox agent --tree critic.lua --model small < task.txt
    signalbox prompt critic T1 | signalbox agent --tree critic.lua | signalbox scan`
}

func (c *agentCommand) Run(p *program) error {
	name := "-"
	task, err := p.readAll(&name, maxTask)
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(task)) == "" {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("there is no task on standard input"), Hint: "see signalbox agent --help"}
	}
	dir, err := p.findBox(c.boxFlag)
	if err != nil {
		return err
	}
	ctx, stop := untilInterrupted()
	defer stop()
	p.quiet = true
	return p.withBox(ctx, c.boxFlag, func(b *box.Box) error {
		conf, err := config.Load(dir)
		if err != nil {
			return err
		}
		here, err := os.Getwd()
		if err != nil {
			return err
		}
		o, err := setup.Open(ctx, conf, &setup.Options{Lookup: os.LookupEnv, Version: currentBuild().Version, Engine: b.Engine, Actor: cmp.Or(p.getenv(sessionVariable), p.actor("")),
			Project: here, Code: here, Logs: filepath.Join(dir, "logs"), Model: string(c.Model), Tree: c.Tree, Agent: true,
			Tools: append([]string{setup.ReadOnly}, c.Tools...)})
		if err != nil {
			return p.oracleError(c.Tree, err)
		}
		p.warnOf(o)
		defer func() {
			if err := o.Close(); err != nil {
				p.warnf("%v", err)
			}
		}()
		s, err := newSession(filepath.Join(dir, agentFolder), "A")
		if err != nil {
			return err
		}
		defer closeSession(s)
		said := false
		turns := console.NewTurnBuffer(func(one chunk.Chunk) error {
			text, is := one.(chunk.Content)
			said = said || is && strings.TrimSpace(text.Text) != ""
			return p.printChunk(one)
		})
		answer, err := o.Ask(ctx, s, string(task), turns.Add)
		if err != nil {
			return err
		}
		if answer.Error == nil && said {
			return nil // all that it said is heard, not only what it said last
		}
		err = outcomeOf(answer)
		if classed := (*signalbox.Error)(nil); errors.As(err, &classed) {
			classed.Hint = "" // it is about another command
		}
		return err
	})
}

const maxTask = 4 << 20
