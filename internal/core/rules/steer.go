package rules

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	"signalbox"
)

// Rework sends planned work back to its author, in whatever phase it is, with what the human wants.
// Whoever works on it loses the lease.
type Rework struct {
	Work string
	// Text is what the human wants, and Body the blob with it if it is long; see LongText.
	Text  string
	Body  signalbox.Hash
	Actor string
	// Reject means that the human does not approve the merge that waits for approval. Work that
	// does not wait is refused.
	Reject bool
}

func (c Rework) decide(d *decider) error {
	if err := cmp.Or(checkIDs("actor", c.Actor), checkLongText(c.Text, c.Body)); err != nil {
		return err
	}
	w, err := d.work(c.Work)
	if err != nil {
		return err
	}
	if err := c.check(d.s, w); err != nil {
		return err
	}
	d.answer.Work, d.answer.Paused = w.ID, w.Task.Paused
	d.withdrawQuestions(w, c.Actor, "")
	lease := d.liveLease(w)
	ordered := ReworkOrdered{Cause: FindingHuman, Count: len(w.Task.Corrections) + 1,
		Summary: shortenText(c.Text), Body: c.Body}
	if c.Reject {
		d.answer.Commit, ordered.Commit = w.Task.Commit, w.Task.Commit
	}
	d.answer.Seq = d.record(w.ID, "", c.Actor, ordered)
	report{decider: d, w: w, holder: holder{actor: c.Actor}}.raise(FindingHuman, w.Task.Commit,
		shortenText(c.Text))
	if lease != nil {
		d.record(w.ID, lease.Session, c.Actor, LeaseReleased{lease.Epoch, ReleasedForRework})
	}
	at := w.Phase
	if at == signalbox.PhaseBlocked {
		at = w.BlockedFrom
		d.record(w.ID, "", c.Actor, PhaseChanged{w.Phase, at})
	}
	// a draft is specified first
	if at != signalbox.PhaseDraft && at != signalbox.PhaseImplementation {
		d.record(w.ID, "", c.Actor, PhaseChanged{at, signalbox.PhaseImplementation})
		at = signalbox.PhaseImplementation
	}
	d.answer.Phase = at
	d.askTaskBudget(w, Spent{}, "", c.Actor)
	return nil
}

// ReleasedForRework is why a lease ended if the human sent the work back.
const ReleasedForRework = "rework"

// check refuses work that cannot go back to its author.
func (c Rework) check(s *State, w *Work) error {
	t := w.Task
	switch {
	case t == nil:
		return refusef(signalbox.CodeFailed,
			"work that was opened by hand goes back only if its checks fail; open new work for what is missing",
			"work '%s' does not belong to a plan", w.ID)
	case t.Kind == KindBaseline:
		return refusef(signalbox.CodeFailed, "signalbox retry "+w.ID+" runs the checks again",
			"'%s' runs the checks on the base and has no developer", w.ID)
	case t.Kind == KindExpert:
		return refusef(signalbox.CodeFailed, "signalbox tell "+w.ID+
			" gives words to the expert; signalbox rework "+t.Asker+" sends the task back",
			"'%s' is a request to an expert and has no developer", w.ID)
	case w.Phase == signalbox.PhaseCompleted:
		return refusef(signalbox.CodeFailed, "add a new task to the plan for what is missing",
			"work '%s' is completed and cannot be sent back", w.ID)
	case t.Cancelled != "" && t.Kind == KindRemediation:
		return refusef(signalbox.CodeFailed, "a new one starts when it is needed",
			"remediation '%s' is over", w.ID)
	case t.Cancelled != "":
		return refusef(signalbox.CodeFailed, "undo that first with signalbox retry "+w.ID,
			"work '%s' is cancelled (%s)", w.ID, t.Cancelled)
	case c.Reject && !s.WaitsForApproval(w):
		return refusef(signalbox.CodeFailed, "to send it back anyway: signalbox rework "+w.ID+
			" TEXT", "work '%s' is in %s and does not wait for approval", w.ID, w.Phase)
	case t.Merge != nil: // the base may have it already
		return refusef(signalbox.CodeConflict,
			"wait until a run has recorded the result; if it is merged, add a new task to the plan",
			"work '%s' is being merged", w.ID)
	}
	return nil
}

// FindingHuman is the cause of a finding with which the human sent work back.
const FindingHuman = "human"

// Message is something that the human wants to tell the next agent. Text is only its beginning if
// it has a Body.
type Message struct {
	Text  string         `json:"text"`
	Body  signalbox.Hash `json:"body,omitzero"`
	Actor string         `json:"actor"`
	Seq   uint64         `json:"seq"`
	// Role is whose agents it is for; "" means that of the next agent, whatever its role.
	Role signalbox.Role `json:"role,omitempty"`
	// Now means that an agent of the role that is at work is interrupted to read it.
	Now bool `json:"now,omitempty"`
}

// IsFor reports whether the message is for the agents of a role.
func (m Message) IsFor(role signalbox.Role) bool { return m.Role == "" || m.Role == role }

// Tell gives words of the human to the next agent of a role, or to the one at work if it listens.
// It moves nothing. Answer.Role is the role, "" if it is for the next agent of any.
type Tell struct {
	Work string
	// Role is the role that the message is for. "" means the agent that works on it now, or else
	// its author.
	Role signalbox.Role
	// Now interrupts the agent at work if it has that role: it reads the message and continues.
	Now bool
	// Text is the message, and Body the blob with it if it is long; see LongText.
	Text  string
	Body  signalbox.Hash
	Actor string
}

