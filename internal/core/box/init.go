package box

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
	"signalbox/internal/durable"
)

// InitResult describes a new box.
type InitResult struct {
	Dir       string `json:"box"`
	ID        string `json:"id"`
	PublicKey string `json:"key"`
	KeyFile   string `json:"key_file"`
}

// Init creates a box in the folder dir: the folder, its .gitignore, a commented configuration, a
// signing key, and a ledger whose first event opens the box. It completes an interrupted Init. If
// the box exists, Init returns an error and changes nothing. If it fails for another reason, it
// removes what it has written, unless the first event may be stored: then the next Init needs it.
func Init(ctx context.Context, dir, actor string, opts *Options) (*InitResult, error) {
	before, err := readSettings(dir)
	if err != nil {
		return nil, err
	}
	result, stored, err := createBox(ctx, dir, actor, opts)
	if err != nil && !stored {
		before.restore(dir)
	}
	return result, err
}

// settings are the files in the folder of a box that people write or may change. A value is nil if
// there is no such file.
type settings map[string][]byte

func readSettings(dir string) (settings, error) {
	found := settings{}
	for _, name := range []string{".gitignore", config.FileName} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, cannotCreate(err)
		}
		found[name] = text
	}
	return found, nil
}

// restore restores the files, and removes a new folder. If that has something else, such as a ledger
// without events, new files stay, because they protect it. It gives up silently: the error that led
// here is what matters.
func (s settings) restore(dir string) {
	entries, err := os.ReadDir(dir)
	others := err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		_, ours := s[e.Name()]
		return !ours
	})
	for name, text := range s {
		file := filepath.Join(dir, name)
		now, err := os.ReadFile(file)
		switch {
		case text != nil && (err != nil || !bytes.Equal(now, text)):
			_ = durable.Replace(file, text, 0o600)
		case text == nil && !others:
			os.Remove(file)
		}
	}
	os.Remove(dir) // which fails if it is not empty
}

// createBox is Init, except that it leaves what it has written. It also reports whether the box exists,
// or may.
func createBox(ctx context.Context, dir, actor string, opts *Options) (r *InitResult, stored bool,
	err error) {
	journal, hadLedger := "", (&Folder{Dir: dir}).wasUsed()
	if opts != nil {
		journal = opts.Journal
	}
	if hadLedger && journal != "" {
		return nil, true, boxExists(dir)
	}
	if journal != "" && journal != config.JournalCluster { // the caller has named the address
		named := *opts
		named.Connect = nil
		opts = &named
	}
	if err := checkUnused(ctx, dir, journal, opts); err != nil {
		return nil, false, err
	}
	if err := makeFolder(dir, opts.settings()); err != nil {
		return nil, false, err
	}
	if journal != "" {
		if err := setJournal(dir, journal); err != nil {
			return nil, false, err
		}
	}
	how := create
	if hadLedger {
		how = readWrite
	}
	l, err := openLedger(ctx, dir, opts, how)
	if err != nil {
		return nil, false, err
	}
	// its id, which the memory needs, is not known yet
	b, err := newBox(ctx, l, l.openForgetfulEngine)
	if err != nil {
		return nil, false, err
	}
	defer b.Close()
	if b.ID() != "" {
		return nil, true, boxExists(dir)
	}
	id := NewID("box")
	keyFile, err := b.keyFile(id)
	if err != nil {
		return nil, false, err
	}
	// The key comes first: a box without a key could never sign, while a key without a box does no
	// harm.
	public, err := createKey(keyFile, origin(id))
	if left, ok := unusedKey(keyFile); ok && errors.Is(err, errKeyExists) {
		id, public, err = left.id, left.public, nil
	}
	if err != nil {
		return nil, false, err
	}
	b.id = id
	if _, err := b.Engine.Do(ctx, rules.OpenBox{Box: id, Actor: actor, Key: public}); err != nil {
		// the event may have been stored, with this key
		unknown := errors.Is(err, engine.ErrUnknownOutcome)
		if !unknown {
			os.Remove(keyFile)
		}
		if signalbox.CodeOf(err) == signalbox.CodeConflict {
			unknown, err = true, boxExists(dir) // another Init was faster
		}
		return nil, unknown, err
	}
	// If Init is interrupted before this, the next command that writes does it.
	if err := b.remember(ctx); err != nil {
		return nil, true, err
	}
	if _, err := b.Sign(ctx); err != nil {
		return nil, true, err
	}
	return &InitResult{dir, id, public, keyFile}, true, nil
}

