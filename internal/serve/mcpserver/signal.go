package mcpserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/findings"
	"signalbox/internal/run/plan"
	"signalbox/internal/serve/mcpserver/schema"
)

// signalInput is a line signal. Its fields correspond to the labelled lines that follow a signal in
// an agent's text.
type signalInput struct {
	Session    string            `json:"session"`
	Secret     string            `json:"secret"`
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
	causes := []rules.Cause{rules.CauseInformation, rules.CauseScope, rules.CauseInfrastructure,
		rules.CauseWaiting, rules.CauseOther}
	add(s, definition{
		name: "emit_signal", title: "Send a signal", destructive: true,
		description: "Sends a signal about work of a plan that the session holds. A verdict (ready_for_review, audit_failed, …) moves the work and ends the lease; " +
			"checkpoint reports progress. The role of the session must allow the signal. Work outside a plan ends with submit_exit.",
		input: schema.Object(
			sessionArgument(),
			secretArgument(),
			schema.Sequence("epoch", "Default: the only live lease."),
			schema.Choice("signal", signalNames(), "The signal.").Require(),
			schema.ID("work", "The work item. Default: the one that the session holds."),
			schema.Text("summary", 4000, "What was done, found, or is needed."),
			schema.TextList("issues", 50, 1000,
				"For review_failed, audit_failed, health_unhealthy: what to fix."),
			details(),
			schema.Choice("cause", causes, "For task_incomplete: why."),
			schema.TextList("blocked_by", 50, 64,
				"For task_incomplete: the tasks that must come first."),
			schema.Choice("confidence", confident, "For expanded_spec: your confidence."),
			subTasks(),
			schema.Text("expert", 64,
				"For expert_request, expert_created: the name of the expert."),
			schema.Text("request_type", 200, "For expert_request: the type of request."),
			schema.Text("gap", 1000, "For expert_created: the missing knowledge."),
			schema.TextList("keywords", 50, 64, "For expert_created: the topics of the expert."),
			schema.Text("file", 1024, "For file_conflict: the file that another task changes."),
			schema.Integer("percent", 0, 100, "For checkpoint: progress."),
		),
	}, s.emit)
}

func details() schema.Property {
	return schema.Labels("details", 20, 64, 4000,
		"More labelled texts, for example {\"Files Changed\": \"a.go\"}.")
}

func subTasks() schema.Property {
	return schema.ObjectList("sub_tasks", 50, schema.Object(
		schema.ID("id", "A new id.").Require(),
		schema.Text("title", 1000, "One line about the task."),
		schema.Text("text", 8000, "What to do."),
		schema.TextList("acceptance_criteria", 50, 1000,
			"How to verify that it is done; at least one.").MinLength(1).Require(),
		schema.TextList("blocked_by", 50, 64, "Tasks that must come first."),
		schema.TextList("files", 100, 1024, "Files that it will change."),
	), "For expanded_spec: the tasks that it is split into.")
}

