// Package box manages the folder .signalbox: the ledger, the configuration, the signing key and the
// checkpoints. It finds, creates, opens, verifies, backs up and restores boxes, and signs
// checkpoints.
package box

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/applied"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

// FolderName is the name of the box's folder in a project.
const FolderName = ".signalbox"

// Options are options for opening a box.
type Options struct {
	// KeyFile is the file of the private key; "" means a file in the user's configuration folder,
	// outside all workspaces.
	KeyFile string
	// Journal is for Init: the setting journal of the new box. "" means the one that its
	// configuration has.
	Journal string
	// Settings are for Init: the configuration of a box that has none. "" means config.Template.
	Settings string
	// Host is for commands that run for long: with a cluster, this process runs the node of its
	// machine whenever no other process does. Open waits if the ledger cannot be reached any more
	// while it is being read.
	Host bool
	// Connect is called before the ledger of the box in a folder is opened in a database, at an
	// address that its configuration names. If it returns an error, there is no connection, and no
	// node of a cluster is started. nil allows it.
	Connect func(ctx context.Context, dir, address string) error
	// Log receives diagnostics; nil discards them.
	Log *slog.Logger
	// Now returns the time; nil means the system clock.
	Now func() time.Time
	// Load returns the configuration for the box in a folder; nil means config.Load.
	Load func(ctx context.Context, dir string) (*config.Config, error)

	// for tests; nil means openJournal
	open func(ctx context.Context, dir, address string, how access,
		opts *Options) (journal.Journal, error)
	// emptyPatience is for tests; 0 means the constant.
	emptyPatience time.Duration
}

func (o *Options) openJournal(ctx context.Context, dir, address string,
	how access) (journal.Journal, error) {
	if o.open == nil {
		return openJournal(ctx, dir, address, how, o)
	}
	return o.open(ctx, dir, address, how, o)
}

// settings returns the configuration of a new box.
func (o *Options) settings() string {
	if o == nil {
		return config.Template
	}
	return cmp.Or(o.Settings, config.Template)
}

// mayConnect returns an error if the journal at an address must not be opened.
func (o *Options) mayConnect(ctx context.Context, dir, address string) error {
	if o.Connect == nil || address == config.JournalSQLite {
		return nil
	}
	return o.Connect(ctx, dir, address)
}

func (o *Options) load(ctx context.Context, dir string) (*config.Config, error) {
	if o.Load == nil {
		return config.Load(dir)
	}
	return o.Load(ctx, dir)
}

// Find returns the folder of the box to use: the named one or, if named is "", .signalbox in the
// folder start or its nearest parent that has one.
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

// Ledger is the ledger of a box, for reading and verifying. Opening it does not compute the state,
// so it can be opened even if events were tampered with.
type Ledger struct {
	Keys
	Reader

	options Options
	waiter  *waiter // nil unless this process runs a node of a cluster of several
}

// newLedger returns the ledger of the box in dir, without its journal.
func newLedger(dir string, opts *Options) *Ledger {
	l := &Ledger{}
	if opts != nil {
		l.options = *opts
	}
	if l.options.Log == nil {
		l.options.Log = slog.New(slog.DiscardHandler)
	}
	l.Keys = Keys{Folder: Folder{Dir: dir}, path: l.options.KeyFile, log: l.options.Log}
	return l
}

// OpenLedger opens the ledger of a box for reading. The caller closes it.
func OpenLedger(ctx context.Context, dir string, opts *Options) (*Ledger, error) {
	l, err := openLedger(ctx, dir, opts, readWrite)
	// perhaps there is no permission to write, but one to read
	if err != nil && !errors.Is(err, journal.ErrUnavailable) {
		readable, readErr := openLedger(ctx, dir, opts, readOnly)
		if readErr == nil {
			return readable, nil
		}
	}
	return l, err
}

func openLedger(ctx context.Context, dir string, opts *Options, how access) (*Ledger, error) {
	address, err := config.ReadJournal(dir)
	if errors.Is(err, fs.ErrPermission) {
		err = signalbox.CodeFailed.Errorf(
			"check the owner and the permissions of the box and its files",
			"no permission to open or write the box: %w", err)
	}
	if err != nil {
		return nil, err
	}
	return openLedgerAt(ctx, dir, address, opts, how)
}

// openLedgerAt is openLedger with the setting journal.
func openLedgerAt(ctx context.Context, dir, address string, opts *Options,
	how access) (*Ledger, error) {
	l := newLedger(dir, opts)
	if err := l.options.mayConnect(ctx, dir, address); err != nil {
		return nil, err
	}
	j, err := l.options.openJournal(ctx, dir, address, how)
	if signalbox.CodeOf(err) == signalbox.CodeNotFound && l.wasUsed() {
		return nil, ledgerMissing(dir, address)
	}
	if err != nil {
		return nil, err
	}
	l.Journal = j
	check := checkComplete
	if l.options.Host && address == config.JournalCluster {
		cluster, err := config.ReadCluster(dir)
		if err != nil {
			j.Close()
			return nil, err
		}
		if len(cluster.Nodes) > 1 {
			l.waiter = &waiter{Ledger: l}
			check = l.waiter.awaitLedger
		}
	}
	err = l.whenAvailable(ctx, func() (err error) {
		if err := check(ctx, j, address); err != nil {
			return err
		}
		return l.readID(ctx)
	})
	if err != nil {
		j.Close()
		return nil, err
	}
	return l, nil
}

