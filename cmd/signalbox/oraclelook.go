package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"signalbox"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/console"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/setup"
)

// listed is how many conversations --sessions shows without --all.
const listed = 20

func (c *oracleCommand) list(p *program, folder string) error {
	all, err := session.List(folder)
	if err != nil {
		return err
	}
	more := 0
	if !c.All && len(all) > listed {
		more = len(all) - listed
		all = all[:listed]
	}
	if c.JSON {
		for _, s := range all {
			if err := p.printJSON(s, ""); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		p.notef("there is no conversation yet")
		return nil
	}
	rows := []string{"SESSION\tLAST\tQUESTIONS\tENDED\tFIRST QUESTION"}
	for _, s := range all {
		ended := cmp.Or(s.Reason, "unfinished")
		switch {
		case s.Damaged:
			ended = "damaged"
		case s.Problem != "":
			ended = "unreadable"
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%d\t%s\t%s", s.ID, s.At.Local().Format("2006-01-02 15:04"), s.Questions, ended, onOneLine(s.First)))
	}
	if err := p.printTable(rows); err != nil {
		return err
	}
	if more > 0 {
		p.notef("%d older ones: --all lists them too", more)
	}
	return nil
}

// printTable prints rows of cells that tabs divide, cut to the width of a terminal.
func (p *program) printTable(rows []string) error {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, row)
	}
	w.Flush() // to memory
	return console.TruncateLines(p.out, cmp.Or(widthOf(p.stdout), math.MaxInt), table.String())
}

func (c *oracleCommand) show(p *program, folder string) error {
	if err := signalbox.CheckID(string(c.Show)); err != nil {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: err, Hint: "signalbox oracle --sessions lists them"}
	}
	entries, err := session.Read(filepath.Join(folder, string(c.Show)))
	if errors.Is(err, os.ErrNotExist) {
		return noSession(string(c.Show))
	}
	if err != nil {
		return damaged(err)
	}
	all := questionsOf(entries)
	if c.JSON {
		return console.TranscriptJSON(p.out, all)
	}
	return console.Transcript(p.out, all, &console.Options{Color: p.colors(p.stdout), Width: widthOf(p.stdout)})
}

// questionsOf is a record as package console shows it.
func questionsOf(entries []session.Entry) []console.Question {
	all := []console.Question{}
	for _, e := range entries {
		if e.Kind == session.Question {
			all = append(all, console.Question{Number: e.Question, Text: e.Text, Chunks: oracle.Chunks(entries, e.Question)})
			continue
		}
		if len(all) == 0 {
			continue
		}
		switch last := &all[len(all)-1]; e.Kind {
		case session.RunStart: // again, perhaps
			last.Error, last.Done = nil, nil
		case session.Answer:
			last.Error, last.Done = e.Error, e.Done
		}
	}
	return all
}

type offeredTool struct {
	Name        string `json:"name"`
	Kind        string `json:"kind"`
	ReadOnly    bool   `json:"read_only"`
	Description string `json:"description"`
}

// listTools shows what a question would be offered, or, without one, all there is.
func (c *oracleCommand) listTools(p *program, o *setup.Setup, question string) error {
	var all []offeredTool
	for _, t := range o.Tools {
		all = append(all, offeredTool{t.Name, string(t.Kind), t.ReadOnly, t.Description})
	}
	if question != "" {
		class := o.Prompt.Classify(question)
		p.notef("the question is taken for one of the class %s", class)
		all = offeredTo(class, all)
	}
	if c.JSON {
		for _, t := range all {
			if err := p.printJSON(t, ""); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		p.notef("it is offered no tools")
		return nil
	}
	rows := []string{"TOOL\tKIND\tCHANGES THINGS\tDESCRIPTION"}
	for _, t := range all {
		changes := "it may"
		if t.ReadOnly {
			changes = "no"
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s", printable(t.Name), t.Kind, changes, onOneLine(t.Description)))
	}
	return p.printTable(rows)
}

func offeredTo(class prompt.Class, tools []offeredTool) []offeredTool {
	var all []prompt.Tool
	named := map[string]offeredTool{}
	for _, t := range tools {
		all = append(all, prompt.Tool{Name: t.Name, Kind: prompt.ToolKind(t.Kind)})
		named[t.Name] = t
	}
	var offered []offeredTool
	for _, t := range prompt.ToolsFor(class, all) {
		offered = append(offered, named[t.Name])
	}
	return offered
}
