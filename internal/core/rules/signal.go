package rules

import (
	"crypto/sha256"
	"fmt"
	"time"

	"signalbox"
)

// ReportSignal hands in a line signal under a session's lease: one that acts while the agent runs, or at the end of its turn what the
// turn said.
type ReportSignal struct {
	Session string
	Epoch   uint64
	// Signal is a name of the table of line signals, or "unknown" for a turn that said nothing that counts.
	Signal string
	// Named is the work that the signal names, "" for signals that name none.
	Named  string
	Fields SignalFields
	// Blob is where the signal was read, Offset where in it, and Body the signal's fields in full.
	Blob   signalbox.Hash
	Offset int64
	Body   signalbox.Hash
	// Refused is what the turn said that does not count.
	Refused []RefusedSignal
	// Turn is set at the end of a turn.
	Turn *Turn
}

// SignalFields is what the rules act on of what a signal's body says. What does not apply is zero.
type SignalFields struct {
	// Summary is one line for people; of unknown output it is the output, and Advice what to send instead.
	Summary, Advice string
	// Cause and BlockedBy are of an incomplete task.
	Cause     Cause
	BlockedBy []string
	// Confidence and SubTasks are of an expanded one.
	Confidence string
	SubTasks   []PlanTask
	// Expert is whom a request names, or who was created, with Gap and Keywords; Request is the kind of request.
	Expert, Request, Gap string
	Keywords             []string
	File                 string
	Percent              int
}

// Cause is why a developer could not finish.
type Cause string

const (
	CauseInformation    Cause = "missing_information"
	CauseScope          Cause = "out_of_scope"
	CauseInfrastructure Cause = "infrastructure"
	CauseWaiting        Cause = "waiting"
	CauseOther          Cause = "other"
)

// RefusedSignal is something a turn said that does not count.
type RefusedSignal struct {
	Signal string
	Reason signalbox.Reason
	Detail string
	Times  int
}

// Turn is what a turn of an agent left behind.
type Turn struct {
	Exit   int
	Output signalbox.Hash
	Bytes  int64
	Spent  Spent
}

// holder is who holds work and speaks.
type holder struct {
	session, actor string
	role           signalbox.Role
	epoch          uint64
}

// hearing is a signal that counts, about the work that its sender holds.
type report struct {
	ReportSignal
	holder
	w *Work
}

func (c ReportSignal) decide(d *decider) error {
	session, err := d.session(c.Session)
	if err != nil {
		return err
	}
	held := session.lease(c.Epoch)
	said := refusal{signal: c.Signal, epoch: c.Epoch, blob: c.Blob}
	if held.Work == "" {
		return d.refuseStale(session, nil, nil, said)
	}
	w, err := d.work(held.Work)
	if err != nil {
		return err
	}
	if w.Task == nil {
		return refusef(signalbox.CodeUsage, "hand in an exit signal", "work '%s' is of no plan: line signals do not move it", w.ID)
	}
	row, known := signalbox.LineSignalNamed(c.Signal)
	handler := row.Handler
	if c.Signal == signalbox.NameUnknown {
		handler, known = signalbox.HandlerClarify, true
	}
	if !known {
		return refusef(signalbox.CodeUsage, "see docs/signals.md for the signals there are", "there is no line signal '%s'", c.Signal)
	}
	h := report{c, holder{session.ID, session.Actor, session.Role, c.Epoch}, w}
	heard := SignalHeard{Dialect: signalbox.DialectLine, Signal: c.Signal, Epoch: c.Epoch, Blob: c.Blob, Offset: c.Offset, Handler: handler, Body: c.Body}
	lease := d.liveLease(w)
	if lease == nil || lease.Epoch != c.Epoch {
		if d.repeatedSignal(session, w, heard) {
			return nil
		}
		return d.refuseStale(session, w, lease, said)
	}
	d.answer.Work, d.answer.Session, d.answer.Phase, d.answer.Lease = w.ID, session.ID, w.Phase, lease
	d.refuseAll(session, w, c)
	d.endTurn(h)
	if reason := h.refusalReason(row); reason != "" {
		said.reason = reason
		said.detail = fmt.Sprintf("%s: %s as %s about '%s', which holds '%s'", reason, c.Signal, session.Role, sanitize(c.Named, 100), w.ID)
		d.askBudget(h)
		return d.refuse(session, w.ID, said, signalbox.CodeFailed, "send only the signals that the prompt names, about the task it names")
	}
	switch known, many := d.s.fileRequested(h); {
	case h.tooSoon(d.at) || known:
		d.answer.Repeated = true
		return nil
	case many:
		said.reason, said.detail = signalbox.ReasonRateLimited, fmt.Sprintf("%s asked for more than %d files", w.ID, maxOverlaps)
		return d.refuse(session, w.ID, said, signalbox.CodeFailed, "declare the files in the plan")
	}
	if handler != signalbox.HandlerClarify {
		d.answer.Seq = d.record(w.ID, session.ID, session.Actor, heard)
	}
	handlers[handler](d, h)
	d.askBudget(h)
	return nil
}

