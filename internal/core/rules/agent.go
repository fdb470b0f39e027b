package rules

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"signalbox"
)

// StartAgent records that an agent is about to start under a lease. Answer.Attempt is the number of
// the attempt.
type StartAgent struct {
	Session string
	Epoch   uint64
	Agent   string
	Prompt  signalbox.Hash
	Sandbox Sandbox
	// Resumes is the id of the task's conversation, if the agent continues that.
	Resumes string
	// Format is the format of the agent's output.
	Format signalbox.Format
}

func (c StartAgent) decide(d *decider) error {
	h, err := d.holderReport(c.Session, c.Epoch, "begin")
	if err != nil {
		return err
	}
	if c.Resumes != "" && !h.w.Task.canResume(c.Resumes) {
		return refusef(signalbox.CodeFailed, "start a new session of the program",
			"work '%s' has no conversation '%s'", h.w.ID, sanitize(c.Resumes, maxConversation))
	}
	if c.Resumes != "" && !h.role.IsAuthor() {
		return refusef(signalbox.CodeFailed, "start a new session of the program",
			"a %s must not resume a conversation", h.role)
	}
	d.answer.Attempt = h.w.Task.Starts[h.role] + 1
	d.answer.Seq = h.note(AgentStarted{c.Epoch, d.answer.Attempt, sanitize(c.Agent, 100),
		c.Prompt, c.Sandbox, c.Resumes, c.Format})
	return nil
}

// ReportFailure reports that an agent ended without a valid signal.
type ReportFailure struct {
	Session string
	Epoch   uint64
	Cause   FailCause
	Detail  string
	// Until is when a rate limit ends; zero means unknown.
	Until time.Time
	// Advice is what to do about an agent that cannot work.
	Advice string
	Turn   *Turn
}

// FailCause is how an agent failed.
type FailCause string

const (
	FailTimeout   FailCause = "timeout"
	FailCrash     FailCause = "crash"
	FailStall     FailCause = "stall"
	FailStart     FailCause = "start"
	FailWorkspace FailCause = "workspace" // not the agent's fault: git, the disk
	// the service refuses requests for a while; not counted as a failure
	FailRateLimit FailCause = "rate_limit"
	FailSignals   FailCause = "signals" // too many turns without a valid signal
	// FailProcesses means that processes of the agent or of a check did not end. What they may
	// still change cannot be trusted, so the human is asked at once.
	FailProcesses FailCause = "processes_left"

	// The agent cannot work at all, whatever the task. The task has not failed.
	FailLogin   FailCause = "login"   // the service does not accept its login or key
	FailCredit  FailCause = "credit"  // its account has no credit left
	FailServer  FailCause = "server"  // its service cannot be reached, or answers only with errors
	FailProgram FailCause = "program" // its program is missing, or cannot be started
)

// InWords returns why an agent cannot work, for people.
func (c FailCause) InWords() string {
	switch c {
	case FailRateLimit:
		return "rate limit"
	case FailCrash:
		return "it keeps crashing"
	case FailStall:
		return "it stopped answering"
	case FailLogin:
		return "login refused"
	case FailCredit:
		return "no credit left"
	case FailServer:
		return "no answer from its server"
	case FailProgram:
		return "its program does not start"
	}
	return string(c)
}

// How long an agent waits after a rate limit.
const (
	// if the service does not say, or says more than maxLimit
	defaultLimit = 5 * time.Minute
	minLimit     = time.Second                // if the limit has ended already, or nearly
	maxLimit     = 31 * 24 * 60 * time.Minute // a later time must be a mistake
)

func (c ReportFailure) decide(d *decider) error {
	if err := c.Turn.check(); err != nil {
		return err
	}
	h, err := d.anyHolderReport(c.Session, c.Epoch, string(c.Cause))
	if err != nil {
		return err
	}
	if h.w.Task == nil {
		return c.byHand(h)
	}
	h.Turn = c.Turn
	// Who runs out of time is asked to finish once; then a new session starts.
	h.endTurn(c.Cause == FailTimeout && h.w.Task.Timeouts[h.role] == 0)
	switch {
	case c.Cause == FailRateLimit:
		h.limitAgent(c.Until)
		h.release(ReleasedLimit)
	case c.Cause.ofAgent() && h.w.Task.Agent != "":
		h.breakAgent(c)
		h.release(ReleasedUnavailable)
	default:
		h.fail(c.Cause, c.Detail)
	}
	h.askBudget()
	return nil
}

