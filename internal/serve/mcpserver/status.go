package mcpserver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/serve/mcpserver/schema"
	"signalbox/internal/text"
)

// Limits of the lists in snapshots.
const (
	maxListed = 10 // work items
	maxShort  = 5  // other lists
	maxTitle  = 80 // characters of a title or a summary
)

// statusSnapshot is the status of the box.
type statusSnapshot struct {
	head
	Box       string                `json:"box"`
	Client    string                `json:"client" jsonschema:"your name"`
	Roles     schema.List[string]   `json:"roles" jsonschema:"yours"`
	Session   *string               `json:"session" jsonschema:"the server's own or the given one"`
	Standing  rules.Standing        `json:"standing" jsonschema:"empty, by_hand (work and no plan), working, asking, limited, paused, stuck, complete"`
	Events    uint64                `json:"events"`
	Work      int                   `json:"work" jsonschema:"work items"`
	ByHand    int                   `json:"by_hand" jsonschema:"not in a plan, not completed"`
	Held      int                   `json:"held"`
	Claimable int                   `json:"claimable" jsonschema:"by you"`
	Tasks     int                   `json:"tasks" jsonschema:"of the plan"`
	Completed int                   `json:"completed" jsonschema:"of these tasks"`
	Phases    phaseCounts           `json:"phases"`
	Mine      schema.List[heldWork] `json:"mine" jsonschema:"what you hold"`
	Exits     bool                  `json:"exit_enabled" jsonschema:"submit_exit works"`
	Questions int                   `json:"open_questions"`
	Approvals int                   `json:"approvals"`
	Waiting   schema.List[string]   `json:"waiting_for"`
}

// phaseCounts has the number of work items in each phase.
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

// heldWork is a work item that a session holds.
type heldWork struct {
	Work    string          `json:"work"`
	Phase   signalbox.Phase `json:"phase"`
	Session string          `json:"session"`
	Epoch   uint64          `json:"epoch"`
	Expires time.Time       `json:"expires"`
	Planned bool            `json:"planned"`
}

func (s *statusSnapshot) flags() (flags []brief.Flag) {
	if s.Problem != nil {
		return nil
	}
	if s.Questions > 0 {
		flags = append(flags, brief.Flag{Flag: "human_needed", Severity: brief.Warning,
			Message: fmt.Sprintf("%d question%s for the human", s.Questions,
				text.Plural(s.Questions))})
	}
	if s.Approvals > 0 {
		flags = append(flags, brief.Flag{Flag: "approval_needed", Severity: brief.Warning,
			Message: fmt.Sprintf("%d merge%s for the human to approve", s.Approvals,
				text.Plural(s.Approvals))})
	}
	switch {
	case s.Standing == rules.StandingStuck:
		flags = append(flags, brief.Flag{Flag: "stuck", Severity: brief.Warning,
			Message: "Nothing is running and nothing can start"})
	case s.Standing == rules.StandingPaused:
		flags = append(flags, brief.Flag{Flag: "paused", Severity: brief.Info,
			Message: "The run is paused: no work is dispatched"})
	case s.Standing == rules.StandingComplete:
		flags = append(flags, brief.Flag{Flag: "plan_complete", Severity: brief.Success,
			Message: "Every task of the plan is completed"})
	}
	if s.Standing == inspect.StandingByHand {
		flags = append(flags, brief.Flag{Flag: "by_hand", Severity: brief.Info,
			Message: fmt.Sprintf("%d work item%s opened by hand, and no plan", s.Work,
				text.Plural(s.Work))})
	}
	if !s.Exits && s.hasWorkByHand() {
		flags = append(flags, exitWarning())
	}
	if s.Claimable > 0 {
		flags = append(flags, brief.Flag{Flag: "work_available", Severity: brief.Info,
			Message: fmt.Sprintf("%d work item%s can be claimed", s.Claimable,
				text.Plural(s.Claimable))})
	}
	return flags
}

// hasWorkByHand reports whether the caller holds work outside a plan or could claim some. A named
// session has only what it holds.
func (s *statusSnapshot) hasWorkByHand() bool {
	byHand := slices.ContainsFunc(s.Mine, func(m heldWork) bool { return !m.Planned })
	return byHand || s.Session == nil && s.ByHand > 0
}

type statusInput struct {
	Session string `json:"session"`
}

func (s *Server) addStatus() {
	add(s, definition{
		name: "get_status", title: "Status of the box", readOnly: true,
		description: "Returns the status of the box and what to do next: what can be claimed, what you hold, what waits for the human. Call it first.",
		input:       schema.Object(callerSessionArgument()),
	}, func(ctx context.Context,
		in statusInput) (status statusSnapshot, err error) {
		caller, err := s.callerSessions(ctx, in.Session)
		if err != nil {
			return status, err
		}
		now, unknown := s.opts.Now(), error(nil)
		err = s.view(ctx, func(b *box.Box, state *rules.State) {
			if unknown = caller.check(s, state); unknown == nil {
				status = s.status(b, state, clientFrom(ctx), caller, now)
			}
		})
		return status, cmp.Or(err, unknown)
	})
}

