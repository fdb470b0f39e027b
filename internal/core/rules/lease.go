package rules

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox"
)

// ErrNothingToClaim means that there is no work for the role at the moment. There may be later.
var ErrNothingToClaim = errors.New("there is nothing to claim")

func (c Claim) decide(d *decider) error {
	if c.TTL == 0 {
		c.TTL = signalbox.DefaultLeaseTTL
	}
	if err := cmp.Or(checkIDs("session", c.Session, "actor", c.Actor, "lease", c.Lease),
		checkTTL(c.TTL), checkRole(c.Role), c.Caller.check(c.Role)); err != nil {
		return err
	}
	if session, known := d.s.Session(c.Session); known &&
		(session.Role != c.Role || session.Actor != c.Actor) {
		return refusef(signalbox.CodeFailed, "start another session for another role or actor",
			"session '%s' is %s '%s', not %s '%s'", c.Session, session.Role, session.Actor, c.Role,
			c.Actor)
	}
	if err := c.checkSession(d); err != nil {
		return err
	}
	if c.Work == "" {
		return c.next(d)
	}
	w, err := d.work(c.Work)
	if err != nil {
		return err
	}
	if lease := d.liveLease(w); lease != nil {
		return c.held(d, w, lease)
	}
	if err := d.s.checkCanStart(w); err != nil {
		return err
	}
	if may := w.claimableBy(); may == "" {
		return refusef(signalbox.CodeFailed, claimHint(w), "work '%s' is %s and cannot be claimed",
			w.ID, w.Phase)
	} else if may != c.Role {
		return refusef(signalbox.CodeFailed, fmt.Sprintf("claim it as %s", may),
			"work '%s' is in %s, which %s cannot claim", w.ID, w.Phase, c.Role)
	}
	if c.reviewsItself(w) {
		return refusef(signalbox.CodeFailed,
			"have another client claim it, or set mcp.allow_self_review in signalbox.yaml",
			"'%s' developed work '%s' and cannot be its %s", c.Caller.Identity, w.ID, c.Role)
	}
	c.grant(d, w)
	return nil
}

// checkCanStart refuses a claim by hand of planned work that cannot start yet.
func (s *State) checkCanStart(w *Work) error {
	red := w.Task != nil && w.Task.Kind == KindTask && s.RedBaseline() != nil
	if w.Task == nil || s.canStart(w) && !red || w.claimableBy() == "" {
		return nil
	}
	return refusef(signalbox.CodeFailed, "wait until it can start",
		"work '%s' cannot start yet: %s", w.ID, s.Reason(w))
}

func claimHint(w *Work) string {
	if w.Phase == signalbox.PhaseBlocked {
		return fmt.Sprintf("see why with signalbox work show %s, then run signalbox work unblock %s", w.ID, w.ID)
	}
	return "list the work with signalbox work list"
}

// held answers a claim of work that has a live lease.
func (c Claim) held(d *decider, w *Work, lease *signalbox.Lease) error {
	if lease.Session == c.Session {
		d.answer.Repeated = true
		d.answerLease(w, lease.Epoch, lease)
		return nil
	}
	d.answer.Work, d.answer.Phase, d.answer.Lease = w.ID, w.Phase, lease
	return refusef(signalbox.CodeConflict,
		"wait until it is released or expires, or claim other work with --next",
		"work '%s' is held by session '%s' until %s", w.ID, lease.Session,
		lease.Expires.Format(time.RFC3339))
}

// maxMachine is the longest name of a machine, in bytes.
const maxMachine = 100

func (c Claim) grant(d *decider, w *Work) {
	expires := d.at.Add(c.TTL)
	epoch := d.record(w.ID, c.Session, c.Actor, LeaseGranted{c.Lease, c.Role, expires, c.Secret,
		c.Caller.identity(), c.crew, c.agent, sanitize(c.machine, maxMachine)})
	d.answerLease(w, epoch, &signalbox.Lease{ID: c.Lease, Epoch: epoch, Session: c.Session,
		Actor: c.Actor, Role: c.Role, Expires: expires})
}