// checkUnused returns an error if a journal outside the folder dir cannot be used or has a box
// already, so that Init changes nothing.
func checkUnused(ctx context.Context, dir, journal string, opts *Options) error {
	if journal == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(dir, config.FileName))
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte(opts.settings()), nil
	}
	if err == nil {
		_, err = config.SetJournal(text, journal)
	}
	if err != nil || journal == config.JournalSQLite || journal == config.JournalCluster {
		return err
	}
	l, err := openLedgerAt(ctx, dir, journal, opts, readWrite)
	if signalbox.CodeOf(err) == signalbox.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	defer l.Close()
	if l.ID() == "" {
		return nil
	}
	return signalbox.CodeFailed.Errorf(
		"to use that box on this machine, set journal in .signalbox/signalbox.yaml; for another box in the same database, name another schema",
		"%s already has a box, %s", journal, l.ID())
}

func makeFolder(dir, settings string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = protectFolder(dir)
	}
	if err == nil {
		err = createIfMissing(filepath.Join(dir, config.FileName), settings)
	}
	if err != nil {
		return cannotCreate(err)
	}
	return nil
}

func cannotCreate(err error) error {
	return signalbox.CodeFailed.Errorf("choose a folder that you may write to",
		"cannot create the box: %w", err)
}

// protectFolder keeps the folder of a box, which contains secrets, out of commits and away from
// other users.
func protectFolder(dir string) error {
	if err := createIfMissing(filepath.Join(dir, ".gitignore"),
		"# Nothing in this folder belongs in the repository: agents must not commit it.\n*\n"); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&0o077 == 0 || runtime.GOOS == "windows" {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// protectHandmade protects the folder of a box that was made by hand, as on a machine of a cluster.
// Only its name shows that a folder without a ledger is a box: --box can name any folder.
func protectHandmade(dir string) error {
	if path, err := filepath.Abs(dir); err != nil || filepath.Base(path) != FolderName ||
		!isFolder(path) {
		return nil
	}
	return protectFolder(dir)
}

// createIfMissing creates a file atomically, unless it exists.
func createIfMissing(name, text string) error {
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.Replace(name, []byte(text), 0o600)
}

// setJournal changes where the ledger is in the configuration of a box.
func setJournal(dir, journal string) error {
	text, changed, err := withJournal(dir, journal)
	if err != nil || bytes.Equal(changed, text) {
		return err
	}
	return durable.Replace(filepath.Join(dir, config.FileName), changed, 0o600)
}

// withJournal returns the configuration of a box, and what it is with another place of the ledger.
func withJournal(dir, journal string) (text, changed []byte, err error) {
	text, err = os.ReadFile(filepath.Join(dir, config.FileName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	changed, err = config.SetJournal(text, journal)
	return text, changed, err
}

func boxExists(dir string) error {
	return signalbox.CodeFailed.Errorf("use that box; signalbox work list shows its work",
		"a box already exists in %s", dir)
}

// origin returns the name of a box's log in checkpoints and keys.
func origin(id string) string { return "signalbox/" + id }

// NewSecret returns a new random secret for a lease. The ledger records only its hash.
func NewSecret() string { return "secret-" + rand.Text() + rand.Text() }

// NewID returns a new random id, such as s-5f0c2a91b7d3.
func NewID(prefix string) string {
	var b [6]byte
	rand.Read(b[:]) // never fails
	return prefix + "-" + hex.EncodeToString(b[:])
}