// Why a lease was released, if the task has not failed.
const (
	ReleasedLimit       = "rate limit"
	ReleasedUnavailable = "the agent is not available"
)

// maxSignalFailures is how many failures in a row an agent may have if the last is that it sent no
// valid signal: each of those is limits.unknown turns already, and an agent that does not learn the
// form from its corrections and from one new start does not learn it from another.
const maxSignalFailures = 2

// fail counts a failure of an agent, and asks the human when the limit is reached. It never skips a
// quality gate.
func (h report) fail(cause FailCause, detail string) { h.failSaying(cause, detail, detail) }

// failSaying is fail with another detail for the human than for the next agent.
func (h report) failSaying(cause FailCause, detail, forHuman string) {
	count := h.w.Task.Timeouts[h.role] + 1
	h.answer.Seq = h.note(AgentFailed{h.epoch, string(cause), h.role, count,
		sanitize(detail, 1000)})
	h.handOver(cause)
	limit := h.s.run.Policy.Limits.Timeouts
	if cause == FailSignals {
		limit = min(limit, maxSignalFailures)
	}
	if count < limit && cause != FailProcesses {
		h.release(string(cause))
		return
	}
	text := fmt.Sprintf("the %s on %s %s", h.role, h.w.ID, cause.how())
	if count > 1 {
		text = fmt.Sprintf("the %s on %s failed %s in a row; the last time it %s", h.role, h.w.ID,
			times(count), cause.how())
	}
	if forHuman != "" {
		text += ": " + strings.TrimRight(sanitize(forHuman, 1000), ". ")
	}
	switch h.w.Task.Kind {
	case KindExpert:
		h.failRequest(text)
	case KindRemediation:
		h.block(AskedRemediation, signalbox.Hash{},
			"%s. Retry with guidance, declare healthy, or halt?", text)
		h.release(string(cause))
	default:
		h.block(AskedTimeout, signalbox.Hash{}, "%s. What should happen next?", text)
		h.release(string(cause))
	}
}

// holderReport returns a report of a session that holds planned work under a live lease.
func (d *decider) holderReport(session string, epoch uint64, signal string) (report, error) {
	h, err := d.anyHolderReport(session, epoch, signal)
	if err == nil && h.w.Task == nil {
		err = notPlanned(h.w)
	}
	return h, err
}

func notPlanned(w *Work) error {
	return refusef(signalbox.CodeUsage, "send an exit signal instead",
		"work '%s' does not belong to a plan", w.ID)
}

// anyHolderReport returns a report of a session that holds work, planned or not, under a live
// lease.
func (d *decider) anyHolderReport(session string, epoch uint64, signal string) (report, error) {
	by, err := d.sessionNamed(session)
	if err != nil {
		return report{}, err
	}
	held := by.lease(epoch)
	if held.Work == "" {
		return report{}, d.refuseStale(by, nil, nil, refusal{signal: signal, epoch: epoch})
	}
	w, err := d.work(held.Work)
	if err != nil {
		return report{}, err
	}
	lease := d.liveLease(w)
	if lease == nil || lease.Epoch != epoch {
		return report{}, d.refuseStale(by, w, lease, refusal{signal: signal, epoch: epoch})
	}
	d.answer.Work, d.answer.Session, d.answer.Phase, d.answer.Lease = w.ID, session, w.Phase, lease
	return report{decider: d, holder: holder{by.ID, by.Actor, by.Role, epoch}, w: w}, nil
}