// outOfPlace says why a signal does not count from who sends it.
func (h report) refusalReason(row signalbox.LineSignal) signalbox.Reason {
	switch {
	case h.Signal == signalbox.NameUnknown:
		return ""
	case !h.role.MaySend(h.Signal):
		return signalbox.ReasonOutOfRole
	case row.Argument == signalbox.TaskArgument && h.Named != h.w.ID:
		return signalbox.ReasonWrongWork
	case h.w.Task.Parked != nil && (h.Signal == signalbox.NameExpertRequest || h.Signal == signalbox.NameFileConflict):
		return signalbox.ReasonDuplicate // it waits for one thing at a time
	}
	return ""
}

// heardBefore answers a verdict that the session sent before under the same lease.
func (d *decider) repeatedSignal(session *Session, w *Work, heard SignalHeard) bool {
	digest := signalbox.Hash(sha256.Sum256(encode(heard)))
	for _, exit := range session.Exits {
		if exit.Epoch == heard.Epoch && exit.Digest == digest {
			d.answer.Repeated, d.answer.Seq, d.answer.Work, d.answer.Phase, d.answer.Session = true, exit.Seq, w.ID, exit.Next, session.ID
			return true
		}
	}
	return false
}

func (d *decider) refuseAll(session *Session, w *Work, c ReportSignal) {
	for _, r := range c.Refused {
		d.refuse(session, w.ID, refusal{signal: sanitize(r.Signal, 100), epoch: c.Epoch, blob: c.Blob, times: r.Times, reason: r.Reason,
			detail: sanitize(r.Detail, 1000)}, signalbox.CodeFailed, "")
	}
}

// handlers are the coordinator's actions, by the names that the table of line signals gives them.
var handlers = map[string]func(*decider, report){
	"DISPATCH_CRITIC":             (*decider).dispatchCritic,
	"LOG_AND_FILL_SLOTS":          (*decider).logAndFillSlots,
	"ENTER_REMEDIATION":           (*decider).enterRemediation,
	"DISPATCH_AUDITOR":            (*decider).dispatchAuditor,
	"DISPATCH_DEVELOPER_REWORK":   (*decider).dispatchDeveloperRework,
	"MARK_COMPLETE":               (*decider).markComplete,
	"PROCESS_EXPANSION":           (*decider).processExpansion,
	"DISPATCH_HEALTH_AUDITOR":     (*decider).dispatchHealthAuditor,
	"EXIT_REMEDIATION":            (*decider).exitRemediation,
	"RETRY_REMEDIATION":           (*decider).retryRemediation,
	"AWAIT_DIVINE_RESPONSE":       (*decider).awaitDivineResponse,
	"DISPATCH_EXPERT":             (*decider).dispatchExpert,
	"DELIVER_TO_REQUESTING_AGENT": (*decider).deliverToRequestingAgent,
	"ESCALATE_TO_DIVINE":          (*decider).escalateToDivine,
	"REGISTER_EXPERT":             (*decider).registerExpert,
	"QUEUE_OR_COORDINATE":         (*decider).queueOrCoordinate,
	"PROCESS_CHECKPOINT":          (*decider).processCheckpoint,
	signalbox.HandlerClarify:      (*decider).requestClarification,
}

