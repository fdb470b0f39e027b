package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"signalbox"
)

// TaskFinding is something that somebody who judged a task found. Findings are never erased: the
// history of each stays with the task.
type TaskFinding struct {
	RaisedFinding
	// Cause is who raised it, as in FindingsRecorded, and Commit the commit that was judged, in which
	// its place is.
	Cause  string       `json:"cause"`
	Commit string       `json:"commit,omitempty"`
	Seq    uint64       `json:"seq"`
	State  FindingState `json:"state"`
	// Reply is what the developer said last about it.
	Reply string `json:"reply,omitempty"`
	// Times is how often it was found again.
	Times int `json:"times,omitempty"`
	// Answer is the text with which it was last found again.
	Answer string `json:"answer,omitempty"`
	// Waived is who waived it and why, "" if it is not waived.
	Waived string `json:"waived,omitempty"`
	// Upheld means that the developer disputes it, and that it was found again after that.
	Upheld bool `json:"upheld,omitempty"`
}

// FindingState is what became of a finding.
type FindingState string

const (
	FindingOpen     FindingState = "open"
	FindingFixed    FindingState = "claimed fixed" // the developer says so
	FindingDisputed FindingState = "disputed"      // the developer disagrees
	FindingResolved FindingState = "resolved"
	FindingWaived   FindingState = "waived" // a human says that it may stay
	// FindingSuperseded means that the task itself was changed after it.
	FindingSuperseded FindingState = "superseded"
	// FindingNote means that it does not send the work back.
	FindingNote FindingState = "note"
)

// Open reports whether the finding keeps the work from passing.
func (f *TaskFinding) Open() bool {
	return f.State == FindingOpen || f.State == FindingFixed || f.State == FindingDisputed
}

// Source is what the finding comes from, for people.
func (f *TaskFinding) Source() string { return FindingSource(f.Cause) }

// Standing describes what became of the finding, for people.
func (f *TaskFinding) Standing() string {
	standing := string(f.State)
	if f.Upheld {
		standing += ", and stands"
	}
	if f.Times > 0 {
		standing += fmt.Sprintf(" (found %s)", times(f.Times+1))
	}
	return standing
}

// Basis is why a finding may send back work that was reviewed before.
type Basis string

const (
	BasisChanged   Basis = "changed"   // it is in what changed since the last review
	BasisShown     Basis = "shown"     // it comes with a way to show it
	BasisCriterion Basis = "criterion" // it names an acceptance criterion
)

// Judgement is what follows from a failed review that does not send the work back.
type Judgement string

const (
	JudgeAgain Judgement = "again" // another critic looks at it
	JudgeAudit Judgement = "audit" // the auditor decides
)

// SaidFinding is what an agent says about a finding. ID is that of an earlier one, "" for a new
// one.
type SaidFinding struct {
	ID, Place, Text string
	Says            Said
	// Basis is what the crew found about a new one, and Criterion the number of the acceptance
	// criterion that it names, from 1; 0 if it names none.
	Basis     Basis
	Criterion int
}

// Said is what an agent says about a finding.
type Said string

const (
	SaidFound    Said = ""      // it is new, or not fixed
	SaidFixed    Said = "fixed" // from a reviewer also that it was none
	SaidDisputed Said = "disputed"
	SaidNote     Said = "note" // it does not block
	// SaidVaguely is a text that names no finding and lists none: the open ones are not fixed, or it
	// is new.
	SaidVaguely Said = "vaguely"
)

// causeReply is the cause of what the developer says about findings.
const causeReply = "reply"

const (
	// maxFindings is how many findings a verdict can raise, and maxFindingText how long each is.
	// The whole text is in the blob of the verdict.
	maxFindings    = 30
	maxFindingText = 600
	maxPlace       = 200
	// maxRounds is how often a review can fail before the human is asked, even if there are fewer
	// findings each time.
	maxRounds = 10
)

func findingID(n int) string { return fmt.Sprintf("F%d", n) }

// finding returns the finding with an id, nil if there is none.
func (t *Task) finding(id string) *TaskFinding {
	for i := range t.Raised {
		if t.Raised[i].ID == id {
			return &t.Raised[i]
		}
	}
	return nil
}

