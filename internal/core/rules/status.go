package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox"
)

// Standing is the overall condition of a run.
type Standing string

const (
	StandingEmpty   Standing = "empty"   // no plan was loaded
	StandingWorking Standing = "working" // something runs or can start
	StandingAsking  Standing = "asking"  // nothing can continue without an answer or approval
	// nothing can continue before a rate limit, a pause of an agent or a token window ends
	StandingLimited  Standing = "limited"
	StandingWaiting  Standing = "waiting"  // nothing can continue before a pull request is merged
	StandingPaused   Standing = "paused"   // paused by the operator
	StandingStuck    Standing = "stuck"    // nothing runs, and nothing can start
	StandingComplete Standing = "complete" // every task is completed
)

// Status is the condition of a run, and the reasons for it.
type Status struct {
	Standing  Standing
	Tasks     int
	Completed int
	// Running is the number of leases.
	Running   int
	Questions []string
	Approvals []string
	// Reasons say what each unfinished task waits for, if nothing can continue.
	Reasons []string
	// RunCancelled means that the operator cancelled the whole run, and RunPaused that the whole
	// run, or one of its roles, is paused.
	RunCancelled bool
	RunPaused    bool
	// Paused are the unfinished tasks that are paused.
	Paused []string
	// Wake is when the rate limit, the pause or the token window ends that the run waits for; zero
	// if it waits for none. Window means that it is the token window, and Outage is the agent whose
	// server did not answer and that is tried again then.
	Wake   time.Time
	Window bool
	Outage string
}

// Status returns the status of the whole run.
func (s *State) Status(now time.Time) Status {
	var st Status
	for _, w := range s.works {
		if w.Task == nil {
			continue
		}
		if w.Lease != nil {
			st.Running++
		}
		if w.Task.Paused && !w.Done() {
			st.Paused = append(st.Paused, w.ID)
		}
		if w.Task.Kind == KindTask && w.Task.Cancelled == "" && s.InPlan(w) {
			st.Tasks++
			if w.Phase == signalbox.PhaseCompleted {
				st.Completed++
			}
		}
	}
	st.Approvals = s.Approvals()
	for _, q := range s.run.Questions {
		if q.Open() {
			st.Questions = append(st.Questions, q.ID)
		}
	}
	st.RunCancelled = s.run.Cancelled != ""
	st.RunPaused = s.run.Paused ||
		slices.ContainsFunc(s.run.Roles, func(r RoleSpent) bool { return r.Paused })
	st.Standing = s.standing(&st, now)
	if st.Standing != StandingWorking && st.Standing != StandingComplete {
		st.Reasons = s.reasons()
	}
	return st
}

func (s *State) standing(st *Status, now time.Time) Standing {
	next, _ := s.next(dispatchOrder[:], 0, now)
	wake, limited := s.NextWake(now)
	switch {
	case s.run.Plan == signalbox.Hash{}:
		return StandingEmpty
	case st.Completed == st.Tasks && st.Tasks > 0 && st.Running == 0:
		return StandingComplete
	case s.run.Cancelled != "" && st.Running == 0:
		return StandingStuck
	case st.Running > 0 || next != nil || s.run.Loading || s.delaysChecks():
		return StandingWorking
	case limited && s.anyLimited(now):
		s.setWake(st, wake, now)
		return StandingLimited
	case len(st.Questions) > 0 || len(st.Approvals) > 0:
		return StandingAsking
	case st.RunPaused || len(st.Paused) > 0:
		return StandingPaused
	case len(s.Requests()) > 0:
		return StandingWaiting
	case limited:
		s.setWake(st, wake, now)
		return StandingLimited
	}
	return StandingStuck
}

func (s *delivery) setWake(st *Status, wake, now time.Time) {
	st.Wake, st.Window = wake, wake.Equal(s.WindowEnd(now))
	for _, a := range s.run.Agents {
		if !st.Window && a.Down != "" && a.Until.Equal(wake) {
			st.Outage = a.Agent
			return
		}
	}
}

