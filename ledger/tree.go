package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"signalbox"
)

// MaxEvents is the maximum number of events in a log.
const MaxEvents = 1<<treeLevels - 1

const treeLevels = 60

// Tree is the RFC 6962 Merkle tree over the hashes of events, reduced to what appending needs: the
// roots of its complete subtrees. It is a value of fixed size: assignment copies it, trees over the
// same leaves are equal under ==, and the zero Tree is empty.
type Tree struct {
	size uint64
	// roots[k] is the root of a complete subtree with 2^k leaves if bit k of size is set, else
	// zero. The larger subtree is always to the left of the smaller.
	roots [treeLevels]signalbox.Hash
}

// Size returns the number of leaves.
func (t *Tree) Size() uint64 { return t.size }

// Append adds the hash of an event as the last leaf.
func (t *Tree) Append(leaf signalbox.Hash) { t.appendSubtree(0, leafHash(leaf)) }

// appendSubtree adds a complete subtree with 2^level leaves. The size of t must be a multiple of
// 2^level.
func (t *Tree) appendSubtree(level int, root signalbox.Hash) {
	at := level
	for ; t.size>>at&1 == 1; at++ {
		root = nodeHash(&t.roots[at], &root)
		t.roots[at] = signalbox.Hash{}
	}
	t.roots[at] = root
	t.size += 1 << level
}

// appendTree adds the leaves of another tree. The size of t must be a multiple of that of its
// largest subtree.
func (t *Tree) appendTree(right *Tree) {
	for level := bits.Len64(right.size) - 1; level >= 0; level-- {
		if right.size>>level&1 == 1 {
			t.appendSubtree(level, right.roots[level])
		}
	}
}

// Root returns the tree hash of RFC 6962, section 2.1. For an empty tree it is the SHA-256 of the
// empty string.
func (t *Tree) Root() signalbox.Hash {
	if t.size == 0 {
		return sha256.Sum256(nil)
	}
	level := bits.TrailingZeros64(t.size)
	root := t.roots[level]
	for level++; t.size>>level != 0; level++ {
		if t.size>>level&1 == 1 {
			root = nodeHash(&t.roots[level], &root)
		}
	}
	return root
}

// MarshalBinary returns the size in 8 bytes, big-endian, and the roots of the complete subtrees
// from left to right.
func (t *Tree) MarshalBinary() ([]byte, error) {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+32*bits.OnesCount64(t.size)), t.size)
	for level := bits.Len64(t.size) - 1; level >= 0; level-- {
		if t.size>>level&1 == 1 {
			b = append(b, t.roots[level][:]...)
		}
	}
	return b, nil
}

// UnmarshalBinary parses what MarshalBinary returned. On an error it does not change t.
func (t *Tree) UnmarshalBinary(data []byte) error {
	if len(data) < 8 {
		return errors.New("read a tree: it is truncated")
	}
	size := binary.BigEndian.Uint64(data)
	if size > MaxEvents {
		return fmt.Errorf("read a tree: %d leaves, limit %d", size, uint64(MaxEvents))
	}
	roots := data[8:]
	if want := 32 * bits.OnesCount64(size); len(roots) != want {
		return fmt.Errorf("read a tree: %d bytes of subtree roots, want %d for %d leaves",
			len(roots), want, size)
	}
	read := Tree{size: size}
	for level := bits.Len64(size) - 1; level >= 0; level-- {
		if size>>level&1 == 1 {
			roots = roots[copy(read.roots[level][:], roots):]
		}
	}
	*t = read
	return nil
}

// leafHash is tlog.RecordHash over the 32 bytes of an event's hash, without its allocation.
func leafHash(event signalbox.Hash) signalbox.Hash {
	var buf [1 + len(event)]byte
	copy(buf[1:], event[:])
	return sha256.Sum256(buf[:])
}

// nodeHash is tlog.NodeHash, without copies of its arguments.
func nodeHash(left, right *signalbox.Hash) signalbox.Hash {
	var buf [1 + len(left) + len(right)]byte
	buf[0] = 1
	copy(buf[1:], left[:])
	copy(buf[1+len(left):], right[:])
	return sha256.Sum256(buf[:])
}
