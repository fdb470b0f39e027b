package ledger

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"signalbox"
)

// Checkpoint commits to the first Size events of a log.
type Checkpoint struct {
	// Origin is the name of the log and of the key that signs its checkpoints.
	Origin string `json:"origin"`
	Size   uint64 `json:"size"`
	// Root is the root of the Merkle tree over those events.
	Root signalbox.Hash `json:"root"`
}

// String returns the text to sign: a C2SP tlog-checkpoint without extension lines.
func (c Checkpoint) String() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size,
		base64.StdEncoding.EncodeToString(c.Root[:]))
}

// Sign returns the checkpoint as a C2SP signed note. The name of the key must be the checkpoint's
// origin.
func Sign(c Checkpoint, privateKey string) ([]byte, error) {
	signer, err := newSigner(privateKey)
	if err != nil {
		return nil, err
	}
	if signer.Name() != c.Origin {
		return nil, fmt.Errorf("sign a checkpoint: its origin is %q, but the key belongs to %q",
			c.Origin, signer.Name())
	}
	signed, err := note.Sign(&note.Note{Text: c.String()}, signer)
	if err != nil {
		return nil, fmt.Errorf("sign a checkpoint: %w", err)
	}
	return signed, nil
}

// OpenCheckpoint verifies and parses a checkpoint that was signed with the private key of
// publicKey. It accepts exactly the bytes that Sign returned, so that every edit is detected: one
// signature, no extension lines, no witness signatures, one encoding of each number and hash.
func OpenCheckpoint(signed []byte, publicKey string) (Checkpoint, error) {
	verifier, err := newVerifier(publicKey)
	if err != nil {
		return Checkpoint{}, err
	}
	opened, err := note.Open(signed, note.VerifierList(verifier))
	if unknown := (*note.UnverifiedNoteError)(nil); errors.As(err, &unknown) {
		return Checkpoint{},
			unverified("compare the public key with the output of 'signalbox ledger key' in the box",
				"the checkpoint is not signed with the given key of %q", verifier.Name())
	}
	if err != nil {
		return Checkpoint{}, unverified("", "open a checkpoint: %w", err)
	}
	c, err := parseCheckpoint(opened.Text)
	if err != nil {
		return Checkpoint{}, unverified("", "open a checkpoint: %w", err)
	}
	if c.Origin != verifier.Name() {
		return Checkpoint{},
			unverified("", "open a checkpoint: its origin is %q, but the key belongs to %q",
				c.Origin, verifier.Name())
	}
	if !bytes.Equal(signed, formatSigned(c, opened.Sigs[0])) {
		return Checkpoint{},
			unverified("", "open a checkpoint: it was edited, or has signatures other than that of %q", c.Origin)
	}
	return c, nil
}

// formatSigned encodes a parsed note again. Parsing tolerates leading zeros and unused bits in
// base64, and ignores repeated and unknown signatures.
func formatSigned(c Checkpoint, s note.Signature) []byte {
	raw, err := base64.StdEncoding.DecodeString(s.Base64)
	if err != nil {
		return nil
	}
	return fmt.Appendf(nil, "%s\n— %s %s\n", c, s.Name, base64.StdEncoding.EncodeToString(raw))
}

// parseCheckpoint parses what String returns. It tolerates other encodings of numbers.
func parseCheckpoint(text string) (Checkpoint, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 {
		return Checkpoint{}, fmt.Errorf("it has %d lines, want origin, size and root", len(lines)-1)
	}
	size, err := strconv.ParseUint(lines[1], 10, 64)
	if err != nil || size > MaxEvents {
		return Checkpoint{}, fmt.Errorf("size %q is not a number of events", lines[1])
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(root) != len(signalbox.Hash{}) {
		return Checkpoint{}, fmt.Errorf("root %q is not a SHA-256 in base64", lines[2])
	}
	return Checkpoint{Origin: lines[0], Size: size, Root: signalbox.Hash(root)}, nil
}
