package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"signalbox/internal/durable"
)

// Files of the box.
const (
	outboxName = "notify.json"
	lockName   = "notify.lock"
)

// outbox is what a Sender remembers: what it has noticed, and what it has not delivered.
type outbox struct {
	Box string `json:"box"`
	// Seq is the last event of the ledger that was looked at.
	Seq uint64 `json:"seq"`
	// Completed is the last event that completed a task, Moved the last one that moved a task, and
	// Spent the last one that used tokens.
	Completed uint64 `json:"completed,omitempty"`
	Moved     uint64 `json:"moved,omitempty"`
	Spent     uint64 `json:"spent,omitempty"`
	// Done and Stuck are what Completed and Moved were when the operator was last notified of that.
	Done  uint64 `json:"done,omitempty"`
	Stuck uint64 `json:"stuck,omitempty"`
	// Window is the end of the last token window that the operator was notified of.
	Window time.Time `json:"window,omitzero"`
	// Approvals are the merges that wait for approval, with the event that requested each.
	Approvals map[string]uint64 `json:"approvals,omitempty"`
	Pending   []pending         `json:"pending,omitempty"`
}

// pending is a message with the targets that have not got it.
type pending struct {
	Message Message  `json:"message"`
	Targets []string `json:"targets"`
}

// maxOutbox is more than an outbox with maxPending messages needs.
const maxOutbox = 2 * maxPending * maxBytes

// readOutbox reads the outbox of a box. One of another box, or of a ledger that was longer, does
// not count: the box was replaced by a copy. The error says why an existing file does not count.
func readOutbox(name, box string, tail uint64) (*outbox, error) {
	empty := &outbox{Box: box, Approvals: map[string]uint64{}}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return empty, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxOutbox))
	if err != nil {
		return empty, err
	}
	o := &outbox{}
	if err := json.Unmarshal(data, o); err != nil {
		return empty, fmt.Errorf("%s: %w", name, err)
	}
	if o.Box != box || o.Seq > tail {
		return empty, nil
	}
	if o.Approvals == nil {
		o.Approvals = map[string]uint64{}
	}
	return o, nil
}

func (o *outbox) write(name string) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return durable.Replace(name, data, 0o600)
}

// maxPending is how many messages are kept for targets that do not accept them. Then the oldest are
// dropped.
const maxPending = 200

// add adds a message for some targets, and reports whether that dropped an older one.
func (o *outbox) add(m Message, targets []string) (dropped bool) {
	if len(targets) == 0 {
		return false
	}
	o.Pending = append(o.Pending, pending{m, targets})
	if dropped = len(o.Pending) > maxPending; dropped {
		o.Pending = slices.Delete(o.Pending, 0, len(o.Pending)-maxPending)
	}
	return dropped
}

// next returns the oldest message for a target.
func (o *outbox) next(target string) (Message, bool) {
	for _, p := range o.Pending {
		if slices.Contains(p.Targets, target) {
			return p.Message, true
		}
	}
	return Message{}, false
}

// delivered removes a message for a target.
func (o *outbox) delivered(id, target string) {
	for i := range o.Pending {
		if o.Pending[i].Message.ID == id {
			o.Pending[i].Targets = slices.DeleteFunc(o.Pending[i].Targets,
				func(t string) bool { return t == target })
		}
	}
	o.removeEmpty()
}

// removeEmpty removes messages that no target waits for.
func (o *outbox) removeEmpty() {
	o.Pending = slices.DeleteFunc(o.Pending, func(p pending) bool { return len(p.Targets) == 0 })
}

// count returns how many messages a target has not got.
func (o *outbox) count(target string) (n int) {
	for _, p := range o.Pending {
		if slices.Contains(p.Targets, target) {
			n++
		}
	}
	return n
}
