package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/text"
)

// Session is one agent, or signalbox itself, on one work item.
type Session struct {
	rules.SessionView
	// Turns are the runs of the agent's program. Checks and merges have none.
	Turns []Turn `json:"turns,omitempty"`
	// Usage is the sum over all turns. While one is running it has what was reported so far.
	Usage Usage `json:"usage,omitzero"`
	// Machine is the name of the machine on which it was, absent if only one could use the ledger.
	Machine string `json:"machine,omitempty"`
	// Failure is why the session failed, "" if it did not.
	Failure string `json:"failure,omitempty"`
	// Outcome is how the session ended, in words, "" if it has not ended or the ledger does not say
	// more than Ended.
	Outcome string `json:"outcome,omitempty"`
	// Merged is the merge that the session made.
	Merged *Merge `json:"merged,omitempty"`
}

// Turn is one run of an agent's program.
type Turn struct {
	Agent   string    `json:"agent"`
	Attempt int       `json:"attempt"`
	Started time.Time `json:"started"`
	// Format is the format of the output, "" in ledgers that do not have it.
	Format signalbox.Format `json:"format,omitempty"`
	// Ended is absent while the program is running, and if its process was killed.
	Ended *time.Time `json:"ended,omitempty"`
	Model string     `json:"model,omitempty"`
	Exit  int        `json:"exit"`
	// Output is the blob with the transcript, and Bytes the length of the whole output.
	Output signalbox.Hash `json:"output,omitzero"`
	Bytes  int64          `json:"bytes,omitempty"`
	Usage  Usage          `json:"usage"`
	Commit string         `json:"commit,omitempty"`
	// Interrupted means that signalbox ended the agent, because of Cap or because the run was
	// stopped, or that its service refused to serve it.
	Interrupted bool      `json:"interrupted,omitempty"`
	Cap         rules.Cap `json:"cap,omitempty"`
	// Signals are the accepted signals, and Refused the refused ones.
	Signals []Signal        `json:"signals,omitempty"`
	Refused []RefusedSignal `json:"refused,omitempty"`
	// Unknown means that the turn contained no valid signal, and the agent was asked again.
	Unknown bool `json:"unknown,omitempty"`
	// Failure is how the agent failed, "" if it did not.
	Failure string `json:"failure,omitempty"`
	// LoginRefused is what the program changed in its copy of the user's login and signalbox did
	// not copy back.
	LoginRefused []string `json:"login_refused,omitempty"`
}

// Signal is an accepted signal.
type Signal struct {
	Dialect signalbox.Dialect `json:"dialect"`
	Name    string            `json:"name"`
	// Offset is its position in the agent's own text.
	Offset int64 `json:"offset"`
}

// RefusedSignal is a signal that did not count.
type RefusedSignal struct {
	Name   string           `json:"name"`
	Reason signalbox.Reason `json:"reason"`
	Detail string           `json:"detail,omitempty"`
}

// Agent returns the name of the agent that ran last, "" if none did.
func (s *Session) Agent() string {
	if len(s.Turns) == 0 {
		return ""
	}
	return s.Turns[len(s.Turns)-1].Agent
}

// ReadSessions returns the sessions of a work item, in order.
func ReadSessions(ctx context.Context, j Journal, w *rules.Work, now time.Time) ([]Session, error) {
	sessions := []Session{}
	for i := range w.View(now).Sessions {
		s, err := ReadSession(ctx, j, w, i, now)
		if err != nil {
			return nil, err
		}
		sessions = append(sessions, s)
	}
	return sessions, nil
}

// LastAgentSession returns the index of the last session of a work item in which an agent ran, -1
// if there is none.
func LastAgentSession(w *rules.Work) int {
	for i, s := range slices.Backward(w.View(time.Now()).Sessions) {
		if RunsAgent(s.Role) {
			return i
		}
	}
	return -1
}

// AgentSessions returns in how many sessions of a work item an agent ran.
func AgentSessions(w *rules.Work) (n int) {
	for _, s := range w.View(time.Now()).Sessions {
		if RunsAgent(s.Role) {
			n++
		}
	}
	return n
}

// sessionRead is how many events are read at once.
const sessionRead = 512

// ReadSession returns the session with an index among those of a work item. It reads the events
// from the start of its lease to the end.
func ReadSession(ctx context.Context, j Journal, w *rules.Work, index int,
	now time.Time) (Session, error) {
	s := Session{SessionView: w.View(now).Sessions[index]}
	end := w.Tenures()[index].End
	for after := s.Epoch - 1; end == 0 || after < end; {
		events, err := j.Read(ctx, after, sessionRead)
		if err != nil {
			return s, err
		}
		if len(events) == 0 {
			break
		}
		for i := range events {
			if e := &events[i]; e.Work == w.ID && e.Session == s.Session &&
				(end == 0 || e.Seq <= end) {
				s.Add(e)
			}
		}
		after = events[len(events)-1].Seq
	}
	return s, nil
}

