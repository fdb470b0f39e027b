package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"signalbox"
)

// QuestionKind is the reason why the human is asked.
type QuestionKind string

const (
	AskedClarification QuestionKind = "clarification" // an agent asks
	AskedReview        QuestionKind = "review_limit"
	AskedAudit         QuestionKind = "audit_limit"
	AskedDispute       QuestionKind = "dispute" // developer and reviewers disagree about a finding
	AskedChecks        QuestionKind = "check_limit"
	AskedMerge         QuestionKind = "merge_limit"
	// the task conflicts with the base too often, or in a submodule
	AskedConflict    QuestionKind = "merge_conflict"
	AskedIncomplete  QuestionKind = "incomplete"
	AskedWait        QuestionKind = "waiting"
	AskedTimeout     QuestionKind = "agent_failures"
	AskedExpert      QuestionKind = "expert"
	AskedExpansion   QuestionKind = "expansion"
	AskedFile        QuestionKind = "file_conflict"
	AskedBudget      QuestionKind = "budget"
	AskedBlocked     QuestionKind = "blocked"
	AskedRemediation QuestionKind = "remediation"
	AskedBaseline    QuestionKind = "baseline" // checks fail on the base
	// is the task done, although it changes nothing?
	AskedUnchanged QuestionKind = "unchanged"
	// the task comes back as it was sent back
	AskedRepeated QuestionKind = "repeated"
	AskedFileSize QuestionKind = "file_size" // may the task add large files?
	// a pull request was closed, or comes back again and again
	AskedRequest QuestionKind = "pull_request"
	// agents cannot work until the human has done something
	AskedAgent QuestionKind = "agent"
	AskedSetup QuestionKind = "setup" // a worktree cannot be made ready
)

// QuestionKinds returns all kinds of questions.
func QuestionKinds() []QuestionKind {
	return []QuestionKind{AskedClarification, AskedReview, AskedAudit, AskedDispute, AskedChecks,
		AskedMerge, AskedConflict, AskedIncomplete, AskedWait, AskedTimeout, AskedExpert, AskedExpansion,
		AskedFile, AskedBudget, AskedBlocked, AskedRemediation, AskedBaseline, AskedUnchanged,
		AskedRepeated, AskedFileSize, AskedRequest, AskedAgent, AskedSetup}
}

// Question is a question to the human.
type Question struct {
	ID      string         `json:"id"`
	Kind    QuestionKind   `json:"kind"`
	Work    string         `json:"work,omitempty"`
	Session string         `json:"session,omitempty"`
	Text    string         `json:"text"`
	Body    signalbox.Hash `json:"body,omitzero"`
	Asked   time.Time      `json:"asked"`
	Seq     uint64         `json:"seq"`
	// Cap, Role and Spent describe a budget that is not that of the task or the run.
	Cap   Cap            `json:"cap,omitempty"`
	Role  signalbox.Role `json:"role,omitempty"`
	Spent Spent          `json:"spent,omitzero"`
	// Agents are the agents that cannot work, if the question is about them.
	Agents []string `json:"agents,omitempty"`

	Answer    string    `json:"answer,omitempty"`
	Actor     string    `json:"actor,omitempty"`
	Answered  time.Time `json:"answered,omitzero"`
	Withdrawn bool      `json:"withdrawn,omitempty"`
}

// Open reports whether the question has not been answered.
func (q *Question) Open() bool { return q.Answered.IsZero() }

// Questions returns all questions, in the order they were asked.
func (s *delivery) Questions() []*Question { return s.run.Questions }

// Question returns the question with the given id.
func (s *delivery) Question(id string) (*Question, bool) {
	for _, q := range s.run.Questions {
		if q.ID == id {
			return q, true
		}
	}
	return nil, false
}

// AnswerQuestion answers a question.
type AnswerQuestion struct{ Question, Answer, Actor string }

func (c AnswerQuestion) decide(d *decider) error {
	if err := cmp.Or(checkIDs("actor", c.Actor), requireAnswer(c.Answer)); err != nil {
		return err
	}
	q, known := d.s.Question(c.Question)
	if !known {
		return refusef(signalbox.CodeNotFound, "list the open questions with signalbox questions",
			"there is no question '%s'", c.Question)
	}
	if !q.Open() {
		hint := "an answer cannot be changed"
		if q.Work != "" {
			hint += "; to have the task done again: signalbox rework " + q.Work + " TEXT"
		}
		return refusef(signalbox.CodeConflict, hint, "question '%s' was already answered by %s",
			q.ID, q.Actor)
	}
	d.answer.Work, d.answer.Role = q.Work, q.Role
	refused := q.Kind == AskedBudget && isNo(c.Answer)
	d.answer.Seq = d.record(q.Work, "", c.Actor, QuestionAnswered{Question: q.ID, Answer: c.Answer,
		NoGrant: refused,
		Keep:    q.Kind == AskedFileSize && isKeep(c.Answer)})
	if refused {
		d.answer.Paused = true
		d.record(q.Work, "", c.Actor,
			Paused{Reason: "no further budget: " + sanitize(c.Answer, 200), Budget: true,
				Role: q.Role})
	}
	if q.Work == "" {
		d.restoreAgents(q.Agents, c.Actor, "")
		return nil
	}
	w, err := d.work(q.Work)
	if err != nil {
		return err
	}
	switch q.Kind {
	case AskedRemediation:
		return d.answerRemediation(w, c)
	case AskedBaseline:
		d.answerBaseline(w, q, c)
	case AskedUnchanged:
		d.answerUnchanged(w, c)
	case AskedFileSize:
		d.answerFileSize(w, c)
	case AskedRequest:
		d.answerRequest(w, c)
	default:
		d.unblock(w, c.Actor, q.ID)
	}
	return nil
}

