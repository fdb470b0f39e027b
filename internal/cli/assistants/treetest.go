package assistants

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/tree/luatree"
)

type treeTestCommand struct {
	Files []string `arg:"" help:"Trees, their tests, or folders that contain them."`
	JSON  bool     `name:"json" help:"Print one JSON object per test."`
}

func (treeTestCommand) Help() string {
	return `Runs the tests of trees. The tests of x.lua are in x_test.lua in the same folder. Time is virtual, so a wait of an hour takes no time. The tests replace tools and models, so nothing outside is called. The exit status is 1 if a test fails.

Examples:

    signalbox tree test examples/trees
    signalbox tree test examples/trees/turn.lua`
}

// testedTree is the JSON answer about one test.
type testedTree struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Test    string `json:"test"`
	OK      bool   `json:"ok"`
	Ticks   int    `json:"ticks"`
	Message string `json:"message,omitempty"`
}

func (c *treeTestCommand) Run(p *cli.Program) error {
	p.Quiet = c.JSON
	files, err := testFiles(c.Files)
	if err != nil {
		return err
	}
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	tests, failed := 0, 0
	for _, file := range files {
		report, err := luatree.Test(ctx, file, treeOptions())
		if err != nil {
			return treeError(p, file, err)
		}
		tests, failed = tests+len(report.Tests), failed+report.Failed()
		if err := c.print(p, report); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d tests failed", failed, tests)
	}
	p.Notef("%d tests passed", tests)
	return nil
}

func (c *treeTestCommand) print(p *cli.Program, report *luatree.Report) error {
	took := time.Duration(0)
	for _, test := range report.Tests {
		took += test.Duration
		if c.JSON {
			if err := p.PrintJSON(testedTree{test.File, test.Line, test.Name, test.OK, test.Ticks,
				test.Msg}, ""); err != nil {
				return err
			}
		} else if !test.OK {
			fmt.Fprintf(p.Out, "FAIL  %s\n      %s:%d: %s\n", cli.Printable(test.Name),
				cli.Printable(test.File), test.Line, cli.Printable(test.Msg))
		} else {
			fmt.Fprintf(p.Out, "ok    %s\n", cli.Printable(test.Name))
		}
	}
	if !c.JSON {
		fmt.Fprintf(p.Out, "%s: %d of %d passed, %s\n", cli.Printable(report.File),
			len(report.Tests)-report.Failed(), len(report.Tests), took.Round(time.Millisecond))
	}
	return p.Out.Flush()
}

// testFiles returns the files that the arguments name, and the tests in the folders that they name.
func testFiles(args []string) ([]string, error) {
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, cli.OpenError(arg, err)
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		found, err := filepath.Glob(filepath.Join(arg, "*_test.lua"))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, signalbox.CodeNotFound.Errorf(
				"write tests next to the trees; docs/how-to/trees.md explains how",
				"there is no *_test.lua in %s", arg)
		}
		files = append(files, found...)
	}
	return files, nil
}