// Add adds what an event of the session says about it. An event in an unknown form adds nothing: whether
// the ledger is valid is checked elsewhere.
func (s *Session) Add(e *signalbox.Event) {
	switch e.Type {
	case rules.TypeLeaseGranted:
		s.Machine = read[rules.LeaseGranted](e).Machine
	case rules.TypeAgentStarted:
		b := read[rules.AgentStarted](e)
		s.Turns = append(s.Turns, Turn{Agent: b.Agent, Attempt: b.Attempt, Started: e.Time,
			Format: b.Format})
	case rules.TypeAgentFailed:
		b := read[rules.AgentFailed](e)
		s.Failure = b.Cause
		if b.Detail != "" {
			s.Failure += ": " + b.Detail
		}
	}
	s.addOutcome(e)
	if e.Type == rules.TypeMerged {
		b := read[rules.Merged](e)
		s.Merged = &Merge{b.Commit, b.Before, b.Tip, b.Train}
	}
	if len(s.Turns) == 0 {
		return
	}
	turn := &s.Turns[len(s.Turns)-1]
	switch e.Type {
	case rules.TypeAgentSpent:
		turn.Usage = usageOf(read[rules.AgentSpent](e).Spent)
	case rules.TypeAgentTurnEnded:
		b := read[rules.AgentTurnEnded](e)
		spent := b.Spent
		if b.Estimated {
			spent.EstimatedTokens = spent.Tokens
		}
		turn.Ended, turn.Model, turn.Exit, turn.Output, turn.Bytes, turn.Usage = &e.Time, b.Model,
			b.Exit, b.Output, b.Bytes, usageOf(spent)
		turn.Commit, turn.Interrupted, turn.Cap, turn.LoginRefused = b.Commit, b.Interrupted, b.Cap,
			b.LoginRefused
	case rules.TypeSignalHeard:
		b := read[rules.SignalHeard](e)
		turn.Signals = append(turn.Signals, Signal{b.Dialect, b.Signal, b.Offset})
	case rules.TypeSignalRefused:
		b := read[rules.SignalRefused](e)
		turn.Refused = append(turn.Refused, RefusedSignal{b.Said, b.Reason, b.Detail})
	case rules.TypeUnknownSignalRecovery:
		turn.Unknown = true
	case rules.TypeAgentFailed:
		turn.Failure = s.Failure
	}
	s.Usage = Usage{}
	for _, t := range s.Turns {
		s.Usage.Add(t.Usage)
	}
}

// addOutcome notes how the session ended. A verdict says more than why its lease was released.
func (s *Session) addOutcome(e *signalbox.Event) {
	switch e.Type {
	case rules.TypeSignalHeard:
		b := read[rules.SignalHeard](e)
		if row, known := signalbox.LineSignalNamed(b.Signal); known && !row.Urgent {
			s.Outcome = row.Text
		}
	case rules.TypeChecksRan:
		s.Outcome = checksOutcome(read[rules.ChecksRan](e))
	case rules.TypeMerged:
		if s.Outcome = "done"; read[rules.Merged](e).Commit != "" {
			s.Outcome = "merged as " + text.Truncate(read[rules.Merged](e).Commit, 7)
		}
	case rules.TypeConflictFound:
		if b := read[rules.ConflictFound](e); !RunsAgent(s.Role) && len(b.Files) > 0 {
			s.Outcome = "conflicts with the base in " + text.JoinSome(b.Files, maxNames)
		}
	case rules.TypeReworkOrdered:
		if b := read[rules.ReworkOrdered](e); s.Role == signalbox.RoleMerger && s.Outcome == "" {
			s.Outcome = "not merged: " + text.OneLine(b.Summary)
		}
	case rules.TypeSetupRan:
		if b := read[rules.SetupRan](e); !b.Passed {
			s.Outcome = "setup failed: " + b.Command
		}
	case rules.TypeAgentFailed:
		s.Outcome = "failed: " + read[rules.AgentFailed](e).Cause
	case rules.TypeAgentTurnEnded:
		if b := read[rules.AgentTurnEnded](e); b.Cap != "" {
			s.Outcome = b.Cap.Reason()
		} else if b.Interrupted {
			s.Outcome = "interrupted"
		}
	case rules.TypeLeaseReleased:
		reason := read[rules.LeaseReleased](e).Reason
		if s.Outcome == "" || reason == rules.ReleasedLimit || reason == rules.ReleasedUnavailable {
			s.Outcome = reason
		}
	}
}

// maxNames is how many names an outcome lists.
const maxNames = 5

// checksOutcome describes the results of checks.
func checksOutcome(b rules.ChecksRan) string {
	var failed []string
	for _, r := range b.Rows {
		if !r.Passed {
			failed = append(failed, fmt.Sprintf("%s on %s (exit status %d)", r.Check, r.Environment,
				r.Exit))
		}
	}
	switch {
	case len(failed) > 0:
		return fmt.Sprintf("checks failed (%d of %d): %s", len(failed), len(b.Rows),
			text.JoinSome(failed, maxNames))
	case len(b.Protected) > 0:
		return "it edited protected files: " + text.JoinSome(b.Protected, maxNames)
	case len(b.Large) > 0:
		return "large files: " + text.JoinSome(b.Large, maxNames)
	case b.Unchanged:
		return "the branch changes nothing"
	case len(b.Rows) > 0:
		return fmt.Sprintf("checks passed (%d of %d)", len(b.Rows), len(b.Rows))
	case b.Problem != "":
		return "not checked: " + b.Problem
	}
	return "no checks to run"
}

// Add adds more usage.
func (u *Usage) Add(more Usage) {
	u.Tokens, u.EstimatedTokens = u.Tokens+more.Tokens, u.EstimatedTokens+more.EstimatedTokens
	u.CostMicros, u.Seconds = u.CostMicros+more.CostMicros, u.Seconds+more.Seconds
	u.UnknownTokens, u.UnknownCost = u.UnknownTokens+more.UnknownTokens,
		u.UnknownCost+more.UnknownCost
}

// read returns the data of an event.
func read[B any](e *signalbox.Event) (b B) {
	json.Unmarshal(e.Data, &b)
	return b
}
