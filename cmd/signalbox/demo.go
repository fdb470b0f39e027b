package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/rehearsal"
	"signalbox/internal/run/agent"
)

type demoCommand struct {
	runFlags
	Pace *time.Duration `placeholder:"D" help:"How long each step of an agent takes at least; 300ms on a terminal, so that there is something to see, else 0."`
	Keep bool           `help:"Keep the throw-away folder, and say where it is."`
}

func (demoCommand) Help() string {
	return `Runs a plan of six tasks in a throw-away git repository, with rehearsal agents: real processes that write as claude, codex, gemini, opencode and plain programs do, and really edit files. Real checks run, real merges happen. On the way a review fails, a check fails, the infrastructure breaks and is mended, an expert is asked, you are asked and answer (by itself, here), an agent crashes, and one writes a signal that does not count and is asked again. It needs no key and no network, and takes well under a minute; on a terminal the agents take their time, so that there is something to see.

Examples:

    signalbox demo
    signalbox demo --plain --keep`
}

func (c *demoCommand) Run(p *program) error {
	if err := p.operatorOnly("run the demo"); err != nil {
		return err
	}
	p.quiet = c.JSON
	dir, err := os.MkdirTemp("", "signalbox-demo-")
	if err != nil {
		return err
	}
	if c.Keep {
		p.notef("the demo's folder is %s", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	project := filepath.Join(dir, "calc")
	if c.Pace == nil {
		c.Pace = new(time.Duration)
		if isTerminal(p.stdout) && !c.JSON {
			*c.Pace = watchablePace
		}
	}
	if err := p.stage(dir, project, *c.Pace); err != nil {
		return fmt.Errorf("set up the demo: %w", err)
	}
	getenv := p.getenv
	p.getenv = func(name string) string { // the demo's own key, whatever the user's
		if name == keyVariable {
			return filepath.Join(dir, "demo.key")
		}
		return getenv(name)
	}
	created := filepath.Join(project, box.FolderName)
	if _, err := box.Init(context.Background(), created, p.actor(""), p.boxOptions()); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "plan.md"))
	if err != nil {
		return err
	}
	r := run{flags: c.runFlags, name: "plan.md", text: text, root: project, beside: []func(context.Context, *box.Box){answerForDemo}}
	if err := r.prepare(p, boxFlag{Box: given(created)}); err != nil {
		return err
	}
	if err := r.run(p); codeOf(err) == signalbox.CodeInterrupted {
		return &signalbox.Error{Code: signalbox.CodeInterrupted, Err: err, Hint: "signalbox demo begins anew"}
	} else if err != nil {
		return err
	}
	return p.verifyDemo(created, c.JSON)
}

// watchablePace is how long a step of an agent takes when somebody watches.
const watchablePace = 300 * time.Millisecond

// stage makes the repository, the plan, the agents' script and the configuration.
func (p *program) stage(dir, project string, pace time.Duration) error {
	demo := rehearsal.Demo()
	for _, name := range []string{"plan.md", "agents.script"} {
		text, err := fs.ReadFile(demo, name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			return err
		}
	}
	files, err := fs.Sub(demo, "files")
	if err != nil {
		return err
	}
	if err := os.CopyFS(project, files); err != nil {
		return err
	}
	program, err := agent.Executable()
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(project, box.FolderName), 0o700); err != nil {
		return err
	}
	settings := demoSettings(program, filepath.Join(dir, "agents.script"), pace)
	if err := os.WriteFile(filepath.Join(project, box.FolderName, config.FileName), []byte(settings), 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A", ":!.signalbox"},
		{"-c", "user.name=demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false", "commit", "-q", "-m", "a calculator"}} {
		command := exec.Command("git", args...)
		command.Dir = project
		if output, err := command.CombinedOutput(); err != nil {
			return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(output))),
				Hint: "the demo needs git; signalbox doctor says what is missing"}
		}
	}
	return nil
}

// demoSettings gives each role an agent that writes in another format.
func demoSettings(program, script string, pace time.Duration) string {
	var b strings.Builder
	b.WriteString("agent: plain\nagents:\n")
	for _, format := range []signalbox.Format{signalbox.FormatPlain, signalbox.FormatClaude, signalbox.FormatCodex, signalbox.FormatGemini, signalbox.FormatOpencode} {
		fmt.Fprintf(&b, "  %s-like:\n    command: [%q, rehearse, agent, %q, --pace, %s, --format, %s]\n    format: %s\n", format, program, script, pace, format, format)
	}
	b.WriteString(`roles:
  developer: {agent: claude-like}
  critic: {agent: codex-like}
  auditor: {agent: gemini-like}
  remediation: {agent: opencode-like}
experts:
  - {name: security, keywords: [input, untrusted]}
checks:
  - {name: test, command: sh test.sh}
  - {name: lint, command: sh lint.sh}
grace: 2s
`)
	return strings.Replace(b.String(), "agent: plain\n", "agent: plain-like\n", 1)
}

// demoAnswer is what the human of the demo says.
const demoAnswer = "two decimals"

// answerForDemo answers what is asked, as a person would.
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
			b.Engine.Do(ctx, rules.AnswerQuestion{Question: id, Answer: demoAnswer, Actor: "you"}) // if it fails the run says what is asked
		}
		if b.Engine.Wait(ctx, seen) != nil {
			return
		}
	}
}

// verifyDemo shows that the record holds.
func (p *program) verifyDemo(dir string, quiet bool) error {
	l, err := box.OpenLedger(context.Background(), dir, p.boxOptions())
	if err != nil {
		return err
	}
	defer l.Close()
	result, err := l.Verify(context.Background(), box.VerifyOptions{})
	if err != nil {
		return err
	}
	if !result.OK {
		return &signalbox.Error{Code: signalbox.CodeUnverified, Err: errors.New(result.Reason)}
	}
	if quiet {
		return nil
	}
	_, err = fmt.Fprintf(p.out, "\nledger verify: ok, %d events, signed\n", result.Events)
	return err
}
