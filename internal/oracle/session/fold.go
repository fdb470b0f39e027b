package session

import "signalbox/internal/oracle/model"

// Asked is where the last question of a conversation stands.
type Asked struct {
	// Number counts the questions from 1; 0 if there is none.
	Number int
	Text   string
	Class  string
	// Runs counts the runs of the tree on it. Run and Journal are those of the last.
	Runs         int
	Run, Journal string
	// Done: the last run ended.
	Done bool
	// Reason is that of the last ending.
	Reason string
}

// Last returns where the last question stands.
func Last(entries []Entry) Asked {
	var a Asked
	for _, e := range entries {
		switch e.Kind {
		case Question:
			a = Asked{Number: e.Question, Text: e.Text, Class: e.Class}
		case Begun:
			a.Runs++
			a.Run, a.Journal, a.Done, a.Reason = e.Run, e.Journal, false, ""
		case Answer:
			a.Done = true
			if e.Done != nil {
				a.Reason = e.Done.Reason
			}
		}
	}
	return a
}

// lost is the result of a call of which nobody knows what came of it.
const lost = "there is no result: the conversation was interrupted"

// Messages returns the conversation as a model sees it. Every call has a result, also one that was never made.
func Messages(entries []Entry) []model.Message {
	var all []model.Message
	var open []model.Call // calls of the last reply
	results := map[string]model.Result{}
	settle := func() {
		if len(open) == 0 {
			return
		}
		m := model.Message{Role: model.Tool}
		for _, call := range open {
			r, there := results[call.ID]
			if !there {
				r = model.Result{CallID: call.ID, Name: call.Name, Text: lost, Failed: true}
			}
			m.Results = append(m.Results, r)
		}
		all, open = append(all, m), nil
		clear(results)
	}
	for _, e := range entries {
		switch e.Kind {
		case Question, Note:
			settle()
			all = append(all, model.Message{Role: model.User, Text: e.Text})
		case Reply:
			settle()
			all = append(all, model.Message{Role: model.Assistant, Text: e.Reply.Text, Calls: e.Reply.Calls})
			open = e.Reply.Calls
			clear(results) // those of calls that the tree made itself
		case Result:
			results[e.Call.ID] = model.Result{CallID: e.Call.ID, Name: e.Call.Name, Text: e.Text, Failed: !e.OK}
		}
	}
	settle()
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
