// Package tree runs behaviour trees whose state is data.
//
// A Definition declares a tree. Compile checks it, expands its subtrees where they are used, and
// returns a Tree: an array of nodes, each before its children. A Run is one execution of a tree.
// Its whole state is in arrays indexed by node and in its blackboard, so it can be recorded,
// resumed by another process, replayed and drawn.
//
// The result of a tick depends only on the run, the given time and the answers of the tree's
// leaves. A tick starts nothing: the jobs of leaves that take time are returned by Started and
// Halted, for a runner to start and stop once the tick is on stable storage. A tick visits each
// node at most once; a node that restarts its child, such as a repeat, does so in a later tick. So
// every tick ends, and its cost is bounded by the size of the tree.
//
// The package does no I/O, reads no clock and starts no goroutine. docs/reference/tree-nodes.md
// specifies each kind of node.
package tree

// Status is the answer of a node when it was last ticked.
type Status uint8

const (
	// Idle means that the node was not ticked yet, or was halted.
	Idle Status = iota
	Success
	Failure
	// Running means that the node must be ticked again.
	Running
)

var statusNames = [...]string{"IDLE", "SUCCESS", "FAILURE", "RUNNING"}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "INVALID"
}

// MarshalText returns the result of String.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseStatus parses the result of String.
func ParseStatus(name string) (Status, bool) {
	for i, n := range statusNames {
		if n == name {
			return Status(i), true
		}
	}
	return Idle, false
}

// Done reports whether the node has finished.
func (s Status) Done() bool { return s == Success || s == Failure }