// move changes the phase of work.
func (d *decider) move(work string, h holder, from, to signalbox.Phase) {
	d.record(work, h.session, h.actor, PhaseChanged{from, to})
	if d.answer.Work == work {
		d.answer.Phase = to
	}
}

// release ends the holder's lease. Whatever happens to the work afterwards is another's.
func (d *decider) release(work string, h holder, reason string) {
	d.record(work, h.session, h.actor, LeaseReleased{h.epoch, reason})
	if d.answer.Work == work {
		d.answer.Lease = nil
	}
}

// dispatchCritic takes a developer's word that the task is done for what it is, a claim: the checks come first.
func (d *decider) dispatchCritic(h report) {
	d.move(h.w.ID, h.holder, h.w.Phase, signalbox.PhaseCIPending)
	d.release(h.w.ID, h.holder, h.Signal)
}

func (d *decider) dispatchAuditor(h report) {
	d.move(h.w.ID, h.holder, h.w.Phase, signalbox.PhaseReadyForMerge)
	d.release(h.w.ID, h.holder, h.Signal)
}

func (d *decider) dispatchDeveloperRework(h report) {
	counts, limits := h.w.Task.Counts, d.s.delivery.Policy.Limits
	if h.Signal == signalbox.NameReviewFailed {
		d.rework(h, "review", counts.Reviews+1, limits.Reviews, AskedReview, h.Fields.Summary, h.Body)
	} else {
		d.rework(h, "audit", counts.Audits+1, limits.Audits, AskedAudit, h.Fields.Summary, h.Body)
	}
	d.release(h.w.ID, h.holder, h.Signal)
}

// rework sends work back to the developers, or at the limit to the human.
func (d *decider) rework(h report, cause string, count, limit int, kind QuestionKind, summary string, body signalbox.Hash) {
	d.record(h.w.ID, h.session, h.actor, ReworkOrdered{cause, count, sanitize(summary, maxText), body})
	d.move(h.w.ID, h.holder, h.w.Phase, signalbox.PhaseImplementation)
	if count >= limit {
		d.block(h.w, signalbox.PhaseImplementation, h.holder, kind, body,
			"%s failed %d times: %s. What should be done?", cause, count, sanitize(summary, 1000))
	}
}

// markComplete asks for the merge. In a shared workspace there is none, and the work is done.
func (d *decider) markComplete(h report) {
	if d.s.delivery.Policy.Shared {
		d.complete(h)
		return
	}
	d.record(h.w.ID, h.session, h.actor, MergeRequested{})
	d.release(h.w.ID, h.holder, h.Signal)
}

// complete ends work that needs no merge.
func (d *decider) complete(h report) {
	d.record(h.w.ID, h.session, h.actor, Merged{Unblocked: d.s.unblockedBy(h.w.ID)})
	d.move(h.w.ID, h.holder, h.w.Phase, signalbox.PhaseCompleted)
	d.release(h.w.ID, h.holder, h.Signal)
}

// unblockedBy returns the tasks that wait for a task and for nothing else.
func (s *State) unblockedBy(id string) []string {
	var unblocked []string
	for _, i := range s.dependents[id] {
		if i >= len(s.works) || s.works[i].Task == nil || s.works[i].Done() {
			continue // it was taken back, or needs nothing any more
		}
		if open := s.OpenBlockers(s.works[i]); len(open) == 1 && open[0] == id {
			unblocked = append(unblocked, s.works[i].ID)
		}
	}
	return unblocked
}

