package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox"
)

// ReportSignal reports a line signal under a session's lease: an urgent one while the agent runs,
// or the result of its turn.
type ReportSignal struct {
	Session string
	Epoch   uint64
	// Signal is the name of a line signal, or "unknown" for a turn without a valid signal.
	Signal string
	// Named is the work that the signal names, "" if it names none.
	Named  string
	Fields SignalFields
	// Blob contains the signal, at Offset. Body contains all fields of the signal.
	Blob   signalbox.Hash
	Offset int64
	Body   signalbox.Hash
	// Exit is the exit signal of the turn, if it agrees with a verdict; only its Signal, Blob,
	// Offset and Notes are used.
	Exit *Exit
	// Refused are the signals of the turn that were refused.
	Refused []RefusedSignal
	// Turn is set at the end of a turn.
	Turn *Turn
	// Caller is who reports the signal; nil means an operator or a crew.
	Caller *Caller
}

// SignalFields are the fields of a signal that the rules use. Fields that do not apply are zero.
type SignalFields struct {
	// Summary is one line for people. For a turn without a valid signal it is the output, and
	// Advice says what to send instead.
	Summary, Advice string
	// Confirm means that a reviewer wrote more after a verdict, so that the turn has none.
	Confirm bool
	// Cause and BlockedBy describe an incomplete task.
	Cause     Cause
	BlockedBy []string
	// Confidence and SubTasks describe an expanded task.
	Confidence string
	SubTasks   []PlanTask
	// Expert is the expert that a request names, or that was created, with Gap and Keywords.
	// Request is the kind of request.
	Expert, Request, Gap string
	Keywords             []string
	File                 string
	Percent              int
	// Findings are what a reviewer found, or what a developer replies to findings.
	Findings []SaidFinding
}

// Cause is the reason why a developer could not finish.
type Cause string

const (
	CauseInformation    Cause = "missing_information"
	CauseScope          Cause = "out_of_scope"
	CauseInfrastructure Cause = "infrastructure"
	CauseWaiting        Cause = "waiting"
	CauseOther          Cause = "other"
)

// Causes returns all causes.
func Causes() []Cause {
	return []Cause{CauseInformation, CauseScope, CauseInfrastructure, CauseWaiting, CauseOther}
}

// RefusedSignal is a signal that was refused before it reached the rules.
type RefusedSignal struct {
	Signal string
	Reason signalbox.Reason
	Detail string
	Times  int
}

// Turn is the result of one turn of an agent.
type Turn struct {
	Exit   int
	Output signalbox.Hash
	Bytes  int64
	Spent  Spent
	// InputTokens and OutputTokens are the tokens that the model read and wrote, together those in
	// Spent.
	InputTokens, OutputTokens int64
	// Commit is the commit with everything that the agent changed, "" if it has no branch.
	Commit string
	// Interrupted means that signalbox ended the agent because the run was stopped, or because of
	// Cap.
	Interrupted bool
	// Cap is the limit of spending that made signalbox end the agent.
	Cap Cap
	// Estimated means that the tokens in Spent are an estimate.
	Estimated bool
	// Model is the model that was used, and Vendor whose it is, "" if that is not known.
	Model, Vendor string
	// Unchanged means that an author changed no file.
	Unchanged bool
	// Thread is the program's own session, if what it reports is for all turns of that.
	Thread *Thread
	// Messages are the sequences of the messages in its prompt. They are delivered if the turn
	// counts; otherwise leave them out, and the next agent gets them.
	Messages []uint64
	// LoginRefused are changes to the copy of the program's login that were not copied to the
	// user's file, by the names of the file and of its fields.
	LoginRefused []string
}

// check refuses a turn that names no commit by its full id. A nil turn is valid.
func (t *Turn) check() error {
	if t == nil {
		return nil
	}
	return checkCommits(t.Commit)
}

func (t *Turn) spent() Spent { return t.Spent.estimated(t.Estimated) }

// holder is a session that holds the work it reports about.
type holder struct {
	session, actor string
	role           signalbox.Role
	epoch          uint64
}

// report is what a session reports about the planned work w that it holds, and the decision that
// follows from it. ReportSignal is zero if the report is not a signal, so use session and epoch of
// the holder.
type report struct {
	*decider
	ReportSignal
	holder
	w *Work
}

