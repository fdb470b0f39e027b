package tree

import "time"

// Definition declares a tree.
type Definition struct {
	Name        string
	Description string
	At          Position
	// Keys are the keys of the tree's scope, Globals those that outlive a run.
	Keys     []Key
	Globals  []Key
	Root     *Node
	Subtrees []*SubtreeDefinition
}

// SubtreeDefinition declares a part that a tree uses by name. Its Keys are its own, and fresh each time it is
// entered; its Ports stand for keys of whoever uses it. Beside these it sees the tree's keys and the global ones.
type SubtreeDefinition struct {
	Name        string
	Description string
	At          Position
	Keys        []Key
	Ports       []Key
	Root        *Node
}

// Until says when a repeat ends.
type Until uint8

const (
	// UntilTimes ends after Node.Times successes, or with the first failure.
	UntilTimes Until = iota
	// UntilSuccess ends with the first success; after Node.Times failures, if that is not 0, it fails.
	UntilSuccess
	// UntilFailure ends, successfully, with the first failure; after Node.Times successes, if that is not 0, it fails.
	UntilFailure
)

// Node declares a node. Which fields count depends on its Kind; the others must be zero.
type Node struct {
	Kind Kind
	// Name may be empty, and several nodes may share one: a node's identity is its path.
	Name        string
	Description string
	At          Position
	// Children: any number, at least one, for a composite; one for a decorator; two for a guard, first the condition.
	Children []*Node

	// Fn names the function of an action or condition, or the tool. Do, if set, is the function itself.
	Fn   string
	Do   Func
	Args map[string]any

	// After is how long a timeout, a cooldown or a wait lasts, and how long a retry waits before its second attempt
	// (twice as long before each further one).
	After time.Duration
	// Times is how often a retry tries in all, and a repeat repeats.
	Times int
	Until Until
	// Require is how many children of a parallel must succeed, 0: all. MaxConcurrent is how many of them may be
	// running at once, 0: all.
	Require       int
	MaxConcurrent int
	// Items is the key of the list that a for_each goes through, As and Index are the keys that its body reads;
	// an empty Index: none. KeepGoing: an item that fails does not end it.
	Items, As, Index string
	KeepGoing        bool
	// Uses names the subtree, Ports says for which of the keys seen here its ports stand.
	Uses  string
	Ports map[string]string
}

// Ref is an argument whose value is that of a key when the leaf is ticked.
type Ref struct{ Key string }
