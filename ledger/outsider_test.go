package ledger_test

// This file is a verifier as somebody else would write it, from docs/reference/ledger-format.md
// alone: it knows SHA-256, Ed25519, base64 and JSON, and nothing of this module.

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

type outsiderEvent struct {
	Seq                              uint64
	Time, Type, Work, Session, Actor string
	Data, Prev, Hash, Root           string
}

func (e outsiderEvent) preimage() []byte {
	b := []byte("signalbox/event/v1\n")
	field := func(content []byte) {
		b = binary.BigEndian.AppendUint64(b, uint64(len(content)))
		b = append(b, content...)
	}
	field(binary.BigEndian.AppendUint64(nil, e.Seq))
	for _, text := range []string{e.Time, e.Type, e.Work, e.Session, e.Actor, e.Data} {
		field([]byte(text))
	}
	field(unhex(e.Prev))
	return b
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func sum(parts ...[]byte) []byte {
	h := sha256.Sum256(bytes.Join(parts, nil))
	return h[:]
}

func leaf(event []byte) []byte       { return sum([]byte{0}, event) }
func node(left, right []byte) []byte { return sum([]byte{1}, left, right) }

// treeRoot is the definition in RFC 6962, section 2.1.
func treeRoot(events [][]byte) []byte {
	switch len(events) {
	case 0:
		return sum()
	case 1:
		return leaf(events[0])
	}
	k := 1
	for k*2 < len(events) {
		k *= 2
	}
	return node(treeRoot(events[:k]), treeRoot(events[k:]))
}

// rootOfPath follows an audit path from a leaf, as the document tells it.
func rootOfPath(index, size uint64, hash []byte, path [][]byte) ([]byte, error) {
	last := size - 1
	for _, sibling := range path {
		if last == 0 {
			return nil, errors.New("path too long")
		}
		if index%2 == 1 || index == last {
			hash = node(sibling, hash)
			for index%2 == 0 && index != 0 {
				index, last = index/2, last/2
			}
		} else {
			hash = node(hash, sibling)
		}
		index, last = index/2, last/2
	}
	if last != 0 {
		return nil, errors.New("path too short")
	}
	return hash, nil
}

// rootsOfConsistency returns the roots of the older and the newer tree that a consistency proof
// leads to.
func rootsOfConsistency(older, newer uint64, olderRoot []byte, proof [][]byte) (first,
	second []byte, err error) {
	if older&(older-1) == 0 {
		proof = append([][]byte{olderRoot}, proof...)
	}
	index, last := older-1, newer-1
	for index%2 == 1 {
		index, last = index/2, last/2
	}
	first, second = proof[0], proof[0]
	for _, hash := range proof[1:] {
		if last == 0 {
			return nil, nil, errors.New("proof too long")
		}
		if index%2 == 1 || index == last {
			first, second = node(hash, first), node(hash, second)
			for index%2 == 0 && index != 0 {
				index, last = index/2, last/2
			}
		} else {
			second = node(second, hash)
		}
		index, last = index/2, last/2
	}
	if last != 0 {
		return nil, nil, errors.New("proof too short")
	}
	return first, second, nil
}

// openNote checks the signature of a checkpoint and returns its size and root.
func openNote(text, publicKey string) (size uint64, root []byte, err error) {
	parts := strings.SplitN(publicKey, "+", 3)
	key, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(key) != 33 || key[0] != 1 {
		return 0, nil, fmt.Errorf("bad public key: %v", err)
	}
	id := sum([]byte(parts[0]+"\n"), key)[:4]
	if hex.EncodeToString(id) != parts[1] {
		return 0, nil, errors.New("bad key id")
	}
	body, line, _ := strings.Cut(text, "\n\n")
	body += "\n"
	signature, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(strings.TrimPrefix(line,
		"— "+parts[0]+" "), "\n"))
	if err != nil || !bytes.HasPrefix(signature, id) {
		return 0, nil, fmt.Errorf("bad signature line: %v", err)
	}
	if !ed25519.Verify(key[1:], []byte(body), signature[4:]) {
		return 0, nil, errors.New("bad signature")
	}
	lines := strings.Split(body, "\n")
	size, err1 := strconv.ParseUint(lines[1], 10, 64)
	root, err2 := base64.StdEncoding.DecodeString(lines[2])
	if lines[0] != parts[0] {
		return 0, nil, errors.New("bad origin")
	}
	return size, root, errors.Join(err1, err2)
}

