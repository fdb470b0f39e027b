package dashboard

import (
	"net/http"
	"strings"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/steer"
	"signalbox/internal/serve/access"
)

// do carries out what the caller decided.
func (d *Dashboard) do(r *http.Request, caller access.Caller, decision steer.Decision) error {
	decision.Actor = caller.Name
	_, err := decision.Do(r.Context(), d.box)
	return err
}

func (d *Dashboard) answer(r *http.Request, caller access.Caller) error {
	return d.do(r, caller, steer.Decision{What: steer.Answer, Question: r.PathValue("question"),
		Text: posted(r, "text")})
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
	return d.do(r, caller, steer.Decision{What: rules.OrderApprove, Work: w.ID, Commit: commit})
}

// rework sends a task back with words, and with the comments on lines of its diff.
func (d *Dashboard) rework(r *http.Request, caller access.Caller) error {
	w, err := d.find(r.PathValue("task"))
	if err != nil {
		return err
	}
	what := steer.Rework
	if strings.HasSuffix(r.URL.Path, "/reject") {
		what = steer.Reject
	}
	return d.do(r, caller,
		steer.Decision{What: what, Work: w.ID,
			Text: withComments(posted(r, "text"), r.PostForm["comment"])})
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

func (d *Dashboard) waive(r *http.Request, caller access.Caller) error {
	w, err := d.find(r.PathValue("task"))
	if err != nil {
		return err
	}
	return d.do(r, caller, steer.Decision{What: steer.Waive, Work: w.ID,
		Finding: r.PathValue("finding"), Text: posted(r, "text")})
}

func (d *Dashboard) tell(r *http.Request, caller access.Caller) error {
	w, err := d.find(r.PathValue("task"))
	if err != nil {
		return err
	}
	return d.do(r, caller, steer.Decision{What: steer.Tell, Work: w.ID, Text: posted(r, "text")})
}

// order carries out an order about a task. A retry may name a phase, and has words for the next
// agent.
func (d *Dashboard) order(r *http.Request, caller access.Caller) error {
	w, err := d.find(r.PathValue("task"))
	if err != nil {
		return err
	}
	decision := steer.Decision{What: rules.OrderKind(r.PostForm.Get("what")), Work: w.ID}
	switch decision.What {
	case rules.OrderRetry:
		decision.From, decision.Note = signalbox.Phase(r.PostForm.Get("from")), posted(r, "text")
	case rules.OrderPause, rules.OrderResume, rules.OrderCancel:
		decision.Reason = posted(r, "text")
	default:
		return usage("%q is not an order of this form", decision.What)
	}
	return d.do(r, caller, decision)
}
