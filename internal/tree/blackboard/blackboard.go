// Package blackboard holds the values that the leaves of a behaviour tree share.
//
// A Layout says which keys there are and who sees them. Keys are declared, with a type, in a scope. Scopes form a chain:
// what is not declared in one is looked up in the one it sees, up to the tree's scope, in which global keys are too. A
// layout is made once for a tree and does not change afterwards; any number of boards may share it.
//
// A Board has a value for each key of its layout: nil, bool, int64, float64, string, []any or map[string]any. nil is absent.
// A value is copied when it is set and must not be changed after it was read. Keys that begin with "_" need no declaration
// and belong to the whole tree. What is on a board is limited in size, and can be written as JSON and read again as the
// same value of the same type: Format and Parse.
//
// The package does no I/O and knows nothing of nodes. A Board is used by one goroutine at a time.
package blackboard

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// ErrUndeclared is a read or write of a key that is not declared where it is used. Declare it.
var ErrUndeclared = errors.New("undeclared key")

// ErrMistyped is a write of a value that the key does not take, or that is too large.
var ErrMistyped = errors.New("mistyped value")

// Position is where something stands in the file that declares it. Zero: nowhere.
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

// Key declares a key. Default nil: the key is absent at first.
type Key struct {
	Name    string
	Type    Type
	Default any
	At      Position
}

// Change is a key whose value differs between two snapshots; nil is absent.
type Change struct {
	Key      string
	From, To any
}

// Diff returns what changed from one snapshot to another, in the order of the keys.
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
