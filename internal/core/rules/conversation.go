package rules

import (
	"signalbox"
)

// Conversation is a session of an agent program that can be resumed.
type Conversation struct {
	Agent string         `json:"agent"`
	ID    string         `json:"id"`
	Role  signalbox.Role `json:"role"`
	// Epoch is that of the lease under which the program ran last.
	Epoch uint64 `json:"epoch"`
	// Ended means that the turn has ended without an interruption. Then only a session that is
	// parked can resume it. Commit is what the agent had saved at the end of the turn, "" if that
	// is not known, because signalbox was killed, or if it has no branch.
	Ended  bool   `json:"ended,omitempty"`
	Commit string `json:"commit,omitempty"`
}

// maxConversation bounds the id of a conversation.
const maxConversation = 128

// IsConversation reports whether an id is one that agent programs give their sessions. It becomes
// an argument of the program, so it must not look like a flag or a path.
func IsConversation(id string) bool {
	for i := range len(id) {
		c := id[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_') {
			return false
		}
	}
	return id != "" && len(id) <= maxConversation
}

// ReportConversation reports the id of the session of the agent program that runs under a lease. An
// id that no program would give is not recorded.
type ReportConversation struct {
	Session string
	Epoch   uint64
	ID      string
}

func (c ReportConversation) decide(d *decider) error {
	h, err := d.holderReport(c.Session, c.Epoch, "conversation")
	if err != nil {
		return err
	}
	known := h.w.Task.Conversation
	if !IsConversation(c.ID) || h.w.Task.Agent == "" || known != nil && known.ID == c.ID &&
		known.Epoch == c.Epoch && !known.Ended {
		d.answer.Repeated = true
		return nil
	}
	d.answer.Seq = h.note(ConversationOpened{c.Epoch, c.ID})
	return nil
}

// endConversationTurn notes how the turn of a conversation ended. That of an author who ended it
// with a result, or ran out of time once, is kept for when the work comes back.
func (t *Task) endConversationTurn(b AgentTurnEnded) {
	if t.Conversation == nil || t.Conversation.Epoch != b.Epoch {
		return
	}
	ended := *t.Conversation
	ended.Ended, ended.Commit = !b.Interrupted, b.Commit
	t.Conversation = &ended
	if !ended.Role.IsAuthor() {
		return
	}
	if t.AuthorConversation = nil; b.Continues {
		t.AuthorConversation = &ended
	}
}

// keepInterrupted keeps the conversation of an author whose turn is interrupted because the work
// goes back. What the folder has then is not known yet.
func (t *Task) keepInterrupted() {
	if c := t.Conversation; c != nil && !c.Ended && c.Role.IsAuthor() {
		t.AuthorConversation = c
	}
}

// canResume reports whether an agent may continue the session with an id.
func (t *Task) canResume(id string) bool {
	return t.Conversation != nil && t.Conversation.ID == id ||
		t.AuthorConversation != nil && t.AuthorConversation.ID == id
}

// forgetConversations makes the next agents start new sessions of their programs.
func (t *Task) forgetConversations() { t.Conversation, t.AuthorConversation = nil, nil }

// endConversationLease forgets a conversation that cannot be resumed when its lease ends, and tells
// the next author about the changes of one that was interrupted. It must be called before Parked is
// cleared.
func (t *Task) endConversationLease(role signalbox.Role) {
	switch c := t.Conversation; {
	case c == nil:
	case c.Ended && t.Parked == nil:
		t.Conversation = nil
	case !c.Ended && role.IsAuthor():
		t.Context = interruptedContext
	}
}
