package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
)

// Limits of what the cost page lists.
const (
	maxCostTasks = 500
	maxCostDays  = 60
)

// costPage is what agents have used, by task, role, agent and day, and the budgets that limit it.
type costPage struct {
	Spending inspect.Spending
	Tasks    []costTask
	// MoreTasks and MoreDays are how many are left out.
	MoreTasks, MoreDays int
	inspect.Costs
	most mostUsed
}

// costTask is a task with the use of its budget, nil if it has none.
type costTask struct {
	inspect.Task
	Budget *inspect.BudgetUse
}

// mostUsed is the largest amount in a list, for the length of its bars.
type mostUsed struct{ tasks, roles, agents, days inspect.Usage }

func (d *Dashboard) cost(ctx context.Context, _ *http.Request) (view, error) {
	now := d.opts.Now()
	var page costPage
	var seq uint64
	d.box.Engine.View(func(s *rules.State) {
		seq, page.Spending = s.Seq(), inspect.NewStatus(s, now).Spending
		for w := range s.Works() {
			if t := inspect.NewTask(s, w, now); t.Usage != (inspect.Usage{}) {
				page.Tasks = append(page.Tasks, costTask{t, inspect.TaskBudget(s, w)})
			}
		}
	})
	var err error
	if page.Costs, err = d.costs.Read(ctx, d.box.Journal, seq); err != nil {
		return view{}, err
	}
	slices.SortStableFunc(page.Tasks, func(a, b costTask) int {
		return cmp.Or(cmp.Compare(b.Usage.CostMicros, a.Usage.CostMicros),
			cmp.Compare(b.Usage.Tokens, a.Usage.Tokens))
	})
	page.Tasks, page.MoreTasks = firstOf(page.Tasks, maxCostTasks)
	page.Days, page.MoreDays = firstOf(page.Days, maxCostDays)
	for _, t := range page.Tasks {
		page.most.tasks = larger(page.most.tasks, t.Usage)
	}
	for rows, most := range map[*[]inspect.CostRow]*inspect.Usage{&page.Roles: &page.most.roles,
		&page.Agents: &page.most.agents, &page.Days: &page.most.days} {
		for _, row := range *rows {
			*most = larger(*most, row.Usage)
		}
	}
	return view{template: "cost", title: "Cost", data: page}, nil
}

// firstOf returns the first n entries of a list, and how many more there are.
func firstOf[T any](list []T, n int) ([]T, int) {
	return list[:min(n, len(list))], max(len(list)-n, 0)
}

func larger(a, b inspect.Usage) inspect.Usage {
	return inspect.Usage{Tokens: max(a.Tokens, b.Tokens),
		CostMicros: max(a.CostMicros, b.CostMicros)}
}

// share returns the length of a bar, at most 100: by cost, or by tokens if nothing has a price.
func share(u, most inspect.Usage) int64 {
	switch {
	case most.CostMicros > 0:
		return u.CostMicros * 100 / most.CostMicros
	case most.Tokens > 0:
		return u.Tokens * 100 / most.Tokens
	}
	return 0
}

// TaskShare returns the length of the bar of a task.
func (p costPage) TaskShare(u inspect.Usage) int64 { return share(u, p.most.tasks) }

// costList is a list of the page under a heading.
type costList struct {
	Title, Column string
	Rows          []costListRow
	More          int
}

type costListRow struct {
	inspect.CostRow
	Share int64
}

// Lists returns what was used by role, agent and day.
func (p costPage) Lists() []costList {
	list := func(title, column string, rows []inspect.CostRow, most inspect.Usage,
		more int) costList {
		l := costList{Title: title, Column: column, More: more}
		for _, row := range rows {
			l.Rows = append(l.Rows, costListRow{row, share(row.Usage, most)})
		}
		return l
	}
	return []costList{list("By role", "role", p.Roles, p.most.roles, 0),
		list("By agent", "agent", p.Agents, p.most.agents, 0),
		list("By day", "day (UTC)", p.Days, p.most.days, p.MoreDays)}
}
