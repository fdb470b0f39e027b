package running

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/planload"
	"signalbox/internal/run/turnprompt"
	"signalbox/internal/run/workspace"
	"signalbox/transcript"
)

type PromptCommand struct {
	cli.BoxFlag
	cli.RawFlag
	Plan cli.NonEmpty   `name:"plan" placeholder:"FILE" help:"Show the prompt that a run of this plan would give now. Default: the plans that were run; before the first run, plan.md in the folder of the project."`
	Role signalbox.Role `arg:"" help:"The role: developer, critic, auditor, business-analyst, remediation, health-auditor, expert or expert-creator."`
	Task string         `arg:"" help:"The task, or PLAN/TASK if several plans have it."`
}

func (PromptCommand) Help() string {
	return `Prints the prompt that an agent in a role would get for a task now: the instructions of the role, the task, the findings to fix, answers and advice, and the exact signals that it may send. The configuration can name another template for a role (roles.ROLE.prompt); docs/how-to/prompts.md explains how to write one.

You can look at the prompts of a plan before you run it: name its file with --plan. Nothing is recorded.

The prompt contains text of agents and of the plan. On a terminal its control characters are escaped; an agent gets the exact text.

Examples:

    signalbox prompt developer T1
    signalbox prompt developer T1 --plan next.md
    signalbox prompt critic T1 | less`
}

// defaultPlan is the plan that prompt uses before the first run, as signalbox init calls it.
const defaultPlan = "plan.md"

func (c *PromptCommand) Run(p *cli.Program) error {
	ctx := context.Background()
	return cli.WithOpened(ctx, p, c.BoxFlag, box.OpenReadOnly, p.WorkOptions(c.BoxFlag),
		func(b *box.Box) error {
			root := p.ProjectRoot(c.BoxFlag, b.Dir)
			file, err := c.planFile(p, b, root)
			if err != nil {
				return err
			}
			shown, name := b, c.Task
			if file != "" {
				loaded, id, err := previewPlan(ctx, p, b, file, root)
				if err != nil {
					return err
				}
				defer loaded.Close()
				shown = loaded
				if own := id + "/" + c.Task; isWork(shown, own) {
					name = own
				}
			}
			task, err := cli.FindWork(shown, name)
			if err != nil {
				return err
			}
			exits := transcript.ExitEnabled(p.Getenv(signalbox.ExitFlag))
			text, err := turnprompt.Show(ctx, shown, baseBranch(ctx, p, b.Config, root), c.Role,
				task,
				exits)
			if err != nil {
				return err
			}
			_, err = p.Exact(c.RawFlag).Write(text)
			return err
		})
}

// planFile returns the file of the plan to load, "" if the plans in the box are meant.
func (c *PromptCommand) planFile(p *cli.Program, b *box.Box, root string) (string, error) {
	planned := false
	b.Engine.View(func(s *rules.State) {
		for w := range s.Works() {
			planned = planned || w.Task != nil
		}
	})
	if c.Plan != "" || planned || isWork(b, c.Task) {
		return string(c.Plan), nil
	}
	file := filepath.Join(root, defaultPlan)
	if _, err := os.Stat(file); err != nil {
		return "", signalbox.CodeNotFound.Errorf(
			fmt.Sprintf("name the file of the plan that has the task: signalbox prompt %s %s --plan FILE", c.Role, c.Task), "no plan was run in this box yet, and there is no %s", file)
	}
	p.Notef("no plan was run in this box yet; this is the prompt of %s", file)
	return file, nil
}

// previewPlan loads a plan into a copy of the box in memory, and returns the copy and the id of the
// plan.
func previewPlan(ctx context.Context, p *cli.Program, b *box.Box, file, root string) (*box.Box,
	string, error) {
	text, err := p.ReadAll(&file, maxPlan)
	if err != nil {
		return nil, "", err
	}
	parsed, err := plan.Parse(file, text, &plan.Options{Drafts: b.Config.Analyst()})
	if err != nil {
		return nil, "", planError(p, err)
	}
	load := planload.Options{Actor: p.ActorOf(""), Shared: b.Config.Workspace.Shared()}
	load.Identify(parsed, file, root)
	return planload.Preview(ctx, b, parsed, text, load)
}

// baseBranch returns the branch that a run would merge into, "" in a shared workspace. If there is
// none, it prints a warning.
func baseBranch(ctx context.Context, p *cli.Program, settings *config.Config, root string) string {
	if settings.Workspace.Shared() {
		return ""
	}
	if settings.Deliver.Target != "" {
		return settings.Deliver.Target
	}
	branch, err := workspace.BaseBranch(ctx, root)
	if err != nil {
		p.Warnf("the prompt does not name the base branch: %v", err)
		p.PrintHint(err)
	}
	return branch
}

func isWork(b *box.Box, name string) bool {
	_, err := cli.FindWork(b, name)
	return err == nil
}
