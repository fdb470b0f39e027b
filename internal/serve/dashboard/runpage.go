package dashboard

import (
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
	// Busy is how long agents worked, and Took how long the run has taken so far. Most is the most agents at the same time, of Slots.
	Busy, Took  float64
	Most, Slots int
}

// runRow is a task. Critical means that it is on the critical path: the chain of tasks that decided how long the run took.
type runRow struct {
	ID, Title string
	Critical  bool
	Y         int
}

func (d *Dashboard) run(_ context.Context, _ *http.Request) (view, error) {
	now := d.opts.Now()
	var page runPage
	var spans []span
	d.box.Engine.View(func(s *rules.State) {
		policy, _ := s.Policy()
		page.Slots = policy.Slots
		var works []*rules.Work
		for w := range s.Works() {
			if len(w.Tenures()) > 0 {
				works = append(works, w)
			}
		}
		slices.SortStableFunc(works, func(a, b *rules.Work) int { return a.Tenures()[0].From.Compare(b.Tenures()[0].From) })
		critical := criticalPath(s, works, now)
		for row, w := range works {
			page.Rows = append(page.Rows, runRow{ID: w.ID, Title: w.Title, Critical: critical[w.ID], Y: rowHeight*row + 16})
			for i, t := range w.Tenures() {
				spans = append(spans, tenureSpan(w, i, t, row, now))
			}
		}
	})
	page.Timeline = newTimeline(spans)
	page.measure(spans)
	return view{template: "run", title: "Run", data: page}, nil
}

func tenureSpan(w *rules.Work, index int, t rules.Tenure, row int, now time.Time) span {
	end, class := t.To, "role-"+string(t.Role)
	if end.IsZero() {
		end, class = now, class+" busy"
	}
	return span{Row: row, From: t.From, To: maxTime(end, t.From), Class: class, Link: "/work/" + w.ID + "/log?session=" + itoa(index), Title: w.ID + " " + string(t.Role)}
}

// measure sums up how agents were used. Checks and merges need no slot.
func (p *runPage) measure(spans []span) {
	type change struct {
		at   time.Time
		more int
	}
	var changes []change
	for i := range spans {
		s := &spans[i]
		if isOwnWork(s.Class) {
			continue
		}
		p.Busy += s.Seconds()
		changes = append(changes, change{s.From, 1}, change{s.To, -1})
	}
	slices.SortFunc(changes, func(a, b change) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.more - b.more
	})
	running := 0
	for _, c := range changes {
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

// isOwnWork reports whether a bar is a check or a merge, which signalbox does itself.
func isOwnWork(class string) bool {
	return class == "role-"+string(signalbox.RoleCI) || class == "role-"+string(signalbox.RoleMerger)
}

// criticalPath returns the tasks that decided how long the run took: the one that ended last, the blocker of it that ended last, and so on.
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

// crewPage is who works now.
type crewPage struct {
	Status *inspect.Status
	Slots  int
	Agents []rules.AgentState
	Held   []inspect.Task
}

func (d *Dashboard) crew(ctx context.Context, _ *http.Request) (view, error) {
	st, err := inspect.ReadStatus(ctx, d.box, d.opts.Now())
	if err != nil {
		return view{}, err
	}
	page := crewPage{Status: st}
	d.box.Engine.View(func(s *rules.State) {
		policy, _ := s.Policy()
		page.Slots, page.Agents = policy.Slots, slices.Clone(s.Agents())
	})
	for _, t := range st.Tasks {
		if t.Worker != nil {
			page.Held = append(page.Held, t)
		}
	}
	return view{template: "crew", title: "Crew", data: page, known: st}, nil
}
