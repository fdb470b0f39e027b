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

// Created tells what Init made.
type Created struct {
	Dir       string `json:"box"`
	ID        string `json:"id"`
	PublicKey string `json:"key"`
	KeyFile   string `json:"key_file"`
}

// Init makes a box in the folder dir: the folder, its .gitignore, a commented configuration, a signing key, and a
// ledger whose first event opens the box. What an interrupted Init left is taken up; a box that is already open is
// left as it is, with an error.
func Init(ctx context.Context, dir, actor string, opts *Options) (*Created, error) {
	if err := makeFolder(dir); err != nil {
		return nil, err
	}
	l, err := openLedger(ctx, dir, opts, &sqlite.Options{Create: !(&Ledger{Dir: dir}).hadLedger()})
	if err != nil {
		return nil, err
	}
	b, err := fold(ctx, l)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if b.ID() != "" {
		return nil, alreadyThere(dir)
	}
	id := NewID("box")
	keyFile, err := b.keyFile(id)
	if err != nil {
		return nil, err
	}
	// The key comes first: a box without a key could never sign, a key without a box is only a file.
	public, err := createKey(keyFile, origin(id))
	if left, ok := unusedKey(keyFile); ok && errors.Is(err, errKeyExists) {
		id, public, err = left.id, left.public, nil
	}
	if err != nil {
		return nil, err
	}
	b.id = id
	if _, err := b.Engine.Do(ctx, rules.OpenBox{Box: id, Actor: actor}); err != nil {
		if !errors.Is(err, engine.ErrUnknownOutcome) { // then the key may be the box's after all
			os.Remove(keyFile)
		}
		if classed := (*signalbox.Error)(nil); errors.As(err, &classed) && classed.Code == signalbox.CodeConflict {
			err = alreadyThere(dir) // another Init was faster
		}
		return nil, err
	}
	// If Init ends before this, the first command that signs makes up for it.
	if _, err := b.Sign(ctx); err != nil {
		return nil, err
	}
	return &Created{dir, id, public, keyFile}, nil
}

func makeFolder(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = provide(filepath.Join(dir, ".gitignore"), "# Nothing of the box belongs into the repository: no agent may commit it.\n*\n")
	}
	if err == nil {
		err = provide(filepath.Join(dir, config.FileName), config.Template)
	}
	if err != nil {
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("cannot make the box: %w", err),
			Hint: "choose a folder that you may write to"}
	}
	return nil
}

// provide makes a file whole or not at all, and leaves one that is there as it is.
func provide(name, text string) error {
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.Replace(name, []byte(text), 0o600)
}

func alreadyThere(dir string) error {
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("there is a box in %s already", dir),
		Hint: "use it as it is; signalbox work list shows what is in it"}
}

// origin names a box's log in its checkpoints and its key.
func origin(id string) string { return "signalbox/" + id }

// NewID returns an id that nobody else has, such as s-5f0c2a91b7d3.
func NewID(prefix string) string {
	var b [6]byte
	rand.Read(b[:]) // never fails
	return prefix + "-" + hex.EncodeToString(b[:])
}
