package tree

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Func is what an action or a condition does. It is done within the tick: it must be brief, and may be called again
// with the same run and tick if the process was killed before the tick was recorded. A condition that answers
// Running, and a function that panics, is a failure with the error recorded.
type Func func(*Call) Status

// Job is what a leaf does that takes time, in a goroutine of its own. It must return soon after its context ended.
// It may be started again with the same Request.Key if the process was killed before its end was recorded; and with a
// context that has ended already, if the tree has left it: then it only ends what an earlier start may have left running.
type Job func(ctx context.Context, r Request) Result

// Request is what a job is to do.
type Request struct {
	// Key is the same for every start of the same work, also in another process, and differs for any other.
	Key  string
	Path string
	Kind Kind
	Name string
	// Payload is what Leaf.Prepare returned, as JSON would give it back.
	Payload any
}

// Result is how a job ended. Status is Success or Failure; Err, if set, is recorded. Writes go to the blackboard,
// as from the leaf itself, in the order of their keys.
type Result struct {
	Status Status
	Err    string
	Writes map[string]any
}

// Param is an argument that a function takes.
type Param struct {
	Name string
	Type Type
	// Default nil: there is none. Required: the argument must be given.
	Default  any
	Required bool
}

// Leaf is what stands behind a name: either Do, or a Job. Prepare, within the tick that begins the job, says what it is
// to do; nil: the payload is the arguments. Finish, within the tick that takes its result, writes what it brought and
// answers; nil: Result.Writes are written and Result.Status is the answer.
type Leaf struct {
	// Params nil: any arguments are taken.
	Params  []Param
	Do      Func
	Prepare func(*Call) (any, error)
	Job     Job
	Finish  func(*Call, Result) Status
}

// Registry holds leaves by kind and name. The zero Registry is empty. Fill it before it is used.
type Registry struct {
	leaves map[leafName]Leaf
	topics []string
}

type leafName struct {
	kind Kind
	name string
}

// Add registers a leaf for an Action, a Condition, a Tool, or, with an empty name, an LLMCall. It replaces one of the
// same kind and name.
func (r *Registry) Add(kind Kind, name string, leaf Leaf) {
	if r.leaves == nil {
		r.leaves = map[leafName]Leaf{}
	}
	r.leaves[leafName{kind, name}] = leaf
}

// Reserve keeps a topic for the registered functions: others must not publish under it, since somebody acts on what
// is published there.
func (r *Registry) Reserve(topic string) { r.topics = append(r.topics, topic) }

// Reserved reports whether a topic is for registered functions only.
func (r *Registry) Reserved(topic string) bool { return r != nil && slices.Contains(r.topics, topic) }

// Find returns the leaf of a name, or of its last element when it is dotted.
func (r *Registry) Find(kind Kind, name string) (Leaf, bool) {
	if r == nil {
		return Leaf{}, false
	}
	if leaf, ok := r.leaves[leafName{kind, name}]; ok {
		return leaf, true
	}
	leaf, ok := r.leaves[leafName{kind, last(name)}]
	return leaf, ok
}

// last returns the last element of a dotted name.
func last(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

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

// Ask calls an action or condition on behalf of another leaf, with the arguments checked and defaults filled in. It is
// an error if there is none of that kind and name, if it takes time, or if an argument is wrong.
func (r *Registry) Ask(c *Call, kind Kind, name string, args map[string]any) (Status, error) {
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
