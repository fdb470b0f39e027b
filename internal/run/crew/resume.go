package crew

import (
	"context"
	"errors"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
)

// errNotResumed means that the program could not continue its session, and a new one must be
// started.
var errNotResumed = errors.New("the agent program did not continue its session")

// resumable returns the session of the agent program that the next turn continues, "" if it starts
// a new one. The agent must be the same, and the files must be as it left them: what it remembers
// of others would be wrong. Only authors continue. Whoever judges has run what the author wrote,
// which could have changed the conversation, and starts again; the prompt has what it asked for.
func (s *session) resumable(ctx context.Context, ws *sessionWorkspace, name string,
	command agent.Command, last lastTurn) string {
	c := s.workItem().Task.Conversation
	if c == nil || !s.role.IsAuthor() || command.Resume == nil || last.again || last.noResume ||
		c.Agent != name || c.Role != s.role || !rules.IsConversation(c.ID) {
		return ""
	}
	if c.Epoch == s.epoch { // this session was parked; its folder is still the same
		if !last.parked {
			return ""
		}
		commit, err := ws.save(ctx, s.work+": changes of a parked agent")
		if err != nil || commit != c.Commit {
			return ""
		}
		return c.ID
	}
	// Only authors have a folder that stays. If signalbox was killed, it is not known what the
	// folder had then, and no one else works in it.
	if ws.commit == "" || c.Commit != "" && c.Commit != ws.commit {
		return ""
	}
	return c.ID
}

// didNotResume reports whether a program that was to continue its session failed before the agent
// did anything, and for no other known reason.
func (t *turn) didNotResume() bool {
	trouble, _ := t.trouble()
	_, limited := t.listener.rateLimit(t.listener.heard)
	return t.cause == "" && t.cap == "" && !limited && trouble == "" &&
		t.signal.Name == signalbox.NameUnknown && t.exit.Signal == "" &&
		t.exit.Code != 0 && t.head == "" && t.used.spent.Tokens == 0
}
