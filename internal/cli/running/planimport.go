package running

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strconv"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/lazy"
	"signalbox/internal/run/issues"
	"signalbox/internal/run/plan"
	"signalbox/internal/text"
)

type planImportCommand struct {
	File  *string      `arg:"" optional:"" help:"A file with the JSON that gh issue list prints; - means standard input."`
	From  string       `enum:"github" default:"github" help:"Where the issues are from: github."`
	Repo  cli.NonEmpty `placeholder:"OWNER/NAME" help:"Run gh to read the open issues of this repository, instead of a file."`
	Label cli.NonEmpty `placeholder:"L" help:"With --repo: only issues with this label."`
	Limit int          `default:"100" help:"With --repo: how many issues at most."`
	Title string       `help:"The name of the plan. Default: the repository."`
}

func (planImportCommand) Help() string {
	return `Makes a plan from GitHub issues and prints it. Each open issue is a task: GH-12 for issue 12. Its text is quoted in the task, items of its checklists ("- [ ] …") are acceptance criteria, "depends on #12" and "blocked by #12" are dependencies, and a milestone is a phase. Standard error says what was left out.

The input is a file with the output of gh issue list --json ` + issues.Fields + `, or - for standard input. With --repo signalbox runs gh itself, which must be installed and logged in.

Anybody can write an issue. Nothing in its text can add a task, a label or a signal, but agents read it: read the plan before you run it.

Examples:

    signalbox plan import --repo ann/app --label ready > plan.md
    gh issue list --json ` + issues.Fields + ` | signalbox plan import - > plan.md
    signalbox plan import issues.json > plan.md`
}

// maxIssues is the largest size of a file with issues.
const maxIssues = 64 << 20

func (c *planImportCommand) Run(p *cli.Program) error {
	source, err := c.read(p)
	if err != nil {
		return err
	}
	made, err := issues.Import(source, c.Title)
	if err == nil && c.Title != "" {
		err = plan.CheckTitle(made.Plan, c.Title)
	}
	if err != nil {
		return planError(p, err)
	}
	if _, err := p.Out.Write(made.Plan); err != nil {
		return err
	}
	for _, left := range made.LeftOut {
		p.Notef("left out: %s", left)
	}
	p.Notef("imported %s; others wrote their text, so read the plan before you run it",
		text.Count(made.Tasks, "issue"))
	return nil
}

func (c *planImportCommand) read(p *cli.Program) ([]byte, error) {
	usage := func(what, hint string) error {
		return signalbox.CodeUsage.Errorf(hint, "%s", what)
	}
	switch {
	case c.Repo != "" && c.File != nil:
		return nil, usage("there are both a file and --repo", "use one of them")
	case c.Repo == "" && c.Label != "":
		return nil, usage("--label needs --repo",
			"add --repo OWNER/NAME, or select the issues with gh")
	case c.Repo != "":
		return c.runGH()
	case c.File == nil:
		return nil, usage("there is no file and no --repo",
			"name a file, - for standard input, or --repo OWNER/NAME")
	}
	return p.ReadAll(c.File, maxIssues)
}

// repository is OWNER/NAME, or HOST/OWNER/NAME.
var repository = lazy.Regexp(`^([A-Za-z0-9][A-Za-z0-9_.-]*/){1,2}[A-Za-z0-9_.][A-Za-z0-9_.-]*$`)

// runGH reads the issues with gh.
func (c *planImportCommand) runGH() ([]byte, error) {
	if !repository().MatchString(string(c.Repo)) {
		return nil, signalbox.CodeUsage.Errorf("write OWNER/NAME", "'%s' is not a repository",
			c.Repo)
	}
	if c.Limit < 1 || c.Limit > issues.MaxIssues {
		return nil, signalbox.CodeUsage.Errorf(fmt.Sprintf("use a number from 1 to %d",
			issues.MaxIssues), "--limit is %d", c.Limit)
	}
	args := []string{"issue", "list", "--repo=" + string(c.Repo), "--state=open", "--limit=" +
		strconv.Itoa(c.Limit), "--json=" + issues.Fields}
	if c.Label != "" {
		args = append(args, "--label="+string(c.Label))
	}
	var out, errs bytes.Buffer
	cmd := exec.Command("gh", args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, signalbox.CodeFailed.Errorf(
			"install it (https://cli.github.com), or pass a file with issues",
			"program gh was not found in PATH")
	case err != nil:
		return nil, signalbox.CodeFailed.Errorf(
			"run gh auth status, and check the name of the repository", "gh failed: %w: %s", err,
			cli.Shortened(text.OneLine(errs.String())))
	}
	return out.Bytes(), nil
}