func (c ReportSignal) decide(d *decider) error {
	if err := c.Turn.check(); err != nil {
		return err
	}
	session, err := d.sessionNamed(c.Session)
	if err != nil {
		return err
	}
	held := session.lease(c.Epoch)
	sent := refusal{signal: c.Signal, epoch: c.Epoch, blob: c.Blob}
	if err := d.checkCaller(c.Caller, session, sent); err != nil {
		return err
	}
	if held.Work == "" {
		return d.refuseStale(session, nil, nil, sent)
	}
	w, err := d.work(held.Work)
	if err != nil {
		return err
	}
	if w.Task == nil {
		return refusef(signalbox.CodeUsage, "send an exit signal instead",
			"work '%s' does not belong to a plan, so line signals do not move it", w.ID)
	}
	row, known := signalbox.LineSignalNamed(c.Signal)
	handler := row.Handler
	if c.Signal == signalbox.NameUnknown {
		handler, known = signalbox.HandlerClarify, true
	}
	if !known {
		return refusef(signalbox.CodeUsage, "docs/reference/signals.md lists the line signals",
			"there is no line signal '%s'", c.Signal)
	}
	h := report{d, c, holder{session.ID, session.Actor, session.Role, c.Epoch}, w}
	heard := SignalHeard{Dialect: signalbox.DialectLine, Signal: c.Signal, Epoch: c.Epoch, Blob: c.Blob, Offset: c.Offset, Handler: handler, Body: c.Body}
	lease := d.liveLease(w)
	if lease == nil || lease.Epoch != c.Epoch {
		if d.repeatedSignal(session, w, heard) {
			return nil
		}
		return d.refuseStale(session, w, lease, sent)
	}
	d.answer.Work, d.answer.Session, d.answer.Phase, d.answer.Lease = w.ID, session.ID, w.Phase,
		lease
	d.refuseAll(session, w, c)
	// An author who sends no valid signal, or cannot finish, makes room for a new session.
	h.endTurn(c.Signal != signalbox.NameUnknown && c.Signal != signalbox.NameTaskIncomplete)
	if reason := h.refusalReason(row); reason != "" {
		sent.reason = reason
		sent.detail = fmt.Sprintf("%s: the %s of '%s' sent %s about '%s'", reason, session.Role,
			w.ID, c.Signal, sanitize(c.Named, 100))
		h.askBudget()
		return d.refuse(session, w.ID, sent, signalbox.CodeFailed,
			"send only the signals in the prompt, about the task in the prompt")
	}
	switch requested, tooMany := h.fileRequested(); {
	case h.tooSoon(d.at) || requested:
		d.answer.Repeated = true
		return nil
	case tooMany:
		sent.reason, sent.detail = signalbox.ReasonRateLimited,
			fmt.Sprintf("%s asked for more than %d files", w.ID, maxFileRequests)
		return d.refuse(session, w.ID, sent, signalbox.CodeFailed, "declare the files in the plan")
	}
	if handler != signalbox.HandlerClarify {
		h.heardFromAgent()
		seq := d.record(w.ID, session.ID, session.Actor, heard)
		if c.Exit != nil && !row.Urgent {
			c.Exit.confirm(session, h)
		}
		d.answer.Seq = seq
	}
	handlers[handler](h)
	h.askBudget()
	return nil
}

// refusalReason returns why the session must not send the signal now, "" if it may.
func (h report) refusalReason(row signalbox.LineSignal) signalbox.Reason {
	switch {
	case h.Signal == signalbox.NameUnknown:
		return ""
	case !h.role.MaySend(h.Signal):
		return signalbox.ReasonOutOfRole
	case row.Argument == signalbox.TaskArgument && !slices.Contains(h.s.names(h.w), h.Named):
		return signalbox.ReasonWrongWork
	case h.w.Task.Parked != nil && (h.Signal == signalbox.NameExpertRequest ||
		h.Signal == signalbox.NameFileConflict):
		return signalbox.ReasonDuplicate // a parked session already waits for something
	}
	return ""
}

// repeatedSignal repeats the first answer if the session sent the same verdict before under the
// same lease.
func (d *decider) repeatedSignal(session *Session, w *Work, heard SignalHeard) bool {
	exit, found := session.accepted(heard.Epoch, heard)
	if found {
		d.answer.Repeated, d.answer.Seq, d.answer.Work, d.answer.Phase, d.answer.Session = true,
			exit.Seq, w.ID, exit.Next, session.ID
	}
	return found
}

func (d *decider) refuseAll(session *Session, w *Work, c ReportSignal) {
	for _, r := range c.Refused {
		d.refuse(session, w.ID, refusal{signal: sanitize(r.Signal, 100), epoch: c.Epoch,
			blob: c.Blob, times: r.Times, reason: r.Reason,
			detail: sanitize(r.Detail, 1000)}, signalbox.CodeFailed, "")
	}
}

