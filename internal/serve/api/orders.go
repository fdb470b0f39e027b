package api

import (
	"net/http"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/crew"
	"signalbox/internal/serve/access"
)

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

func orderedFrom(a rules.Answer, err error) (ordered, error) {
	return ordered{Work: a.Work, Phase: a.Phase, Commit: a.Commit, Repeated: a.Repeated, Paused: a.Paused, Seq: a.Seq}, err
}

// addOrders adds what the human decides.
func (a *API) addOrders() {
	const group = "decide"
	add(a, operation{method: http.MethodPost, path: "/questions/{question}/answer", name: "answerQuestion", group: group, scope: access.Answer, summary: "Answers a question."},
		func(c call, in answerInput) (answered, error) {
			answer, err := a.box.Engine.Do(c.ctx, rules.AnswerQuestion{Question: in.Question, Answer: in.Answer, Actor: c.actor()})
			return answered{in.Question, answer.Work, answer.Paused, answer.Seq}, err
		})
	add(a, operation{method: http.MethodPost, path: "/work/{task}/approve", name: "approveWork", group: group, scope: access.Answer, summary: "Approves the merge of a task."}, a.approve)
	for _, o := range []struct {
		name, path, summary string
		reject              bool
	}{
		{"rejectWork", "/work/{task}/reject", "Rejects the merge of a task that waits for approval, with the reason.", true},
		{"reworkWork", "/work/{task}/rework", "Sends a task back to the developer with what you want.", false},
	} {
		add(a, operation{method: http.MethodPost, path: o.path, name: o.name, group: group, scope: access.Answer, summary: o.summary},
			func(c call, in wordsInput) (ordered, error) {
				w, err := a.find(c, in.Task)
				if err != nil {
					return ordered{}, err
				}
				return orderedFrom(crew.Rework(c.ctx, a.box, rules.Rework{Work: w.ID, Text: in.Text, Actor: c.actor(), Reject: o.reject}))
			})
	}
	add(a, operation{method: http.MethodPost, path: "/work/{task}/tell", name: "tellWork", group: group, scope: access.Answer,
		summary: "Gives words to the next agent that works on a task, or to the one at work if it listens."},
		func(c call, in wordsInput) (ordered, error) {
			w, err := a.find(c, in.Task)
			if err != nil {
				return ordered{}, err
			}
			return orderedFrom(crew.Tell(c.ctx, a.box, rules.Tell{Work: w.ID, Text: in.Text, Actor: c.actor()}))
		})
	for _, o := range []struct {
		what          rules.OrderKind
		ofTask, ofRun string
	}{
		{rules.OrderPause, "Stops dispatching a task. A running agent finishes its turn.", "Stops dispatching work. Running agents finish their turns."},
		{rules.OrderResume, "Ends the pause of a task.", "Ends the pause of the run."},
		{rules.OrderCancel, "Cancels a task. An agent that works on it is stopped.", "Cancels the run. Agents are stopped."},
		{rules.OrderRetry, "Restarts a task in the phase that it has reached, or in an earlier one: earlier failures no longer count.", "Restarts all tasks that are blocked by questions."},
	} {
		add(a, operation{method: http.MethodPost, path: "/run/" + string(o.what), name: string(o.what) + "Run", group: group, scope: access.Operate, summary: o.ofRun},
			func(c call, in runOrderInput) (ordered, error) {
				return a.order(c, rules.Order{What: o.what, Reason: in.Reason, Actor: c.actor()})
			})
		ofTask := operation{method: http.MethodPost, path: "/work/{task}/" + string(o.what), name: string(o.what) + "Work", group: group, scope: access.Operate, summary: o.ofTask}
		if o.what == rules.OrderRetry {
			add(a, ofTask, a.retry)
			continue
		}
		add(a, ofTask, func(c call, in orderInput) (ordered, error) {
			w, err := a.find(c, in.Task)
			if err != nil {
				return ordered{}, err
			}
			return a.order(c, rules.Order{What: o.what, Work: w.ID, Reason: in.Reason, Actor: c.actor()})
		})
	}
}

// retry restarts a task.
func (a *API) retry(c call, in retryInput) (ordered, error) {
	w, err := a.find(c, in.Task)
	if err != nil {
		return ordered{}, err
	}
	return orderedFrom(crew.Retry(c.ctx, a.box, rules.Order{Work: w.ID, Reason: in.Reason, Actor: c.actor(), From: in.From, Note: in.Note}))
}

// order carries out an order, in several steps if it has more events than fit into one append.
func (a *API) order(c call, o rules.Order) (ordered, error) {
	for {
		answer, err := a.box.Engine.Do(c.ctx, o)
		if err != nil || !answer.Again {
			return orderedFrom(answer, err)
		}
	}
}

// approve approves a merge. A caller that names the commit approves nothing else, even if the task changes at the same moment.
func (a *API) approve(c call, in approveInput) (ordered, error) {
	w, err := a.find(c, in.Task)
	if err != nil {
		return ordered{}, err
	}
	return orderedFrom(a.box.Engine.Do(c.ctx, rules.Order{What: rules.OrderApprove, Work: w.ID, Reason: in.Reason, Actor: c.actor(), Commit: in.Commit}))
}
