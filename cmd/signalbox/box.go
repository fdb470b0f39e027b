package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"signalbox"
	"signalbox/internal/core/box"
)

// Environment variables that commands about a box look at.
const (
	boxVariable     = "SIGNALBOX_BOX"
	keyVariable     = "SIGNALBOX_KEY"
	actorVariable   = "SIGNALBOX_ACTOR"
	sessionVariable = "SIGNALBOX_SESSION"
)

// boxFlag is the flag of every command about a box.
type boxFlag struct {
	Box given `name:"box" placeholder:"DIR" help:"The box; else SIGNALBOX_BOX, else .signalbox here or in the nearest parent."`
}

// given is the value of a flag that is not empty if the flag is there. An empty one, as from an unset shell variable, would
// otherwise mean another box or session than was meant.
type given string

// Decode is for kong.
func (g *given) Decode(ctx *kong.DecodeContext) error {
	var value string
	if err := ctx.Scan.PopValueInto("value", &value); err != nil {
		return err
	}
	if value == "" {
		return errors.New("the value is empty")
	}
	*g = given(value)
	return nil
}

// answerFlag is the flag of commands that answer with one JSON object.
type answerFlag struct {
	JSON bool `name:"json" help:"Print the answer on one line."`
}

func (f answerFlag) print(p *program, v any) error {
	indent := "  "
	if f.JSON {
		indent = ""
	}
	return p.printJSON(v, indent)
}

func (p *program) boxOptions() *box.Options {
	return &box.Options{
		KeyFile: p.getenv(keyVariable),
		Log:     slog.New(warnings{p}),
	}
}

// warnings shows what packages log from level Warn on as warnings of the program.
type warnings struct{ p *program }

func (warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (w warnings) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf("; %s: %v", a.Key, a.Value)
		return true
	})
	w.p.warnf("%s", text)
	return nil
}

func (w warnings) WithAttrs([]slog.Attr) slog.Handler { return w }
func (w warnings) WithGroup(string) slog.Handler      { return w }

func (p *program) findBox(f boxFlag) (string, error) {
	named := string(f.Box)
	if named == "" {
		named = p.getenv(boxVariable)
	}
	return box.Find(".", named)
}

// withBox opens the box, does what is to be done, and signs what was written.
func (p *program) withBox(ctx context.Context, f boxFlag, do func(*box.Box) error) error {
	return opening(ctx, p, f, box.Open, func(b *box.Box) error {
		err := do(b)
		if b.Wrote() && p.getenv(sessionVariable) == "" {
			p.sign(b)
		}
		return err
	})
}

// lookAtBox opens the box for commands that write nothing.
func (p *program) lookAtBox(f boxFlag, look func(context.Context, *box.Box) error) error {
	ctx := context.Background()
	return opening(ctx, p, f, box.OpenReadOnly, func(b *box.Box) error { return look(ctx, b) })
}

// withLedger opens the record alone, which works also where it cannot be folded.
func (p *program) withLedger(f boxFlag, do func(context.Context, *box.Ledger) error) error {
	ctx := context.Background()
	return opening(ctx, p, f, box.OpenLedger, func(l *box.Ledger) error { return do(ctx, l) })
}

// opening finds the box, opens it, does what is to be done, and closes it.
func opening[B io.Closer](ctx context.Context, p *program, f boxFlag, open func(context.Context, string, *box.Options) (B, error), do func(B) error) error {
	dir, err := p.findBox(f)
	if err != nil {
		return err
	}
	b, err := open(ctx, dir, p.boxOptions())
	if err != nil {
		return err
	}
	defer b.Close()
	return do(b)
}

// sign signs what a command wrote, if the key is on this host. The command is done whatever comes of it.
func (p *program) sign(b *box.Box) {
	// The answer does not wait for the places that the checkpoint is handed to. An error of it sticks.
	p.out.Flush()
	err := b.SignAndPublish(context.Background()) // also after an interrupt
	if err == nil || errors.Is(err, box.ErrNoKey) {
		return
	}
	p.warnf("what was done is recorded, but: %v", err)
	if classed := (*signalbox.Error)(nil); errors.As(err, &classed) && classed.Hint != "" {
		p.say("hint", classed.Hint)
	}
}

// signalPause is how long after an interrupt another one counts as the same: a terminal that closes, and programs such as
// timeout, send several.
const signalPause = time.Second

// untilInterrupted returns a context that ends with the first interrupt. It is for commands that wait; others may
// be killed at any time, and so may these by a further interrupt.
func untilInterrupted() (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signals = append(signals, syscall.SIGHUP) // the terminal was closed
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, func() { time.AfterFunc(signalPause, stop) })
	return ctx, stop
}

// actor is who gives a command: the flag, else SIGNALBOX_ACTOR, else the user's name as far as it can be an id.
func (p *program) actor(flag given) string {
	if flag != "" {
		return string(flag)
	}
	if named := p.getenv(actorVariable); named != "" {
		return named
	}
	for _, variable := range []string{"USER", "USERNAME", "LOGNAME"} {
		name := strings.Map(func(r rune) rune {
			if r == '\\' || r == ' ' {
				return '-'
			}
			return r
		}, p.getenv(variable))
		if signalbox.CheckID(name) == nil {
			return name
		}
	}
	return "operator"
}

// session is the one that a command acts for. Inside an agent's process that is the agent's own and no other.
func (p *program) session(flag given) (string, error) {
	own := given(p.getenv(sessionVariable))
	switch {
	case own == "" && flag == "":
		return "", &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("missing flags: --session=S"),
			Hint: "use the session that signalbox work claim printed"}
	case own == "" || flag == own:
		return string(flag), nil
	case flag == "":
		return string(own), nil
	}
	return "", insideSession(string(own), "act for session '"+string(flag)+"'")
}

// operatorOnly refuses what an agent may not do. It is a guard-rail: docs/security.md says what it does not stop.
func (p *program) operatorOnly(what string) error {
	if own := p.getenv(sessionVariable); own != "" {
		return insideSession(own, what)
	}
	return nil
}

func insideSession(own, what string) error {
	return &signalbox.Error{
		Code: signalbox.CodeFailed,
		Err:  fmt.Errorf("session '%s' may not %s", own, what),
		Hint: sessionVariable + " is set, so this is an agent's process: it may renew, release and exit its own session; ask the operator for the rest",
	}
}
