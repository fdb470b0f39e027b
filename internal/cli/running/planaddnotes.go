package running

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/steer"
	"signalbox/internal/text"
)

// planAddNotesCommand makes tasks of what reviewers noted about work that is merged.
type planAddNotesCommand struct {
	cli.BoxFlag
	cli.AnswerFlag
	Tasks  []string     `arg:"" optional:"" name:"task" help:"The merged tasks, or single notes, such as T3/F2. Default: all merged tasks."`
	DryRun bool         `help:"Show the tasks without adding them."`
	Review string       `placeholder:"R" help:"Who judges the work besides your checks: full (critic and auditor, the default), critic, or checks (neither)."`
	Actor  cli.NonEmpty `placeholder:"A" help:"Your name on the ledger. Default: SIGNALBOX_ACTOR, or else your user name."`
}

func (planAddNotesCommand) Help() string {
	return `Adds a task for each note that critics and auditors made about merged work. A note is a finding that did not send the work back. Each becomes a task once, also if you run the command again. Agents wrote the notes, so look at them with --dry-run first.

Examples:

    signalbox plan add-notes --dry-run
    signalbox plan add-notes
    signalbox plan add-notes T3/F2 T5 --review checks`
}

// noted is a note that becomes a task.
type noted struct {
	Finding string `json:"finding"`
	Text    string `json:"text"`
	// Work is the task that was added, absent in a dry run.
	Work string `json:"work,omitempty"`

	task, place string
}

// title is the title of the task. It begins with the name of the note, by which it is found again.
func (n *noted) title() string { return n.Finding + ": " + text.Shorten(n.Text, 80) }

func (c *planAddNotesCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("add tasks"); err != nil {
		return err
	}
	ctx := context.Background()
	return p.WithBox(ctx, c.BoxFlag, func(b *box.Box) error {
		notes, err := c.find(b)
		if err != nil {
			return err
		}
		for i := range notes {
			n := &notes[i]
			if c.DryRun {
				continue
			}
			about := "A note about " + n.task
			if n.place != "" {
				about += ", " + n.place
			}
			a, err := steer.NewTask{Text: about + ": " + n.Text, Title: n.title(), Review: c.Review,
				Actor: p.ActorOf(c.Actor)}.Do(ctx, b)
			if err != nil {
				return err
			}
			n.Work = a.Work
		}
		return c.print(p, notes)
	})
}

func (c *planAddNotesCommand) print(p *cli.Program, notes []noted) error {
	if c.JSON {
		if notes == nil {
			notes = []noted{}
		}
		return p.PrintJSON(notes, "")
	}
	for _, n := range notes {
		if n.Work != "" {
			n.Work += ": added: "
		}
		fmt.Fprintf(p.Out, "%s%s\n", n.Work, text.Printable(n.title()))
	}
	switch {
	case len(notes) == 0:
		fmt.Fprintln(p.Out, "no notes about merged tasks")
	case !c.DryRun:
		p.Notef("a run that is active takes them up; otherwise: signalbox run")
	}
	return nil // Main reports a write error
}

// find returns the requested notes that have not become tasks yet.
func (c *planAddNotesCommand) find(b *box.Box) (notes []noted, err error) {
	wanted := map[string]bool{} // a task, or a task and a finding
	for _, name := range c.Tasks {
		task, finding, single := cli.CutFinding(name)
		if !single {
			task = name
		}
		work, err := cli.FindWork(b, task)
		if err != nil {
			return nil, err
		}
		if single {
			work += "/" + finding
		}
		wanted[work] = true
	}
	found := map[string]bool{}
	b.Engine.View(func(s *rules.State) {
		var titles []string
		for w := range s.Works() {
			titles = append(titles, w.Title)
		}
		for w := range s.Works() {
			if w.Task == nil || w.Phase != signalbox.PhaseCompleted {
				continue
			}
			for _, f := range w.Task.Raised {
				n := noted{Finding: w.ID + "/" + f.ID, Text: text.OneLine(f.Text), task: w.ID,
					place: text.OneLine(f.Place)}
				if f.State != rules.FindingNote ||
					len(wanted) > 0 && !wanted[w.ID] && !wanted[n.Finding] {
					continue
				}
				found[w.ID], found[n.Finding] = true, true
				if !slices.ContainsFunc(titles, func(title string) bool {
					return strings.HasPrefix(title, n.Finding+": ")
				}) {
					notes = append(notes, n)
				}
			}
		}
	})
	for name := range wanted {
		if !found[name] {
			return nil, signalbox.CodeNotFound.Errorf("signalbox work show lists the findings of a task",
				"'%s' is not a note about a merged task, and has none", name)
		}
	}
	return notes, nil
}
