package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
	"signalbox/internal/serve/mcpserver/files"
	"signalbox/internal/serve/mcpserver/schema"
)

// signalInput is a line signal, with what the rules act on in fields of their own. An agent that writes its signals has the same in
// labelled lines after them.
type signalInput struct {
	Session    string            `json:"session"`
	Epoch      uint64            `json:"epoch"`
	Signal     string            `json:"signal"`
	Work       string            `json:"work"`
	Summary    string            `json:"summary"`
	Issues     []string          `json:"issues"`
	Details    map[string]string `json:"details"`
	Cause      rules.Cause       `json:"cause"`
	BlockedBy  []string          `json:"blocked_by"`
	Confidence string            `json:"confidence"`
	SubTasks   []subTask         `json:"sub_tasks"`
	Expert     string            `json:"expert"`
	Request    string            `json:"request_type"`
	Gap        string            `json:"gap"`
	Keywords   []string          `json:"keywords"`
	File       string            `json:"file"`
	Percent    int               `json:"percent"`
}

type subTask struct {
	ID        string   `json:"id"`
	Title     string   `json:"title"`
	Work      string   `json:"text"`
	Criteria  []string `json:"acceptance_criteria"`
	BlockedBy []string `json:"blocked_by"`
	Files     []string `json:"files"`
}

func signalNames() (names []string) {
	for _, row := range signalbox.LineSignals() {
		names = append(names, row.Name)
	}
	return names
}

func (s *Server) addEmitSignal() {
	confident := []string{"HIGH", "MEDIUM", "LOW"}
	causes := []rules.Cause{rules.CauseInformation, rules.CauseScope, rules.CauseInfrastructure, rules.CauseWaiting, rules.CauseOther}
	add(s, definition{
		name: "emit_signal", title: "Send a signal", destroys: true,
		description: "Says something about the work of a plan that the session holds: a verdict (ready_for_review, audit_failed, …) moves it and ends the lease; " +
			"checkpoint reports progress. It counts only if the role of the session may send it. Work outside a plan ends with submit_exit.",
		input: schema.Object(
			sessionArgument(),
			schema.Sequence("epoch", "Of the lease; none is the only live one."),
			schema.Choice("signal", signalNames(), "What to say.").Must(),
			schema.ID("work", "What it is about; else what the session holds."),
			schema.Text("summary", 4000, "What was done, found or is needed."),
			schema.Texts("issues", 50, 1000, "review_failed, audit_failed, health_unhealthy: what is to be mended."),
			details(),
			schema.Choice("cause", causes, "task_incomplete: why."),
			schema.Texts("blocked_by", 50, 64, "task_incomplete: the tasks that it waits for."),
			schema.Choice("confidence", confident, "expanded_spec: how sure you are."),
			subTasks(),
			schema.Text("expert", 64, "expert_request, expert_created: who."),
			schema.Text("request_type", 200, "expert_request: of what kind."),
			schema.Text("gap", 1000, "expert_created: what nobody knew."),
			schema.Texts("keywords", 50, 64, "expert_created: what the expert knows about."),
			schema.Text("file", 1024, "file_conflict: the file that another task has."),
			schema.Number("percent", 0, 100, "checkpoint: how far it is."),
		),
	}, func(ctx context.Context, in signalInput) (movedSnapshot, *files.Rest, error) {
		moved, err := s.emit(ctx, in)
		return moved, nil, err
	})
}

func details() schema.Property {
	return schema.Labels("details", 20, 64, 4000, "More labelled text, such as {\"Files Changed\": \"a.go\"}.")
}

func subTasks() schema.Property {
	return schema.Objects("sub_tasks", 50, schema.Object(
		schema.ID("id", "An id of its own.").Must(),
		schema.Text("title", 1000, "What it is about."),
		schema.Text("text", 8000, "What is to be done."),
		schema.Texts("acceptance_criteria", 50, 1000, "How one tells that it is done: at least one.").AtLeast(1).Must(),
		schema.Texts("blocked_by", 50, 64, "The tasks that come before it."),
		schema.Texts("files", 100, 1024, "The files that it will change."),
	), "expanded_spec: the tasks that it is cut into.")
}

