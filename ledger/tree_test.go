package ledger

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// storedTree keeps all hashes of a tree, as package tlog wants them.
type storedTree []tlog.Hash

func (s storedTree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		hashes[i] = s[index]
	}
	return hashes, nil
}

func (s *storedTree) add(tb rapid.TB, n int, leaf signalbox.Hash) {
	hashes, err := tlog.StoredHashes(int64(n), leaf[:], s)
	must.Succeed(tb, err)
	*s = append(*s, hashes...)
}

func treeOf(leaves []signalbox.Hash) (tree Tree) {
	for _, leaf := range leaves {
		tree.Append(leaf)
	}
	return tree
}

// someLeaves are n different hashes.
func someLeaves(n int) []signalbox.Hash {
	leaves := make([]signalbox.Hash, n)
	for i := range leaves {
		leaves[i] = sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(i >> 16)})
	}
	return leaves
}

func TestTreeIsThatOfTlog(t *testing.T) {
	var tree Tree
	var stored storedTree
	for n, leaf := range append(someLeaves(300), signalbox.Hash{}) {
		want, err := tlog.TreeHash(int64(n), stored)
		must.Succeed(t, err)
		if tree.Size() != uint64(n) || tree.Root() != signalbox.Hash(want) {
			t.Fatalf("size %d, root %v, want size %d, root %v", tree.Size(), tree.Root(), n, want)
		}
		tree.Append(leaf)
		stored.add(t, n, leaf)
	}
}

func TestTreeRandomLeaves(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		var tree Tree
		var stored storedTree
		size := rapid.IntRange(0, 100).Draw(t, "size")
		for n := range size {
			leaf := drawHash(t, "leaf")
			tree.Append(leaf)
			stored.add(t, n, leaf)
		}
		want, err := tlog.TreeHash(int64(size), stored)
		must.Succeed(t, err)
		if tree.Root() != signalbox.Hash(want) {
			t.Fatalf("root %v, want %v", tree.Root(), want)
		}
	})
}

func TestTreeIsAValue(t *testing.T) {
	leaves := someLeaves(40)
	tree := treeOf(leaves[:20])
	before := tree.Root()
	other := tree
	other.Append(leaves[20])
	if tree.Root() != before || tree.Size() != 20 {
		t.Error("a copy that grows changes the original")
	}
	if tree != treeOf(leaves[:20]) || other != treeOf(leaves[:21]) {
		t.Error("trees over the same leaves are not equal")
	}
	if treeOf(leaves[:16]) == tree {
		t.Error("trees over different leaves are equal")
	}
}

func TestTreeFromChunks(t *testing.T) {
	leaves := someLeaves(100)
	for _, chunk := range []int{1, 2, 8, 64, 128} {
		var joined Tree
		for rest := leaves; len(rest) > 0; rest = rest[min(chunk, len(rest)):] {
			part := treeOf(rest[:min(chunk, len(rest))])
			joined.appendTree(&part)
		}
		if joined != treeOf(leaves) {
			t.Errorf("chunks of %d give another tree", chunk)
		}
	}
}

func TestTreeBinary(t *testing.T) {
	leaves := someLeaves(70)
	for n := range leaves {
		tree := treeOf(leaves[:n])
		data, err := tree.MarshalBinary()
		must.Succeed(t, err)
		var read Tree
		if err := read.UnmarshalBinary(data); err != nil || read != tree {
			t.Fatalf("tree of %d leaves does not come back: %v", n, err)
		}
	}
}

func TestTreeBinaryRefuses(t *testing.T) {
	tree := treeOf(someLeaves(5))
	data, err := tree.MarshalBinary()
	must.Succeed(t, err)
	tooLarge := append([]byte{0x10}, make([]byte, 7+32)...)
	for name, bad := range map[string][]byte{
		"nothing":        nil,
		"half a size":    data[:4],
		"one byte short": data[:len(data)-1],
		"one byte long":  append(bytes.Clone(data), 0),
		"no roots":       data[:8],
		"other size":     append([]byte{0, 0, 0, 0, 0, 0, 0, 7}, data[8:]...),
		"too large":      tooLarge,
	} {
		read := tree
		if err := read.UnmarshalBinary(bad); err == nil || read != tree {
			t.Errorf("%s: error %v, tree changed: %v", name, err, read != tree)
		}
	}
}

func FuzzTreeBinary(f *testing.F) {
	for _, n := range []int{0, 1, 2, 7, 70} {
		tree := treeOf(someLeaves(n))
		data, err := tree.MarshalBinary()
		must.Succeed(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var tree Tree
		if tree.UnmarshalBinary(data) != nil {
			return
		}
		again, err := tree.MarshalBinary()
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%x became %x (%v)", data, again, err)
		}
		tree.Append(signalbox.Hash{})
		tree.Root()
	})
}
