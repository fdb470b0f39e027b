package api

import (
	"net/http"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/steer"
	"signalbox/internal/serve/access"
)

type addTaskInput struct {
	Text      string   `json:"text" jsonschema:"what to do; it is the only acceptance criterion of the task"`
	Title     string   `json:"title,omitempty" jsonschema:"by default the beginning of the text"`
	Review    string   `json:"review,omitempty" jsonschema:"who judges the work besides the checks: full (critic and auditor), critic, or checks (neither); by default full"`
	BlockedBy []string `json:"blocked_by,omitempty" jsonschema:"the tasks that must be completed first: their ids, or PLAN/ID if several plans have them"`
}

// taskAdded is the answer to an added task.
type taskAdded struct {
	Work  string          `json:"work"`
	Phase signalbox.Phase `json:"phase"`
	Seq   uint64          `json:"seq"`
}

type answerInput struct {
	Question string `path:"question" json:"-" jsonschema:"the question, such as Q-1"`
	Answer   string `json:"answer"`
}

// answered is the answer to an answer.
type answered struct {
	Question string `json:"question"`
	Work     string `json:"work,omitempty"`
	// Paused means that the work stays paused.
	Paused bool   `json:"paused,omitempty"`
	Seq    uint64 `json:"seq"`
}

type wordsInput struct {
	Task string `path:"task" json:"-" jsonschema:"the task: its id, or PLAN/ID if several plans have it"`
	Text string `json:"text"`
}

type tellInput struct {
	Task string         `path:"task" json:"-" jsonschema:"the task: its id, or PLAN/ID if several plans have it"`
	Text string         `json:"text"`
	Role signalbox.Role `json:"role,omitempty" jsonschema:"whom the words are for, such as developer or critic; by default whoever works on the task now, or else its developer"`
	Now  bool           `json:"now,omitempty" jsonschema:"interrupt the agent at work, if it has that role: it reads the words and continues"`
}

type waiveInput struct {
	Task    string `path:"task" json:"-" jsonschema:"the task: its id, or PLAN/ID if several plans have it"`
	Finding string `path:"finding" json:"-" jsonschema:"the finding, such as F2"`
	Reason  string `json:"reason"`
}

type approveInput struct {
	Task   string `path:"task" json:"-" jsonschema:"the task: its id, or PLAN/ID if several plans have it"`
	Commit string `json:"commit,omitempty" jsonschema:"the commit that you have read; another one is not approved"`
	Reason string `json:"reason,omitempty"`
}

type orderInput struct {
	Task   string `path:"task" json:"-" jsonschema:"the task: its id, or PLAN/ID if several plans have it"`
	Reason string `json:"reason,omitempty"`
}

type retryInput struct {
	Task   string          `path:"task" json:"-" jsonschema:"the task: its id, or PLAN/ID if several plans have it"`
	Reason string          `json:"reason,omitempty"`
	From   signalbox.Phase `json:"from,omitempty" jsonschema:"the phase in which it restarts: the one that it has reached, or an earlier one"`
	Note   string          `json:"note,omitempty" jsonschema:"what the next agent reads first in its prompt"`
}

type runOrderInput struct {
	Reason string `json:"reason,omitempty"`
}

// ordered is the answer to an order.
type ordered struct {
	Work  string          `json:"work,omitempty"`
	Phase signalbox.Phase `json:"phase,omitempty"`
	// Commit is the commit whose merge was approved or rejected.
	Commit string `json:"commit,omitempty"`
	// Repeated means that the order was already in effect.
	Repeated bool `json:"repeated"`
	// Paused means that the work stays paused.
	Paused bool   `json:"paused,omitempty"`
	Seq    uint64 `json:"seq,omitempty"`
}