// anyLimited reports whether something could be dispatched if there were no rate limit, no pause of
// an agent and no token window.
func (s *State) anyLimited(now time.Time) bool {
	full := !s.WindowEnd(now).IsZero()
	for n, role := range dispatchOrder {
		if s.ready[n].first() < 0 || s.run.Policy == nil {
			continue
		}
		if full && isAgent(role) {
			return true
		}
		for i := range s.ready[n].all() {
			if s.waitsForLimit(role, s.works[i], now) {
				return true
			}
			if s.sameAgents(role) {
				break
			}
		}
	}
	return false
}

// ResumeCommand returns the command that ends the pause, "" if nothing is paused.
func (st *Status) ResumeCommand() string {
	switch {
	case st.RunPaused:
		return "signalbox resume"
	case len(st.Paused) == 1:
		return "signalbox resume " + st.Paused[0]
	case len(st.Paused) > 1:
		return "signalbox resume TASK"
	}
	return ""
}

// WaitsForApproval reports whether a task is ready to merge but for the approval that the policy
// demands.
func (s *delivery) WaitsForApproval(w *Work) bool {
	return s.NeedsApproval(w) && w.Task.Audited && !w.Task.Approved &&
		w.Phase == signalbox.PhaseReadyForMerge && w.Task.Cancelled == ""
}

// NeedsApproval reports whether the policy demands that a human approves the merge of a task: of
// every task, or of this one because it changes what steers agents. Those who judged it were not
// steered by that, but all who come after the merge are.
func (s *delivery) NeedsApproval(w *Work) bool {
	p := s.run.Policy
	return p != nil && w.Task != nil && (p.ApproveMerge || len(w.Task.Steering) > 0 &&
		!p.TrustSteering)
}

// reasons returns what the run waits for, and what each unfinished task waits for. If all
// unfinished tasks are cancelled, it returns why.
func (s *State) reasons() []string {
	var reasons, cancelled, waiting []string
	switch {
	case s.run.Plan == signalbox.Hash{}:
		reasons = append(reasons, "no plan was loaded")
	case s.run.Cancelled != "":
		return []string{"the run is cancelled (" + s.run.Cancelled + ")"}
	case s.run.Paused:
		reasons = append(reasons, "the run is paused")
	}
	for _, q := range s.run.Questions {
		switch {
		case !q.Open() || q.Work != "":
		case q.Kind == AskedAgent:
			reasons = append(reasons, "what "+joinSome(q.Agents)+
				" would do waits for an answer to "+q.ID)
		case q.Role != "":
			reasons = append(reasons, "the role "+string(q.Role)+" waits for an answer to "+q.ID)
		default:
			reasons = append(reasons, "the run waits for an answer to "+q.ID)
		}
	}
	for _, r := range s.run.Roles {
		if r.Paused {
			reasons = append(reasons, "the role "+string(r.Role)+" is paused")
		}
	}
	red := s.RedBaseline()
	if red != nil {
		reasons = append(reasons, "the checks do not pass on the base: "+s.redReason())
	}
	for _, w := range s.works {
		switch {
		case w.Task == nil || w.Task.Kind != KindTask || w.Phase == signalbox.PhaseCompleted:
		case w.Done() && !s.InPlan(w):
		case w.Done():
			cancelled = append(cancelled, s.Reason(w))
		case red != nil && !w.onHold() && w.Lease == nil && !s.WaitsForApproval(w):
			waiting = append(waiting, w.ID)
		case len(s.OpenBlockers(w)) > 0 && !w.onHold() && s.causeIsNamed(w):
			waiting = append(waiting, w.ID)
		default:
			reasons = append(reasons, s.Reason(w))
		}
	}
	if len(reasons)+len(waiting) == 0 {
		return cancelled
	}
	if len(waiting) > 0 { // their chains of blockers end at tasks listed above
		verb := " wait for that"
		if len(waiting) == 1 {
			verb = " waits for that"
		}
		reasons = append(reasons, joinSome(waiting)+verb)
	}
	return reasons
}

