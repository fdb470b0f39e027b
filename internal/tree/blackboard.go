package tree

import "signalbox/internal/tree/blackboard"

// Types of package blackboard that definitions and leaves use.
type (
	// Board is the blackboard of a run.
	Board = blackboard.Board
	// Key declares a key of the blackboard.
	Key = blackboard.Key
	// Type is the type of a key's values.
	Type = blackboard.Type
	// Change is a key whose value differs between two snapshots.
	Change = blackboard.Change
	// Position is the position of a declaration in a file.
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

// NewBoard returns a blackboard for calling leaves without a run.
func NewBoard(keys []Key) (*Board, error) { return blackboard.New(keys) }

// Types returns all types of keys.
func Types() []Type { return blackboard.Types() }

// ParseType parses the result of Type.String.
func ParseType(name string) (Type, bool) { return blackboard.ParseType(name) }

// Diff returns the changes between two snapshots of a blackboard, sorted by key.
func Diff(from, to map[string]any) []Change { return blackboard.Diff(from, to) }

// FormatValue returns a value of a blackboard as JSON.
func FormatValue(v any) string { return blackboard.Format(v) }

// ParseValue parses the result of FormatValue.
func ParseValue(text string) (any, error) { return blackboard.Parse(text) }