// outsiderVectors is testdata/vectors.json.
type outsiderVectors struct {
	PrivateKey      string `json:"private_key"`
	PublicKey       string `json:"public_key"`
	Events          []outsiderEvent
	OlderCheckpoint string `json:"older_checkpoint"`
	Checkpoint      string
	Consistency     []string
}

// outsiderProof is a proof file.
type outsiderProof struct {
	Format     string
	Event      outsiderEvent
	Index      uint64
	Hashes     []string
	Checkpoint string
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	must.Succeed(t, err)
	must.Succeed(t, json.Unmarshal(text, into))
}

func unhexAll(hashes []string) (all [][]byte) {
	for _, hash := range hashes {
		all = append(all, unhex(hash))
	}
	return all
}

func TestOutsiderVerifiesLog(t *testing.T) {
	var v outsiderVectors
	readJSON(t, "testdata/vectors.json", &v)
	if len(v.Events) != 10 {
		t.Fatalf("%d events", len(v.Events))
	}
	var hashes [][]byte
	prev := strings.Repeat("0", 64)
	for i, e := range v.Events {
		hash := sum(e.preimage())
		if e.Seq != uint64(i+1) || e.Prev != prev || e.Hash != hex.EncodeToString(hash) {
			t.Errorf("event %d: seq %d, prev %s, hash %s, want prev %s, hash %x", i+1, e.Seq,
				e.Prev, e.Hash, prev, hash)
		}
		prev = e.Hash
		hashes = append(hashes, hash)
		if got := hex.EncodeToString(treeRoot(hashes)); got != e.Root {
			t.Errorf("root at %d: %s, want %s", i+1, got, e.Root)
		}
	}
	olderSize, olderRoot, err := openNote(v.OlderCheckpoint, v.PublicKey)
	if err != nil || !bytes.Equal(olderRoot, treeRoot(hashes[:olderSize])) {
		t.Errorf("older checkpoint: size %d, root %x, %v", olderSize, olderRoot, err)
	}
	size, root, err := openNote(v.Checkpoint, v.PublicKey)
	if err != nil || size != 10 || !bytes.Equal(root, treeRoot(hashes)) {
		t.Errorf("checkpoint: size %d, root %x, %v", size, root, err)
	}
	first, second, err := rootsOfConsistency(olderSize, size, olderRoot, unhexAll(v.Consistency))
	if err != nil || !bytes.Equal(first, olderRoot) || !bytes.Equal(second, root) {
		t.Errorf("consistency: %x and %x, %v", first, second, err)
	}
}

func TestOutsiderChecksProof(t *testing.T) {
	var v outsiderVectors
	var p outsiderProof
	readJSON(t, "testdata/vectors.json", &v)
	readJSON(t, "testdata/proof.json", &p)
	size, root, err := openNote(p.Checkpoint, v.PublicKey)
	must.Succeed(t, err)
	hash := sum(p.Event.preimage())
	if p.Format != "signalbox-proof/v1" || p.Index != p.Event.Seq-1 ||
		p.Event.Hash != hex.EncodeToString(hash) {
		t.Errorf("%s, index %d, event %d, hash %s, want %x", p.Format, p.Index, p.Event.Seq,
			p.Event.Hash, hash)
	}
	got, err := rootOfPath(p.Index, size, leaf(hash), unhexAll(p.Hashes))
	if err != nil || !bytes.Equal(got, root) {
		t.Errorf("path leads to %x, %v, want %x", got, err, root)
	}
}

func TestOutsiderDerivesPublicKey(t *testing.T) {
	var v outsiderVectors
	readJSON(t, "testdata/vectors.json", &v)
	parts := strings.SplitN(v.PrivateKey, "+", 5)
	key, err := base64.StdEncoding.DecodeString(parts[4])
	if err != nil || len(key) != 33 || key[0] != 1 {
		t.Fatalf("private key %x, %v", key, err)
	}
	public := append([]byte{1}, ed25519.NewKeyFromSeed(key[1:]).Public().(ed25519.PublicKey)...)
	id := sum([]byte(parts[2]+"\n"), public)[:4]
	if want := fmt.Sprintf("%s+%x+%s", parts[2], id,
		base64.StdEncoding.EncodeToString(public)); want != v.PublicKey {
		t.Errorf("public key %s, want %s", v.PublicKey, want)
	}
}