// causeIsNamed reports whether the chain of blockers of a task ends at a task for which reasons has
// an entry.
func (s *State) causeIsNamed(w *Work) bool {
	seen := map[string]bool{}
	for !seen[w.ID] {
		seen[w.ID] = true
		open := s.OpenBlockers(w)
		if w.onHold() || len(open) == 0 {
			return w.Task.Cancelled == ""
		}
		next, known := s.Work(open[0])
		if !known || next.Task == nil {
			return false
		}
		w = next
	}
	return false
}

// outsideReason returns what other work stops a task that has no open blockers, "" if none does.
func (s *State) outsideReason(w *Work) string {
	if w.Lease != nil || w.Task.Kind != KindTask || s.run.Policy == nil || s.mayStartNow(w) {
		return ""
	}
	switch owner := s.lockOwner(w); {
	case s.RedBaseline() != nil:
		return "a base that passes its checks: " + s.redReason()
	case s.open[KindBaseline] > 0:
		return fmt.Sprintf("the checks on the base, B-%d", s.run.Baselines)
	case s.open[KindRemediation] > 0:
		return "remediation " + s.remediation()
	default:
		return "files that " + owner + " has"
	}
}

// redReason returns what the red baseline waits for.
func (s *State) redReason() string {
	b := s.RedBaseline()
	reason := s.Reason(b)
	if r, known := s.Work(b.Task.Remedy); known && r.onHold() {
		reason += "; " + s.Reason(r)
	}
	return reason
}

// Reason returns what a task waits for, as a chain of blockers.
func (s *State) Reason(w *Work) string {
	var chain []string
	seen := map[string]bool{}
	for !seen[w.ID] {
		seen[w.ID] = true
		open := s.OpenBlockers(w)
		chain = append(chain, w.ID+" "+s.ownReason(w, open))
		if w.onHold() || s.WaitsForApproval(w) || w.WaitsForRequest() || len(open) == 0 {
			break
		}
		next, known := s.Work(open[0])
		if !known || next.Task == nil {
			chain = append(chain, open[0]+" is not in the plan")
			break
		}
		w = next
	}
	return strings.Join(chain, "; ")
}

// ownReason returns what a task waits for, without the reasons of its open blockers.
func (s *State) ownReason(w *Work, open []string) string {
	t := w.Task
	switch {
	case t.Cancelled != "":
		return "is cancelled (" + t.Cancelled + ")"
	case len(t.Questions) > 0:
		return "waits for an answer to " + strings.Join(t.Questions, ", ")
	case t.Remedy != "":
		return "waits for remediation " + t.Remedy
	case t.Paused:
		return "is paused"
	case s.WaitsForApproval(w):
		return "needs your approval"
	case w.WaitsForRequest():
		return "waits until its pull request is merged: " + t.Delivered.Request
	case len(open) > 0:
		return "waits for " + strings.Join(open, ", ")
	}
	if other := cmp.Or(s.outsideReason(w), s.LackOfJudge(w)); other != "" {
		return "waits for " + other
	}
	return "waits in " + string(w.Phase) + " for " + roleInWords(w.claimableBy())
}

// roleInWords returns what a task waits for if it waits for a role.
func roleInWords(role signalbox.Role) string {
	switch role {
	case signalbox.RoleCI:
		return "its checks"
	case signalbox.RoleMerger:
		return "its merge"
	case signalbox.RoleAuditor, signalbox.RoleExpert, signalbox.RoleExpertCreator:
		return "an " + string(role)
	}
	return "a " + string(role)
}

// Approvals returns the tasks whose merge waits for approval.
func (s *State) Approvals() []string {
	var waiting []string
	for _, w := range s.works {
		if s.WaitsForApproval(w) {
			waiting = append(waiting, w.ID)
		}
	}
	return waiting
}