// handlers are the coordinator's actions, by their names in the table of line signals.
var handlers = map[string]func(report){
	"DISPATCH_CRITIC":             report.dispatchCritic,
	"LOG_AND_FILL_SLOTS":          report.logAndFillSlots,
	"ENTER_REMEDIATION":           report.enterRemediation,
	"DISPATCH_AUDITOR":            report.dispatchAuditor,
	"DISPATCH_DEVELOPER_REWORK":   report.dispatchDeveloperRework,
	"MARK_COMPLETE":               report.markComplete,
	"PROCESS_EXPANSION":           report.processExpansion,
	"DISPATCH_HEALTH_AUDITOR":     report.dispatchHealthAuditor,
	"EXIT_REMEDIATION":            report.exitRemediation,
	"RETRY_REMEDIATION":           report.retryRemediation,
	"AWAIT_DIVINE_RESPONSE":       report.awaitDivineResponse,
	"DISPATCH_EXPERT":             report.dispatchExpert,
	"DELIVER_TO_REQUESTING_AGENT": report.deliverToRequestingAgent,
	"ESCALATE_TO_DIVINE":          report.escalateToDivine,
	"REGISTER_EXPERT":             report.registerExpert,
	"QUEUE_OR_COORDINATE":         report.queueOrCoordinate,
	"PROCESS_CHECKPOINT":          report.processCheckpoint,
	signalbox.HandlerClarify:      report.requestClarification,
}

// note adds an event about the work of a report and returns its sequence number.
func (h report) note(body body) uint64 {
	return h.record(h.w.ID, h.session, h.actor, body)
}

// move changes the phase of work.
func (h report) move(to signalbox.Phase) {
	h.note(PhaseChanged{h.w.Phase, to})
	h.answer.Phase = to
}

// release ends the holder's lease.
func (h report) release(reason string) {
	h.note(LeaseReleased{h.epoch, reason})
	h.answer.Lease = nil
}

// dispatchCritic moves a task that the developer calls done to the checks. The critic comes after
// they have passed.
func (h report) dispatchCritic() {
	h.reply()
	h.move(signalbox.PhaseCIPending)
	h.release(h.Signal)
}

func (h report) dispatchAuditor() {
	if h.isDependent() {
		h.release(releasedDependent)
		return
	}
	h = h.resolve(ReworkReview, ReworkReview)
	h.move(signalbox.PhaseReadyForMerge)
	h.w = withPhase(h.w, signalbox.PhaseReadyForMerge)
	h.skipGates()
	h.release(h.Signal)
}

func (h report) dispatchDeveloperRework() {
	if h.Signal == signalbox.NameReviewFailed {
		h.reviewFailed()
	} else {
		h.auditFailed()
	}
	h.release(h.Signal)
}

// rework sends work back to the developers, and asks the human when the limit is reached. failed is
// how often it failed, and table what is open, if that is more than the summary says.
func (h report) rework(cause string, count, limit int, kind QuestionKind, summary string,
	body signalbox.Hash, failed int, table string) {
	h.note(ReworkOrdered{Cause: cause, Count: count, Summary: sanitize(summary, maxText),
		Body: body})
	h.move(signalbox.PhaseImplementation)
	if count >= limit {
		h.w = withPhase(h.w, signalbox.PhaseImplementation)
		text := fmt.Sprintf("%s failed %s", cause, times(failed))
		summary = strings.TrimRight(sanitize(strings.TrimPrefix(summary, failingPrefix), 1000),
			". \n")
		switch {
		case table != "":
			text += ". Open findings: " + table
		case summary != "":
			text += ": " + summary
		}
		h.block(kind, body, "%s. What should happen next?", text)
	}
}

// times returns how often something happened.
func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// markComplete requests the merge. A shared workspace needs none, so the work is complete.
func (h report) markComplete() {
	if h.isDependent() {
		h.release(releasedDependent)
		return
	}
	h = h.resolve(ReworkAudit, ReworkReview, ReworkAudit, ReworkRequest, FindingHuman)
	if h.s.run.Policy.Shared {
		h.complete()
		return
	}
	h.note(MergeRequested{h.w.Task.Commit})
	h.release(h.Signal)
}

// complete completes work that needs no merge.
func (h report) complete() {
	h.note(Merged{Unblocked: h.s.unblockedBy(h.w.ID)})
	h.move(signalbox.PhaseCompleted)
	h.release(h.Signal)
}

