package box

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/durable"
	"signalbox/ledger"
)

// publicKeyName is the file in the box with the public key, for hosts without the private key.
const publicKeyName = "key.pub"

// ErrNoKey means that this host does not have the box's private key, which is normal for hosts that
// only run agents.
var ErrNoKey = errors.New("the signing key is not on this host")

// Keys are the keys of a box, and the checkpoints that were signed with them.
type Keys struct {
	Folder

	// recorded is the public key that the ledger has recorded, "" in ledgers of older versions.
	recorded string
	path     string // Options.KeyFile
	log      *slog.Logger
}

func (k *Keys) keyFile(id string) (string, error) {
	if k.path != "" {
		return k.path, nil
	}
	dir, err := config.UserFolder()
	if err != nil {
		return "", signalbox.CodeFailed.Errorf(
			"set SIGNALBOX_KEY to a file outside all workspaces",
			"there is no folder for the signing key: %w", err)
	}
	return filepath.Join(dir, "keys", id+".key"), nil
}

var errKeyExists = errors.New("a key is never overwritten")

// createKey writes a new private key to a file that only its owner may read, and returns the public
// key.
func createKey(name, origin string) (public string, err error) {
	private, public, err := ledger.GenerateKey(rand.Reader, origin)
	if err != nil {
		return "", err
	}
	if err = os.MkdirAll(filepath.Dir(name), 0o700); err == nil {
		err = durable.Create(name, []byte(private+"\n"), 0o600)
	}
	if errors.Is(err, fs.ErrExist) {
		return "", signalbox.CodeFailed.Errorf(
			"every box has its own key; set SIGNALBOX_KEY to another file", "%s exists: %w", name,
			errKeyExists)
	}
	if err != nil {
		return "", signalbox.CodeFailed.Errorf(
			"set SIGNALBOX_KEY to a file that you may write, outside all workspaces",
			"cannot create the signing key: %w", err)
	}
	return public, nil
}

// leftoverKey is a key that an interrupted Init left.
type leftoverKey struct{ id, public string }

// unusedKey returns the key in a file if it never signed anything and so cannot belong to another
// box.
func unusedKey(name string) (leftoverKey, bool) {
	if signed, err := readOptional(name + signedSuffix); err != nil || signed != nil {
		return leftoverKey{}, false
	}
	private, err := readKey(name)
	if err != nil {
		return leftoverKey{}, false
	}
	public, err := ledger.PublicKey(private)
	if err != nil {
		return leftoverKey{}, false
	}
	keyOrigin, err := ledger.KeyName(public)
	id, ours := strings.CutPrefix(keyOrigin, origin(""))
	return leftoverKey{id, public}, err == nil && ours && signalbox.CheckID(id) == nil
}

// privateKey returns the box's private key, and the public key for it. The error is ErrNoKey if
// this host does not have it.
func (k *Keys) privateKey() (private, public string, err error) {
	name, err := k.keyFile(k.ID())
	if err == nil {
		private, err = readKey(name)
	}
	if err != nil {
		return "", "", err
	}
	if public, err = ledger.PublicKey(private); err != nil {
		return "", "", keyError(name, err)
	}
	if keyOrigin, err := ledger.KeyName(public); err != nil || keyOrigin != origin(k.ID()) {
		return "", "", keyError(name, fmt.Errorf("it belongs to %s, not to %s", keyOrigin,
			origin(k.ID())))
	}
	return private, public, nil
}

// IsOurs reports whether the box was created on this host: its private key is here, and has signed
// this ledger. That the key is here is not enough, because anybody can make a ledger with the id of
// our box.
func (l *Ledger) IsOurs(ctx context.Context) bool {
	_, public, err := l.privateKey()
	if err != nil {
		return false
	}
	name, err := l.keyFile(l.ID())
	if err != nil {
		return false
	}
	signed, err := openCheckpoint(name+signedSuffix, public)
	if err != nil {
		return false
	}
	if signed == nil { // nothing was signed yet, or the box was restored
		stored, err := readOptional(l.file(publicKeyName))
		return err == nil && (stored == nil || string(bytes.TrimSpace(stored)) == public)
	}
	_, err = l.treeFor(ctx, signed)
	return err == nil
}

