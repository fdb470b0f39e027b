package box

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal/sqlite"
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

// Init creates a box in the folder dir: the folder, its .gitignore, a commented configuration, a signing key, and a ledger whose
// first event opens the box. It completes an interrupted Init. If the box exists, Init returns an error and changes nothing.
func Init(ctx context.Context, dir, actor string, opts *Options) (*InitResult, error) {
	if err := makeFolder(dir); err != nil {
		return nil, err
	}
	l, err := openLedger(ctx, dir, opts, &sqlite.Options{Create: !(&Ledger{Dir: dir}).hadLedger()})
	if err != nil {
		return nil, err
	}
	b, err := newBox(ctx, l)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if b.ID() != "" {
		return nil, boxExists(dir)
	}
	id := NewID("box")
	keyFile, err := b.keyFile(id)
	if err != nil {
		return nil, err
	}
	// The key comes first: a box without a key could never sign, while a key without a box does no harm.
	public, err := createKey(keyFile, origin(id))
	if left, ok := unusedKey(keyFile); ok && errors.Is(err, errKeyExists) {
		id, public, err = left.id, left.public, nil
	}
	if err != nil {
		return nil, err
	}
	b.id = id
	if _, err := b.Engine.Do(ctx, rules.OpenBox{Box: id, Actor: actor}); err != nil {
		if !errors.Is(err, engine.ErrUnknownOutcome) { // the event may have been stored, with this key
			os.Remove(keyFile)
		}
		if signalbox.CodeOf(err) == signalbox.CodeConflict {
			err = boxExists(dir) // another Init was faster
		}
		return nil, err
	}
	// If Init is interrupted before this, the next command that signs does it.
	if _, err := b.Sign(ctx); err != nil {
		return nil, err
	}
	return &InitResult{dir, id, public, keyFile}, nil
}

func makeFolder(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = createIfMissing(filepath.Join(dir, ".gitignore"), "# Nothing in this folder belongs in the repository: agents must not commit it.\n*\n")
	}
	if err == nil {
		err = createIfMissing(filepath.Join(dir, config.FileName), config.Template)
	}
	if err != nil {
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("cannot create the box: %w", err),
			Hint: "choose a folder that you may write to"}
	}
	return nil
}

// createIfMissing creates a file atomically, unless it exists.
func createIfMissing(name, text string) error {
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.Replace(name, []byte(text), 0o600)
}

func boxExists(dir string) error {
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("a box already exists in %s", dir),
		Hint: "use that box; signalbox work list shows its work"}
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
