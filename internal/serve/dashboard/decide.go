package dashboard

import (
	"net/http"
	"strings"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/crew"
	"signalbox/internal/serve/access"
)

func (d *Dashboard) answer(r *http.Request, caller access.Caller) error {
	_, err := d.box.Engine.Do(r.Context(), rules.AnswerQuestion{Question: r.PathValue("question"), Answer: posted(r, "text"), Actor: caller.Name})
	return err
}

// posted returns a text field of a form. Browsers send line ends as CR LF.
func posted(r *http.Request, name string) string {
	return strings.TrimSpace(strings.ReplaceAll(r.PostForm.Get(name), "\r\n", "\n"))
}

// approve approves the commit that the page shows, not whatever the task has by now.
func (d *Dashboard) approve(r *http.Request, caller access.Caller) error {
	w, err := d.find(r.PathValue("task"))
	if err != nil {
		return err
	}
	commit := r.PostForm.Get("commit")
	if commit == "" {
		return usage("the form does not name a commit")
	}
	_, err = d.box.Engine.Do(r.Context(), rules.Order{What: rules.OrderApprove, Work: w.ID, Actor: caller.Name, Commit: commit})
	return err
}

// rework sends a task back with words, and with the comments on lines of its diff.
func (d *Dashboard) rework(r *http.Request, caller access.Caller) error {
	w, err := d.find(r.PathValue("task"))
	if err != nil {
		return err
	}
	reject := strings.HasSuffix(r.URL.Path, "/reject")
	_, err = crew.Rework(r.Context(), d.box, rules.Rework{Work: w.ID, Text: withComments(posted(r, "text"), r.PostForm["comment"]), Actor: caller.Name, Reject: reject})
	return err
}

// withComments adds comments on lines to a text. Each is "file:line: text".
func withComments(text string, comments []string) string {
	parts := []string{}
	if text != "" {
		parts = append(parts, text)
	}
	for _, c := range comments {
		if c = strings.TrimSpace(strings.ReplaceAll(c, "\r\n", "\n")); c != "" {
			parts = append(parts, c)
		}
	}
	return strings.Join(parts, "\n\n")
}

func (d *Dashboard) tell(r *http.Request, caller access.Caller) error {
	w, err := d.find(r.PathValue("task"))
	if err != nil {
		return err
	}
	_, err = crew.Tell(r.Context(), d.box, rules.Tell{Work: w.ID, Text: posted(r, "text"), Actor: caller.Name})
	return err
}

// order carries out an order about a task. A retry may name a phase, and has words for the next agent.
func (d *Dashboard) order(r *http.Request, caller access.Caller) error {
	w, err := d.find(r.PathValue("task"))
	if err != nil {
		return err
	}
	what := rules.OrderKind(r.PostForm.Get("what"))
	if what == rules.OrderApprove {
		return usage("approve has a form of its own")
	}
	if what == rules.OrderRetry {
		_, err = crew.Retry(r.Context(), d.box, rules.Order{Work: w.ID, From: signalbox.Phase(r.PostForm.Get("from")), Note: posted(r, "text"), Actor: caller.Name})
		return err
	}
	_, err = d.box.Engine.Do(r.Context(), rules.Order{What: what, Work: w.ID, Reason: posted(r, "text"), Actor: caller.Name})
	return err
}
