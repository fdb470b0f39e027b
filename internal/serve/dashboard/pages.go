package dashboard

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/changes"
	"signalbox/internal/run/history"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/questions"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// inboxPage is everything that waits for the human.
type inboxPage struct {
	Status   *inspect.Status
	Requests []request
}

// request is something that waits for the human, with what helps to decide it.
type request struct {
	inspect.Request
	Question *questions.Pending
	Change   *changes.Change
}

func (d *Dashboard) inbox(ctx context.Context, _ *http.Request) (view, error) {
	st, err := inspect.ReadStatus(ctx, d.box, d.opts.Now())
	if err != nil {
		return view{}, err
	}
	pending, err := questions.List(ctx, d.box, false)
	if err != nil {
		return view{}, err
	}
	page := inboxPage{Status: st}
	for _, r := range st.Requests {
		waits := request{Request: r}
		if i := slices.IndexFunc(pending,
			func(q questions.Pending) bool { return q.ID != "" && q.ID == r.ID }); i >= 0 {
			waits.Question = &pending[i]
		}
		if r.Kind == inspect.RequestApproval {
			change, err := changes.Of(ctx, d.box, d.opts.Root, r.Work)
			if err != nil && ctx.Err() == nil { // otherwise the client has left
				d.opts.Log.Warn("what a commit changes is not known", "work", r.Work, "error", err)
			}
			waits.Change = &change
		}
		page.Requests = append(page.Requests, waits)
	}
	return view{template: "inbox", title: "Inbox", data: page, known: st}, nil
}

// taskPage is one task.
type taskPage struct {
	inspect.Details
	Plain    inspect.Task
	Timeline timeline
	// Change is what waits for approval; nil if nothing does.
	Change *changes.Change
	// History is where its time and money went.
	History *history.Explanation
	// Restarts are the phases in which it can be restarted, in their order.
	Restarts []restart
}

// restart is a phase in which a task can be restarted, and who works then.
type restart struct {
	Phase signalbox.Phase
	Who   string
	Last  bool
}

func restarts(w *rules.Work) (list []restart) {
	for _, phase := range w.RetryPhases() {
		list = append(list, restart{phase, starter(w.Task.Kind, phase), false})
	}
	if len(list) > 0 {
		list[len(list)-1].Last = true
	}
	return list
}

// starter returns who works first in a phase of a task or a remediation.
func starter(kind rules.Kind, phase signalbox.Phase) string {
	remediation := kind == rules.KindRemediation
	switch {
	case phase == signalbox.PhaseImplementation && remediation:
		return "remediation agent"
	case phase == signalbox.PhaseReview && remediation:
		return "health auditor"
	case phase == signalbox.PhaseCIPending:
		return "checks"
	}
	return strings.TrimPrefix(strings.ReplaceAll(string(phase.ClaimableBy()), "-", " "),
		"business ")
}

func (d *Dashboard) task(ctx context.Context, r *http.Request) (view, error) {
	w, err := d.find(r.PathValue("task"))
	if err != nil {
		return view{}, err
	}
	now := d.opts.Now()
	page := taskPage{Restarts: restarts(w)}
	if page.Details, err = inspect.ReadDetails(ctx, d.box, w, now); err != nil {
		return view{}, err
	}
	d.box.Engine.View(func(s *rules.State) { page.Plain = inspect.NewTask(s, w, now) })
	if page.Plain.Condition == inspect.NeedsApproval {
		change, err := changes.Of(ctx, d.box, d.opts.Root, w.ID)
		if err != nil && ctx.Err() == nil { // the page has much more
			d.opts.Log.Warn("what a commit changes is not known", "work", w.ID, "error", err)
		}
		page.Change = &change
	}
	if page.History, err = d.opts.History.Of(ctx, d.box, w, now); err != nil {
		return view{}, err
	}
	var spans []span
	for i := range page.Sessions {
		s := spanOf(&page.Sessions[i], now)
		s.Row, s.Link, s.Title = i, "/work/"+w.ID+"/log?session="+itoa(i),
			string(page.Sessions[i].Role)+" "+page.Sessions[i].Agent()
		spans = append(spans, s)
	}
	page.Timeline = newTimeline(spans)
	return view{template: "task", title: w.ID, data: page}, nil
}

// diffPage is what a task changes.
type diffPage struct {
	Task, Title, Commit string
	// Working means that it is what the agent has not saved yet.
	Working bool
	// Waits means that the task waits for approval.
	Waits bool
	// Hidden is a notice about invisible characters, "" if there are none.
	Hidden string
	unifiedDiff
}

// Approval reports whether the commit can be approved on the page: only if the page shows all that
// it changes.
func (p diffPage) Approval() bool { return p.Waits && !p.Working && !p.Incomplete }

func (d *Dashboard) diff(ctx context.Context, r *http.Request) (view, error) {
	w, err := d.find(r.PathValue("task"))
	if err != nil {
		return view{}, err
	}
	page := diffPage{Task: w.ID, Title: w.Title, Working: r.URL.Query().Has("working")}
	if w.Task != nil {
		page.Commit = w.Task.Commit
	}
	d.box.Engine.View(func(s *rules.State) { page.Waits = s.WaitsForApproval(w) })
	diff, err := inspect.OpenDiff(ctx, d.box, d.opts.Root, w, page.Working)
	if err != nil {
		return view{}, err
	}
	defer diff.Close()
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(diff.Print(ctx, writer, workspace.DiffOptions{})) }()
	var scan text.DiffScan
	page.unifiedDiff, err = parseDiff(io.TeeReader(reader, &scan))
	page.Hidden = scan.Notice()
	reader.Close()
	return view{template: "diff", title: "Diff of " + w.ID, data: page}, err
}