// OpenFindings returns the findings that keep the task from passing, in the order in which they
// were raised.
func (t *Task) OpenFindings() (open []*TaskFinding) {
	for i := range t.Raised {
		if t.Raised[i].Open() {
			open = append(open, &t.Raised[i])
		}
	}
	return open
}

// openOf returns the ids of open findings with one of the causes.
func (t *Task) openOf(causes ...string) (ids []string) {
	for _, f := range t.OpenFindings() {
		if slices.Contains(causes, f.Cause) {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

// forgetJudgements makes the next critic and auditor judge the work as if it had not been judged
// before. JudgeAudit stays: only work that goes back is reviewed again.
func (t *Task) forgetJudgements() {
	if t.ReviewedAt, t.AuditedAt, t.Blocking = "", "", 0; t.Judgement == JudgeAgain {
		t.Judgement = ""
	}
}

// endFindings ends all open findings: the task is completed, or was itself changed.
func (t *Task) endFindings(as FindingState) {
	if len(t.OpenFindings()) == 0 {
		return
	}
	t.Raised = slices.Clone(t.Raised)
	for i := range t.Raised {
		if t.Raised[i].Open() {
			t.Raised[i].State = as
		}
	}
}

// noteFindings records what becomes of findings, unless nothing does.
func (h report) noteFindings(b FindingsRecorded) {
	if len(b.Raised)+len(b.Again)+len(b.Resolved)+len(b.Replies) > 0 {
		h.note(b)
	}
}

// raise records findings of somebody whose judgement is final: checks, a merge, a human, a pull
// request. Those of checks and of a merge replace the ones before.
func (h report) raise(cause, commit string, texts ...string) {
	t := h.w.Task
	b := FindingsRecorded{Cause: cause, Commit: commit}
	if cause == ReworkChecks || cause == ReworkMerge {
		b.Resolved = t.openOf(cause)
	}
	for _, said := range texts[:min(len(texts), maxFindings)] {
		b.Raised = append(b.Raised, t.raised(SaidFinding{Text: said}, len(b.Raised), false))
	}
	h.noteFindings(b)
}

// resolve records that open findings with these causes are resolved, and the notes of whoever passes
// the work. What the verdict calls not fixed stays open. It returns the report that remains: what was
// said about findings is recorded once.
func (h report) resolve(by string, causes ...string) report {
	t, said := h.w.Task, h.Fields.Findings[:min(len(h.Fields.Findings), maxFindings)]
	b := FindingsRecorded{Cause: by, Commit: t.Commit, Round: t.Counts.Rounds}
	for _, id := range t.openOf(causes...) {
		if !slices.ContainsFunc(said, func(f SaidFinding) bool {
			return f.ID == id && f.Says == SaidFound
		}) {
			b.Resolved = append(b.Resolved, id)
		}
	}
	for _, f := range said {
		if f.Says == SaidNote && t.known(f, h.Fields.Findings) == nil {
			b.Raised = append(b.Raised, t.raised(f, len(b.Raised), true))
		}
	}
	h.noteFindings(b)
	w, task := *h.w, *t
	task.Raised = slices.Clone(task.Raised)
	for i := range task.Raised {
		if slices.Contains(b.Resolved, task.Raised[i].ID) {
			task.Raised[i].State = FindingResolved
		}
	}
	for _, f := range b.Raised {
		task.Raised = append(task.Raised, TaskFinding{RaisedFinding: f, State: FindingNote})
	}
	w.Task, h.w, h.Fields.Findings = &task, &w, nil
	return h
}

// raised returns a new finding. n is how many the same verdict has raised before it.
func (t *Task) raised(said SaidFinding, n int, note bool) RaisedFinding {
	return RaisedFinding{ID: findingID(len(t.Raised) + n + 1), Place: sanitize(said.Place, maxPlace),
		Text: shortened(inWords(said.Text), maxFindingText), Note: note,
		Criterion: max(0, said.Criterion)}
}

// shortened returns text that an agent wrote for an event, with "…" if it had to be cut.
func shortened(text string, n int) string {
	if clean := sanitize(text, n); len(clean) < n {
		return clean
	}
	return sanitize(text, n-len("…")) + "…"
}

// Waive says that a finding does not keep its task from passing any longer. Like a change, it lets
// work be reviewed again that was sent back.
type Waive struct {
	Work, Finding, Reason, Actor string
}

func (c Waive) decide(d *decider) error {
	if err := cmp.Or(checkIDs("actor", c.Actor),
		requireTextUpTo("reason", c.Reason, maxFindingText)); err != nil {
		return err
	}
	w, err := d.work(c.Work)
	if err != nil {
		return err
	}
	look := "signalbox work show " + w.ID + " lists its findings"
	if w.Task == nil || w.Task.finding(c.Finding) == nil {
		return refusef(signalbox.CodeNotFound, look, "'%s' has no finding '%s'", w.ID,
			sanitize(c.Finding, 100))
	}
	switch f := w.Task.finding(c.Finding); {
	case f.State == FindingWaived:
		d.answer.Repeated = true
	case !f.Open():
		return refusef(signalbox.CodeFailed, look, "%s/%s is not open: its state is %s", w.ID, f.ID, f.State)
	default:
		d.answer.Seq = d.record(w.ID, "", c.Actor, FindingsRecorded{Cause: FindingHuman,
			Replies: []FindingReply{{f.ID, FindingWaived, c.Reason}}})
	}
	d.answer.Work, d.answer.Phase, d.answer.Paused = w.ID, w.Phase, w.Task.Paused
	return nil
}

// replies are the states of findings to which a developer replies.
var replies = map[Said]FindingState{SaidFixed: FindingFixed, SaidDisputed: FindingDisputed}

// reply records what the developer says about findings. What it does not mention stays as it is.
// Only what a critic or an auditor says can be disputed: a developer does not overrule the human,
// nor a check.
func (h report) reply() {
	b := FindingsRecorded{Cause: causeReply}
	for _, said := range h.Fields.Findings {
		state := replies[said.Says]
		f := h.w.Task.finding(said.ID)
		repeated := slices.ContainsFunc(b.Replies,
			func(r FindingReply) bool { return r.ID == said.ID })
		if f == nil || !f.Open() || state == "" || repeated || state == FindingDisputed &&
			f.Cause != ReworkReview && f.Cause != ReworkAudit {
			continue
		}
		b.Replies = append(b.Replies,
			FindingReply{said.ID, state, shortened(said.Text, maxFindingText)})
	}
	h.noteFindings(b)
}

// judged returns what a verdict that fails the work makes of its findings. Those that it does not
// mention stay as they are. From the second round on, a new finding of a critic is a note unless it
// has a basis.
func (h report) judged(cause, lastCommit string) FindingsRecorded {
	t := h.w.Task
	b := FindingsRecorded{Cause: cause, Commit: t.Commit}
	later := cause == ReworkReview && lastCommit != ""
	said := h.Fields.Findings
	if !slices.ContainsFunc(said, func(f SaidFinding) bool { return f.Says != SaidFixed }) {
		said = append(slices.Clip(said), SaidFinding{Text: h.Fields.Summary, Says: SaidVaguely})
		later = later && len(said) > 1 // the text was not searched for findings
	}
	for _, f := range said {
		known := t.known(f, said)
		switch {
		case f.Says == SaidVaguely && f.Basis == "" && len(t.openOf(cause)) > 0:
			for _, id := range t.openOf(cause) {
				b.foundAgain(id, f.Text)
			}
		case known == nil && f.Says == SaidFixed, known != nil && known.State == FindingWaived:
			// it names nothing, or what may stay
		case known != nil && f.Says == SaidFixed:
			// what others found is not the critic's to settle, nor the human's the auditor's
			if known.Open() && (known.Cause == cause ||
				cause == ReworkAudit && known.Cause != FindingHuman) {
				b.Resolved = appendUnique(b.Resolved, known.ID)
			}
		case known != nil && known.State == FindingNote && later && f.Basis == "":
			// it was noted before
		case known != nil && (f.Says != SaidNote || known.Open()):
			b.foundAgain(known.ID, f.Text)
		default:
			raised := t.raised(f, len(b.Raised), f.Says == SaidNote || later && f.Basis == "")
			if lastCommit != "" {
				raised.Basis = f.Basis
			}
			b.raise(raised)
		}
	}
	b.Resolved = slices.DeleteFunc(b.Resolved, func(id string) bool {
		return slices.ContainsFunc(b.Again, func(a FoundAgain) bool { return a.ID == id })
	})
	return b
}

// raise adds a new finding, up to maxFindings. One that blocks takes the place of a note.
func (b *FindingsRecorded) raise(f RaisedFinding) {
	if len(b.Raised) < maxFindings {
		b.Raised = append(b.Raised, f)
		return
	}
	if i := slices.IndexFunc(b.Raised, func(r RaisedFinding) bool { return r.Note }); i >= 0 && !f.Note {
		f.ID = b.Raised[i].ID
		b.Raised[i] = f
	}
}

// foundAgain adds an earlier finding, once.
func (b *FindingsRecorded) foundAgain(id, words string) {
	if !slices.ContainsFunc(b.Again, func(a FoundAgain) bool { return a.ID == id }) {
		b.Again = append(b.Again, FoundAgain{ID: id, Text: shortened(words, maxFindingText)})
	}
}

// known returns the finding that is meant: by its id, because it says the same about the same
// place, or because it names an open one in its text. It returns nil for a new one.
func (t *Task) known(said SaidFinding, all []SaidFinding) *TaskFinding {
	if f := t.finding(said.ID); f != nil && f.State != FindingSuperseded {
		return f
	}
	if said.ID != "" || said.Says == SaidFixed {
		return nil
	}
	if f := t.repeated(said, all); f != nil {
		return f
	}
	for _, f := range t.OpenFindings() {
		if slices.ContainsFunc(strings.Fields(said.Text), func(word string) bool {
			return strings.Trim(word, ".,:;()[]`'\"*") == f.ID
		}) {
			return f
		}
	}
	return nil
}

// repeated returns the finding whose words and place are the same. Lines move when others change,
// and agents shorten paths: the only finding that is not resolved and has the same words in the same
// file is meant, too, unless another item of the verdict is about its place.
func (t *Task) repeated(said SaidFinding, all []SaidFinding) *TaskFinding {
	file, _, _ := strings.Cut(sanitize(said.Place, maxPlace), ":")
	text := strings.ToLower(shortened(said.Text, maxFindingText))
	words := wordsOf(text)
	var near []*TaskFinding
	for i := range t.Raised {
		f := &t.Raised[i]
		place, _, _ := strings.Cut(f.Place, ":")
		if f.State == FindingSuperseded || !SameFile(place, file) ||
			!slices.Equal(wordsOf(strings.ToLower(f.Text)), words) {
			continue
		}
		if f.Place == sanitize(said.Place, maxPlace) {
			return f
		}
		if f.State != FindingResolved {
			near = append(near, f)
		}
	}
	if len(near) != 1 || slices.ContainsFunc(all,
		func(s SaidFinding) bool { return s.Place == near[0].Place }) {
		return nil
	}
	return near[0]
}

// wordsOf returns the words of a text, places without their lines.
func wordsOf(text string) []string {
	words := strings.Fields(text)
	for i, word := range words {
		if at := strings.IndexAny(word, ":#"); at > 0 && at+1 < len(word) &&
			strings.Trim(word[at:], ":#l-0123456789`*_.,)") == "" {
			file := word[:at]
			words[i] = file[strings.LastIndexAny(file, "/\\`*(")+1:]
		}
	}
	return words
}

// SameFile reports whether two paths can mean the same file: one is the end of the other, because
// agents shorten paths, or write absolute ones.
func SameFile(a, b string) bool {
	return a == b || a != "" && strings.HasSuffix(b, "/"+a) || b != "" && strings.HasSuffix(a, "/"+b)
}

// blocking returns how many findings of a verdict send the work back.
func (b FindingsRecorded) blocking() int {
	n := len(b.Again)
	for _, f := range b.Raised {
		if !f.Note {
			n++
		}
	}
	return n
}

// reviewFailed handles a verdict of a critic. If only notes are left, another critic looks once,
// and then the auditor decides: a failed review is never a passed one. The auditor also decides if
// the developer disputes all that is left and the critic has answered.
func (h report) reviewFailed() {
	t, limits := h.w.Task, h.s.run.Policy.Limits
	b := h.judged(ReworkReview, t.ReviewedAt)
	b.Round = t.Counts.Rounds
	switch {
	case b.blocking() == 0 && t.Judgement != JudgeAgain:
		b.Outcome = JudgeAgain
		h.note(b)
		return
	case b.blocking() == 0, t.allDisputed(b):
		b.Outcome = JudgeAudit
		h.note(b)
		h.move(signalbox.PhaseReadyForMerge)
		return
	}
	count := t.Counts.Reviews
	if b.blocking() >= t.Blocking { // none, before the first round
		count++
	}
	b.Round++
	h.note(b)
	limit := limits.Reviews
	if b.Round >= maxRounds {
		limit = min(limit, count)
	}
	h.rework(ReworkReview, count, limit, AskedReview, h.Fields.Summary, h.Body,
		max(count, b.Round), t.table(b))
}

// allDisputed reports whether everything with which a verdict sends the work back is disputed, so
// that the verdict is the answer to that.
func (t *Task) allDisputed(b FindingsRecorded) bool {
	for _, f := range b.Raised {
		if !f.Note {
			return false
		}
	}
	for _, again := range b.Again {
		if t.finding(again.ID).State != FindingDisputed {
			return false
		}
	}
	return len(b.Again) > 0
}

// auditFailed handles a verdict of an auditor. If the developer disputes what the auditor says, or
// what the auditor had to decide, the human gets both arguments.
func (h report) auditFailed() {
	t := h.w.Task
	b := h.judged(ReworkAudit, t.AuditedAt)
	var disputed []*TaskFinding
	for _, f := range t.OpenFindings() {
		resolved := slices.Contains(b.Resolved, f.ID)
		again := slices.ContainsFunc(b.Again, func(a FoundAgain) bool { return a.ID == f.ID })
		if f.State == FindingDisputed && !resolved && (again || t.Judgement == JudgeAudit) {
			disputed = append(disputed, f)
		}
	}
	h.note(b)
	count, limit := t.Counts.Audits+1, h.s.run.Policy.Limits.Audits
	if len(disputed) == 0 {
		h.rework(ReworkAudit, count, limit, AskedAudit, h.Fields.Summary, h.Body, count, t.table(b))
		return
	}
	h.note(ReworkOrdered{Cause: ReworkAudit, Count: count,
		Summary: sanitize(h.Fields.Summary, maxText), Body: h.Body})
	h.move(signalbox.PhaseImplementation)
	h.w = withPhase(h.w, signalbox.PhaseImplementation)
	var arguments []string
	for _, f := range disputed {
		argument := fmt.Sprintf("%s, from the %s: %s. The developer: %s", f.label(), f.Source(),
			trimEnd(f.Text), trimEnd(inWords(f.Reply)))
		if f.Answer != "" {
			argument += ". The answer: " + trimEnd(f.Answer)
		}
		arguments = append(arguments, argument)
	}
	h.block(AskedDispute, h.Body, "the developer of %s disputes %s, and the auditor does not pass it (%s). %s. Who is right? Your answer goes to the developer, and to those who review it again. signalbox waive %s/%s TEXT lets a finding stand",
		h.w.ID, findings(len(disputed)), trimEnd(sanitize(h.Fields.Summary, 1000)),
		strings.Join(arguments, ". "), h.w.ID, disputed[0].ID)
}

func findings(n int) string {
	if n == 1 {
		return "a finding"
	}
	return fmt.Sprintf("%d findings", n)
}

func trimEnd(text string) string { return strings.TrimRight(text, ". \n") }

// label is the id of a finding with its place, unless its text has that.
func (f *TaskFinding) label() string {
	if place := f.PlaceBeside(); place != "" {
		return f.ID + " (" + place + ")"
	}
	return f.ID
}

// PlaceBeside returns the place for people who read the text too, "" if the text has it.
func (f *TaskFinding) PlaceBeside() string {
	if strings.Contains(f.Text, f.Place) {
		return ""
	}
	return f.Place
}

// table lists what is open after a verdict, "" if it is only one finding, which the summary has.
func (t *Task) table(b FindingsRecorded) string {
	var rows []string
	for _, again := range b.Again {
		f := t.finding(again.ID)
		row := fmt.Sprintf("%s: %s [found %s]", f.label(), trimEnd(shortened(f.Text, 200)),
			times(f.Times+2))
		if f.Reply != "" {
			row += ", the developer: " + trimEnd(shortened(f.Reply, 200))
		}
		rows = append(rows, row)
	}
	for _, raised := range b.Raised {
		if !raised.Note {
			f := TaskFinding{RaisedFinding: raised}
			rows = append(rows, f.label()+": "+trimEnd(shortened(f.Text, 200))+" [new]")
		}
	}
	if len(rows) < 2 {
		return ""
	}
	return strings.Join(rows, "; ")
}
