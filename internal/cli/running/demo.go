package running

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/cli/web"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/rehearsal"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/steer"
)

type DemoCommand struct {
	runFlags
	Pace *time.Duration `placeholder:"D" help:"The minimum duration of an agent's step. Default: 300ms on a terminal, otherwise 0."`
	Keep bool           `help:"Keep the temporary folder and print its path."`
	Stay bool           `help:"Serve the dashboard, also after the demo, until you press Ctrl-C. The address is that of --listen, or else any free port of 127.0.0.1."`
	listenFlag
}

func (DemoCommand) Help() string {
	return `Runs a plan of six tasks in a temporary git repository, with scripted agents: real processes that write like claude, codex, gemini, opencode and plain programs, and edit real files. The checks and merges are real too. On the way a review fails, a check fails, the infrastructure breaks and is repaired, an expert is asked, you are asked a question (the demo answers it), an agent crashes, and an agent sends an invalid signal and is asked again. You need no key and no network, and it takes well under a minute; on a terminal it runs slowly enough to watch.

Examples:

    signalbox demo
    signalbox demo --plain --keep
    signalbox demo --stay`
}

func (c *DemoCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("run the demo"); err != nil {
		return err
	}
	p.Quiet = c.JSON
	dir, err := os.MkdirTemp("", "signalbox-demo-")
	if err != nil {
		return err
	}
	if c.Keep {
		p.Notef("the folder of the demo is %s", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	project := filepath.Join(dir, "calc")
	if c.Pace == nil {
		c.Pace = new(time.Duration)
		if cli.IsTerminal(p.Stdout) && !c.JSON {
			*c.Pace = watchablePace
		}
	}
	if err := stage(p, dir, project, *c.Pace); err != nil {
		return fmt.Errorf("set up the demo: %w", err)
	}
	getenv := p.Getenv
	p.Getenv = func(name string) string { // use a key of the demo, not the user's
		if name == cli.KeyVariable {
			return filepath.Join(dir, "demo.key")
		}
		return getenv(name)
	}
	created := filepath.Join(project, box.FolderName)
	if _, err := box.Init(context.Background(), created, p.ActorOf(""),
		p.BoxOptions()); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "plan.md"))
	if err != nil {
		return err
	}
	r := run{flags: c.runFlags, name: "plan.md", text: text, root: project, background: []func(context.Context, *box.Box){answerForDemo}}
	if err := r.prepare(p, cli.BoxFlag{Box: cli.NonEmpty(created)}); err != nil {
		return err
	}
	if c.Stay && c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	stop, err := c.serve(p, project, created, web.AccessFlags{})
	if err != nil {
		return err
	}
	defer stop()
	if err := r.run(p); signalbox.CodeOf(err) == signalbox.CodeInterrupted {
		return &signalbox.Error{Code: signalbox.CodeInterrupted, Err: err,
			Hint: "signalbox demo starts again from the beginning"}
	} else if err != nil {
		return err
	}
	if err := verifyDemo(p, created, c.JSON); err != nil || !c.Stay {
		return err
	}
	ctx, end := cli.UntilInterrupted()
	defer end()
	p.Out.Flush()
	p.Notef("the dashboard stays; press Ctrl-C to stop")
	<-ctx.Done()
	return nil
}

// watchablePace is the default pace on a terminal.
const watchablePace = 300 * time.Millisecond

// stage writes the demo and its configuration, and makes the project a git repository.
func stage(p *cli.Program, dir, project string, pace time.Duration) error {
	if err := rehearsal.Demo(dir); err != nil {
		return err
	}
	program, err := agent.Executable()
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(project, box.FolderName), 0o700); err != nil {
		return err
	}
	settings := rehearsal.DemoConfig(dir, program, pace)
	if err := os.WriteFile(filepath.Join(project, box.FolderName, config.FileName),
		[]byte(settings), 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A", ":!.signalbox"},
		{"-c", "user.name=demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false",
			"commit", "-q", "-m", "a calculator"}} {
		command := exec.Command("git", args...)
		command.Dir = project
		if output, err := command.CombinedOutput(); err != nil {
			return signalbox.CodeFailed.Errorf(
				"the demo needs git; run signalbox doctor to see what is missing", "git %s: %w: %s",
				args[0], err, strings.TrimSpace(string(output)))
		}
	}
	return nil
}

// demoAnswer is the answer to every question of the demo.
const demoAnswer = "two decimals"

// answerForDemo answers questions until ctx is done.
func answerForDemo(ctx context.Context, b *box.Box) {
	for {
		seen := b.Engine.Tail().Seq
		var open []string
		b.Engine.View(func(s *rules.State) {
			for _, q := range s.Questions() {
				if q.Open() {
					open = append(open, q.ID)
				}
			}
		})
		for _, id := range open {
			// if it fails, the run reports the open question
			steer.Decision{What: steer.Answer, Question: id, Text: demoAnswer, Actor: "you"}.Do(ctx,
				b)
		}
		if b.Engine.Wait(ctx, seen) != nil {
			return
		}
	}
}

// verifyDemo verifies the ledger of the demo.
func verifyDemo(p *cli.Program, dir string, quiet bool) error {
	l, err := box.OpenLedger(context.Background(), dir, p.BoxOptions())
	if err != nil {
		return err
	}
	defer l.Close()
	result, err := l.Verify(context.Background(), box.VerifyOptions{})
	if err != nil {
		return err
	}
	if !result.OK {
		return signalbox.CodeUnverified.Errorf("", "%s", result.Reason)
	}
	if quiet {
		return nil
	}
	_, err = fmt.Fprintf(p.Out, "\nledger verify: ok, %d events, signed\n", result.Events)
	return err
}
