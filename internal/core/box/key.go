package box

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"signalbox"
	"signalbox/internal/durable"
	"signalbox/ledger"
)

// publicKeyName is the file in the box that has the public key, for hosts that do not have the private one.
const publicKeyName = "key.pub"

// ErrNoKey means that this host does not have the box's private key. Plain workers do not.
var ErrNoKey = errors.New("the signing key is not here")

func (l *Ledger) keyFile(id string) (string, error) {
	if l.options.KeyFile != "" {
		return l.options.KeyFile, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("there is no place for the signing key: %w", err),
			Hint: "set SIGNALBOX_KEY to a file outside every workspace"}
	}
	return filepath.Join(dir, "signalbox", "keys", id+".key"), nil
}

var errKeyExists = errors.New("a key is never overwritten")

// createKey makes a private key in a file that only its owner may read, and returns the public one.
func createKey(name, origin string) (public string, err error) {
	private, public, err := ledger.GenerateKey(rand.Reader, origin)
	if err != nil {
		return "", err
	}
	if err = os.MkdirAll(filepath.Dir(name), 0o700); err == nil {
		err = durable.Create(name, []byte(private+"\n"), 0o600)
	}
	if errors.Is(err, fs.ErrExist) {
		return "", &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("%s exists: %w", name, errKeyExists),
			Hint: "each box has a key of its own; name another file in SIGNALBOX_KEY"}
	}
	if err != nil {
		return "", &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("cannot make the signing key: %w", err),
			Hint: "set SIGNALBOX_KEY to a file outside every workspace that you may write"}
	}
	return public, nil
}

// key is a key that an interrupted Init left.
type key struct{ id, public string }

// unusedKey returns the key in a file if it never signed anything, so that it can be no other box's.
func unusedKey(name string) (key, bool) {
	if signed, err := readOptional(name + signedSuffix); err != nil || signed != nil {
		return key{}, false
	}
	private, err := readKey(name)
	if err != nil {
		return key{}, false
	}
	public, err := ledger.PublicKey(private)
	if err != nil {
		return key{}, false
	}
	keyOrigin, err := ledger.KeyName(public)
	id, ours := strings.CutPrefix(keyOrigin, origin(""))
	return key{id, public}, err == nil && ours && signalbox.CheckID(id) == nil
}

// privateKey reads the box's key: ErrNoKey if it is not here, an error if others can read it too.
func (l *Ledger) privateKey() (string, error) {
	name, err := l.keyFile(l.ID())
	if err != nil {
		return "", err
	}
	private, err := readKey(name)
	if err != nil {
		return "", err
	}
	public, err := ledger.PublicKey(private)
	if err != nil {
		return "", keyError(name, err)
	}
	if keyOrigin, err := ledger.KeyName(public); err != nil || keyOrigin != origin(l.ID()) {
		return "", keyError(name, fmt.Errorf("it is the key of %s, not of %s", keyOrigin, origin(l.ID())))
	}
	return private, nil
}

// readKey reads a private key that only its owner can read.
func readKey(name string) (string, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("%w: no file %s", ErrNoKey, name),
			Hint: "sign on the host where the box was made, or name the key's file in SIGNALBOX_KEY"}
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
		return "", &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("the signing key %s is open to others (mode %04o): it is not used", name, mode),
			Hint: "chmod 600 it; if somebody may have read it, what it signs from now on proves nothing"}
	}
	text := make([]byte, 4096)
	n, err := f.Read(text)
	if err != nil {
		return "", keyError(name, err)
	}
	return string(bytes.TrimSpace(text[:n])), nil
}

func keyError(name string, err error) error {
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("cannot use the signing key %s: %w", name, err),
		Hint: "restore the file from a copy, or name the right one in SIGNALBOX_KEY"}
}

// PublicKey returns the box's public key: that of the private key if it is here, else the one that the box's folder
// names, which is only as good as the folder. A private key that is here and cannot be used, such as one that is not
// that of the box which the first event names, is no reason not to verify: the first event may be what is wrong.
func (l *Ledger) PublicKey() (string, error) {
	private, unusable := l.privateKey()
	if unusable == nil {
		return ledger.PublicKey(private)
	}
	text, err := readOptional(l.file(publicKeyName))
	switch {
	case err != nil:
		return "", err
	case text != nil:
		return string(bytes.TrimSpace(text)), nil
	case !errors.Is(unusable, ErrNoKey):
		return "", unusable
	}
	return "", &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("the box has no public key: no file %s", l.file(publicKeyName)),
		Hint: "run signalbox ledger key on the host where the box was made"}
}

// publishKey keeps the public key in the box's folder.
func (l *Ledger) publishKey(public string) error {
	text, err := readOptional(l.file(publicKeyName))
	if err != nil || string(text) == public+"\n" {
		return err
	}
	return durable.Replace(l.file(publicKeyName), []byte(public+"\n"), 0o600)
}