// unblockedBy returns the tasks that wait only for the given task, apart from those in done.
func (s *State) unblockedBy(id string, done ...string) []string {
	var unblocked []string
	for _, i := range s.dependents[id] {
		if i >= len(s.works) || s.works[i].Task == nil || s.works[i].Done() {
			continue // rolled back, not planned, or done
		}
		open := slices.DeleteFunc(s.OpenBlockers(s.works[i]),
			func(id string) bool { return slices.Contains(done, id) })
		if len(open) == 1 && open[0] == id {
			unblocked = append(unblocked, s.works[i].ID)
		}
	}
	return unblocked
}

// logAndFillSlots decides by the cause what happens to a task that a developer could not finish.
func (h report) logAndFillSlots() {
	t, limits := h.w.Task, h.s.run.Policy.Limits
	if h.Fields.Cause == "" {
		h.Fields.Cause = CauseOther
	}
	count := t.Counts.Incompletes + 1
	h.note(IncompleteLogged{h.Fields.Cause, count, sanitize(h.Fields.Summary, maxText),
		h.Body})
	blockers := h.s.validBlockers(h.w, h.Fields.BlockedBy)
	switch {
	case h.Fields.Cause == CauseInfrastructure:
		h.requestRemediation(h.Fields.Summary)
	case h.Fields.Cause == CauseInformation, h.Fields.Cause == CauseScope:
		h.block(AskedIncomplete, h.Body, "%s is incomplete (%s): %s", h.w.ID, h.Fields.Cause,
			inWords(h.Fields.Summary))
	case h.Fields.Cause == CauseWaiting && len(h.Fields.BlockedBy) == 0:
		h.block(AskedWait, h.Body, "%s waits, but names no task that it waits for: %s", h.w.ID,
			inWords(h.Fields.Summary))
	case h.Fields.Cause == CauseWaiting && len(blockers) == 0:
		h.block(AskedWait, h.Body,
			"%s waits for %s, which is not an open task it can wait for: %s",
			h.w.ID, joinSome(h.Fields.BlockedBy), inWords(h.Fields.Summary))
	case h.Fields.Cause == CauseWaiting && t.Counts.Waits+1 >= limits.Waits:
		h.block(AskedWait, h.Body, "%s waits for other tasks for the %s time, now for %s: %s",
			h.w.ID, ordinal(t.Counts.Waits+1), joinSome(blockers), inWords(h.Fields.Summary))
	case h.Fields.Cause == CauseWaiting:
		h.note(BlockerAdded{blockers, t.Counts.Waits + 1})
	case count >= limits.Incompletes:
		h.block(AskedIncomplete, h.Body, "%s was left incomplete %s, last: %s", h.w.ID,
			times(count), inWords(h.Fields.Summary))
	}
	h.release(h.Signal)
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

// validBlockers returns those of the ids that a task can wait for: open tasks that do not wait for
// it themselves.
func (s *register) validBlockers(w *Work, ids []string) []string {
	var valid []string
	for _, id := range ids {
		b, known := s.taskNamed(w, id)
		if known && b.Task != nil && b.Task.Kind == KindTask && !b.Done() && b.ID != w.ID &&
			!s.waitsFor(b, w.ID) {
			valid = appendUnique(valid, b.ID)
		}
	}
	return valid
}

// waitsFor reports whether w depends on the work with the given id, directly or indirectly.
func (s *register) waitsFor(w *Work, id string) bool {
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

// minBetweenCheckpoints is the minimum time between two recorded checkpoints of a session, so that
// an agent cannot flood the ledger.
const minBetweenCheckpoints = 5 * time.Second

func (h report) processCheckpoint() {
	h.note(ProgressReported{h.epoch, sanitize(h.Fields.Summary, 300),
		min(max(h.Fields.Percent, 0), 100)})
}

// tooSoon reports whether the signal is a checkpoint that comes too soon after another to be
// recorded.
func (h report) tooSoon(at time.Time) bool {
	p := h.w.Task.Progress
	return h.Signal == signalbox.NameCheckpoint && p != nil &&
		at.Sub(p.At) < minBetweenCheckpoints && p.At.After(h.w.Present.From)
}

func (h report) awaitDivineResponse() {
	question := inWords(h.Fields.Summary)
	if question == noReason {
		question = fmt.Sprintf("the %s on %s wants an answer, but wrote no question: %s", h.role,
			h.w.ID, noReason)
	}
	h.block(AskedClarification, h.Body, "%s", question)
	h.release(h.Signal)
}
