package box

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// publicKeyOf returns what the box takes for its public key.
func publicKeyOf(t *testing.T, k *kit) (string, error) {
	t.Helper()
	l := k.ledger(t)
	defer l.Close()
	return l.PublicKey()
}

// The private key knows its public one. The file in the box is only as good as the box.
func TestPublicKey(t *testing.T) {
	k, other := newKit(t), otherKit(t)
	k.put(t, publicKeyName, other.made.PublicKey+"\n")
	if got, err := publicKeyOf(t, k); err != nil || got != k.made.PublicKey {
		t.Errorf("with the private key here: %s, %v; want %s", got, err, k.made.PublicKey)
	}
	sign(t, k.open(t))
	if got := k.read(t, publicKeyName); got != k.made.PublicKey+"\n" {
		t.Errorf("after a signature the box has the public key %q", got)
	}

	foreign, err := os.ReadFile(other.opts.KeyFile)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(k.opts.KeyFile, foreign, 0o600))
	if got, err := publicKeyOf(t, k); err != nil || got != k.made.PublicKey {
		t.Errorf("with another box's private key: %s, %v; want %s", got, err, k.made.PublicKey)
	}
	must.Succeed(t, os.Remove(k.opts.KeyFile))
	if got, err := publicKeyOf(t, k); err != nil || got != k.made.PublicKey {
		t.Errorf("without the private key: %s, %v; want %s", got, err, k.made.PublicKey)
	}
	k.remove(t, publicKeyName)
	_, err = publicKeyOf(t, k)
	checkCode(t, err, signalbox.CodeNotFound)
}

// A machine that was set up by hand, before the box existed, gets the public key from the ledger,
// and then notices a ledger or a file with another one.
func TestPublicKeyFromLedger(t *testing.T) {
	k, other := newKit(t), otherKit(t)
	k.remove(t, publicKeyName)
	k.opts.KeyFile = filepath.Join(t.TempDir(), "none")
	k.open(t).Close()
	if got := k.read(t, publicKeyName); got != k.made.PublicKey+"\n" {
		t.Errorf("the machine has the public key %q, want %q", got, k.made.PublicKey)
	}
	l := k.ledger(t)
	defer l.Close()
	must.Succeed(t, l.CheckPublicKey())
	l.recorded = strings.Replace(l.recorded, "+", "+0", 1)
	checkCode(t, l.CheckPublicKey(), signalbox.CodeUnverified)
	k.put(t, publicKeyName, other.made.PublicKey+"\n")
	k.open(t).Close()
	if got := k.read(t, publicKeyName); got != other.made.PublicKey+"\n" {
		t.Errorf("the ledger has replaced the key by %q", got)
	}
}

// A box is ours if our key has signed its ledger. Its id alone, which anybody can copy, makes no
// box ours.
func TestIsOurs(t *testing.T) {
	k, other := newKit(t), otherKit(t)
	ours := func(k *kit, opts *Options) bool {
		t.Helper()
		l, err := OpenLedger(t.Context(), k.dir, opts)
		must.Succeed(t, err)
		defer l.Close()
		return l.IsOurs(t.Context())
	}
	if !ours(k, k.opts) {
		t.Error("a new box is not ours")
	}
	sign(t, k.open(t))
	if !ours(k, k.opts) {
		t.Error("a box that was used is not ours")
	}
	if ours(k, &Options{KeyFile: k.opts.KeyFile + ".none"}) {
		t.Error("a box without a key is ours")
	}
	if ours(k, other.opts) {
		t.Error("a box with the key of another is ours")
	}
	// Another ledger with the same id, and everything that is public.
	forged := &kit{dir: filepath.Join(t.TempDir(), FolderName)}
	must.Succeed(t, makeFolder(forged.dir, config.Template))
	l, err := openLedger(t.Context(), forged.dir, nil, create)
	must.Succeed(t, err)
	b, err := newBox(t.Context(), l, l.openForgetfulEngine)
	if err == nil {
		_, err = b.Engine.Do(t.Context(), rules.OpenBox{Box: k.made.ID, Actor: "eve"})
	}
	must.Succeed(t, err)
	write(t, b, "w1")
	b.Close()
	for _, name := range []string{publicKeyName, checkpointName, checkpointTreeName} {
		forged.put(t, name, k.read(t, name))
	}
	if ours(forged, k.opts) {
		t.Error("a ledger that we did not sign is ours")
	}
	must.Succeed(t, os.Remove(k.opts.KeyFile+signedSuffix))
	if !ours(k, k.opts) {
		t.Error("after the last checkpoint was forgotten, the box is not ours")
	}
	k.put(t, publicKeyName, other.made.PublicKey+"\n")
	if ours(k, k.opts) {
		t.Error("a box with another public key is ours")
	}
}

func TestKeyReadableByOthersIsNotUsed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes")
	}
	k := newKit(t)
	for mode, fine := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false,
		0o604: false, 0o620: false, 0o601: false, 0o777: false} {
		must.Succeed(t, os.Chmod(k.opts.KeyFile, mode))
		_, _, err := k.ledger(t).privateKey()
		if fine && err != nil || !fine &&
			(err == nil || !strings.Contains(err.Error(), "other users can read") ||
				errors.Is(err, ErrNoKey)) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

func TestKeyOfAnotherBox(t *testing.T) {
	k, other := newKit(t), otherKit(t)
	foreign, err := os.ReadFile(other.opts.KeyFile)
	must.Succeed(t, err)
	for name, text := range map[string]string{
		"another box's": string(foreign), "noise": "noise", "empty": "",
		"a public one": k.made.PublicKey,
	} {
		must.Succeed(t, os.WriteFile(k.opts.KeyFile, []byte(text), 0o600))
		_, err := k.open(t).Sign(t.Context())
		checkCode(t, err, signalbox.CodeFailed)
		if errors.Is(err, ErrNoKey) ||
			!strings.Contains(err.Error(), "cannot use the signing key") ||
			strings.Contains(err.Error(), text) && text != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
