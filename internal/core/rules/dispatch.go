package rules

import (
	"cmp"
	"math"
	"slices"
	"time"

	"signalbox"
)

// dispatchOrder is the order in which roles get slots: first the system's own work, then what
// everything else waits for, then the latest phases, so that started work finishes before more is
// started.
var dispatchOrder = [...]signalbox.Role{signalbox.RoleCI, signalbox.RoleMerger,
	signalbox.RoleRemediation, signalbox.RoleHealthAuditor,
	signalbox.RoleExpert, signalbox.RoleExpertCreator, signalbox.RoleCritic, signalbox.RoleAuditor,
	signalbox.RoleBusinessAnalyst,
	signalbox.RoleDeveloper}

// DispatchRoles returns the roles that work is dispatched to, in the order in which they get slots.
func DispatchRoles() []signalbox.Role { return slices.Clone(dispatchOrder[:]) }

func roleNumber(role signalbox.Role) int { return slices.Index(dispatchOrder[:], role) }

// isAgent reports whether sessions of the role use a slot.
func isAgent(role signalbox.Role) bool {
	return role != signalbox.RoleCI && role != signalbox.RoleMerger
}

// Dispatch asks for the next work for one of the roles.
type Dispatch struct {
	Roles          []signalbox.Role
	Session, Actor string
	Lease          string
	TTL            time.Duration
	// Short is the TTL if the work is to be checked or merged; 0 means TTL. Such a lease is renewed
	// by Heartbeat.
	Short time.Duration
	// Secret is the hash of the secret of the new lease.
	Secret signalbox.Hash
	// ByHand is how many work items, planned or not, may be checked at once for one of those that
	// were opened by hand to be dispatched to role ci. If it is 0, work that was opened by hand is
	// not dispatched.
	ByHand int
	// Machine is the name of the machine on which the crew works, "" if it is the only one.
	Machine string
	// Train is how many tasks may be merged together, up to signalbox.MaxTrain; 0 means 1.
	Train int
}

func (c Dispatch) decide(d *decider) error {
	c.TTL = cmp.Or(c.TTL, signalbox.DefaultLeaseTTL)
	c.Short = cmp.Or(c.Short, c.TTL)
	if err := cmp.Or(checkIDs("session", c.Session, "actor", c.Actor, "lease", c.Lease),
		checkTTL(c.TTL), checkTTL(c.Short)); err != nil {
		return err
	}
	if _, known := d.s.Session(c.Session); known {
		claim := Claim{Session: c.Session, Lease: c.Lease, Secret: c.Secret}
		if w := claim.granted(d); w != nil {
			if w.Task != nil {
				d.answer.Agent = w.Task.Agent
			}
			c.answerTrain(d)
			return claim.held(d, w, w.Lease)
		}
		return refusef(signalbox.CodeUsage, "use a new session for each dispatch",
			"session '%s' already exists", c.Session)
	}
	for _, i := range d.s.expired(d.at) {
		d.liveLease(d.s.works[i])
	}
	w, role := d.s.next(c.Roles, c.ByHand, d.at)
	if w == nil {
		return refusef(signalbox.CodeNotFound, "try again later", "%w", ErrNothingToClaim)
	}
	c.grant(d, w, role)
	if role == signalbox.RoleMerger {
		answer := d.answer
		for _, car := range d.s.train(w, min(c.Train, signalbox.MaxTrain)-1) {
			c.grant(d, car, role)
			answer.Train = append(answer.Train, Granted{car.ID, *d.answer.Lease})
		}
		d.answer = answer
	}
	return nil
}

// answerTrain answers with the train that an earlier attempt of the same command was granted.
func (c Dispatch) answerTrain(d *decider) {
	session, _ := d.s.Session(c.Session)
	for _, epoch := range session.Live[1:] {
		w := d.s.works[d.s.leased[epoch]]
		d.answer.Train = append(d.answer.Train, Granted{w.ID, *w.Lease})
	}
}

