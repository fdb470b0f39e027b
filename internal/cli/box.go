package cli

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
	"signalbox/internal/core/rules"
	"signalbox/internal/team"
)

// Environment variables of commands that use a box.
const (
	BoxVariable     = "SIGNALBOX_BOX"
	KeyVariable     = "SIGNALBOX_KEY"
	actorVariable   = "SIGNALBOX_ACTOR"
	SessionVariable = "SIGNALBOX_SESSION"
	epochVariable   = "SIGNALBOX_EPOCH" // of the session's lease
	// of the session's lease; not a flag, because flags are visible in lists of processes
	SecretVariable  = "SIGNALBOX_SECRET"
	AttemptVariable = "SIGNALBOX_ATTEMPT" // set only by a crew
)

// BoxOptions returns what every command that opens a box needs: the key, the check of where its
// journal is, and warnings.
func (p *Program) BoxOptions() *box.Options {
	return &box.Options{
		KeyFile: p.Getenv(KeyVariable),
		Connect: func(ctx context.Context, dir, address string) error {
			return team.Store{}.CheckPlace(ctx, dir, address, p.BoxNamed)
		},
		Log: p.Log(),
	}
}

// Log returns a logger that prints warnings.
func (p *Program) Log() *slog.Logger { return slog.New(warnings{p}) }

// RememberPlaces is called after a command that may have put the ledger of a box elsewhere, with
// its error. known reports whether all places were known before: then they are recorded again,
// because the command may have made the secret of a cluster.
func RememberPlaces(p *Program, dir string, known bool, err error) {
	if err != nil && !known {
		return
	}
	err = team.Store{}.AddPlace(dir)
	if known {
		err = errors.Join(err, team.Store{}.AddPlaces(dir))
	}
	if err != nil {
		p.Warnf("cannot record that this machine may connect to the journal: %v; name the box with --box, or run signalbox trust", err)
	}
}

// warnings is a slog.Handler that prints records of level Warn and above as warnings.
type warnings struct{ p *Program }

func (warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (w warnings) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf("; %s: %v", a.Key, a.Value)
		return true
	})
	w.p.Warnf("%s", text)
	return nil
}

func (w warnings) WithAttrs([]slog.Attr) slog.Handler { return w }
func (w warnings) WithGroup(string) slog.Handler      { return w }

// FindBox returns the folder of the box. An agent of a run may not open it.
func (p *Program) FindBox(f BoxFlag) (string, error) {
	if p.Socket() != "" {
		return "", p.InsideSession("open the box")
	}
	named := string(f.Box)
	if named == "" {
		named = p.Getenv(BoxVariable)
	}
	p.findFirst.Do(func() { p.BoxNamed = named != "" })
	return box.Find(".", named)
}

// WithBox opens the box, calls do, and signs what it wrote.
func (p *Program) WithBox(ctx context.Context, f BoxFlag, do func(*box.Box) error) error {
	return p.WithBoxOptions(ctx, f, p.WorkOptions(f), do)
}

// WithBoxOptions is WithBox with the options for another configuration.
func (p *Program) WithBoxOptions(ctx context.Context, f BoxFlag, o *box.Options,
	do func(*box.Box) error) error {
	return WithOpened(ctx, p, f, box.Open, o, func(b *box.Box) error {
		err := do(b)
		if b.Wrote() && p.Getenv(SessionVariable) == "" {
			sign(p, b)
		}
		return err
	})
}

// WithReadOnlyBox opens the box read-only.
func (p *Program) WithReadOnlyBox(f BoxFlag, look func(context.Context, *box.Box) error) error {
	ctx := context.Background()
	return WithOpened(ctx, p, f, box.OpenReadOnly, p.ReadOptions(f),
		func(b *box.Box) error { return look(ctx, b) })
}

// WithLedger opens only the ledger, which also works if its events cannot be applied. It warns if
// the ledger has lost events.
func (p *Program) WithLedger(f BoxFlag, do func(context.Context, *box.Ledger) error) error {
	ctx := context.Background()
	return WithOpened(ctx, p, f, box.OpenLedger, p.BoxOptions(), func(l *box.Ledger) error {
		l.WarnIfLost(ctx)
		return do(ctx, l)
	})
}

