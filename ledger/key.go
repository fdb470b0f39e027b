package ledger

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"

	"signalbox"
)

// GenerateKey returns a new Ed25519 key pair in the text forms of package note. The origin is the
// name of both keys and of the log whose checkpoints they sign. Use a host name and a path, such as
// example.org/box, to keep it unique.
func GenerateKey(rand io.Reader, origin string) (private, public string, err error) {
	if err := checkOrigin(origin); err != nil {
		return "", "", &signalbox.Error{
			Code: signalbox.CodeUsage, Err: err,
			Hint: "use a host name and a path, such as example.org/box",
		}
	}
	private, public, err = note.GenerateKey(rand, origin)
	if err != nil {
		return "", "", fmt.Errorf("generate a signing key: %w", err)
	}
	return private, public, nil
}

// PublicKey returns the public key of a private key.
func PublicKey(private string) (string, error) {
	signer, err := newSigner(private)
	if err != nil {
		return "", err
	}
	// The key's last part is an algorithm byte and a seed, in base64, which may itself contain the
	// separator '+'.
	parts := strings.SplitN(private, "+", 5)
	key, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(key) != 1+ed25519.SeedSize {
		return "", errBadSigningKey()
	}
	pair := ed25519.NewKeyFromSeed(key[1:])
	return note.NewEd25519VerifierKey(signer.Name(), pair.Public().(ed25519.PublicKey))
}

// KeyName returns the origin that a public key belongs to.
func KeyName(public string) (string, error) {
	verifier, err := newVerifier(public)
	if err != nil {
		return "", err
	}
	return verifier.Name(), nil
}

func checkOrigin(origin string) error {
	unfit := func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || r == '+' }
	if origin == "" || !utf8.ValidString(origin) || strings.ContainsFunc(origin, unfit) {
		return fmt.Errorf("origin %q: must be printable text without spaces and '+'", origin)
	}
	return nil
}

func newSigner(private string) (note.Signer, error) {
	signer, err := note.NewSigner(private)
	if err != nil {
		return nil, errBadSigningKey()
	}
	return signer, nil
}

// errBadSigningKey does not quote the key, which may be most of a secret.
func errBadSigningKey() error {
	return signalbox.CodeFailed.Errorf(
		"restore it from a copy; it is one line that starts with PRIVATE+KEY+",
		"the signing key is damaged")
}

func newVerifier(public string) (note.Verifier, error) {
	verifier, err := note.NewVerifier(public)
	if err != nil {
		return nil, signalbox.CodeUsage.Errorf(
			"a public key is one line NAME+HASH+KEY; 'signalbox ledger key' prints the key of a box",
			"public key %q: %w", public, err)
	}
	return verifier, nil
}