// emit hands in a line signal under the session's lease.
func (s *Server) emit(ctx context.Context, in signalInput) (moved movedSnapshot, err error) {
	moved.Signal = in.Signal
	session, err := s.session(in.Session)
	if err != nil {
		return moved, err
	}
	row, _ := signalbox.LineSignalNamed(in.Signal)
	if s.opts.Crew && in.Signal != "checkpoint" {
		return moved, endsTurn(in.words(row))
	}
	err = s.act(ctx, func(b *box.Box) error {
		if err := b.Engine.Refresh(ctx); err != nil {
			return err
		}
		var h held
		b.Engine.View(func(state *rules.State) { h, err = leaseOf(state, session, in.Epoch, s.opts.Now()) })
		if err == nil && h.work != "" && !h.planned {
			moved.Work, moved.Session = h.work, session
			todo := "call submit_exit, with exit_reason blocked if you cannot go on"
			if !s.exitEnabled() {
				todo = "exit signals, which would, are off: " + enableExits
			}
			err = problemf("not_planned", todo, "work '%s' does not belong to a plan, so line signals do not move it", h.work)
		}
		if err != nil {
			return err
		}
		hear, err := in.hear(ctx, b, row, h)
		if err != nil {
			return err
		}
		before := phaseOf(b, h.work)
		answer, err := b.Engine.Do(ctx, hear)
		moved.fill(answer)
		if err == nil && answer.Phase != before {
			moved.NextPhase = &answer.Phase
		}
		moved.Verdict = signalVerdict(&moved, answer)
		return err
	})
	return moved, err
}

func phaseOf(b *box.Box, work string) (phase signalbox.Phase) {
	b.Engine.View(func(state *rules.State) {
		if w, known := state.Work(work); known {
			phase = w.Phase
		}
	})
	return phase
}

func signalVerdict(moved *movedSnapshot, answer rules.Answer) string {
	switch {
	case len(answer.Questions) > 0:
		return fmt.Sprintf("The human is asked %s about %s and the lease is over: stop; get_work shows the answer when there is one", strings.Join(answer.Questions, ", "), moved.Work)
	case answer.Parked:
		return fmt.Sprintf("%s waits, and keeps its lease: renew it, and look at get_work until it can go on", moved.Work)
	case moved.Lease == nil:
		return fmt.Sprintf("%s is in %s now and the lease is over: stop, or claim other work", moved.Work, moved.Phase)
	}
	return fmt.Sprintf("%s is noted, %s stays in %s: go on", moved.Signal, moved.Work, moved.Phase)
}

// words is the signal as an agent writes it.
func (in *signalInput) words(row signalbox.LineSignal) string {
	switch row.Argument {
	case signalbox.TaskArgument:
		if in.Work != "" {
			return row.Text + ": " + in.Work
		}
		return row.Text + ": the id of your task"
	case signalbox.NameArgument:
		return row.Text + ": " + in.Expert
	case signalbox.PathArgument:
		return row.Text + ": " + in.File
	}
	return row.Text
}

// hear makes the command of the signal, and stores what it says in full.
func (in *signalInput) hear(ctx context.Context, b *box.Box, row signalbox.LineSignal, h held) (rules.ReportSignal, error) {
	hear := rules.ReportSignal{Session: h.session, Epoch: h.epoch, Signal: in.Signal, Fields: in.said()}
	switch row.Argument {
	case signalbox.TaskArgument:
		hear.Named = in.Work
		if hear.Named == "" {
			hear.Named = h.work
		}
	case signalbox.NameArgument:
		hear.Named = in.Expert
	case signalbox.PathArgument:
		hear.Named = in.File
	}
	// What nothing will name is not kept.
	if in.Signal == "checkpoint" || !b.Engine.WouldRecord(hear) {
		return hear, nil
	}
	for _, task := range in.SubTasks {
		planned, err := task.put(ctx, b)
		if err != nil {
			return hear, err
		}
		hear.Fields.SubTasks = append(hear.Fields.SubTasks, planned)
	}
	text, err := json.Marshal(signalbox.Signal{Dialect: signalbox.DialectLine, Name: row.Name, Handler: row.Handler, TaskID: hear.Named, Body: in.body(row), Raw: in.words(row), Line: 1})
	if err != nil {
		return hear, err
	}
	hear.Body, err = b.Engine.PutBlob(ctx, bytes.NewReader(text))
	return hear, err
}

