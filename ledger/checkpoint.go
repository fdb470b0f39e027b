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

// Checkpoint stands for the first Size events of a log.
type Checkpoint struct {
	// Origin names the log; it is also the name of the key that signs for it.
	Origin string `json:"origin"`
	Size   uint64 `json:"size"`
	// Root is the tree hash over the hashes of those events.
	Root signalbox.Hash `json:"root"`
}

// String returns the text that is signed: a C2SP tlog-checkpoint without extension lines.
func (c Checkpoint) String() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, base64.StdEncoding.EncodeToString(c.Root[:]))
}

// Sign returns the checkpoint as a C2SP signed note. The key must have the checkpoint's origin as its name.
func Sign(c Checkpoint, privateKey string) ([]byte, error) {
	signer, err := newSigner(privateKey)
	if err != nil {
		return nil, err
	}
	if signer.Name() != c.Origin {
		return nil, fmt.Errorf("sign a checkpoint: its origin is %q, the key is of %q", c.Origin, signer.Name())
	}
	signed, err := note.Sign(&note.Note{Text: c.String()}, signer)
	if err != nil {
		return nil, fmt.Errorf("sign a checkpoint: %w", err)
	}
	return signed, nil
}

// OpenCheckpoint returns a checkpoint that was signed with the private half of publicKey. It takes what Sign
// returned, byte for byte, and nothing else, so that no edit is overlooked: one signature, no extension lines, no
// lines of witnesses, one way to write each number and hash.
func OpenCheckpoint(signed []byte, publicKey string) (Checkpoint, error) {
	verifier, err := newVerifier(publicKey)
	if err != nil {
		return Checkpoint{}, err
	}
	opened, err := note.Open(signed, note.VerifierList(verifier))
	if unknown := (*note.UnverifiedNoteError)(nil); errors.As(err, &unknown) {
		return Checkpoint{}, unverified("compare the public key with that of the box, which 'signalbox ledger key' prints there",
			"the checkpoint is not signed with the key of %q that was given", verifier.Name())
	}
	if err != nil {
		return Checkpoint{}, unverified("", "open a checkpoint: %w", err)
	}
	c, err := parseCheckpoint(opened.Text)
	if err != nil {
		return Checkpoint{}, unverified("", "open a checkpoint: %w", err)
	}
	if c.Origin != verifier.Name() {
		return Checkpoint{}, unverified("", "open a checkpoint: its origin is %q, the key is of %q", c.Origin, verifier.Name())
	}
	if !bytes.Equal(signed, formatSigned(c, opened.Sigs[0])) {
		return Checkpoint{}, unverified("", "open a checkpoint: it was edited, or has more than the signature of %q", c.Origin)
	}
	return c, nil
}

// formatSigned writes a note anew from what was read of it. Reading is lenient about leading zeros and about spare
// bits in base64, and passes over repeated signatures and those of others.
func formatSigned(c Checkpoint, s note.Signature) []byte {
	raw, err := base64.StdEncoding.DecodeString(s.Base64)
	if err != nil {
		return nil
	}
	return fmt.Appendf(nil, "%s\n— %s %s\n", c, s.Name, base64.StdEncoding.EncodeToString(raw))
}

// parseCheckpoint reads what String returns. It is lenient about how numbers are written.
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
