package mcpserver

import (
	"context"
	"fmt"
	"time"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/box"
	"signalbox/internal/rules"
)

// Caps of the lists in snapshots.
const (
	maxListed = 10 // work items
	maxFew    = 5  // everything else
	maxTitle  = 80 // characters of a title or a summary
)

// statusSnapshot is how the whole box stands.
type statusSnapshot struct {
	head
	Box       string         `json:"box" jsonschema:"the id of the box"`
	Session   *string        `json:"session" jsonschema:"the session that this server acts for; null if it acts for an operator"`
	Standing  rules.Standing `json:"standing" jsonschema:"how the plan stands: empty, working, asking, limited, paused, stuck or complete"`
	Events    uint64         `json:"events" jsonschema:"the length of the ledger"`
	Work      int            `json:"work" jsonschema:"how many work items there are"`
	Held      int            `json:"held" jsonschema:"how many of them somebody holds"`
	Claimable int            `json:"claimable" jsonschema:"how many of them can be claimed"`
	Tasks     int            `json:"tasks" jsonschema:"how many tasks the plan has"`
	Completed int            `json:"completed" jsonschema:"how many of them are completed"`
	Phases    phaseCounts    `json:"phases" jsonschema:"how many work items are in each phase"`
	Mine      list[heldWork] `json:"mine" jsonschema:"what the server's own session holds"`
	Questions int            `json:"open_questions" jsonschema:"how many questions wait for the human"`
	Approvals int            `json:"approvals" jsonschema:"how many merges wait for the human's yes"`
	Waiting   list[string]   `json:"waiting_for" jsonschema:"what is waited for when nothing can go on; at most 5"`
}

// phaseCounts is a number for each phase, whether there is work in it or not.
type phaseCounts struct {
	Draft          int `json:"DRAFT"`
	Implementation int `json:"IMPLEMENTATION"`
	CIPending      int `json:"CI_PENDING"`
	ReadyForReview int `json:"READY_FOR_REVIEW"`
	Review         int `json:"REVIEW"`
	ReadyForMerge  int `json:"READY_FOR_MERGE"`
	Completed      int `json:"COMPLETED"`
	Blocked        int `json:"BLOCKED"`
}

func (c *phaseCounts) count(phase signalbox.Phase) {
	switch phase {
	case signalbox.PhaseDraft:
		c.Draft++
	case signalbox.PhaseImplementation:
		c.Implementation++
	case signalbox.PhaseCIPending:
		c.CIPending++
	case signalbox.PhaseReadyForReview:
		c.ReadyForReview++
	case signalbox.PhaseReview:
		c.Review++
	case signalbox.PhaseReadyForMerge:
		c.ReadyForMerge++
	case signalbox.PhaseCompleted:
		c.Completed++
	case signalbox.PhaseBlocked:
		c.Blocked++
	}
}

// heldWork is work that a session holds.
type heldWork struct {
	Work    string          `json:"work"`
	Phase   signalbox.Phase `json:"phase"`
	Epoch   uint64          `json:"epoch"`
	Expires time.Time       `json:"expires"`
}

func (s *statusSnapshot) flags() (flags []brief.Flag) {
	if s.Problem != nil {
		return nil
	}
	if s.Questions > 0 {
		flags = append(flags, brief.Flag{Flag: "human_needed", Severity: brief.Warning,
			Message: fmt.Sprintf("%d question%s for the human", s.Questions, brief.Plural(s.Questions))})
	}
	if s.Approvals > 0 {
		flags = append(flags, brief.Flag{Flag: "approval_needed", Severity: brief.Warning,
			Message: fmt.Sprintf("%d merge%s for the human's yes", s.Approvals, brief.Plural(s.Approvals))})
	}
	switch {
	case s.Standing == rules.StandingStuck:
		flags = append(flags, brief.Flag{Flag: "stuck", Severity: brief.Warning, Message: "Nothing runs, and nothing can start"})
	case s.Standing == rules.StandingPaused:
		flags = append(flags, brief.Flag{Flag: "paused", Severity: brief.Info, Message: "Nothing is dispatched, by order"})
	case s.Standing == rules.StandingComplete:
		flags = append(flags, brief.Flag{Flag: "plan_complete", Severity: brief.Success, Message: "Every task of the plan is completed"})
	}
	if s.Claimable > 0 {
		flags = append(flags, brief.Flag{Flag: "work_available", Severity: brief.Info,
			Message: fmt.Sprintf("%d work item%s can be claimed", s.Claimable, brief.Plural(s.Claimable))})
	}
	return flags
}

