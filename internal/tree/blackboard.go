package tree

import "signalbox/internal/tree/blackboard"

// What definitions and leaves need of the blackboard, under the names of this package.
type (
	// Board is the blackboard of a run.
	Board = blackboard.Board
	// Key declares a key of the blackboard.
	Key = blackboard.Key
	// Type is what values a key may have.
	Type = blackboard.Type
	// Change is a key whose value differs between two snapshots.
	Change = blackboard.Change
	// Position is where something is declared.
	Position = blackboard.Position
)

// The types of keys: see package blackboard.
const (
	Any        = blackboard.Any
	Bool       = blackboard.Bool
	Int        = blackboard.Int
	Float      = blackboard.Float
	String     = blackboard.String
	List       = blackboard.List
	Map        = blackboard.Map
	SignalType = blackboard.Signal
)

// Limits on values.
const (
	MaxValue = blackboard.MaxValue
	MaxBoard = blackboard.MaxBoard
)

// The errors of Call.Get and Call.Set.
var (
	ErrUndeclared = blackboard.ErrUndeclared
	ErrMistyped   = blackboard.ErrMistyped
)

// NewBoard returns a blackboard for calling leaves outside of a tree.
func NewBoard(keys []Key) (*Board, error) { return blackboard.New(keys) }

// Types returns all types of keys.
func Types() []Type { return blackboard.Types() }

// ParseType is the inverse of Type.String.
func ParseType(name string) (Type, bool) { return blackboard.ParseType(name) }

// Diff returns what changed from one snapshot of a blackboard to another, in the order of the keys.
func Diff(from, to map[string]any) []Change { return blackboard.Diff(from, to) }

// FormatValue returns a value of a blackboard as JSON.
func FormatValue(v any) string { return blackboard.Format(v) }

// ParseValue is the inverse of FormatValue.
func ParseValue(text string) (any, error) { return blackboard.Parse(text) }
