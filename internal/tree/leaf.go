package tree

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Func is the function of an action or a condition. It runs within the tick, so it must be brief.
// It may be called again in the same run and tick if the process was killed before the tick was
// recorded. If it panics, or if a condition answers Running, the leaf fails and the error is
// recorded.
type Func func(*Call) Status

// Job is the function of a leaf that takes time. It runs in its own goroutine, and must return soon
// after ctx is done. It may be started again with the same Request.Key if the process was killed
// before its result was recorded. If the tree has halted the leaf in the meantime, ctx is already
// done: the job then only stops what an earlier start may have left running.
type Job func(ctx context.Context, r Request) Result

// Request is the work of a job.
type Request struct {
	// Key identifies the work. It is the same each time that the work is started, also in another
	// process.
	Key  string
	Path string
	Kind Kind
	Name string
	// Payload is the result of Leaf.Prepare, with the types that decoding it from JSON gives.
	Payload any
}

// Result is the result of a job. Status is Success or Failure. Err, if not empty, is recorded.
// Writes are written to the blackboard as if by the leaf, in the order of their keys.
type Result struct {
	Status Status
	Err    string
	Writes map[string]any
}

// Param declares an argument of a function.
type Param struct {
	Name string
	Type Type
	// Default is the value of an argument that is not given; nil means none.
	Default  any
	Required bool
}

// Leaf is a registered function or job. Exactly one of Do and Job is set.
type Leaf struct {
	// Params declares the arguments; nil means that any are accepted.
	Params []Param
	Do     Func
	Job    Job
	// Prepare returns the payload of the job. It is called within the tick that starts the job. If
	// it is nil, the payload is the arguments.
	Prepare func(*Call) (any, error)
	// Finish handles the result of the job and returns the answer of the leaf. It is called within
	// the tick that takes the result. If it is nil, Result.Writes are written and Result.Status is
	// the answer.
	Finish func(*Call, Result) Status
}

// Registry holds leaves by kind and name. The zero Registry is empty. It must not be changed once
// it is in use.
type Registry struct {
	leaves map[leafName]Leaf
	topics []string
}

type leafName struct {
	kind Kind
	name string
}

// Add registers a leaf for an Action, a Condition, a Tool, or, with an empty name, an LLMCall. It
// replaces a leaf of the same kind and name.
func (r *Registry) Add(kind Kind, name string, leaf Leaf) {
	if r.leaves == nil {
		r.leaves = map[leafName]Leaf{}
	}
	r.leaves[leafName{kind, name}] = leaf
}

// Clone returns a copy that can be changed. The clone of nil is empty.
func (r *Registry) Clone() *Registry {
	if r == nil {
		return &Registry{}
	}
	return &Registry{leaves: maps.Clone(r.leaves), topics: slices.Clone(r.topics)}
}

// Reserve reserves a topic for registered functions. Other functions must not publish under it,
// because observers act on its values.
func (r *Registry) Reserve(topic string) { r.topics = append(r.topics, topic) }

// Reserved reports whether a topic is reserved for registered functions.
func (r *Registry) Reserved(
	topic string) bool {
	return r != nil && slices.Contains(r.topics, topic)
}

// Find returns the leaf with a name, or with the last element of a dotted name.
func (r *Registry) Find(kind Kind, name string) (Leaf, bool) {
	if r == nil {
		return Leaf{}, false
	}
	if leaf, ok := r.leaves[leafName{kind, name}]; ok {
		return leaf, true
	}
	leaf, ok := r.leaves[leafName{kind, lastElement(name)}]
	return leaf, ok
}

// lastElement returns the last element of a dotted name.
func lastElement(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// Names returns the names registered for a kind, sorted.
func (r *Registry) Names(kind Kind) []string {
	var names []string
	if r != nil {
		for n := range maps.Keys(r.leaves) {
			if n.kind == kind {
				names = append(names, n.name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// Invoke calls an action or condition for another leaf. It checks the arguments and adds defaults.
// It returns an error if no such function exists, if it is a job, or if an argument is wrong.
func (r *Registry) Invoke(c *Call, kind Kind, name string, args map[string]any) (Status, error) {
	l, ok := r.Find(kind, name)
	if !ok || l.Do == nil {
		return Failure, fmt.Errorf("there is no %s '%s' that can be called", kind, name)
	}
	check := &compiler{}
	given := check.arguments(&Node{Kind: kind, Fn: name, Args: args}, l.Params)
	if len(check.faults) > 0 {
		return Failure, errors.New(check.faults[0].Msg)
	}
	outer := c.args
	c.args = given
	defer func() { c.args = outer }()
	return l.Do(c), nil
}