func requireAnswer(answer string) error {
	if strings.TrimSpace(answer) == "" {
		return refusef(signalbox.CodeUsage, "write your answer as one argument",
			"the answer is empty")
	}
	return checkText("answer", answer)
}

// isNo reports whether the answer to a yes-or-no question begins with a no.
func isNo(answer string) bool {
	answer = strings.ReplaceAll(strings.ToLower(answer), "\u2019", "'")
	words := strings.FieldsFunc(answer,
		func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' })
	if len(words) > 1 && words[0] == "do" {
		words = words[1:] // do not
	}
	return len(words) > 0 && slices.Contains(noWords, strings.Trim(words[0], "'"))
}

var noWords = []string{"abort", "cancel", "don't", "dont", "end", "halt", "n", "nah", "never", "no",
	"nope", "not", "pause", "quit", "refuse", "reject", "stop"}

// firstWord returns the first word of an answer, in lower case.
func firstWord(answer string) string {
	words := strings.Fields(strings.ToLower(answer))
	if len(words) == 0 {
		return ""
	}
	return strings.Trim(words[0], ".,:;!")
}

// answerRemediation carries out the human's decision about a remediation that keeps failing.
func (d *decider) answerRemediation(w *Work, c AnswerQuestion) error {
	switch firstWord(c.Answer) {
	case "healthy", "declare":
		d.answer.Understood = "the remediation is over, and the checks run again"
		d.closeRemediation(w, c.Actor, c.Question)
	case "halt", "stop":
		d.unblock(w, c.Actor, c.Question)
		d.answer.Paused, d.answer.Understood = true, "the run is paused"
		d.record("", "", c.Actor, Paused{Reason: "halted: " + sanitize(c.Answer, 200)})
	default:
		d.unblock(w, c.Actor, c.Question)
	}
	return nil
}

// isKeep reports whether the answer allows large files.
func isKeep(answer string) bool { return firstWord(answer) == "keep" }

// answerFileSize carries out the human's decision about large files. If they may stay, the same
// commit is checked again, without another turn of a developer.
func (d *decider) answerFileSize(w *Work, c AnswerQuestion) {
	if w.BlockedFrom == signalbox.PhaseCIPending && !isKeep(c.Answer) {
		d.unblockTo(w, c.Actor, c.Question, signalbox.PhaseImplementation)
		return
	}
	d.unblock(w, c.Actor, c.Question)
}

// unblock returns work to the phase it was blocked in, unless it waits for another answer or a
// remediation.
func (d *decider) unblock(w *Work, actor, question string) {
	d.unblockTo(w, actor, question, w.BlockedFrom)
}

func (d *decider) unblockTo(w *Work, actor, question string, phase signalbox.Phase) {
	if w.Phase == signalbox.PhaseBlocked && w.Task.Remedy == "" &&
		len(remove(w.Task.Questions, question)) == 0 {
		d.record(w.ID, "", actor, PhaseChanged{w.Phase, phase})
		d.answer.Phase = phase
	}
}

// ask asks the human a question. The work waits for the answer.
func (d *decider) ask(work, session, actor string, kind QuestionKind, body signalbox.Hash,
	format string, args ...any) string {
	return d.askQuestion(work, session, actor,
		QuestionAsked{Kind: kind, Text: sanitize(fmt.Sprintf(format, args...), maxText),
			Body: body})
}

// askQuestion asks a question whose id is not set yet.
func (d *decider) askQuestion(work, session, actor string, q QuestionAsked) string {
	d.questions++
	q.Question = fmt.Sprintf("Q-%d", len(d.s.run.Questions)+d.questions)
	d.answer.Questions = append(d.answer.Questions, q.Question)
	d.record(work, session, actor, q)
	return q.Question
}

// noReason is what people read if an agent gave no reason.
const noReason = "no reason given"

// inWords returns the reason that an agent gave, for the end of a question.
func inWords(reason string) string {
	if strings.Trim(reason, ". \t\n") == "" {
		return noReason
	}
	return reason
}

// block asks the human and moves the work to BLOCKED. It continues in its current phase.
func (h report) block(kind QuestionKind, body signalbox.Hash, format string,
	args ...any) {
	h.ask(h.w.ID, h.session, h.actor, kind, body, format, args...)
	h.move(signalbox.PhaseBlocked)
}

// resetCounts resets the failure counts, because the human has intervened.
func (t *Task) resetCounts() { t.Counts, t.Timeouts, t.Attempts = Counts{}, nil, 0 }

// maxName is the longest name in a list that an agent wrote, in bytes.
const maxName = 1000

// sanitizeAll sanitizes names that an agent wrote.
func sanitizeAll(names []string) []string { return sanitizeFirst(names, len(names), maxName) }

// sanitizeFirst sanitizes the first texts of a list, each up to n bytes.
func sanitizeFirst(texts []string, most, n int) (clean []string) {
	for _, text := range texts[:min(len(texts), most)] {
		clean = append(clean, sanitize(text, n))
	}
	return clean
}

// sanitize makes text that an agent wrote safe for an event: valid UTF-8 without control
// characters, at most n bytes, not cut inside a rune.
func sanitize(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xc0 == 0x80 {
		n--
	}
	return text[:n]
}