func (s *Server) addStatus() {
	add(s, definition{
		name: "get_status", title: "Status of the box", reads: true,
		description: "How the box stands and what to do next: work by phase, what can be claimed, what this session holds, what waits for the human. Ask it first.",
		input:       object(),
	}, func(ctx context.Context, _ struct{}) (status statusSnapshot, _ *attachment, err error) {
		now := s.opts.Now()
		err = s.view(ctx, func(b *box.Box, state *rules.State) { status = s.status(b, state, now) })
		return status, nil, err
	})
}

func (s *Server) status(b *box.Box, state *rules.State, now time.Time) statusSnapshot {
	run := state.Status(now)
	status := statusSnapshot{Box: b.ID(), Standing: run.Standing, Events: state.Seq(), Tasks: run.Tasks, Completed: run.Completed,
		Questions: len(run.Questions), Approvals: len(run.Approvals)}
	if s.opts.Session != "" {
		status.Session = &s.opts.Session
	}
	for w := range state.Works() {
		status.Work++
		status.Phases.count(w.Phase)
		lease := liveLease(w, now)
		switch {
		case lease == nil && claimable(state, w, now) != "":
			status.Claimable++
		case lease != nil:
			status.Held++
			if lease.Session == s.opts.Session && len(status.Mine) < maxFew {
				status.Mine = append(status.Mine, heldWork{w.ID, w.Phase, lease.Epoch, lease.Expires.UTC()})
			}
		}
	}
	for _, reason := range run.Reasons[:min(len(run.Reasons), maxFew)] {
		status.Waiting = append(status.Waiting, line(reason, 2*maxTitle))
	}
	status.Verdict = status.verdict()
	return status
}

// verdict says what whoever asks should do.
func (s *statusSnapshot) verdict() string {
	switch {
	case len(s.Mine) > 0:
		m := s.Mine[0]
		return fmt.Sprintf("You hold %s in %s under epoch %d until %s: finish it, renew the lease in time, then hand in how it ended",
			m.Work, m.Phase, m.Epoch, m.Expires.Format(time.RFC3339))
	case s.Session != nil:
		return fmt.Sprintf("Session %s holds no work: stop, whatever it says now moves nothing", *s.Session)
	case s.Claimable > 0:
		return fmt.Sprintf("%d of %d work items can be claimed: call claim_work with your role", s.Claimable, s.Work)
	case s.Questions > 0 || s.Approvals > 0:
		return "Nothing can be claimed before the human answers: wait"
	case s.Work == 0:
		return "There is no work yet: add some with open_work, or run a plan"
	case s.Held > 0:
		return fmt.Sprintf("Nothing can be claimed now, %d held by others: try again later", s.Held)
	case s.Phases.Completed == s.Work:
		return "All work is completed: nothing is to be done"
	}
	return "Nothing can be claimed now: see what it waits for"
}

// liveLease is the lease of work while it lives: one that ran out is not the holder's any more, also before the ledger says so.
func liveLease(w *rules.Work, now time.Time) *signalbox.Lease {
	if w.Lease != nil && now.Before(w.Lease.Expires) {
		return w.Lease
	}
	return nil
}

// claimable is the role that may claim work that nobody holds, "" if nobody may now. What the rules say to a claim stands; this is
// what a list can tell without trying.
func claimable(state *rules.State, w *rules.Work, now time.Time) signalbox.Role {
	if w.Task == nil {
		return w.Phase.ClaimableBy()
	}
	answer := rules.Decide(state, now, rules.Claim{Work: w.ID, Role: w.Phase.ClaimableBy(), Session: "mcp-looks", Actor: "mcp", Lease: "mcp-looks"})
	if answer.Err != nil {
		return ""
	}
	return w.Phase.ClaimableBy()
}