// emit sends a line signal under the lease of the session.
func (s *Server) emit(ctx context.Context, in signalInput) (moved signalSnapshot, err error) {
	moved.Signal = in.Signal
	session, err := s.session(in.Session)
	if err != nil {
		return moved, err
	}
	row, _ := signalbox.LineSignalNamed(in.Signal)
	if s.opts.Crew && in.Signal != signalbox.NameCheckpoint {
		return moved, sayAtEndOfTurn(in.written(row))
	}
	err = s.withBox(ctx, func(b *box.Box) error {
		if err := b.Engine.Refresh(ctx); err != nil {
			return err
		}
		var h heldLease
		b.Engine.View(func(state *rules.State) { h, err = leaseOf(state, session, in.Epoch, s.opts.Now()) })
		if err == nil {
			err = s.checkSession(ctx, b, session)
		}
		if err == nil && h.work != "" && !h.planned {
			moved.Work, moved.Session = h.work, session
			advice := "call submit_exit, with exit_reason blocked if you cannot continue"
			if !s.exitEnabled() {
				advice = "only exit signals do, and they are disabled: " + enableExits
			}
			err = problemf("not_planned", advice,
				"work '%s' does not belong to a plan, so that line signals do not move it", h.work)
		}
		if err != nil {
			return err
		}
		command, err := in.command(ctx, b, row, h, s.caller(ctx, in.Secret))
		if err != nil {
			return err
		}
		before := phaseOf(b, h.work)
		answer, err := b.Engine.Do(ctx, command)
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

func signalVerdict(moved *signalSnapshot, answer rules.Answer) string {
	switch {
	case len(answer.Questions) > 0:
		return fmt.Sprintf("Question %s about %s was sent to the human and the lease has ended: stop; get_work shows the answer when there is one", strings.Join(answer.Questions, ", "), moved.Work)
	case answer.Parked:
		return fmt.Sprintf("%s waits and keeps its lease: renew it, and call get_work until it can continue", moved.Work)
	case moved.Lease == nil:
		return fmt.Sprintf("%s is now in %s and the lease has ended: stop, or claim other work",
			moved.Work, moved.Phase)
	}
	return fmt.Sprintf("%s is recorded, %s stays in %s: continue", moved.Signal, moved.Work,
		moved.Phase)
}

// written returns the signal as an agent writes it.
func (in *signalInput) written(row signalbox.LineSignal) string {
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

// command returns the command for the signal, and stores its full text as a blob.
func (in *signalInput) command(ctx context.Context, b *box.Box, row signalbox.LineSignal,
	h heldLease, caller *rules.Caller) (rules.ReportSignal, error) {
	c := rules.ReportSignal{Session: h.session, Epoch: h.epoch, Signal: in.Signal,
		Fields: in.fields(h.work), Caller: caller}
	switch row.Argument {
	case signalbox.TaskArgument:
		c.Named = in.Work
		if c.Named == "" {
			c.Named = h.work
		}
	case signalbox.NameArgument:
		c.Named = in.Expert
	case signalbox.PathArgument:
		c.Named = in.File
	}
	if in.Signal == signalbox.NameCheckpoint {
		return c, nil
	}
	data, err := json.Marshal(signalbox.Signal{Dialect: signalbox.DialectLine, Name: row.Name,
		Handler: row.Handler, TaskID: c.Named, Body: in.body(row), Raw: in.written(row), Line: 1})
	if err != nil {
		return c, err
	}
	// A blob that no event would refer to is not stored, in particular not for a caller without the
	// secret. Those of a repeated signal are there, and the signal is recognized by them.
	c.Body = sha256.Sum256(data)
	answer, needed, err := b.Engine.Preview(c)
	if err != nil || !answer.Repeated && !slices.Contains(needed, c.Body) {
		c.Body = signalbox.Hash{}
		return c, err
	}
	for _, task := range in.SubTasks {
		planned, err := task.put(ctx, b)
		if err != nil {
			return c, err
		}
		c.Fields.SubTasks = append(c.Fields.SubTasks, planned)
	}
	c.Body, err = b.Engine.PutBlob(ctx, bytes.NewReader(data))
	return c, err
}

// fields returns the fields that the rules use.
func (in *signalInput) fields(work string) rules.SignalFields {
	fields := rules.SignalFields{
		Summary: in.Summary, Cause: in.Cause, BlockedBy: in.BlockedBy, Confidence: in.Confidence,
		Expert: in.Expert, Request: in.Request, Gap: in.Gap, Keywords: in.Keywords, File: in.File,
		Percent: in.Percent,
	}
	fields.Findings = in.findings(work)
	if len(in.Issues) > 0 {
		fields.Summary = strings.TrimPrefix(fields.Summary+"; "+strings.Join(in.Issues, "\n"), "; ")
	}
	if in.Signal == signalbox.NameTaskIncomplete && fields.Cause == "" && len(in.BlockedBy) > 0 {
		fields.Cause = rules.CauseWaiting
	}
	return fields
}

// findings returns what the signal says about findings. Nothing here knows what changed since the
// last review, so all new ones may block.
func (in *signalInput) findings(work string) (said []rules.SaidFinding) {
	row, _ := signalbox.LineSignalNamed(in.Signal)
	task := findings.Task{Names: []string{work, in.Work}}
	switch in.Signal {
	case signalbox.NameReadyForReview:
		return findings.FromReply(in.body(row), task)
	case signalbox.NameReviewFailed, signalbox.NameAuditFailed:
		said = findings.FromVerdict(in.body(row), task, true)
		for i := range said {
			if said[i].Says == rules.SaidFound {
				said[i].Basis = rules.BasisChanged
			}
		}
	case signalbox.NameReviewPassed, signalbox.NameAuditPassed:
		said = findings.FromVerdict(in.body(row), task, false)
	}
	return said
}

// body returns the body of the signal, with the labels of written signals.
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
	if row.Name == signalbox.NameExpertRequest {
		put("Target Agent", in.Expert)
	}
	if len(in.Issues) > 0 {
		body["Issues Found"] = in.Issues
	}
	return body
}

func summaryLabel(signal string) string {
	switch signal {
	case signalbox.NameTaskIncomplete:
		return "Blocker"
	case signalbox.NameInfraBlocked, signalbox.NameAuditBlocked:
		return "Issue"
	case signalbox.NameDivineClarification:
		return "Question"
	case signalbox.NameExpertRequest:
		return "Context Snapshot"
	case signalbox.NameExpandedSpec:
		return "Expanded Specification"
	}
	return "Summary"
}

// put stores a sub-task in the same form as a task of a plan.
func (t *subTask) put(ctx context.Context, b *box.Box) (rules.PlanTask, error) {
	data, err := json.Marshal(plan.Task{ID: t.ID, Title: t.Title, Work: t.Work,
		Criteria: t.Criteria, BlockedBy: t.BlockedBy, Files: t.Files})
	if err != nil {
		return rules.PlanTask{}, err
	}
	digest, err := b.Engine.PutBlob(ctx, bytes.NewReader(data))
	return rules.PlanTask{ID: t.ID, Title: t.Title, BlockedBy: t.BlockedBy, Files: t.Files,
		Draft: len(t.Criteria) == 0, Text: digest}, err
}

type askInput struct {
	Session  string   `json:"session"`
	Secret   string   `json:"secret"`
	Epoch    uint64   `json:"epoch"`
	Question string   `json:"question"`
	Context  string   `json:"context"`
	Options  []string `json:"options"`
}

func (s *Server) addAskHuman() {
	add(s, definition{
		name: "ask_human", title: "Ask the human", destructive: true, idempotent: true,
		description: "Asks the human a question about work of a plan that the session holds. The lease ends and the work is blocked until the answer; then it is dispatched " +
			"again, with the answer. Ask only what you need to continue. get_work shows the answer.",
		input: schema.Object(
			sessionArgument(),
			secretArgument(),
			schema.Sequence("epoch", "Default: the only live lease."),
			schema.Text("question", 2000,
				"The question, in one or two sentences.").MinLength(1).Require(),
			schema.Text("context", 4000, "What the human must know to answer."),
			schema.TextList("options", 10, 500, "Answers that you considered."),
		),
	}, func(ctx context.Context, in askInput) (signalSnapshot, error) {
		if strings.TrimSpace(in.Question) == "" {
			return signalSnapshot{}, &schema.ArgumentError{Reason: "the question is empty"}
		}
		details := map[string]string{}
		if in.Context != "" {
			details["Context"] = in.Context
		}
		if len(in.Options) > 0 {
			details["Options Considered"] = strings.Join(in.Options, "\n")
		}
		return s.emit(ctx, signalInput{Session: in.Session, Secret: in.Secret,
			Epoch: in.Epoch, Signal: signalbox.NameDivineClarification, Summary: in.Question,
			Details: details})
	})
}