// readKey reads a private key, which only its owner must be able to read.
func readKey(name string) (string, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", signalbox.CodeNotFound.Errorf(
			"sign on the host where the box was created, or set SIGNALBOX_KEY to the key's file",
			"%w: no file %s", ErrNoKey, name)
	}
	if err != nil {
		return "", keyError(name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", keyError(name, err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return "", signalbox.CodeFailed.Errorf(
			"run chmod 600 on it; if someone may have read it, its signatures no longer prove anything",
			"other users can read the signing key %s (mode %04o), so signalbox does not use it",
			name, mode)
	}
	text := make([]byte, 4096)
	n, err := f.Read(text)
	if err != nil {
		return "", keyError(name, err)
	}
	return string(bytes.TrimSpace(text[:n])), nil
}

func keyError(name string, err error) error {
	return signalbox.CodeFailed.Errorf(
		"restore the file from a copy, or set SIGNALBOX_KEY to the right one",
		"cannot use the signing key %s: %w", name, err)
}

// PublicKey returns the box's public key: that of the private key if this host has it, else the one
// in the box's folder, which can be trusted only as much as the folder. A private key that cannot
// be used, such as one for another box, does not prevent verification: the first event, which has
// the id of the box, may be what is wrong.
func (k *Keys) PublicKey() (string, error) {
	_, public, unusable := k.privateKey()
	if unusable == nil {
		return public, nil
	}
	text, err := readOptional(k.file(publicKeyName))
	switch {
	case err != nil:
		return "", err
	case text != nil:
		return string(bytes.TrimSpace(text)), nil
	case !errors.Is(unusable, ErrNoKey):
		return "", unusable
	}
	return "", signalbox.CodeNotFound.Errorf("write what signalbox ledger key prints on the host "+
		"where the box was created into the file "+k.file(publicKeyName),
		"the box has no public key: no file %s", k.file(publicKeyName))
}

// adoptKey writes the public key that the ledger has recorded to the box's folder, if that has none:
// a machine that was set up by hand joined before there was a key. From then on this machine
// notices if the ledger is replaced by one with another key.
func (k *Keys) adoptKey() error {
	text, err := readOptional(k.file(publicKeyName))
	if err != nil || text != nil || k.recorded == "" {
		return err
	}
	return k.publishKey(k.recorded)
}

// CheckPublicKey returns an error if the public key in the box's folder is not that of the private
// key on this host, not that of this box, or not that in its ledger, or if the private key cannot
// be used. A box that has no public key yet, and a host without the private key, are fine.
func (k *Keys) CheckPublicKey() error {
	text, err := readOptional(k.file(publicKeyName))
	if err != nil {
		return wrongPublicKey("the public key in the box cannot be read: %w", err)
	}
	stored := string(bytes.TrimSpace(text))
	if name, err := ledger.KeyName(stored); text != nil && k.ID() != "" &&
		(err != nil || name != origin(k.ID())) {
		return wrongPublicKey("%s is not a public key of this box, %s", k.file(publicKeyName),
			origin(k.ID()))
	}
	_, public, err := k.privateKey()
	switch {
	case err != nil && !errors.Is(err, ErrNoKey):
		return err
	case err == nil && text != nil && stored != public:
		return wrongPublicKey("%s is not the public key of the private key on this host",
			k.file(publicKeyName))
	case text != nil && k.recorded != "" && stored != k.recorded:
		return wrongPublicKey("%s is not the public key that the ledger has recorded, %s",
			k.file(publicKeyName), k.recorded)
	}
	return nil
}

func wrongPublicKey(format string, args ...any) error {
	return signalbox.CodeUnverified.Errorf(
		"find out who changed it, and run signalbox ledger verify with the key that you kept elsewhere; signing replaces the file",
		format, args...)
}

// publishKey writes the public key to the box's folder.
func (k *Keys) publishKey(public string) error {
	text, err := readOptional(k.file(publicKeyName))
	if err != nil || string(text) == public+"\n" {
		return err
	}
	if text != nil {
		k.log.Warn("the public key in the box was not that of the private key on this host; it is replaced", "file", k.file(publicKeyName),
			"was", strings.TrimSpace(string(text[:min(len(text), 200)])))
	}
	return durable.Replace(k.file(publicKeyName), []byte(public+"\n"), 0o600)
}
