// Package tree runs behaviour trees whose state is data.
//
// A Definition says what a tree is. Compile checks it, writes its subtrees out where they are used, and returns a
// Tree: nodes in one array, each before its children. A Run is one execution. All that a run remembers is in arrays
// indexed by node and in its blackboard, so that it can be saved, restored after the process was killed, replayed
// and drawn.
//
// A tick is a function of the run, the time it is given and what the tree's leaves answer. It starts nothing: leaves
// that take time (jobs) come out of a tick as Starts and Halts, for a runner to carry out once the tick is on stable
// storage. Within a tick a node is ticked at most once; a node that begins its child anew, such as a repeat, does so
// in a later tick. So a tick always ends, and its cost is bounded by the size of the tree.
//
// The package does no I/O, holds no clock and starts no goroutine. docs/trees.md states what each node does.
package tree

// Status is what a node answered when it was last ticked.
type Status uint8

const (
	// Idle is a node that was not ticked yet, or that was halted.
	Idle Status = iota
	Success
	Failure
	// Running asks to be ticked again.
	Running
)

var statusNames = [...]string{"IDLE", "SUCCESS", "FAILURE", "RUNNING"}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "INVALID"
}

// MarshalText writes the status as String does.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseStatus is the inverse of String.
func ParseStatus(name string) (Status, bool) {
	for i, n := range statusNames {
		if n == name {
			return Status(i), true
		}
	}
	return Idle, false
}

// Done reports whether the node finished.
func (s Status) Done() bool { return s == Success || s == Failure }
