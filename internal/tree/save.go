package tree

import (
	"encoding/json"
	"errors"
	"fmt"

	"signalbox/internal/tree/blackboard"
)

// saved is all that a run remembers between two ticks.
type saved struct {
	Format int               `json:"format"`
	Shape  string            `json:"shape"`
	Run    string            `json:"run"`
	Ticks  int               `json:"ticks"`
	Step   uint64            `json:"step"`
	Now    int64             `json:"now"`
	Wake   int64             `json:"wake"`
	Status Status            `json:"status"`
	Topics map[string]int    `json:"topics,omitempty"`
	Emits  int               `json:"emits"`
	Nodes  [][7]int64        `json:"nodes"`
	Values []json.RawMessage `json:"values"`
	Hidden json.RawMessage   `json:"hidden"`

	Lists    map[int32]json.RawMessage `json:"lists,omitempty"`
	Payloads map[int32]json.RawMessage `json:"payloads,omitempty"`
	Errors   map[int32]string          `json:"errors,omitempty"`
}

// Save writes all that the run remembers. It is for between two ticks, and results that were handed in and not yet
// ticked are not in it: their jobs are running still.
func (r *Run) Save() []byte {
	s := saved{Format: HeaderFormat, Shape: r.tree.Shape(), Run: r.id, Ticks: r.ticks, Step: r.step, Now: r.now, Wake: r.wake, Status: r.status,
		Emits: r.emits, Topics: r.topics, Lists: map[int32]json.RawMessage{}, Payloads: map[int32]json.RawMessage{}, Errors: r.errs}
	for _, n := range r.state {
		s.Nodes = append(s.Nodes, [7]int64{int64(n.status), int64(n.visits), int64(n.cursor), int64(n.count), int64(n.entered), int64(n.visited), n.at})
	}
	s.Values, s.Hidden = r.board.Save()
	for i, list := range r.lists {
		s.Lists[i] = blackboard.Append(nil, list)
	}
	for i, payload := range r.payloads {
		s.Payloads[i] = blackboard.Append(nil, payload)
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // all of it was made here
	}
	return text
}

// ErrOtherTree is a saved run, or a journal, of another tree than the one it is to go on with.
var ErrOtherTree = errors.New("it is of another tree, or of another version of this one")

// Restore returns a run as it was saved. The jobs that were running must be started anew: see Pending.
func Restore(t *Tree, text []byte, o *RunOptions) (*Run, error) {
	var s saved
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("the saved run cannot be read: %w", err)
	}
	begun := *o
	begun.Inputs, begun.Globals = nil, nil // what became of them is in the values
	r, err := NewRun(t, &begun)
	if err != nil {
		return nil, err
	}
	if s.Format != HeaderFormat || s.Shape != t.Shape() || len(s.Nodes) != len(r.state) || len(s.Values) != t.layout.Len() {
		return nil, ErrOtherTree
	}
	r.id, r.ticks, r.step, r.now, r.wake, r.status, r.emits = s.Run, s.Ticks, s.Step, s.Now, s.Wake, s.Status, s.Emits
	if s.Topics != nil {
		r.topics = s.Topics
	}
	for i, n := range s.Nodes {
		_, failed := s.Errors[int32(i)]
		r.state[i] = state{Status(n[0]), failed, uint32(n[1]), int32(n[2]), int32(n[3]), uint64(n[4]), uint64(n[5]), n[6]}
		if !r.plausible(int32(i)) {
			return nil, fmt.Errorf("the saved run cannot be read: node %d cannot be where it is", i)
		}
	}
	if s.Errors != nil {
		r.errs = s.Errors
	}
	if err := r.restoreValues(&s); err != nil {
		return nil, err
	}
	return r, nil
}

// plausible reports whether a node can go on from where it is: at a child, or at an item.
func (r *Run) plausible(i int32) bool {
	s := &r.state[i]
	switch r.nodes[i].kind {
	case Sequence, Selector:
		return s.status != Running || s.cursor > i && s.cursor < r.nodes[i].end && r.tree.meta[s.cursor].parent == i
	case ForEach:
		return s.status <= Running && s.cursor >= 0
	}
	return s.status <= Running
}

func (r *Run) restoreValues(s *saved) error {
	failed := r.board.Restore(s.Values, s.Hidden)
	value := func(text json.RawMessage) any {
		v, err := ParseValue(string(text))
		if err != nil {
			failed = err
		}
		return v
	}
	for i, text := range s.Lists {
		r.lists[i], _ = value(text).([]any)
	}
	for i, text := range s.Payloads {
		r.payloads[i] = value(text)
	}
	if failed != nil {
		return fmt.Errorf("the saved run cannot be read: %w", failed)
	}
	return nil
}

// UnmarshalText reads what MarshalText wrote.
func (s *Status) UnmarshalText(text []byte) error {
	parsed, ok := ParseStatus(string(text))
	if !ok {
		return fmt.Errorf("there is no status %q", text)
	}
	*s = parsed
	return nil
}
