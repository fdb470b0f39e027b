package tree

import "time"

// Definition declares a tree.
type Definition struct {
	Name        string
	Description string
	At          Position
	// Keys are the keys of the tree. Globals are keys whose values outlive a run.
	Keys     []Key
	Globals  []Key
	Root     *Node
	Subtrees []*SubtreeDefinition
}

// SubtreeDefinition declares a subtree, which a tree uses by name. Its Keys are its own, and are
// reset each time it is entered. Its Ports refer to keys of the node that uses it. It also sees the
// keys of the tree and the global keys.
type SubtreeDefinition struct {
	Name        string
	Description string
	At          Position
	Keys        []Key
	Ports       []Key
	Root        *Node
}

// Until is the condition that ends a repeat.
type Until uint8

const (
	// UntilTimes ends after Node.Times successes, or with the first failure.
	UntilTimes Until = iota
	// UntilSuccess ends with the first success. It fails after Node.Times failures, unless that is
	// 0.
	UntilSuccess
	// UntilFailure succeeds with the first failure. It fails after Node.Times successes, unless
	// that is 0.
	UntilFailure
)

// Node declares a node. Its Kind determines which fields it uses; the others must be zero.
type Node struct {
	Kind Kind
	// Name may be empty, and need not be unique: a node is identified by its path.
	Name        string
	Description string
	At          Position
	// Children are one or more for a composite, one for a decorator, and two for a guard: the
	// condition and its child.
	Children []*Node

	// Fn is the name of the function of an action or condition, or of the tool. If Do is set, it is
	// the function itself.
	Fn   string
	Do   Func
	Args map[string]any

	// After is the duration of a timeout, cooldown or wait, and the time that a retry waits before
	// its second attempt. The time doubles before each further attempt.
	After time.Duration
	// Times is the number of attempts of a retry, or of repetitions of a repeat.
	Times int
	Until Until
	// Require is the number of children of a parallel that must succeed. MaxConcurrent is the
	// number of its children that may run at the same time. 0 means all.
	Require       int
	MaxConcurrent int
	// Items is the key of the list of a for_each. As and Index are the keys under which its child
	// finds the item and its number; an empty Index means none. With KeepGoing, an item that fails
	// does not end the for_each.
	Items, As, Index string
	KeepGoing        bool
	// Uses is the name of the subtree. Ports maps its ports to keys that this node sees.
	Uses  string
	Ports map[string]string
}

// Ref is an argument that refers to a key. Its value is that of the key when the leaf is ticked.
type Ref struct{ Key string }