// endTurn records the output and the cost of a turn. continues means that the session of its
// program is worth resuming when the work comes back.
func (h report) endTurn(continues bool) {
	if t := h.Turn; t != nil {
		h.delivered(t.Messages)
		wrote := h.role.IsAuthor() && h.w.Task.Agent != "" && (!t.Unchanged || h.handsIn())
		h.note(AgentTurnEnded{h.epoch, t.Exit, t.Output, t.Bytes, t.Spent.estimated(false),
			t.Commit, t.Interrupted,
			t.Cap, t.Estimated, sanitize(t.Model, maxModel), t.Thread, max(0, t.InputTokens),
			max(0, t.OutputTokens), sanitizeAll(t.LoginRefused),
			continues && !t.Interrupted && h.isAuthorConversation(), sanitize(t.Vendor, maxVendor),
			wrote})
	}
}

// handsIn reports whether the signal of an author submits the work.
func (h report) handsIn() bool {
	return h.Signal == signalbox.NameReadyForReview ||
		h.Signal == signalbox.NameRemediationComplete
}

// isAuthorConversation reports whether an author holds the work, whose program has given its
// session an id.
func (h report) isAuthorConversation() bool {
	c := h.w.Task.Conversation
	return c != nil && c.Epoch == h.epoch && h.role.IsAuthor()
}

// askBudget asks the human when a budget is spent. It runs after the signal of the turn was
// handled, because work that is done by then, or already waits for an answer, needs no more budget.
func (h report) askBudget() {
	if h.Turn == nil {
		return
	}
	done := h.answer.Phase == signalbox.PhaseCompleted || len(h.w.Task.Questions) > 0 ||
		h.questions > 0
	h.askBudgets(h.Turn.spent(), done)
}

// previewRunes is how much output without a valid signal is recorded.
const previewRunes = 200

// LevelQuestion is the level of UnknownSignalRecovery if the agent said something, and is asked
// whether it means that.
const LevelQuestion = "question"

// requestClarification prompts an agent again whose turn contained no valid signal. When the limit
// is reached, the agent has failed.
func (h report) requestClarification() {
	limit := h.s.run.Policy.Limits.Unknown
	counts := h.w.Task.Counts
	attempt, level := counts.Unknown+1, "warning"
	switch {
	case h.Fields.Confirm && counts.Confirms == 0: // asked once, which costs no attempt
		attempt, level = counts.Unknown, LevelQuestion
	case attempt > 1:
		level = "error"
	}
	if attempt < limit {
		h.heardFromAgent()
		h.answer.Again = true
		h.answer.Seq = h.note(
			UnknownSignalRecovery{attempt, level,
				firstRunes(sanitize(h.Fields.Summary, utf8.UTFMax*len(h.Fields.Summary)),
					previewRunes), sanitize(h.Fields.Advice, 500)})
		return
	}
	h.note(AgentSignalFailure{fmt.Sprintf("%d_consecutive_unknown_signals", limit)})
	detail := fmt.Sprintf(
		"Agent produced %d unrecognized signals. Re-dispatching with explicit format requirements.",
		limit)
	advice := sanitize(h.Fields.Advice, 500)
	if advice != "" {
		detail += " The last one: " + advice
	}
	h.failSaying(FailSignals, detail, advice) // whether there is another dispatch is for the human
}

func firstRunes(text string, n int) string {
	end := 0
	for range n {
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
	}
	return text[:end]
}

// EndTurn records the end of a turn whose signals were handled while it ran, or that was
// interrupted. If the turn was ended because of a cap, the lease ends with it.
type EndTurn struct {
	Session string
	Epoch   uint64
	Turn    Turn
	Refused []RefusedSignal
}

func (c EndTurn) decide(d *decider) error {
	if err := c.Turn.check(); err != nil {
		return err
	}
	h, err := d.holderReport(c.Session, c.Epoch, "turn")
	if err != nil {
		return err
	}
	h.Turn = &c.Turn
	if session, known := d.s.Session(c.Session); known {
		d.refuseAll(session, h.w, ReportSignal{Epoch: c.Epoch, Blob: c.Turn.Output,
			Refused: c.Refused})
	}
	h.endTurn(false)
	if c.Turn.Cap != "" {
		h.release(c.Turn.Cap.Reason())
	}
	h.askBudget()
	return nil
}
