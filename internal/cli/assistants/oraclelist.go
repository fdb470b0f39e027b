package assistants

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
	"signalbox/internal/cli"
	"signalbox/internal/oracle/console"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/setup"
)

// maxListed is how many conversations --sessions shows without --all.
const maxListed = 20

func (c *OracleCommand) list(p *cli.Program, folder string) error {
	all, err := session.List(folder)
	if err != nil {
		return err
	}
	more := 0
	if !c.All && len(all) > maxListed {
		more = len(all) - maxListed
		all = all[:maxListed]
	}
	if c.JSON {
		for _, s := range all {
			if err := p.PrintJSON(s, ""); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		p.Notef("there are no conversations yet")
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
		rows = append(rows, fmt.Sprintf("%s\t%s\t%d\t%s\t%s", s.ID,
			s.At.Local().Format("2006-01-02 15:04"), s.Questions, ended, cli.Shortened(s.First)))
	}
	if err := printTable(p, rows); err != nil {
		return err
	}
	if more > 0 {
		p.Notef("%d older conversations are not shown; list them with --all", more)
	}
	return nil
}

// printTable prints rows of tab-separated cells, truncated to the width of the terminal.
func printTable(p *cli.Program, rows []string) error {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, row)
	}
	w.Flush() // cannot fail: it writes to memory
	return console.TruncateLines(p.Out, cmp.Or(cli.WidthOf(p.Stdout), math.MaxInt), table.String())
}

func (c *OracleCommand) show(p *cli.Program, folder string) error {
	if err := signalbox.CheckID(string(c.Show)); err != nil {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: err, Hint: listSessions}
	}
	entries, err := session.Read(filepath.Join(folder, string(c.Show)))
	if errors.Is(err, os.ErrNotExist) {
		return noSession(string(c.Show))
	}
	if err != nil {
		return damaged(err)
	}
	questions := console.Questions(entries)
	if c.JSON {
		return console.TranscriptJSON(p.Out, questions)
	}
	colors := p.Colors(p.Stdout)
	return console.Transcript(p.Styled(colors), questions,
		&console.Options{Color: colors, Width: cli.WidthOf(p.Stdout)})
}

// offeredTool is a line of --tools --json.
type offeredTool struct {
	Name        string `json:"name"`
	Kind        string `json:"kind"`
	ReadOnly    bool   `json:"read_only"`
	Description string `json:"description"`
}

// listTools lists the tools that are offered for a question, or all tools if there is no question.
func (c *OracleCommand) listTools(p *cli.Program, o *setup.Setup, question string) error {
	tools := o.Tools
	if question != "" {
		class := o.Prompt.Classify(question)
		p.Notef("the question has the class %s", class)
		tools = o.ToolsFor(class)
	}
	if c.JSON {
		for _, t := range tools {
			if err := p.PrintJSON(offeredTool{t.Name, string(t.Kind), t.ReadOnly, t.Description},
				""); err != nil {
				return err
			}
		}
		return nil
	}
	if len(tools) == 0 {
		p.Notef("no tools are offered")
		return nil
	}
	rows := []string{"TOOL\tKIND\tCHANGES THINGS\tDESCRIPTION"}
	for _, t := range tools {
		changes := "possibly"
		if t.ReadOnly {
			changes = "no"
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s", cli.Printable(t.Name), t.Kind, changes,
			cli.Shortened(t.Description)))
	}
	return printTable(p, rows)
}
