// Package box is the folder .signalbox and what belongs to it: the ledger, the configuration, the signing key and the
// checkpoints. It finds, makes and opens boxes, signs checkpoints, and verifies.
package box

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/sqlite"
	"signalbox/internal/core/rules"
)

// FolderName is the name of a box's folder inside the project it belongs to.
const FolderName = ".signalbox"

// Options says how to open a box. The zero value is for use.
type Options struct {
	// KeyFile is where the private key is; "" is the user's configuration folder, which is outside every workspace.
	KeyFile string
	// Log hears what is no answer to anybody; nil drops it.
	Log *slog.Logger
}

// Find returns the folder of the box to use: the one named, else .signalbox in the folder start or the nearest
// parent that has one.
func Find(start, named string) (string, error) {
	if named != "" {
		if isFolder(filepath.Join(named, FolderName)) { // the project's folder will do
			return filepath.Join(named, FolderName), nil
		}
		if !isFolder(named) {
			return "", noBox(fmt.Errorf("there is no box in %s", named))
		}
		return named, nil
	}
	start, err := filepath.Abs(start)
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		name := filepath.Join(dir, FolderName)
		if isFolder(name) {
			return name, nil
		}
		if dir == filepath.Dir(dir) {
			return "", noBox(fmt.Errorf("there is no box in %s or above it", start))
		}
	}
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func noBox(err error) error {
	return &signalbox.Error{Code: signalbox.CodeNotFound, Err: err,
		Hint: "make one with signalbox init, or name one with --box or SIGNALBOX_BOX"}
}

// Ledger is the record of a box, to read and verify. It needs no fold, so it can also be had of a box whose record was
// tampered with.
type Ledger struct {
	Dir     string
	Journal journal.Journal

	options Options
	id      string
}

// OpenLedger opens the record of a box to read it. The caller closes it.
func OpenLedger(ctx context.Context, dir string, opts *Options) (*Ledger, error) {
	l, err := openLedger(ctx, dir, opts, &sqlite.Options{})
	if err != nil { // perhaps for want of the right to write, which reading can do without
		readable, readErr := openLedger(ctx, dir, opts, &sqlite.Options{ReadOnly: true})
		if readErr == nil {
			return readable, nil
		}
	}
	return l, err
}

func openLedger(ctx context.Context, dir string, opts *Options, journalOpts *sqlite.Options) (*Ledger, error) {
	l := &Ledger{Dir: dir}
	if opts != nil {
		l.options = *opts
	}
	if l.options.Log == nil {
		l.options.Log = slog.New(slog.DiscardHandler)
	}
	journalOpts.Logger = l.options.Log
	j, err := sqlite.Open(ctx, dir, journalOpts)
	if classed := (*signalbox.Error)(nil); errors.As(err, &classed) && classed.Code == signalbox.CodeNotFound && l.hadLedger() {
		return nil, ledgerGone(dir)
	}
	if err != nil {
		return nil, err
	}
	l.Journal = j
	l.id = l.readID(ctx)
	return l, nil
}

// hadLedger tells whether the folder is that of a box that was in use.
func (l *Ledger) hadLedger() bool {
	for _, name := range []string{publicKeyName, checkpointName} {
		if _, err := os.Stat(l.file(name)); err == nil {
			return true
		}
	}
	return false
}

func ledgerGone(dir string) error {
	return &signalbox.Error{Code: signalbox.CodeUnverified, Err: fmt.Errorf("the ledger of the box in %s is gone", dir),
		Hint: "restore ledger.db from a copy; to begin anew, move the whole folder away first"}
}

// readID returns the name that the first event gives the box, "" if that cannot be told.
func (l *Ledger) readID(ctx context.Context) string {
	events, err := l.Journal.Read(ctx, 0, 1)
	if err != nil || len(events) == 0 {
		return ""
	}
	var opened rules.BoxOpened
	if json.Unmarshal(events[0].Data, &opened) != nil || signalbox.CheckID(opened.Box) != nil {
		return ""
	}
	return opened.Box
}

// Close closes the journal.
func (l *Ledger) Close() error { return l.Journal.Close() }

// ID is the box's name in the ledger, "" before it is opened.
func (l *Ledger) ID() string { return l.id }

func (l *Ledger) file(name string) string { return filepath.Join(l.Dir, name) }

// readAtOnce is how many events are read in one go.
const readAtOnce = 2048

// Events yields the events after one, to the end of the ledger.
func (l *Ledger) Events(ctx context.Context, after uint64) iter.Seq2[*signalbox.Event, error] {
	return func(yield func(*signalbox.Event, error) bool) {
		for {
			events, err := l.Journal.Read(ctx, after, readAtOnce)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range events {
				if !yield(&events[i], nil) {
					return
				}
			}
			if len(events) < readAtOnce {
				return
			}
			after = events[len(events)-1].Seq
		}
	}
}

// Box is a box that is open for work.
type Box struct {
	*Ledger
	Config *config.Config
	Engine *engine.Engine

	opened uint64 // where the ledger ended when it was opened
}

// Open opens a box for work. The caller closes it.
func Open(ctx context.Context, dir string, opts *Options) (*Box, error) {
	l, err := openLedger(ctx, dir, opts, &sqlite.Options{})
	if err != nil {
		return nil, err
	}
	signed := l.signedLength() // before the fold: what others sign meanwhile is not missing from it
	b, err := fold(ctx, l)
	if err != nil {
		return nil, err
	}
	// Nothing is written after events that are gone.
	if err := cut(signed, b.Engine.Tail().Seq); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// OpenToLook opens a box that nothing is to be written to. The caller closes it.
func OpenToLook(ctx context.Context, dir string, opts *Options) (*Box, error) {
	l, err := OpenLedger(ctx, dir, opts)
	if err != nil {
		return nil, err
	}
	return fold(ctx, l)
}

// fold makes a box of a ledger, or closes the ledger.
func fold(ctx context.Context, l *Ledger) (*Box, error) {
	configuration, err := config.Load(l.Dir)
	if err != nil {
		l.Close()
		return nil, err
	}
	e, err := engine.Open(ctx, l.Journal, &engine.Options{Log: l.options.Log})
	if err != nil {
		l.Close()
		return nil, err
	}
	return &Box{Ledger: l, Config: configuration, Engine: e, opened: e.Tail().Seq}, nil
}

// Close closes the engine and the journal. It does not sign.
func (b *Box) Close() error { return errors.Join(b.Engine.Close(), b.Ledger.Close()) }

// Wrote says whether the ledger has grown since the box was opened.
func (b *Box) Wrote() bool { return b.Engine.Tail().Seq > b.opened }

func readOptional(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