// next claims the work in the latest phase, and within a phase the oldest, so that started work
// finishes first.
func (c Claim) next(d *decider) error {
	if w := c.granted(d); w != nil {
		return c.held(d, w, w.Lease)
	}
	expired := d.s.expired(d.at)
	for _, i := range expired {
		d.liveLease(d.s.works[i])
	}
	for _, phase := range slices.Backward(phases) {
		if phase.ClaimableBy() != c.Role {
			continue
		}
		first := -1
		for i := range d.s.free[phaseNumber(phase)].all() {
			if !c.reviewsItself(d.s.works[i]) {
				first = i
				break
			}
		}
		for _, i := range expired {
			if w := d.s.works[i]; w.Phase == phase && w.Task == nil && (first < 0 || i < first) &&
				!c.reviewsItself(w) {
				first = i
			}
		}
		if first >= 0 {
			c.grant(d, d.s.works[first])
			return nil
		}
	}
	return refusef(signalbox.CodeNotFound, "add --wait to wait for work", "%w for %s",
		ErrNothingToClaim, c.Role)
}

// granted returns the work that an earlier attempt of the same claim was granted, nil if none was.
func (c Claim) granted(d *decider) *Work {
	session, known := d.s.Session(c.Session)
	if !known {
		return nil
	}
	for _, epoch := range session.Live {
		if w := d.s.works[d.s.leased[epoch]]; w.Lease.ID == c.Lease && !d.expired(w.Lease) {
			return w
		}
	}
	return nil
}

func (c Renew) decide(d *decider) error {
	if c.TTL == 0 {
		c.TTL = signalbox.DefaultLeaseTTL
	}
	if err := checkTTL(c.TTL); err != nil {
		return err
	}
	w, session, err := d.workAndSession(c.Work, c.Session)
	if err != nil {
		return err
	}
	sent := refusal{signal: "renew", epoch: c.Epoch}
	if err := d.checkCaller(c.Caller, session, sent); err != nil {
		return err
	}
	lease := d.liveLease(w)
	if lease == nil || lease.Epoch != c.Epoch || lease.Session != c.Session {
		return d.refuseStale(session, w, lease, sent)
	}
	renewed, seq := *lease, lease.Epoch
	if expires := d.at.Add(c.TTL); expires.After(lease.Expires) {
		renewed.Expires = expires
		seq = d.record(w.ID, c.Session, session.Actor, LeaseRenewed{c.Epoch, expires})
	}
	d.answerLease(w, seq, &renewed)
	return nil
}

func (c Heartbeat) decide(d *decider) error {
	if c.TTL == 0 {
		c.TTL = signalbox.DefaultLeaseTTL
	}
	if err := cmp.Or(checkIDs("actor", c.Actor), checkTTL(c.TTL)); err != nil {
		return err
	}
	renewed := LeasesRenewed{Expires: d.at.Add(c.TTL)}
	for _, epoch := range slices.Compact(slices.Sorted(slices.Values(c.Epochs))) {
		i, live := d.s.leased[epoch]
		if !live {
			continue
		}
		if lease := d.liveLease(d.s.works[i]); lease != nil && !isAgent(lease.Role) &&
			renewed.Expires.After(lease.Expires) {
			renewed.Epochs = append(renewed.Epochs, epoch)
		}
	}
	if len(renewed.Epochs) > 0 {
		d.answer.Seq = d.record("", "", c.Actor, renewed)
	}
	return nil
}

func (c Release) decide(d *decider) error {
	if c.Session == "" && c.Caller == nil {
		return c.byOperator(d)
	}
	if err := checkText("reason", c.Reason); err != nil {
		return err
	}
	w, session, err := d.workAndSession(c.Work, c.Session)
	if err != nil {
		return err
	}
	sent := refusal{signal: "release", epoch: c.Epoch}
	if err := d.checkCaller(c.Caller, session, sent); err != nil {
		return err
	}
	lease := d.liveLease(w)
	if lease != nil && lease.Epoch == c.Epoch && lease.Session == c.Session {
		seq := d.record(w.ID, c.Session, session.Actor, LeaseReleased{c.Epoch, c.Reason})
		d.answerLease(w, seq, nil)
		return nil
	}
	for _, t := range w.Past {
		if t.Epoch == c.Epoch && t.Session == c.Session && t.Ended == EndedReleased {
			d.answer.Repeated = true
			d.answerLease(w, t.End, nil)
			return nil
		}
	}
	return d.refuseStale(session, w, lease, sent)
}

