// Package blackboard holds the values that the leaves of a behaviour tree share.
//
// A Layout declares keys with their types in scopes. Scopes are nested: a key that is not declared
// in a scope is looked up in the outer one, up to the scope of the tree, which contains the global
// keys too. A layout does not change once a tree is compiled, and any number of boards may share
// it.
//
// A Board has a value for each key of its layout. A value in normal form is nil (the key is
// absent), bool, int64, float64, string, []any or map[string]any. It is copied when it is set, and
// must not be changed after it was read. Keys that begin with "_" need no declaration and belong to
// the whole tree. The size of a board is limited. Format and Parse convert values to and from JSON
// without changing their types.
//
// The package does no I/O and does not know nodes. A Board must be used by one goroutine at a time.
package blackboard

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// ErrUndeclared means that a key is not declared in the scope in which it is used.
var ErrUndeclared = errors.New("undeclared key")

// ErrMistyped means that a value has the wrong type for its key, or is too large.
var ErrMistyped = errors.New("mistyped value")

// Position is a position in a file. The zero Position means that it is unknown.
type Position struct {
	File string
	Line int
}

func (p Position) String() string {
	if p.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Key declares a key. With a nil Default, the key is absent at first.
type Key struct {
	Name    string
	Type    Type
	Default any
	At      Position
}

// Change is a key whose value differs between two snapshots. A nil value means that it is absent.
type Change struct {
	Key      string
	From, To any
}

// Diff returns the changes between two snapshots, sorted by key.
func Diff(from, to map[string]any) []Change {
	keys := slices.Collect(maps.Keys(from))
	for key := range to {
		if _, both := from[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var changes []Change
	for _, key := range keys {
		if !reflect.DeepEqual(from[key], to[key]) {
			changes = append(changes, Change{key, from[key], to[key]})
		}
	}
	return changes
}
