package session

import "signalbox/internal/oracle/model"

// QuestionState is the state of a question.
type QuestionState struct {
	// Number counts the questions from 1. It is 0 if there is no question.
	Number int
	Text   string
	Class  string
	// Runs counts the runs of the tree on the question. Run and Journal belong to the last one.
	Runs         int
	Run, Journal string
	// Done reports whether the last run ended, and Reason why.
	Done   bool
	Reason string
}

// Last returns the state of the last question.
func Last(entries []Entry) QuestionState {
	var q QuestionState
	for _, e := range entries {
		switch e.Kind {
		case Question:
			q = QuestionState{Number: e.Question, Text: e.Text, Class: e.Class}
		case RunStart:
			q.Runs++
			q.Run, q.Journal, q.Done, q.Reason = e.Run, e.Journal, false, ""
		case Answer:
			q.Done = true
			if e.Done != nil {
				q.Reason = e.Done.Reason
			}
		}
	}
	return q
}

// interruptedResult is the result of an interrupted call.
const interruptedResult = "there is no result: the conversation was interrupted"

// Messages returns the conversation as messages to a model. Every call has a result, even if it was
// never made.
func Messages(entries []Entry) []model.Message {
	var all []model.Message
	var open []model.Call // the calls of the last reply
	results := map[string]model.Result{}
	addResults := func() {
		if len(open) == 0 {
			return
		}
		m := model.Message{Role: model.Tool}
		for _, call := range open {
			r, found := results[call.ID]
			if !found {
				r = model.Result{CallID: call.ID, Name: call.Name, Text: interruptedResult,
					Failed: true}
			}
			m.Results = append(m.Results, r)
		}
		all, open = append(all, m), nil
		clear(results)
	}
	for _, e := range entries {
		switch e.Kind {
		case Question, Note:
			addResults()
			all = append(all, model.Message{Role: model.User, Text: e.Text})
		case Reply:
			addResults()
			all = append(all, model.Message{Role: model.Assistant, Text: e.Reply.Text,
				Calls: e.Reply.Calls})
			open = e.Reply.Calls
			clear(results) // of calls that the tree made itself
		case Result:
			results[e.Call.ID] = model.Result{CallID: e.Call.ID, Name: e.Call.Name, Text: e.Text,
				Failed: !e.OK}
		}
	}
	addResults()
	return all
}

// ReplyOf returns the last reply of a turn of a question.
func (s *Session) ReplyOf(question, turn int) (model.Reply, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.entries) - 1; i >= 0; i-- {
		if e := &s.entries[i]; e.Kind == Reply && e.Question == question && e.Turn == turn {
			return *e.Reply, true
		}
	}
	return model.Reply{}, false
}