func (s *Server) status(b *box.Box, state *rules.State, client Client, caller callerSessions,
	now time.Time) statusSnapshot {
	run := inspect.NewStatus(state, now)
	status := statusSnapshot{Box: b.ID(), Standing: run.Standing, Events: run.Events,
		Tasks: run.Counts.Tasks, Completed: run.Counts.Completed,
		Exits: s.exitEnabled(), Client: client.Name}
	status.Questions, status.Approvals = run.Waiting()
	for _, role := range client.Roles {
		status.Roles = append(status.Roles, string(role))
	}
	if caller.named != "" {
		status.Session = &caller.named
	}
	if s.opts.Work != "" {
		status.limit(state, s.opts.Work)
		run.Reasons = nil // they name other work
	}
	more := 0
	for w := range state.Works() {
		if !s.shows(w) {
			continue
		}
		status.Work++
		status.Phases.count(w.Phase)
		if w.Task == nil && !w.Done() {
			status.ByHand++
		}
		lease := w.LiveLease(now)
		switch {
		case lease == nil && client.mayClaim(b, state, w, now):
			status.Claimable++
		case lease != nil:
			status.Held++
			if !caller.owns(lease.Session) {
				continue
			}
			if len(status.Mine) == maxShort {
				more++
				continue
			}
			status.Mine = append(status.Mine, heldWork{w.ID, w.Phase, lease.Session, lease.Epoch,
				lease.Expires.UTC(), w.Task != nil})
		}
	}
	for _, reason := range run.Reasons[:min(len(run.Reasons), maxShort)] {
		status.Waiting = append(status.Waiting, oneLine(reason, 2*maxTitle))
	}
	status.Verdict = s.statusVerdict(&status, more)
	return status
}

// limit removes what the status says about other work.
func (s *statusSnapshot) limit(state *rules.State, work string) {
	s.Events, s.Tasks, s.Completed, s.Questions, s.Approvals = 0, 0, 0, 0, 0
	for _, q := range state.Questions() {
		if q.Work == work && q.Open() {
			s.Questions++
		}
	}
}

// statusVerdict says what the caller should do. more is how many held work items are not listed.
func (s *Server) statusVerdict(status *statusSnapshot, more int) string {
	if len(status.Mine) == 0 {
		return status.verdict()
	}
	m, others := slices.MinFunc(status.Mine,
		func(a, b heldWork) int { return a.Expires.Compare(b.Expires) }), ""
	if more += len(status.Mine) - 1; more > 0 {
		others = fmt.Sprintf(", and %d more", more)
	}
	return fmt.Sprintf("You hold %s in %s as session %s under epoch %d until %s%s: work on it, %s",
		m.Work, m.Phase, m.Session, m.Epoch, m.Expires.Format(time.RFC3339), others,
		s.howToEnd(m.Planned))
}

// verdict is the verdict for a caller that holds nothing.
func (s *statusSnapshot) verdict() string {
	switch {
	case s.Session != nil:
		return fmt.Sprintf("Session %s holds no work: stop, its signals have no effect", *s.Session)
	case s.Claimable > 0:
		return fmt.Sprintf("%d of %d work items can be claimed: call claim_work with your role (%s)", s.Claimable, s.Work, strings.Join(s.Roles, ", "))
	case s.Questions > 0 || s.Approvals > 0:
		return "Nothing can be claimed until the human answers: wait"
	case s.Work == 0:
		return "There is no work yet: add some with open_work, or run a plan"
	case s.Held > 0:
		return fmt.Sprintf("Nothing can be claimed now, %d held by others: try again later", s.Held)
	case s.Phases.Completed == s.Work:
		return "All work is completed: there is nothing to do"
	}
	return fmt.Sprintf("Nothing can be claimed now as %s: waiting_for says why",
		strings.Join(s.Roles, ", "))
}

// claimable returns the role that may claim work that is not held, or "" if it cannot be claimed
// now. It is for lists: the rules decide about an actual claim.
func claimable(state *rules.State, w *rules.Work, now time.Time) signalbox.Role {
	if w.Task == nil {
		return w.Phase.ClaimableBy()
	}
	answer := rules.Decide(state, now, rules.Claim{Work: w.ID, Role: w.Phase.ClaimableBy(),
		Session: "mcp-looks", Actor: "mcp", Lease: "mcp-looks"})
	if answer.Err != nil {
		return ""
	}
	return w.Phase.ClaimableBy()
}
