package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"time"

	"signalbox/internal/core/rules"
	"signalbox/internal/run/history"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/questions"
	"signalbox/internal/serve/access"
)

// none is the input of an operation without parameters.
type none struct{}

// taskInput names a work item.
type taskInput struct {
	Task string `path:"task" json:"-" jsonschema:"the work item: its id, or PLAN/ID if several plans have it"`
}

// list is an answer with several elements. It is an object, so that fields can be added.
type list[T any] struct {
	Items []T `json:"items"`
}

func listOf[T any](items []T) list[T] {
	if items == nil {
		items = []T{}
	}
	return list[T]{items}
}

func (a *API) addReads() {
	const group = "inspect"
	add(a, operation{method: http.MethodGet, path: "/status", name: "getStatus", group: group,
		scope:   access.Read,
		summary: "Returns what is going on: the plans, who works, what waits for you, and what it has cost."},
		func(c call, _ none) (*inspect.Status, error) {
			if err := a.refresh(c.ctx); err != nil {
				return nil, err
			}
			st, err := inspect.ReadStatus(c.ctx, a.box, a.opts.Now())
			if err == nil {
				st.FindBehind(c.ctx, a.box, a.opts.Root)
			}
			return st, err
		})
	addRaw(a, operation{method: http.MethodGet, path: "/work", name: "listWork", group: group,
		scope: access.Read, media: mediaJSON, output: reflect.TypeFor[list[inspect.Task]](),
		summary: "Returns all work items, in the order in which they were opened."}, a.listWork)
	add(a, operation{method: http.MethodGet, path: "/work/{task}", name: "getWork", group: group,
		scope:   access.Read,
		summary: "Returns a work item with its sessions, findings, checks, questions and costs."},
		func(c call, in taskInput) (inspect.Details, error) {
			w, err := a.find(c, in.Task)
			if err != nil {
				return inspect.Details{}, err
			}
			return inspect.ReadDetails(c.ctx, a.box, w, a.opts.Now())
		})
	add(a, operation{method: http.MethodGet, path: "/work/{task}/explanation", name: "explainWork",
		group: group, scope: access.Read, heavy: true,
		summary: "Returns where the time and the money of a work item went, with the events that show it."},
		func(c call, in taskInput) (*history.Explanation, error) {
			w, err := a.find(c, in.Task)
			if err != nil {
				return nil, err
			}
			return a.opts.History.Of(c.ctx, a.box, w, a.opts.Now())
		})
	add(a, operation{method: http.MethodGet, path: "/stats", name: "getStats", group: group,
		scope: access.Read, heavy: true,
		summary: "Returns what the ledger has learned about agents, and what a task will take."},
		func(c call, _ none) (*history.Stats, error) {
			if err := a.refresh(c.ctx); err != nil {
				return nil, err
			}
			return a.opts.History.Stats(c.ctx, a.box.Journal, a.box.Engine.Tail().Seq)
		})
	add(a, operation{method: http.MethodGet, path: "/questions", name: "listQuestions",
		group: group, scope: access.Read,
		summary: "Returns the questions that wait for an answer, and the merges that wait for approval."},
		func(c call, in questionsInput) (list[questions.Pending], error) {
			if err := a.refresh(c.ctx); err != nil {
				return list[questions.Pending]{}, err
			}
			pending, err := questions.List(c.ctx, a.box, in.All)
			return listOf(pending), err
		})
}

type listInput struct {
	Plan      string `query:"plan" json:"-" jsonschema:"only work of this plan"`
	Phase     string `query:"phase" json:"-" jsonschema:"only work in this phase"`
	Condition string `query:"condition" json:"-" jsonschema:"only work in this condition, such as working or asking"`
}

type questionsInput struct {
	All bool `query:"all" json:"-" jsonschema:"answered questions too"`
}

// encodedList is the answer to a request for work items. It is valid until the next event, and for
// a second, because leases expire.
type encodedList struct {
	in   listInput
	seq  uint64
	at   int64 // in seconds
	data []byte
}

// listWork answers with the work items that a caller asks for. Many clients ask for the same ones,
// so the answer is encoded once for all.
func (a *API) listWork(c call, in listInput, w http.ResponseWriter, _ *http.Request) error {
	if err := a.refresh(c.ctx); err != nil {
		return err
	}
	data, err := a.encodeTasks(in)
	if err == nil {
		writeEncoded(w, http.StatusOK, data)
	}
	return err
}

func (a *API) encodeTasks(in listInput) ([]byte, error) {
	a.listMu.Lock()
	defer a.listMu.Unlock()
	now := a.opts.Now()
	next := encodedList{in: in, seq: a.box.Engine.Tail().Seq, at: now.Unix()}
	if last := &a.list; last.data != nil && last.in == next.in && last.seq == next.seq &&
		last.at == next.at {
		return last.data, nil
	}
	var err error
	if next.data, err = json.Marshal(listOf(a.tasks(in, now))); err != nil {
		return nil, err
	}
	a.list = next
	return next.data, nil
}

// tasks returns the work items that a caller asks for.
func (a *API) tasks(in listInput, now time.Time) (tasks []inspect.Task) {
	a.box.Engine.View(func(s *rules.State) {
		for w := range s.Works() {
			t := inspect.NewTask(s, w, now)
			if (in.Plan == "" || in.Plan == t.Plan) &&
				(in.Phase == "" || in.Phase == string(t.Phase)) &&
				(in.Condition == "" || in.Condition == string(t.Condition)) {
				tasks = append(tasks, t)
			}
		}
	})
	return tasks
}

// find returns a work item by the id, or the name, that a caller gave. An id that the API returned
// is never ambiguous.
func (a *API) find(c call, name string) (w *rules.Work, err error) {
	if err := a.refresh(c.ctx); err != nil {
		return nil, err
	}
	a.box.Engine.View(func(s *rules.State) { w, err = inspect.FindWork(s, name) })
	return w, err
}