func (c Dispatch) grant(d *decider, w *Work, role signalbox.Role) {
	claim := Claim{Role: role, Session: c.Session, Actor: c.Actor, Lease: c.Lease, TTL: c.TTL,
		Secret: c.Secret, crew: w.Task == nil, machine: c.Machine}
	if !isAgent(role) {
		claim.TTL = c.Short
	}
	if w.Task != nil {
		claim.agent, _ = d.s.agentFor(role, w, d.at)
		d.tryAgent(claim.agent, c.Actor)
	}
	d.answer.Agent = claim.agent
	claim.grant(d, w)
	if w.Task == nil {
		return
	}
	d.answer.Names = d.s.names(w)
	if files := d.s.filesToLock(w); len(files) > 0 && role == signalbox.RoleDeveloper {
		for _, owner := range d.s.owners(files) {
			d.record(owner, c.Session, c.Actor,
				LocksYielded{"it waits for " + w.ID + ", which needs its files"})
		}
		d.record(w.ID, c.Session, c.Actor, FilesLocked{files})
	}
	if w.Phase == signalbox.PhaseReadyForReview {
		d.record(w.ID, c.Session, c.Actor, PhaseChanged{w.Phase, signalbox.PhaseReview})
		d.answer.Phase = signalbox.PhaseReview
	}
}

// owners returns the tasks that have locked any of the files.
func (s *delivery) owners(files []string) []string {
	var owners []string
	for _, file := range files {
		if owner, held := s.locks[file]; held {
			owners = appendUnique(owners, owner)
		}
	}
	return owners
}

// CanDispatch reports whether Dispatch would find work for one of the roles. byHand is its ByHand.
func (s *State) CanDispatch(roles []signalbox.Role, byHand int, now time.Time) bool {
	if len(s.expired(now)) > 0 {
		return true
	}
	w, _ := s.next(roles, byHand, now)
	return w != nil
}

// next returns the next work for one of the roles, nil if there is none. Work opened by hand is
// checked after planned work.
func (s *State) next(roles []signalbox.Role, byHand int, now time.Time) (*Work, signalbox.Role) {
	if s.run.Paused || s.setupQuestion() != nil {
		return nil, ""
	}
	planned := s.run.Policy != nil && !s.run.Loading && s.run.Cancelled == ""
	use, windowEnd := s.slotsInUse(), s.WindowEnd(now)
	for n, role := range dispatchOrder {
		if !slices.Contains(roles, role) || isAgent(role) && !windowEnd.IsZero() {
			continue
		}
		if planned && s.ready[n].first() >= 0 && s.hasSlot(use, role) {
			if w := s.pickFor(n, use, now); w != nil {
				return w, role
			}
		}
		if role == signalbox.RoleCI && use.roles[n] < byHand {
			if i := s.free[phaseNumber(signalbox.PhaseCIPending)].first(); i >= 0 {
				return s.works[i], role
			}
		}
	}
	return nil, ""
}

// slotUsage is how many slots are in use.
type slotUsage struct {
	all     int
	roles   [len(dispatchOrder)]int
	experts map[string]int
}

// slotsInUse counts the agents at work, and the parked ones that can continue, because they go
// before new ones.
func (s *register) slotsInUse() slotUsage { return s.slotsUsedBefore(math.MaxUint64) }

// slotsUsedBefore counts the agents at work, and the parked ones that can continue and have a lease
// older than epoch.
func (s *register) slotsUsedBefore(epoch uint64) slotUsage {
	var u slotUsage
	for _, i := range s.leased {
		w := s.works[i]
		n := roleNumber(w.Lease.Role)
		if w.Task == nil {
			if w.Present.Crew {
				u.roles[n]++
			}
			continue
		}
		if n < 0 || w.Task.Parked != nil && (!w.Task.Parked.Ready || w.Lease.Epoch >= epoch) {
			continue
		}
		u.roles[n]++
		if isAgent(w.Lease.Role) {
			u.all++
		}
		if w.Lease.Role == signalbox.RoleExpert {
			if u.experts == nil {
				u.experts = map[string]int{}
			}
			u.experts[w.Task.Expert]++
		}
	}
	return u
}

func (s *delivery) hasSlot(u slotUsage, role signalbox.Role) bool {
	p, n := s.run.Policy, roleNumber(role)
	switch role {
	case signalbox.RoleCI:
		return u.roles[n] < max(p.Checks, 1)
	case signalbox.RoleMerger:
		return u.roles[n] == 0
	case signalbox.RoleExpert:
		// expertCanStart checks the slots of the expert
		return u.all < p.Slots && !s.runOnHold() && !s.roleOnHold(role)
	}
	return u.all < p.Slots && u.roles[n] < p.slots(role) && !s.runOnHold() && !s.roleOnHold(role)
}