// logAndFillSlots routes a task that a developer could not finish by why it could not.
func (d *decider) logAndFillSlots(h report) {
	t, limits := h.w.Task, d.s.delivery.Policy.Limits
	if h.Fields.Cause == "" {
		h.Fields.Cause = CauseOther
	}
	count := t.Counts.Incompletes + 1
	d.record(h.w.ID, h.session, h.actor, IncompleteLogged{h.Fields.Cause, count, sanitize(h.Fields.Summary, maxText), h.Body})
	blockers := d.s.mayWaitFor(h.w, h.Fields.BlockedBy)
	switch {
	case h.Fields.Cause == CauseInfrastructure:
		d.requestRemediation(h, h.Fields.Summary)
	case h.Fields.Cause == CauseInformation, h.Fields.Cause == CauseScope:
		d.block(h.w, h.w.Phase, h.holder, AskedIncomplete, h.Body, "%s is incomplete (%s): %s", h.w.ID, h.Fields.Cause, h.Fields.Summary)
	case h.Fields.Cause == CauseWaiting && len(blockers) == 0:
		d.block(h.w, h.w.Phase, h.holder, AskedWait, h.Body, "%s says that it waits for %s, which cannot be waited for: %s",
			h.w.ID, joinSome(h.Fields.BlockedBy), h.Fields.Summary)
	case h.Fields.Cause == CauseWaiting && t.Counts.Waits+1 >= limits.Waits:
		d.block(h.w, h.w.Phase, h.holder, AskedWait, h.Body, "%s waits for other tasks for the %s time, now for %s: %s",
			h.w.ID, ordinal(t.Counts.Waits+1), joinSome(blockers), h.Fields.Summary)
	case h.Fields.Cause == CauseWaiting:
		d.record(h.w.ID, h.session, h.actor, BlockerAdded{blockers, t.Counts.Waits + 1})
	case count >= limits.Incompletes:
		d.block(h.w, h.w.Phase, h.holder, AskedIncomplete, h.Body, "%s was left incomplete %d times, last: %s", h.w.ID, count, h.Fields.Summary)
	}
	d.release(h.w.ID, h.holder, h.Signal)
}

func ordinal(n int) string {
	switch n {
	case 1:
		return "first"
	case 2:
		return "second"
	case 3:
		return "third"
	}
	return fmt.Sprintf("%dth", n)
}

// mayWaitFor returns which of the ids a task can wait for: open tasks that do not wait for it themselves.
func (s *State) mayWaitFor(w *Work, ids []string) []string {
	var may []string
	for _, id := range ids {
		b, known := s.Work(id)
		if known && b.Task != nil && b.Task.Kind == KindTask && !b.Done() && id != w.ID && !s.waitsFor(b, w.ID) {
			may = with(may, id)
		}
	}
	return may
}

// waitsFor tells whether work waits for another, directly or not.
func (s *State) waitsFor(w *Work, id string) bool {
	seen := map[string]bool{}
	var reaches func(w *Work) bool
	reaches = func(w *Work) bool {
		for _, blocker := range w.Task.blockers() {
			if blocker == id {
				return true
			}
			b, known := s.Work(blocker)
			if known && b.Task != nil && !seen[blocker] {
				seen[blocker] = true
				if reaches(b) {
					return true
				}
			}
		}
		return false
	}
	return reaches(w)
}

// minBetweenCheckpoints is how far apart the recorded checkpoints of a session are: an agent cannot flood the ledger.
const minBetweenCheckpoints = 5 * time.Second

func (d *decider) processCheckpoint(h report) {
	d.record(h.w.ID, h.session, h.actor, ProgressReported{h.Epoch, sanitize(h.Fields.Summary, 300), min(max(h.Fields.Percent, 0), 100)})
}

// tooSoon tells whether a checkpoint comes so shortly after another that it need not be recorded.
func (h report) tooSoon(at time.Time) bool {
	p := h.w.Task.Progress
	return h.Signal == signalbox.NameCheckpoint && p != nil && at.Sub(p.At) < minBetweenCheckpoints && p.At.After(h.w.Present.From)
}

func (d *decider) awaitDivineResponse(h report) {
	d.block(h.w, h.w.Phase, h.holder, AskedClarification, h.Body, "%s", h.Fields.Summary)
	d.release(h.w.ID, h.holder, h.Signal)
}
