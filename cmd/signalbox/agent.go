package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"signalbox"
	"signalbox/internal/box"
	"signalbox/internal/config"
	"signalbox/internal/durable"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/setup"
)

// agentFolder is where a box keeps the conversations of agents.
const agentFolder = "agents"

type agentCommand struct {
	boxFlag
	Tree  string `placeholder:"FILE" type:"existingfile" help:"The tree that decides the turns; else the built-in one."`
	Model given  `placeholder:"NAME" help:"One of models in the configuration; else that of the oracle."`
}

func (agentCommand) Help() string {
	return `Plays an agent that is a behaviour tree around a model: it reads its task from standard input, works in the current folder with the tools of the oracle, and prints what happens as chunks, one JSON object a line. A run starts it for agents with a tree in signalbox.yaml; by hand it shows what such an agent does with a task.

What it says is heard like the words of any agent: lines such as READY_FOR_REVIEW: T1 count, turn signals steer the tree. The text of a turn is printed when the turn is whole.

Examples:

    signalbox agent --tree critic.lua --model small < task.txt
    signalbox prompt T1 --role critic | signalbox agent --tree critic.lua | signalbox scan`
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
		folder := filepath.Join(dir, agentFolder)
		if err := durable.MakeFolder(folder); err != nil {
			return err
		}
		s, err := session.Create(folder, box.NewID("A"))
		if err != nil {
			return err
		}
		defer s.Close()
		o, err := setup.Open(ctx, conf, &setup.Options{Lookup: os.LookupEnv, Version: currentBuild().Version, Engine: b.Engine, Actor: p.actor(""),
			Project: here, Code: here, Logs: filepath.Join(dir, "logs"), Model: string(c.Model), Tree: c.Tree, Agent: true})
		if err != nil {
			return p.oracleError(c.Tree, err)
		}
		turns := &wholeTurns{print: p.printChunk}
		answer, err := o.Ask(ctx, s, string(task), turns.take)
		if closed := o.Close(); closed != nil {
			p.warnf("%v", closed)
		}
		if err != nil {
			return err
		}
		return outcomeOf(answer)
	})
}

const maxTask = 4 << 20

// wholeTurns holds the text of a turn back until the turn is whole: a reply that was cut off and begins again must not
// be heard twice.
type wholeTurns struct {
	print func(chunk.Chunk) error
	turn  int
	text  strings.Builder
}

func (w *wholeTurns) take(c chunk.Chunk) error {
	switch c := c.(type) {
	case chunk.Content:
		if c.Turn != w.turn {
			if err := w.flush(); err != nil {
				return err
			}
		}
		w.turn = c.Turn
		w.text.WriteString(c.Text)
		return nil
	case chunk.Reasoning:
		return w.print(c)
	case chunk.System:
		switch c.Name {
		case oracle.ReplyRestarted, oracle.ReplyCut:
			w.text.Reset()
			return w.print(c)
		case "retry":
			return w.print(c)
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	return w.print(c)
}

func (w *wholeTurns) flush() error {
	if w.text.Len() == 0 {
		return nil
	}
	text := w.text.String()
	w.text.Reset()
	return w.print(chunk.Content{Turn: w.turn, Text: text})
}