// runOnHold reports whether a question about the budget of the run is open.
func (s *delivery) runOnHold() bool {
	return slices.ContainsFunc(s.run.Questions, func(q *Question) bool {
		return q.Open() && q.Work == "" && q.Role == "" && q.Kind != AskedAgent &&
			q.Kind != AskedSetup
	})
}

// pickFor returns the work to start next for the role with this index in dispatchOrder: the highest
// priority, then the one that most tasks wait for, then the first in the plan.
func (s *State) pickFor(roleIndex int, use slotUsage, now time.Time) *Work {
	var best *Work
	role := dispatchOrder[roleIndex]
	first := s.ready[roleIndex].first()
	if s.sameAgents(role) && first >= 0 {
		if _, ok := s.agentFor(role, s.works[first], now); !ok {
			return nil
		}
	}
	bestAt, below := 0, s.downstreamCounts()
	for i := range s.ready[roleIndex].all() {
		w := s.works[i]
		if best != nil && s.compareStart(below, i, bestAt) >= 0 || !s.mayStartNow(w) ||
			role == signalbox.RoleExpert && !s.expertCanStart(w, use) {
			continue
		}
		if !s.sameAgents(role) {
			if _, ok := s.agentFor(role, w, now); !ok {
				continue
			}
		}
		best, bestAt = w, i
	}
	return best
}

// compareStart is negative if the task with index i starts before the one with index j.
func (s *State) compareStart(below []int, i, j int) int {
	a, b := s.works[i].Task, s.works[j].Task
	return cmp.Or(cmp.Compare(s.landingOrder(a), s.landingOrder(b)),
		cmp.Compare(b.Priority, a.Priority), cmp.Compare(below[j], below[i]),
		cmp.Compare(a.Order, b.Order))
}

// landingOrder puts prepared merges first: they may be in the base already, and then that must be
// recorded before others are merged, and in the order of their train.
func (s *delivery) landingOrder(t *Task) int {
	switch {
	case t.Merge == nil:
		return signalbox.MaxTrain + 1
	case t.Merge.Before == s.run.Base || t.Merge.Train == nil:
		return 0
	}
	return t.Merge.Train.Position
}

func (s *State) expertCanStart(w *Work, use slotUsage) bool {
	e, _ := s.expert(w.Task.Expert)
	return use.experts[e.Name] < cmp.Or(e.Slots, 2)
}

// mayStartNow reports whether other work allows w to start. While the checks run on the base
// nothing else starts, and if they fail only a remediation does. During a remediation no task
// starts, because it would build on a broken base; only drafts can be specified, if the checks
// passed on the base.
func (s *State) mayStartNow(w *Work) bool {
	switch w.Task.Kind {
	case KindBaseline, KindExpert:
		return true
	case KindRemediation:
		return s.open[KindBaseline] == 0 || s.RedBaseline() != nil
	}
	if s.open[KindBaseline] > 0 || s.open[KindRemediation] > 0 && w.Phase != signalbox.PhaseDraft {
		return false
	}
	return s.lockOwner(w) == ""
}

// lockOwner returns a task that has locked a file which w needs, "" if w can lock all of its files.
// A task that waits for w itself gives up its files.
func (s *State) lockOwner(w *Work) string {
	for _, file := range s.filesToLock(w) {
		if owner, held := s.locks[file]; held && !s.yieldsTo(file, owner, w.ID) {
			return owner
		}
	}
	return ""
}

func (s *register) yieldsTo(file, owner, to string) bool {
	w, _ := s.Work(owner)
	return w.Lease == nil && s.waitsFor(w, to) && s.firstWaiter(file, "") == nil
}

// filesToLock returns the files that a task must lock before it starts.
func (s *delivery) filesToLock(w *Work) []string {
	if !s.run.Policy.Shared || w.Task.Kind != KindTask || w.Phase != signalbox.PhaseImplementation {
		return nil
	}
	var files []string
	for _, file := range w.Task.Files {
		if s.locks[file] != w.ID {
			files = append(files, file)
		}
	}
	return files
}