// whenAvailable calls f. A process that stays for long calls it again while the ledger cannot be
// reached.
func (l *Ledger) whenAvailable(ctx context.Context, f func() error) error {
	if !l.options.Host {
		return f()
	}
	return engine.WhenAvailable(ctx, l.options.Log, f)
}

func ledgerMissing(dir, address string) error {
	if address == config.JournalSQLite {
		return signalbox.CodeUnverified.Errorf(
			"restore ledger.db from a copy; to start again, move the whole folder away first",
			"the ledger of the box in %s is missing", dir)
	}
	return signalbox.CodeUnverified.Errorf(
		"correct the setting journal, or restore the database from a backup; to start again, move the whole folder away first",
		"the ledger of the box in %s is not in its journal, %s", dir, address)
}

// readID reads the id of the box, and its key, from the first event. They stay "" if there is none
// or it is damaged, so that a damaged ledger can be verified. All other errors are returned: a box
// without an id would remember nothing.
func (l *Ledger) readID(ctx context.Context) error {
	l.id, l.recorded = "", ""
	events, err := l.Journal.Read(ctx, 0, 1)
	if err != nil && !errors.Is(err, journal.ErrDamaged) {
		return fmt.Errorf("read the id of the box: %w", err)
	}
	if len(events) == 0 {
		return nil
	}
	var opened rules.BoxOpened
	if json.Unmarshal(events[0].Data, &opened) != nil || signalbox.CheckID(opened.Box) != nil {
		return nil
	}
	l.id = opened.Box
	if name, err := ledger.KeyName(opened.Key); err == nil && name == origin(l.id) {
		l.recorded = opened.Key
	}
	return nil
}

// Close closes the journal.
func (l *Ledger) Close() error { return l.Journal.Close() }

// RunsNode reports whether this process runs a node of a cluster of several, or will when the
// process that does has ended.
func (l *Ledger) RunsNode() bool { return l.waiter != nil }

// Box is a box that is open for work.
type Box struct {
	*Ledger
	Config *config.Config
	Engine *engine.Engine

	memory *applied.Memory // of the engine; nil in a box that is only read, and in a fork
	opened uint64          // the head of the ledger when it was opened
}

// Open opens a box for work. The caller closes it. If the ledger has lost events that this machine
// applied, the error is an *applied.Lost; a process that runs a node of a cluster of several waits
// until that is settled.
func Open(ctx context.Context, dir string, opts *Options) (*Box, error) {
	unprotected := protectHandmade(dir) // first, because opening may wait for other machines
	l, err := openLedger(ctx, dir, opts, readWrite)
	if err != nil {
		return nil, err
	}
	if unprotected != nil { // for example because the folder belongs to another user
		l.options.Log.Warn("cannot protect the folder of the box: keep it out of commits, and give it mode 0700", "folder", dir, "reason", unprotected)
	}
	if l.RunsNode() {
		if err := l.waiter.awaitMissing(ctx); err != nil {
			l.Close()
			return nil, err
		}
	}
	if err := l.adoptKey(); err != nil {
		l.Close()
		return nil, err
	}
	signed := l.SignedLength() // first, because other processes may append and sign meanwhile
	b, err := newBox(ctx, l, l.openEngine)
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

// OpenReadOnly opens a box for reading. The caller closes it. It logs a warning if the ledger has
// lost events.
func OpenReadOnly(ctx context.Context, dir string, opts *Options) (*Box, error) {
	l, err := OpenLedger(ctx, dir, opts)
	if err != nil {
		return nil, err
	}
	l.WarnIfLost(ctx)
	return newBox(ctx, l, l.openForgetfulEngine)
}

// openWithoutMemory opens an engine that does not remember what it applies, and does not compare
// the ledger with what is remembered.
func (l *Ledger) openWithoutMemory(ctx context.Context) (*engine.Engine, error) {
	return engine.Open(ctx, l.Journal, &engine.Options{Now: l.options.Now, Log: l.options.Log})
}

// openForgetfulEngine is openWithoutMemory for newBox.
func (l *Ledger) openForgetfulEngine(ctx context.Context) (*engine.Engine, *applied.Memory, error) {
	e, err := l.openWithoutMemory(ctx)
	return e, nil, err
}

// newBox loads the configuration and opens the engine. On an error it closes the ledger.
func newBox(ctx context.Context, l *Ledger, openEngine func(context.Context) (*engine.Engine,
	*applied.Memory, error)) (*Box, error) {
	configuration, err := l.options.load(ctx, l.Dir)
	if err != nil {
		l.Close()
		return nil, err
	}
	var e *engine.Engine
	var memory *applied.Memory
	err = l.whenAvailable(ctx, func() (err error) {
		e, memory, err = openEngine(ctx)
		return err
	})
	if err != nil {
		if l.RunsNode() {
			l.waiter.runOnlyNode(ctx, err)
		}
		l.Close()
		return nil, err
	}
	b := &Box{Ledger: l, Config: configuration, Engine: e, memory: memory, opened: e.Tail().Seq}
	// events elsewhere never arrive here, so the state is useless
	if moved := l.movedTo(e); moved != nil {
		b.Close()
		return nil, moved
	}
	return b, nil
}

// Close closes the engine and the journal, without signing.
func (b *Box) Close() error {
	return errors.Join(b.Engine.Close(), closeMemory(b.memory), b.Ledger.Close())
}

// Wrote reports whether the ledger has grown since the box was opened.
func (b *Box) Wrote() bool { return b.Engine.Tail().Seq > b.opened }

func (l *Ledger) now() time.Time {
	if l.options.Now != nil {
		return l.options.Now()
	}
	return time.Now()
}
