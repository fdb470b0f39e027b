package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
)

// runPage is the run over time: one row per task, one bar per session.
type runPage struct {
	Rows     []runRow
	Timeline timeline
	// Busy is how long agents worked, and Took how long the run has taken so far. Most is the most
	// agents at the same time, of Slots.
	Busy, Took  float64
	Most, Slots int
	Use         slotChart
	// Plans are all plans, and Plan the one whose tasks are shown; "" means all. Graph is the
	// picture of that plan, or of the current one.
	Plans []inspect.Plan
	Plan  string
	Graph graph
}

// runRow is a task. Critical means that it is on the critical path: the chain of tasks that decided
// how long the run took.
type runRow struct {
	ID, Title string
	Critical  bool
	Y         int
}

func (d *Dashboard) run(_ context.Context, r *http.Request) (view, error) {
	now := d.opts.Now()
	page := runPage{Plan: r.URL.Query().Get("plan")}
	var spans []span
	d.box.Engine.View(func(s *rules.State) {
		policy, _ := s.Policy()
		page.Slots, page.Plans = policy.Slots, inspect.NewStatus(s, now).Plans
		var works []*rules.Work
		for w := range s.Works() {
			if len(w.Tenures()) > 0 &&
				(page.Plan == "" || w.Task != nil && w.Task.Plan == page.Plan) {
				works = append(works, w)
			}
		}
		slices.SortStableFunc(works,
			func(a, b *rules.Work) int { return a.Tenures()[0].From.Compare(b.Tenures()[0].From) })
		critical := criticalPath(s, works, now)
		for row, w := range works {
			page.Rows = append(page.Rows, runRow{ID: w.ID, Title: w.Title, Critical: critical[w.ID],
				Y: rowHeight*row + 16})
			for i, t := range w.Tenures() {
				spans = append(spans, tenureSpan(w, i, t, row, now))
			}
		}
		page.Graph = newGraph(s, cmp.Or(page.Plan, s.PlanID()), critical, now)
	})
	page.Timeline = newTimeline(spans)
	page.measure(spans)
	page.Use = newSlotChart(page.Timeline, spans, page.Slots, page.Most)
	return view{template: "run", title: "Run", data: page}, nil
}

func tenureSpan(w *rules.Work, index int, t rules.Tenure, row int, now time.Time) span {
	end, class := t.To, "role-"+string(t.Role)
	if end.IsZero() {
		end, class = now, class+" busy"
	}
	return span{Row: row, From: t.From, To: maxTime(end, t.From), Class: class, Link: "/work/" +
		w.ID + "/log?session=" + itoa(index), Title: w.ID + " " + string(t.Role)}
}

// measure sums up how agents were used. Checks and merges need no slot.
func (p *runPage) measure(spans []span) {
	for i := range spans {
		if s := &spans[i]; !isOwnWork(s.Class) {
			p.Busy += s.Seconds()
		}
	}
	running := 0
	for _, c := range changesOf(spans) {
		running += c.more
		p.Most = max(p.Most, running)
	}
	if len(spans) > 0 {
		first, last := spans[0].From, spans[0].To
		for _, s := range spans {
			first, last = minTime(first, s.From), maxTime(last, s.To)
		}
		p.Took = last.Sub(first).Seconds()
	}
}

// slotChange is a time at which an agent began or ended.
type slotChange struct {
	at   time.Time
	more int
}

// changesOf returns when agents began and ended, in order. One that ends makes room for one that
// begins at the same time.
func changesOf(spans []span) (changes []slotChange) {
	for _, s := range spans {
		if !isOwnWork(s.Class) {
			changes = append(changes, slotChange{s.From, 1}, slotChange{s.To, -1})
		}
	}
	slices.SortFunc(changes,
		func(a, b slotChange) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.more, b.more)) })
	return changes
}

// isOwnWork reports whether a bar is a check or a merge, which signalbox does itself.
func isOwnWork(class string) bool {
	return class == "role-"+string(signalbox.RoleCI) || class == "role-"+
		string(signalbox.RoleMerger)
}

// criticalPath returns the tasks that decided how long the run took: the one that ended last, the
// blocker of it that ended last, and so on.
func criticalPath(s *rules.State, works []*rules.Work, now time.Time) map[string]bool {
	ended := func(w *rules.Work) (end time.Time) {
		for _, t := range w.Tenures() {
			if t.To.IsZero() {
				return now
			}
			end = maxTime(end, t.To)
		}
		return end
	}
	latest := func(candidates []*rules.Work) (last *rules.Work) {
		for _, w := range candidates {
			if last == nil || ended(w).After(ended(last)) {
				last = w
			}
		}
		return last
	}
	path := map[string]bool{}
	for w := latest(works); w != nil && !path[w.ID]; {
		path[w.ID] = true
		var blockers []*rules.Work
		if w.Task != nil {
			for _, id := range w.Task.Blockers {
				if b, known := s.Work(id); known {
					blockers = append(blockers, b)
				}
			}
		}
		w = latest(blockers)
	}
	return path
}