// addOrders adds what the human decides.
func (a *API) addOrders() {
	const group = "decide"
	add(a, operation{method: http.MethodPost, path: "/tasks", name: "addTask", group: group,
		scope: access.Operate, summary: "Adds a task to what the box works on. A run that is active takes it up."},
		func(c call, in addTaskInput) (taskAdded, error) {
			answer, err := steer.NewTask{Text: in.Text, Title: in.Title, Review: in.Review,
				BlockedBy: in.BlockedBy, Actor: c.actor()}.Do(c.ctx, a.box)
			return taskAdded{answer.Work, answer.Phase, answer.Seq}, err
		})
	add(a, operation{method: http.MethodPost, path: "/questions/{question}/answer",
		name: "answerQuestion", group: group, scope: access.Answer, summary: "Answers a question."},
		func(c call, in answerInput) (answered, error) {
			answer, err := steer.Decision{What: steer.Answer, Question: in.Question,
				Text: in.Answer, Actor: c.actor()}.Do(c.ctx, a.box)
			return answered{in.Question, answer.Work, answer.Paused, answer.Seq}, err
		})
	add(a, operation{method: http.MethodPost, path: "/work/{task}/approve", name: "approveWork",
		group: group, scope: access.Answer, summary: "Approves the merge of a task."}, a.approve)
	for _, o := range []struct {
		what    rules.OrderKind
		summary string
	}{
		{steer.Reject, "Rejects the merge of a task that waits for approval, with the reason."},
		{steer.Rework, "Sends a task back to the developer with what you want."},
	} {
		add(a, operation{method: http.MethodPost, path: "/work/{task}/" + string(o.what),
			name: string(o.what) + "Work", group: group, scope: access.Answer, summary: o.summary},
			func(c call, in wordsInput) (ordered, error) {
				return a.decide(c, in.Task, steer.Decision{What: o.what, Text: in.Text})
			})
	}
	add(a, operation{method: http.MethodPost, path: "/work/{task}/tell", name: "tellWork",
		group: group, scope: access.Answer,
		summary: "Gives words to whoever works on a task, to its developer, or to a role."},
		func(c call, in tellInput) (ordered, error) {
			return a.decide(c, in.Task, steer.Decision{What: steer.Tell, Text: in.Text,
				Role: in.Role, Now: in.Now})
		})
	add(a, operation{method: http.MethodPost, path: "/work/{task}/findings/{finding}/waive",
		name: "waiveFinding", group: group, scope: access.Answer,
		summary: "Lets a finding stand: it no longer keeps the task from passing."},
		func(c call, in waiveInput) (ordered, error) {
			return a.decide(c, in.Task, steer.Decision{What: steer.Waive, Finding: in.Finding,
				Text: in.Reason})
		})
	for _, o := range []struct {
		what          rules.OrderKind
		ofTask, ofRun string
	}{
		{rules.OrderPause, "Stops dispatching a task. A running agent finishes its turn.",
			"Stops dispatching work. Running agents finish their turns."},
		{rules.OrderResume, "Ends the pause of a task.", "Ends the pause of the run."},
		{rules.OrderCancel, "Cancels a task. An agent that works on it is stopped.",
			"Cancels the run. Agents are stopped."},
		{rules.OrderRetry, "Restarts a task in the phase that it has reached, or in an earlier one: earlier failures no longer count.", "Restarts all tasks that are blocked by questions."},
	} {
		add(a, operation{method: http.MethodPost, path: "/run/" + string(o.what),
			name: string(o.what) + "Run", group: group, scope: access.Operate, summary: o.ofRun},
			func(c call, in runOrderInput) (ordered, error) {
				return a.do(c, steer.Decision{What: o.what, Reason: in.Reason})
			})
		ofTask := operation{method: http.MethodPost, path: "/work/{task}/" + string(o.what),
			name: string(o.what) + "Work", group: group, scope: access.Operate, summary: o.ofTask}
		if o.what == rules.OrderRetry {
			add(a, ofTask, a.retry)
			continue
		}
		add(a, ofTask, func(c call, in orderInput) (ordered, error) {
			return a.decide(c, in.Task, steer.Decision{What: o.what, Reason: in.Reason})
		})
	}
}

// decide carries out what the caller decided about a task.
func (a *API) decide(c call, task string, d steer.Decision) (ordered, error) {
	w, err := a.find(c, task)
	if err != nil {
		return ordered{}, err
	}
	d.Work = w.ID
	return a.do(c, d)
}

// do carries out what the caller decided.
func (a *API) do(c call, d steer.Decision) (ordered, error) {
	d.Actor = c.actor()
	answer, err := d.Do(c.ctx, a.box)
	return ordered{Work: answer.Work, Phase: answer.Phase, Commit: answer.Commit,
		Repeated: answer.Repeated, Paused: answer.Paused, Seq: answer.Seq}, err
}

func (a *API) retry(c call, in retryInput) (ordered, error) {
	return a.decide(c, in.Task, steer.Decision{What: rules.OrderRetry, Reason: in.Reason,
		From: in.From, Note: in.Note})
}

// approve approves a merge. A caller that names the commit approves nothing else, even if the task
// changes at the same moment.
func (a *API) approve(c call, in approveInput) (ordered, error) {
	return a.decide(c, in.Task, steer.Decision{What: rules.OrderApprove, Reason: in.Reason,
		Commit: in.Commit})
}
