package rules

import (
	"cmp"
	"fmt"

	"signalbox"
)

// dispatchExpert creates a work item for a request to an expert, and parks the session that asked.
func (h report) dispatchExpert() {
	count, p := h.w.Task.Counts.ExpertRequests+1, h.s.run.Policy
	_, known := h.s.expert(h.Fields.Expert)
	creates := p.slots(signalbox.RoleExpertCreator) > 0
	switch {
	case count > p.Limits.ExpertRequests:
		h.block(AskedExpert, h.Body,
			"%s has asked experts %d times already, and now asks '%s': %s",
			h.w.ID, count-1, h.Fields.Expert, inWords(h.Fields.Summary))
		h.release(h.Signal)
		return
	case !known && !creates:
		h.block(AskedExpert, h.Body, "%s asks the expert '%s', which does not exist: %s",
			h.w.ID, h.Fields.Expert, inWords(h.Fields.Summary))
		h.release(h.Signal)
		return
	}
	request := fmt.Sprintf("X-%d", h.s.run.Requests+1)
	expert := h.Fields.Expert
	if !known {
		expert = "" // an expert creator must create it first
	}
	h.record(request, h.session, h.actor,
		TaskPlanned{Kind: KindExpert, Title: sanitize("asked by "+h.w.ID+": "+h.Fields.Summary,
			200),
			Phase: signalbox.PhaseImplementation, Order: h.s.run.Orders, Text: h.Body,
			ExpertRequest: ExpertRequest{h.w.ID, h.epoch, expert}})
	h.note(ExpertRequested{request, sanitize(h.Fields.Expert, 64),
		sanitize(h.Fields.Request, 100), count, h.Body})
	h.note(SessionParked{Epoch: h.epoch, For: request})
	h.answer.Parked = true
}

// deliverToRequestingAgent adds the advice to the task that asked. The session that asked continues
// with it, or the next one if that session has ended.
func (h report) deliverToRequestingAgent() {
	t := h.w.Task
	h.record(t.Asker, h.session, h.actor, ExpertAdvised{h.w.ID, t.Expert, h.Body, h.Blob})
	h.move(signalbox.PhaseCompleted)
	h.release(h.Signal)
}

func (h report) escalateToDivine() {
	h.failRequest(fmt.Sprintf("the expert '%s' could not help %s: %s", h.w.Task.Expert,
		h.w.Task.Asker, inWords(h.Fields.Summary)))
}

// failRequest ends a request without advice, and asks the human instead.
func (h report) failRequest(why string) {
	h.move(signalbox.PhaseCompleted)
	h.release(h.Signal)
	asker, _ := h.s.Work(h.w.Task.Asker)
	if asker.Done() {
		return
	}
	lease := h.liveLease(asker)
	h.ask(asker.ID, h.session, h.actor, AskedExpert, h.Body, "%s", why)
	if lease != nil && lease.Epoch != h.w.Task.Asked {
		return // another session holds the task by now; the question stops the one after it
	}
	if asker.Phase != signalbox.PhaseBlocked {
		h.record(asker.ID, h.session, h.actor, PhaseChanged{asker.Phase, signalbox.PhaseBlocked})
	}
	if lease != nil {
		h.record(asker.ID, lease.Session, lease.Actor,
			LeaseReleased{lease.Epoch, "the human is asked instead"})
	}
}

// registerExpert adds an expert, and assigns it the request that it was created for.
func (h report) registerExpert() {
	name := h.Fields.Expert
	if signalbox.CheckID(name) != nil {
		h.failRequest(fmt.Sprintf("the expert created for %s has an invalid name: %q",
			h.w.Task.Asker, name))
		return
	}
	h.note(ExpertRegistered{Expert{Name: name, Gap: sanitize(h.Fields.Gap, 1000),
		Keywords: sanitizeFirst(h.Fields.Keywords, 32, 64)}})
	f := h.s.fleet()
	f.experts++
	h.askAgents(f, h.session, h.actor)
	h.release(h.Signal)
}

// ResumeSession asks for a slot for a parked session that no longer must wait.
type ResumeSession struct {
	Session string
	Epoch   uint64
}

func (c ResumeSession) decide(d *decider) error {
	h, err := d.holderReport(c.Session, c.Epoch, "resume")
	if err != nil {
		return err
	}
	park := h.w.Task.Parked
	switch {
	case park == nil:
		d.answer.Repeated, d.answer.Agent = true, h.w.Task.Agent
		return nil
	case !park.Ready && (park.Until.IsZero() || d.at.Before(park.Until)):
		return refusef(signalbox.CodeNotFound, "wait", "%w: %s still waits for %s",
			ErrNothingToClaim, h.w.ID, park.For)
	}
	// the session with the oldest lease goes first
	use, n := d.s.slotsUsedBefore(c.Epoch), roleNumber(h.role)
	if use.all >= d.s.run.Policy.Slots || use.roles[n] >= max(d.s.run.Policy.slots(h.role), 1) ||
		d.s.run.Paused ||
		d.s.Overspent(h.w.ID, h.role, d.at) != "" {
		return refusef(signalbox.CodeNotFound, "wait", "%w: no slot is free for %s",
			ErrNothingToClaim, h.w.ID)
	}
	resumed := SessionResumed{Epoch: c.Epoch}
	if own := h.w.Task.Agent; own != "" && !d.s.isAvailable(own, d.at) {
		var ok bool
		if resumed.Agent, ok = d.s.agentFor(h.role, h.w, d.at); !ok {
			return refusef(signalbox.CodeNotFound, "wait", "%w: no agent is available for %s",
				ErrNothingToClaim, h.w.ID)
		}
	}
	d.answer.Agent = cmp.Or(resumed.Agent, h.w.Task.Agent)
	d.tryAgent(d.answer.Agent, h.actor)
	d.answer.Seq = h.note(resumed)
	return nil
}

// markReady marks a parked task as ready if it waits for what.
func (t *Task) markReady(what string) {
	if t.Parked != nil && t.Parked.For == what {
		park := *t.Parked
		park.Ready = true
		t.Parked = &park
	}
}