func (c Release) byOperator(d *decider) error {
	if err := cmp.Or(checkIDs("actor", c.Actor), requireText("reason", c.Reason)); err != nil {
		return err
	}
	w, err := d.work(c.Work)
	if err != nil {
		return err
	}
	lease := d.liveLease(w)
	if lease == nil {
		return refusef(signalbox.CodeFailed, "there is nothing to release",
			"no session holds work '%s'", w.ID)
	}
	if c.Epoch != 0 && c.Epoch != lease.Epoch {
		return refusef(signalbox.CodeConflict, "see who holds it now with signalbox work show "+
			w.ID,
			"epoch %d of work '%s' is over, epoch %d is live", c.Epoch, w.ID, lease.Epoch)
	}
	seq := d.record(w.ID, lease.Session, c.Actor, LeaseReleased{lease.Epoch, c.Reason})
	d.answerLease(w, seq, nil)
	return nil
}

func (Expire) decide(d *decider) error {
	for _, i := range d.s.expired(d.at) {
		d.liveLease(d.s.works[i])
	}
	return nil
}

// liveLease returns the live lease of a work item, nil if there is none. If the lease has expired,
// it records that.
func (d *decider) liveLease(w *Work) *signalbox.Lease {
	if w.Lease != nil && d.expired(w.Lease) {
		d.record(w.ID, w.Lease.Session, w.Lease.Actor, LeaseExpired{w.Lease.Epoch})
		return nil
	}
	return w.Lease
}

func (d *decider) expired(lease *signalbox.Lease) bool { return !d.at.Before(lease.Expires) }

func (d *decider) answerLease(w *Work, seq uint64, lease *signalbox.Lease) {
	d.answer.Seq, d.answer.Work, d.answer.Phase, d.answer.Lease = seq, w.ID, w.Phase, lease
	if lease != nil {
		d.answer.Session = lease.Session
	}
}

func (d *decider) work(id string) (*Work, error) {
	w, ok := d.s.Work(id)
	if !ok {
		return nil, refusef(signalbox.CodeNotFound, "list the work with signalbox work list",
			"there is no work '%s'", id)
	}
	return w, nil
}

func (d *decider) sessionNamed(id string) (*Session, error) {
	session, ok := d.s.Session(id)
	if !ok {
		return nil, refusef(signalbox.CodeNotFound,
			"use the session that signalbox work claim printed", "there is no session '%s'", id)
	}
	return session, nil
}

func (d *decider) workAndSession(work, session string) (*Work, *Session, error) {
	w, workErr := d.work(work)
	s, sessionErr := d.sessionNamed(session)
	if workErr != nil {
		return nil, nil, workErr
	}
	return w, s, sessionErr
}

func checkTTL(ttl time.Duration) error {
	if ttl < signalbox.MinLeaseTTL || ttl > signalbox.MaxLeaseTTL {
		return refusef(signalbox.CodeUsage, "the default is "+signalbox.DefaultLeaseTTL.String(),
			"a lease cannot last %s: the limits are %s and %s",
			ttl, signalbox.MinLeaseTTL, signalbox.MaxLeaseTTL)
	}
	return nil
}

func checkRole(role signalbox.Role) error {
	var roles []string
	for _, phase := range phases {
		if r := string(phase.ClaimableBy()); r != "" && !slices.Contains(roles, r) {
			roles = append(roles, r)
		}
	}
	if !slices.Contains(roles, string(role)) {
		return refusef(signalbox.CodeUsage, "these roles can: "+strings.Join(roles, ", "),
			"role '%s' cannot claim work", role)
	}
	return nil
}