// WithOpened finds the box, opens it, calls do, and closes it.
func WithOpened[B io.Closer](ctx context.Context, p *Program, f BoxFlag,
	open func(context.Context, string, *box.Options) (B, error), o *box.Options,
	do func(B) error) error {
	dir, err := p.FindBox(f)
	if err != nil {
		return err
	}
	b, err := open(ctx, dir, o)
	if err != nil {
		return ExplainOpening(ctx, err)
	}
	defer b.Close()
	return do(b)
}

// ExplainOpening returns the error of opening a box. If the user has interrupted it while it
// waited, for example for the other machines of a cluster, the ledger is not to blame.
func ExplainOpening(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return signalbox.CodeInterrupted.Errorf("", "interrupted before the ledger was open")
	}
	return err
}

// sign signs what a command wrote, if the key is on this host. A failure is only a warning, because
// the command has succeeded.
func sign(p *Program, b *box.Box) {
	// Publishing the checkpoint may take long, so print the answer first. Main reports a write
	// error.
	p.Out.Flush()
	err := b.SignAndPublish(context.Background()) // even after an interrupt
	if err == nil || errors.Is(err, box.ErrNoKey) {
		return
	}
	p.Warnf("the change is recorded, but: %v", err)
	p.PrintHint(err)
}

// signalPause is how long after an interrupt further ones are ignored, because a closing terminal
// and programs such as timeout send several.
const signalPause = time.Second

// UntilInterrupted returns a context that the first interrupt cancels. A later interrupt kills the
// program. It is for commands that wait or clean up; others can be killed at any time.
func UntilInterrupted() (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signals = append(signals, syscall.SIGHUP) // the terminal is closed
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, func() { time.AfterFunc(signalPause, stop) })
	return ctx, stop
}

// ActorOf returns the actor of a command: the flag, or else SIGNALBOX_ACTOR, or else the user name
// if it is a valid id.
func (p *Program) ActorOf(flag NonEmpty) string {
	if flag != "" {
		return string(flag)
	}
	if named := p.Getenv(actorVariable); named != "" {
		return named
	}
	for _, variable := range []string{"USER", "USERNAME", "LOGNAME"} {
		name := strings.Map(func(r rune) rune {
			if r == '\\' || r == ' ' {
				return '-'
			}
			return r
		}, p.Getenv(variable))
		if signalbox.CheckID(name) == nil {
			return name
		}
	}
	return "operator"
}

// OrInterrupted replaces an error that an interrupt caused.
func OrInterrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	return signalbox.CodeInterrupted.Errorf("nothing was written; run the command again",
		"interrupted")
}

// ProjectRoot returns the project's folder: the one that contains the box, or the current folder if
// the box was named.
func (p *Program) ProjectRoot(f BoxFlag, dir string) string {
	if f.Box == "" && p.Getenv(BoxVariable) == "" {
		return filepath.Dir(dir)
	}
	return "."
}

// OrderWork executes a command about the work item that the user named, and calls show with the
// answer.
func OrderWork(p *Program, f BoxFlag, name string, build func(id string) rules.Command,
	show func(*box.Box, rules.Answer) error) error {
	do := func(ctx context.Context, b *box.Box, id string) (rules.Answer, error) {
		return b.Engine.Do(ctx, build(id))
	}
	return DoWork(p, f, name, do, show)
}

// DoWork is OrderWork for orders that need the box.
func DoWork(p *Program, f BoxFlag, name string,
	do func(context.Context, *box.Box, string) (rules.Answer, error),
	show func(*box.Box, rules.Answer) error) error {
	ctx := context.Background()
	return p.WithBox(ctx, f, func(b *box.Box) error {
		id, err := FindWork(b, name)
		if err != nil {
			return err
		}
		answer, err := do(ctx, b, id)
		if err != nil {
			return err
		}
		return show(b, answer)
	})
}

// CutFinding splits the name of a finding, such as T3/F2 or PLAN/T3/F2, into that of its task and
// its id; ok is false if it names none.
func CutFinding(name string) (task, finding string, ok bool) {
	at := strings.LastIndexByte(name, '/')
	if at <= 0 || !strings.HasPrefix(name[at+1:], "F") {
		return "", "", false
	}
	return name[:at], name[at+1:], true
}

// FindWork returns the id of the work item that the user named, with its plan (PLAN/TASK) or
// without; "" stays "".
func FindWork(b *box.Box, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	var w *rules.Work
	var err error
	b.Engine.View(func(s *rules.State) { w, err = s.Find(name) })
	if err != nil {
		return "", err
	}
	return w.ID, nil
}
