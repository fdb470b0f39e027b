// Package box manages the folder .signalbox: the ledger, the configuration, the signing key and the checkpoints. It finds,
// creates, opens, verifies, backs up and restores boxes, and signs checkpoints.
package box

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/sqlite"
	"signalbox/internal/core/rules"
)

// FolderName is the name of the box's folder in a project.
const FolderName = ".signalbox"

// Options are options for opening a box.
type Options struct {
	// KeyFile is the file of the private key; "" means a file in the user's configuration folder, outside all workspaces.
	KeyFile string
	// Log receives diagnostics; nil discards them.
	Log *slog.Logger
	// Now returns the time; nil means the system clock.
	Now func() time.Time
	// Load returns the configuration for the box in a folder; nil means config.Load.
	Load func(ctx context.Context, dir string) (*config.Config, error)
}

func (o *Options) load(ctx context.Context, dir string) (*config.Config, error) {
	if o.Load == nil {
		return config.Load(dir)
	}
	return o.Load(ctx, dir)
}

// Find returns the folder of the box to use: the named one or, if named is "", .signalbox in the folder start or its nearest
// parent that has one.
func Find(start, named string) (string, error) {
	if named != "" {
		if isFolder(filepath.Join(named, FolderName)) { // named is the project's folder
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
		Hint: "create one with signalbox init, or name one with --box or SIGNALBOX_BOX"}
}

// Ledger is the ledger of a box, for reading and verifying. Opening it does not compute the state, so it can be opened even if
// events were tampered with.
type Ledger struct {
	Dir     string
	Journal journal.Journal

	options Options
	id      string
}

// OpenLedger opens the ledger of a box for reading. The caller closes it.
func OpenLedger(ctx context.Context, dir string, opts *Options) (*Ledger, error) {
	l, err := openLedger(ctx, dir, opts, &sqlite.Options{})
	if err != nil { // perhaps there is no permission to write, which reading does not need
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
	if signalbox.CodeOf(err) == signalbox.CodeNotFound && l.hadLedger() {
		return nil, ledgerMissing(dir)
	}
	if err != nil {
		return nil, err
	}
	l.Journal = j
	l.id = l.readID(ctx)
	return l, nil
}

// hadLedger reports whether the folder belongs to a box that was in use.
func (l *Ledger) hadLedger() bool {
	for _, name := range []string{publicKeyName, checkpointName} {
		if _, err := os.Stat(l.file(name)); err == nil {
			return true
		}
	}
	return false
}

func ledgerMissing(dir string) error {
	return &signalbox.Error{Code: signalbox.CodeUnverified, Err: fmt.Errorf("the ledger of the box in %s is missing", dir),
		Hint: "restore ledger.db from a copy; to start again, move the whole folder away first"}
}

// readID returns the id of the box from the first event, "" if there is none.
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

// ID returns the id of the box, "" before Init has written the first event.
func (l *Ledger) ID() string { return l.id }

func (l *Ledger) file(name string) string { return filepath.Join(l.Dir, name) }

// readAtOnce is the number of events read at a time.
const readAtOnce = 2048

// Events yields the events that follow the event after, to the end of the ledger.
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
			if len(events) == 0 {
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

	opened uint64 // the head of the ledger when it was opened
}

// Open opens a box for work. The caller closes it.
func Open(ctx context.Context, dir string, opts *Options) (*Box, error) {
	l, err := openLedger(ctx, dir, opts, &sqlite.Options{})
	if err != nil {
		return nil, err
	}
	signed := l.SignedLength() // first, because other processes may append and sign meanwhile
	b, err := newBox(ctx, l)
	if err != nil {
		return nil, err
	}
	// Do not append to a truncated ledger.
	if err := checkLength(signed, b.Engine.Tail().Seq); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// OpenReadOnly opens a box for reading. The caller closes it.
func OpenReadOnly(ctx context.Context, dir string, opts *Options) (*Box, error) {
	l, err := OpenLedger(ctx, dir, opts)
	if err != nil {
		return nil, err
	}
	return newBox(ctx, l)
}

// newBox loads the configuration and the state. On an error it closes the ledger.
func newBox(ctx context.Context, l *Ledger) (*Box, error) {
	configuration, err := l.options.load(ctx, l.Dir)
	if err != nil {
		l.Close()
		return nil, err
	}
	e, err := engine.Open(ctx, l.Journal, &engine.Options{Now: l.options.Now, Log: l.options.Log})
	if err != nil {
		l.Close()
		return nil, err
	}
	return &Box{Ledger: l, Config: configuration, Engine: e, opened: e.Tail().Seq}, nil
}

// Close closes the engine and the journal, without signing.
func (b *Box) Close() error { return errors.Join(b.Engine.Close(), b.Ledger.Close()) }

// Wrote reports whether the ledger has grown since the box was opened.
func (b *Box) Wrote() bool { return b.Engine.Tail().Seq > b.opened }

// maxSmallFile is more than a checkpoint, its tree or a key needs.
const maxSmallFile = 64 << 10

// readOptional reads a small file. It returns nil if there is none.
func readOptional(name string) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSmallFile+1))
	if err == nil && len(data) > maxSmallFile {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxSmallFile)
	}
	return data, err
}
