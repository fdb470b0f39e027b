package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/team"
)

// Environment variables of commands that use a box.
const (
	boxVariable     = "SIGNALBOX_BOX"
	keyVariable     = "SIGNALBOX_KEY"
	actorVariable   = "SIGNALBOX_ACTOR"
	sessionVariable = "SIGNALBOX_SESSION"
	epochVariable   = "SIGNALBOX_EPOCH"   // of the session's lease
	secretVariable  = "SIGNALBOX_SECRET"  // of the session's lease; not a flag, because flags are visible in lists of processes
	attemptVariable = "SIGNALBOX_ATTEMPT" // set only by a crew
)

func (p *program) boxOptions() *box.Options {
	return &box.Options{
		KeyFile: p.getenv(keyVariable),
		Connect: func(ctx context.Context, dir, address string) error {
			return team.Store{}.CheckPlace(ctx, dir, address, p.boxNamed)
		},
		Log: p.log(),
	}
}

// log returns a logger that prints warnings.
func (p *program) log() *slog.Logger { return slog.New(warnings{p}) }

// silentOptions is boxOptions without warnings.
func (p *program) silentOptions() *box.Options {
	o := p.boxOptions()
	o.Log = nil
	return o
}

// rememberPlaces is called after a command that may have put the ledger of a box elsewhere, with its error. known reports whether all places
// were known before: then they are recorded again, because the command may have made the secret of a cluster.
func (p *program) rememberPlaces(dir string, known bool, err error) {
	if err != nil && !known {
		return
	}
	err = team.Store{}.AddPlace(dir)
	if known {
		err = errors.Join(err, team.Store{}.AddPlaces(dir))
	}
	if err != nil {
		p.warnf("cannot record that this machine may connect to the journal: %v; name the box with --box, or run signalbox trust", err)
	}
}

// warnings is a slog.Handler that prints records of level Warn and above as warnings.
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

// findBox returns the folder of the box. An agent of a run may not open it.
func (p *program) findBox(f boxFlag) (string, error) {
	if p.socket() != "" {
		return "", p.insideSession("open the box")
	}
	named := string(f.Box)
	if named == "" {
		named = p.getenv(boxVariable)
	}
	p.findFirst.Do(func() { p.boxNamed = named != "" })
	return box.Find(".", named)
}

// withBox opens the box, calls do, and signs what it wrote.
func (p *program) withBox(ctx context.Context, f boxFlag, do func(*box.Box) error) error {
	return p.withBoxOptions(ctx, f, p.workOptions(f), do)
}

func (p *program) withBoxOptions(ctx context.Context, f boxFlag, o *box.Options, do func(*box.Box) error) error {
	return withOpened(ctx, p, f, box.Open, o, func(b *box.Box) error {
		err := do(b)
		if b.Wrote() && p.getenv(sessionVariable) == "" {
			p.sign(b)
		}
		return err
	})
}

// withReadOnlyBox opens the box read-only.
func (p *program) withReadOnlyBox(f boxFlag, look func(context.Context, *box.Box) error) error {
	ctx := context.Background()
	return withOpened(ctx, p, f, box.OpenReadOnly, p.readOptions(f), func(b *box.Box) error { return look(ctx, b) })
}

// withLedger opens only the ledger, which also works if its events cannot be applied. It warns if the ledger has lost events.
func (p *program) withLedger(f boxFlag, do func(context.Context, *box.Ledger) error) error {
	ctx := context.Background()
	return withOpened(ctx, p, f, box.OpenLedger, p.boxOptions(), func(l *box.Ledger) error {
		l.WarnIfLost(ctx)
		return do(ctx, l)
	})
}

// withOpened finds the box, opens it, calls do, and closes it.
func withOpened[B io.Closer](ctx context.Context, p *program, f boxFlag, open func(context.Context, string, *box.Options) (B, error), o *box.Options, do func(B) error) error {
	dir, err := p.findBox(f)
	if err != nil {
		return err
	}
	b, err := open(ctx, dir, o)
	if err != nil {
		return explainOpening(ctx, err)
	}
	defer b.Close()
	return do(b)
}

// explainOpening returns the error of opening a box. If the user has interrupted it while it waited, for example for the other machines of a cluster, the
// ledger is not to blame.
func explainOpening(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return &signalbox.Error{Code: signalbox.CodeInterrupted, Err: errors.New("interrupted before the ledger was open")}
	}
	return err
}

// sign signs what a command wrote, if the key is on this host. A failure is only a warning, because the command has succeeded.
func (p *program) sign(b *box.Box) {
	// Publishing the checkpoint may take long, so print the answer first. run reports a write error.
	p.out.Flush()
	err := b.SignAndPublish(context.Background()) // even after an interrupt
	if err == nil || errors.Is(err, box.ErrNoKey) {
		return
	}
	p.warnf("the change is recorded, but: %v", err)
	p.printHint(err)
}

// signalPause is how long after an interrupt further ones are ignored, because a closing terminal and programs such as timeout send several.
const signalPause = time.Second

// untilInterrupted returns a context that the first interrupt cancels. A later interrupt kills the program. It is for commands that wait or
// clean up; others can be killed at any time.
func untilInterrupted() (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signals = append(signals, syscall.SIGHUP) // the terminal is closed
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, func() { time.AfterFunc(signalPause, stop) })
	return ctx, stop
}

// actor returns the actor of a command: the flag, or else SIGNALBOX_ACTOR, or else the user name if it is a valid id.
func (p *program) actor(flag nonEmpty) string {
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

// orInterrupted replaces an error that an interrupt caused.
func orInterrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	return &signalbox.Error{Code: signalbox.CodeInterrupted, Err: errors.New("interrupted"), Hint: "nothing was written; run the command again"}
}

// projectRoot returns the project's folder: the one that contains the box, or the current folder if the box was named.
func (p *program) projectRoot(f boxFlag, dir string) string {
	if f.Box == "" && p.getenv(boxVariable) == "" {
		return filepath.Dir(dir)
	}
	return "."
}