// said is what the rules act on.
func (in *signalInput) said() rules.SignalFields {
	said := rules.SignalFields{
		Summary: in.Summary, Cause: in.Cause, BlockedBy: in.BlockedBy, Confidence: in.Confidence,
		Expert: in.Expert, Request: in.Request, Gap: in.Gap, Keywords: in.Keywords, File: in.File, Percent: in.Percent,
	}
	if len(in.Issues) > 0 {
		said.Summary = strings.TrimPrefix(said.Summary+"; "+strings.Join(in.Issues, "\n"), "; ")
	}
	if in.Signal == "task_incomplete" && said.Cause == "" && len(in.BlockedBy) > 0 {
		said.Cause = rules.CauseWaiting
	}
	return said
}

// body has the labels that prompts and people know from written signals.
func (in *signalInput) body(row signalbox.LineSignal) map[string]any {
	body := map[string]any{}
	for label, value := range in.Details {
		body[label] = value
	}
	put := func(label, value string) {
		if value != "" {
			body[label] = value
		}
	}
	put(summaryLabel(row.Name), in.Summary)
	put("Confidence", in.Confidence)
	put("Request Type", in.Request)
	put("Gap", in.Gap)
	put("Blocked By", strings.Join(in.BlockedBy, ", "))
	put("Keywords", strings.Join(in.Keywords, ", "))
	if row.Name == "expert_request" {
		put("Target Agent", in.Expert)
	}
	if len(in.Issues) > 0 {
		body["Issues Found"] = in.Issues
	}
	return body
}

func summaryLabel(signal string) string {
	switch signal {
	case "task_incomplete":
		return "Blocker"
	case "infra_blocked", "audit_blocked":
		return "Issue"
	case "divine_clarification":
		return "Question"
	case "expert_request":
		return "Context Snapshot"
	case "expanded_spec":
		return "Expanded Specification"
	}
	return "Summary"
}

// put stores a sub-task as a plan's task is stored.
func (t *subTask) put(ctx context.Context, b *box.Box) (rules.PlanTask, error) {
	text, err := json.Marshal(plan.Task{ID: t.ID, Title: t.Title, Work: t.Work, Criteria: t.Criteria, BlockedBy: t.BlockedBy, Files: t.Files})
	if err != nil {
		return rules.PlanTask{}, err
	}
	digest, err := b.Engine.PutBlob(ctx, bytes.NewReader(text))
	return rules.PlanTask{ID: t.ID, Title: t.Title, BlockedBy: t.BlockedBy, Files: t.Files, Draft: len(t.Criteria) == 0, Text: digest}, err
}

type askInput struct {
	Session  string   `json:"session"`
	Epoch    uint64   `json:"epoch"`
	Question string   `json:"question"`
	Context  string   `json:"context"`
	Options  []string `json:"options"`
}

func (s *Server) addAskHuman() {
	add(s, definition{
		name: "ask_human", title: "Ask the human", destroys: true, again: true,
		description: "Puts a question about the work of a plan that the session holds to the human. The lease is over, and the work blocked until it is answered; then it is dispatched " +
			"again, with the answer. Ask only what decides how the work goes on. get_work shows the answer.",
		input: schema.Object(
			sessionArgument(),
			schema.Sequence("epoch", "Of the lease; none is the only live one."),
			schema.Text("question", 2000, "What only the human can say, in one or two sentences.").AtLeast(1).Must(),
			schema.Text("context", 4000, "What the human has to know to answer."),
			schema.Texts("options", 10, 500, "The answers that you considered."),
		),
	}, func(ctx context.Context, in askInput) (movedSnapshot, *files.Rest, error) {
		if strings.TrimSpace(in.Question) == "" {
			return movedSnapshot{}, nil, &schema.MisfitError{Why: "the question is empty"}
		}
		details := map[string]string{}
		if in.Context != "" {
			details["Context"] = in.Context
		}
		if len(in.Options) > 0 {
			details["Options Considered"] = strings.Join(in.Options, "\n")
		}
		moved, err := s.emit(ctx, signalInput{Session: in.Session, Epoch: in.Epoch, Signal: "divine_clarification", Summary: in.Question, Details: details})
		return moved, nil, err
	})
}