func (c Tell) decide(d *decider) error {
	if err := cmp.Or(checkIDs("actor", c.Actor), checkLongText(c.Text, c.Body)); err != nil {
		return err
	}
	w, err := d.work(c.Work)
	if err != nil {
		return err
	}
	switch t := w.Task; {
	case t == nil:
		return refusef(signalbox.CodeFailed, "tell whoever claims it",
			"work '%s' does not belong to a plan, so no agent gets a prompt for it", w.ID)
	case t.Kind == KindBaseline:
		return refusef(signalbox.CodeFailed, "name a task of the plan",
			"'%s' runs the checks on the base, and no agent works on it", w.ID)
	case w.Phase == signalbox.PhaseCompleted:
		return refusef(signalbox.CodeFailed, "add a new task to the plan for what is missing",
			"work '%s' is completed, so no agent works on it any more", w.ID)
	case t.Cancelled != "":
		return refusef(signalbox.CodeFailed, "undo that first with signalbox retry "+w.ID,
			"work '%s' is cancelled (%s)", w.ID, t.Cancelled)
	case t.Audited:
		return refusef(signalbox.CodeFailed, "to send it back to the developer: signalbox rework "+
			w.ID+" TEXT", "work '%s' is ready to merge, so no agent works on it any more", w.ID)
	}
	d.answer.Work, d.answer.Phase, d.answer.Lease, d.answer.Paused = w.ID, w.Phase, d.liveLease(w),
		w.Task.Paused
	if d.answer.Role, err = c.role(w.Task.Kind, d.answer.Lease); err != nil {
		return err
	}
	d.answer.Now = c.Now && d.answer.Lease != nil && d.answer.Lease.Role == d.answer.Role
	d.answer.Seq = d.record(w.ID, "", c.Actor, MessageSent{shortenText(c.Text), c.Body,
		d.answer.Role, d.answer.Now})
	return nil
}

// agentRoles are the roles whose agents work on a kind of work, its author first.
var agentRoles = map[Kind][]signalbox.Role{
	KindTask: {signalbox.RoleDeveloper, signalbox.RoleCritic, signalbox.RoleAuditor,
		signalbox.RoleBusinessAnalyst},
	KindRemediation: {signalbox.RoleRemediation, signalbox.RoleHealthAuditor},
	KindExpert:      {signalbox.RoleExpert, signalbox.RoleExpertCreator},
}

// role returns the role that the words are for.
func (c Tell) role(kind Kind, lease *signalbox.Lease) (signalbox.Role, error) {
	roles := agentRoles[kind]
	switch {
	case slices.Contains(roles, c.Role):
		return c.Role, nil
	case c.Role != "":
		return "", refusef(signalbox.CodeUsage, fmt.Sprintf("name one of %v", roles),
			"no %s works on this task", c.Role)
	case kind == KindExpert:
		return "", nil // there is one turn for each
	case lease != nil && slices.Contains(roles, lease.Role):
		return lease.Role, nil
	}
	return roles[0], nil
}

// DeliverMessages reports that the agent of a session has got messages of the human while it
// worked. Those that were in its prompt are reported with the end of its turn.
type DeliverMessages struct {
	Session string
	Epoch   uint64
	// Messages are the sequences of the messages.
	Messages []uint64
}

func (c DeliverMessages) decide(d *decider) error {
	h, err := d.holderReport(c.Session, c.Epoch, "messages")
	if err != nil {
		return err
	}
	d.answer.Seq = h.delivered(c.Messages)
	d.answer.Repeated = d.answer.Seq == 0
	return nil
}

// delivered records which messages the agent has got, and returns the sequence of the event, 0 if
// it had got all of them before.
func (h report) delivered(messages []uint64) uint64 {
	var pending []uint64
	for _, m := range h.w.Task.Messages {
		if slices.Contains(messages, m.Seq) {
			pending = append(pending, m.Seq)
		}
	}
	if len(pending) == 0 {
		return 0
	}
	return h.note(MessageDelivered{h.epoch, pending})
}

// maxLongText is the longest text of the human for an agent, in bytes: it becomes part of a prompt.
const maxLongText = 64 << 10

// LongText returns a text for an agent if it is so long that it is stored as a blob, and its
// digest. Otherwise it returns zero.
func LongText(text string) (blob []byte, digest signalbox.Hash) {
	if len(text) <= maxText || len(text) > maxLongText { // a longer one is refused
		return nil, digest
	}
	return []byte(text), sha256.Sum256([]byte(text))
}

// checkLongText refuses a text for an agent that is empty or invalid, or that is long and not
// stored as a blob.
func checkLongText(text string, body signalbox.Hash) error {
	if err := requireTextUpTo("text", text, maxLongText); err != nil {
		return err
	}
	if _, digest := LongText(text); digest != body {
		return refusef(signalbox.CodeUsage, "store it and name its digest",
			"the blob is not that of the text")
	}
	return nil
}

// shortenText returns what an event has of a text: all of it, or its beginning if it is stored as a
// blob.
func shortenText(text string) string {
	if len(text) <= maxText {
		return text
	}
	return preview(text)
}
