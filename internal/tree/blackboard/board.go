package blackboard

import (
	"fmt"
	"maps"
	"slices"
)

// Board is a blackboard. Methods without a scope use TreeScope.
type Board struct {
	layout *Layout
	values []any
	sizes  []int
	total  int
	// hidden holds the values of undeclared keys, which begin with "_".
	hidden map[string]any
}

// New returns a board with the keys of Builtins and further keys, for calling leaves without a run.
func New(keys []Key) (*Board, error) {
	l := NewLayout()
	for _, key := range keys {
		if _, err := l.Declare(TreeScope, key, "", false); err != nil {
			return nil, err
		}
	}
	return l.Board(), nil
}

// Board returns a board on which every key has its default.
func (l *Layout) Board() *Board {
	b := &Board{layout: l, values: make([]any, l.Len()), sizes: make([]int, l.Len())}
	b.Reset(0, Slot(l.Len()))
	return b
}

// Size returns the size of all values, which MaxBoard limits.
func (b *Board) Size() int { return b.total }

// Value returns the value of a slot.
func (b *Board) Value(slot Slot) any { return b.values[slot] }

// Put sets a slot to a value from a board. It does not check MaxBoard, because a for_each must
// always be able to pass an item to its child.
func (b *Board) Put(slot Slot, v any) {
	size := Size(v)
	b.total += size - b.sizes[slot]
	b.values[slot], b.sizes[slot] = v, size
}

// Reset sets the slots in [from, to) to their defaults.
func (b *Board) Reset(from, to Slot) {
	for slot := from; slot < to; slot++ {
		b.Put(slot, b.layout.declared[slot].Default)
	}
}

// find returns the slot of a key, or -1 for a hidden key.
func (b *Board) find(in Scope, key string) (Slot, error) {
	if slot, ok := b.layout.Lookup(in, key); ok {
		return slot, nil
	}
	if Hidden(key) {
		return -1, nil
	}
	return 0, fmt.Errorf("%w '%s': declare it in blackboard", ErrUndeclared, key)
}

// GetIn returns the value of a key that is visible in a scope, or nil if it is absent. The error
// wraps ErrUndeclared.
func (b *Board) GetIn(in Scope, key string) (any, error) {
	slot, err := b.find(in, key)
	switch {
	case err != nil:
		return nil, err
	case slot < 0:
		return b.hidden[key], nil
	}
	return b.values[slot], nil
}

// SetIn sets a key that is visible in a scope, and returns the value in normal form. A nil value
// makes the key absent. The error wraps ErrUndeclared or ErrMistyped and names the key.
func (b *Board) SetIn(in Scope, key string, v any) (any, error) {
	slot, err := b.find(in, key)
	if err != nil {
		return nil, err
	}
	t, before := Any, 0
	if slot >= 0 {
		t, before = b.layout.Type(slot), b.sizes[slot]
	} else if old, ok := b.hidden[key]; ok {
		before = Size(old) + len(key)
	}
	kept, size, err := t.check(v)
	if err != nil {
		return nil, fmt.Errorf("%w for key '%s': %w", ErrMistyped, key, err)
	}
	if slot < 0 {
		size += len(key)
	}
	if b.total+size-before > MaxBoard {
		return nil, boardFull(key)
	}
	b.total += size - before
	switch {
	case slot >= 0:
		b.values[slot], b.sizes[slot] = kept, size
	case kept == nil:
		b.total -= size
		delete(b.hidden, key)
	default:
		if b.hidden == nil {
			b.hidden = map[string]any{}
		}
		b.hidden[key] = kept
	}
	return kept, nil
}

// Get returns the value of a key, or nil if it is absent. The error wraps ErrUndeclared.
func (b *Board) Get(key string) (any, error) { return b.GetIn(TreeScope, key) }

// Set sets a key. A nil value makes it absent. The error wraps ErrUndeclared or ErrMistyped and
// names the key.
func (b *Board) Set(key string, v any) error {
	_, err := b.SetIn(TreeScope, key, v)
	return err
}

// ExtendIn replaces the list of a key by its last kept items and one more, and returns the new list
// and its size. It is like SetIn, but it checks and copies only the new item, so that adding n
// items one by one takes time for n items and not for their square.
func (b *Board) ExtendIn(in Scope, key string, kept int,
	item any) (list []any, size int, err error) {
	slot, err := b.find(in, key)
	if err != nil {
		return nil, 0, err
	}
	v, before := b.hidden[key], 0
	if slot >= 0 {
		v, before = b.values[slot], b.sizes[slot]
	} else if v != nil {
		before = Size(v)
	}
	old, _ := v.([]any)
	if kept < 1 || kept > len(old) {
		return nil, 0, fmt.Errorf("%w for key '%s': it does not have %d items", ErrMistyped, key,
			kept)
	}
	item, more, err := normal(item, 1)
	if err != nil {
		return nil, 0, fmt.Errorf("%w for key '%s': %w", ErrMistyped, key, err)
	}
	size = before + perElement + more
	for _, dropped := range old[:len(old)-kept] {
		size -= perElement + Size(dropped)
	}
	switch {
	case size > MaxValue:
		return nil, 0, fmt.Errorf("%w for key '%s': %w", ErrMistyped, key, errTooLarge)
	case b.total+size-before > MaxBoard:
		return nil, 0, boardFull(key)
	}
	list = slices.Concat(old[len(old)-kept:], []any{item})
	b.total += size - before
	if slot >= 0 {
		b.values[slot], b.sizes[slot] = list, size
	} else {
		b.hidden[key] = list
	}
	return list, size, nil
}

func boardFull(key string) error {
	return fmt.Errorf("%w for key '%s': the blackboard would be larger than %d bytes", ErrMistyped,
		key, MaxBoard)
}

// Clone returns a copy. The values are shared, because they are never changed.
func (b *Board) Clone() *Board {
	return &Board{layout: b.layout, values: slices.Clone(b.values), sizes: slices.Clone(b.sizes),
		total: b.total, hidden: maps.Clone(b.hidden)}
}

// Snapshot returns a map of all values that are not absent. A key of a subtree is preceded by the
// subtree's path and a colon.
func (b *Board) Snapshot() map[string]any {
	all := maps.Clone(b.hidden)
	if all == nil {
		all = map[string]any{}
	}
	for i, v := range b.values {
		if v != nil {
			all[b.layout.declared[i].full()] = v
		}
	}
	return all
}

// Globals returns the values of the global keys, for the next run.
func (b *Board) Globals() map[string]any {
	globals := map[string]any{}
	for i, v := range b.values {
		if d := &b.layout.declared[i]; d.global && v != nil {
			globals[d.Name] = v
		}
	}
	return globals
}
