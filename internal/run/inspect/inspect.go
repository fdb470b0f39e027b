// Package inspect describes the state of a box: the status of the whole box, and one task in
// detail. It only reads; a diff gets the commits that only other machines have into the repository.
// Its answers are plain structs with JSON tags, the same for the command line, MCP and other
// programs; package render prints them for people.
//
// Text in the answers may come from agents. Whoever shows it escapes it.
package inspect

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/questions"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// Status is the state of a box.
type Status struct {
	Box string `json:"box"`
	// At is the time of the status, and Events the number of events on the ledger then.
	At       time.Time      `json:"at"`
	Events   uint64         `json:"events"`
	Standing rules.Standing `json:"standing"`
	// Reasons say what the run waits for if nothing can continue. Wake is when it continues by
	// itself, if it waits for a time.
	Reasons []string   `json:"reasons"`
	Wake    *time.Time `json:"wake,omitempty"`
	// Crews are the runs and workers that are registered on this machine.
	Crews []Crew `json:"crews"`
	// Machines are those that work on tasks, by name; absent if only one machine can use the
	// ledger.
	Machines []Machine `json:"machines,omitempty"`
	// Copies are those of the ledger in a cluster, by machine.
	Copies []Copy `json:"copies,omitempty"`
	// ClockAhead is by how many seconds the clock of this machine is ahead of that of the database,
	// negative if it is behind; absent if the ledger is in a file.
	ClockAhead *float64 `json:"clock_ahead,omitempty"`
	// Clocks are those of the machines whose processes work with the ledger now, and of the nodes
	// of a cluster, by machine; absent if the ledger is in a file.
	Clocks []Clock `json:"clocks,omitempty"`
	// Continue is the command that continues the plan. It is absent if a run is at work, and if
	// starting one would not help.
	Continue string `json:"continue,omitempty"`
	// Paused means that the whole run is paused. Cancelled says why it is cancelled.
	Paused    bool   `json:"paused"`
	Cancelled string `json:"cancelled,omitempty"`
	Plans     []Plan `json:"plans"`
	Counts    Counts `json:"counts"`
	// Tasks are the work items that are neither done nor merely wait for their turn, and those for
	// which words wait. Counts has the others.
	Tasks []Task `json:"tasks"`
	// Requests are what waits for the human.
	Requests []Request `json:"requests"`
	Spending Spending  `json:"spending"`
	// Left are the cancelled tasks that keep their worktrees; nil if FindLeft was not called.
	Left []string `json:"left,omitempty"`
	Base Base     `json:"base"`
	// RateLimits are the agents and the roles that start nothing for a time.
	RateLimits []RateLimit `json:"rate_limits"`
}

// StandingByHand is the standing of a box that has work but no plan.
const StandingByHand rules.Standing = "by_hand"

// Crew is a process that runs agents, or one that was killed and whose work another will release.
type Crew struct {
	ID    string `json:"id"`
	Alive bool   `json:"alive"`
	// Agents is the number of its agents, as far as it has registered them.
	Agents int `json:"agents"`
}

// Machine is a machine that works on tasks.
type Machine struct {
	Name  string `json:"name"`
	Tasks int    `json:"tasks"`
}

// Copy is what a machine of a cluster has found out about its own copy of the ledger.
type Copy struct {
	Node string `json:"node"`
	// Events is how many it has verified. Verified is when it last read all of them; it is absent
	// if the machine does not answer.
	Events   uint64     `json:"events"`
	Verified *time.Time `json:"verified,omitempty"`
	Problem  string     `json:"problem,omitempty"`
}

// Clock is the clock of a machine.
type Clock struct {
	Machine string `json:"machine"`
	// Ahead is by how many seconds it is ahead of that of the database, negative if it is behind.
	Ahead float64 `json:"ahead"`
}

// Plan is the progress of a plan.
type Plan struct {
	ID        string `json:"id"`
	Title     string `json:"title"`
	Source    string `json:"source,omitempty"`
	File      string `json:"file,omitempty"` // if the source is an id
	Tasks     int    `json:"tasks"`
	Completed int    `json:"completed"`
	Cancelled int    `json:"cancelled"`
	// Current means that it is the plan that was loaded last.
	Current bool `json:"current"`
}

// Counts counts work items of the last plan by condition. ByHand counts those opened by hand that
// are not completed.
type Counts struct {
	Tasks     int `json:"tasks"`
	Completed int `json:"completed"`
	Cancelled int `json:"cancelled"`
	Working   int `json:"working"`
	Asking    int `json:"asking"`
	Ready     int `json:"ready"`
	Waiting   int `json:"waiting"`
	Paused    int `json:"paused"`
	ByHand    int `json:"by_hand"`
}

// Spending is what agents have used, and the budgets that limit it.
type Spending struct {
	Usage
	// Plans is how many plans have tasks on which agents have used something.
	Plans   int         `json:"plans,omitempty"`
	Budgets []BudgetUse `json:"budgets"`
	Window  *Window     `json:"token_window,omitempty"`
}

// Usage is what agents have used.
type Usage struct {
	Tokens          int64   `json:"tokens"`
	EstimatedTokens int64   `json:"estimated_tokens,omitempty"`
	CostMicros      int64   `json:"cost_micros"`
	Seconds         float64 `json:"seconds"`
	// UnknownTokens and UnknownCost are in how many turns tokens or a cost are missing from the
	// above, because they are not known.
	UnknownTokens int64 `json:"unknown_tokens,omitempty"`
	UnknownCost   int64 `json:"unknown_cost,omitempty"`
}

// BudgetUse is what was used of a budget since the human last extended it. A limit of 0 is none.
type BudgetUse struct {
	// Of is what the budget is for: run, role or task.
	Of     rules.Cap      `json:"of"`
	Role   signalbox.Role `json:"role,omitempty"`
	Used   Usage          `json:"used"`
	Limit  Usage          `json:"limit"`
	Paused bool           `json:"paused,omitempty"`
}

// Window is the use of the token window. Ends is absent before its first use.
type Window struct {
	Tokens int64      `json:"tokens"`
	Limit  int64      `json:"limit"`
	Ends   *time.Time `json:"ends,omitempty"`
}

// Base is the branch that tasks are merged into.
type Base struct {
	Commit string `json:"commit,omitempty"`
	// Red is the work item of the checks that fail on the base, "" if none do. While it is red, no
	// task starts.
	Red     string   `json:"red,omitempty"`
	Failing []string `json:"failing,omitempty"`
	// Accepted lists the checks that may fail because the human accepted that.
	Accepted []string `json:"accepted,omitempty"`
	// Behind is why the branch waits behind the base; nil if it does not, or if FindBehind was not
	// called.
	Behind *workspace.Behind `json:"behind,omitempty"`
}

// RateLimit says until when an agent, or every agent of a role, waits.
type RateLimit struct {
	Role  signalbox.Role `json:"role,omitempty"`
	Agent string         `json:"agent,omitempty"`
	Until time.Time      `json:"until"`
	// Cause is absent for a rate limit. It is "server" if the server of the agent did not answer,
	// and the agent is tried again at Until.
	Cause rules.FailCause `json:"cause,omitempty"`
}

// Who returns the agent or the role.
func (r RateLimit) Who() string { return cmp.Or(r.Agent, string(r.Role)) }

// RequestKind is the kind of a request to the human.
type RequestKind string

const (
	RequestQuestion RequestKind = "question" // an agent or the rules ask something
	RequestApproval RequestKind = "approval" // a merge needs approval
	RequestBudget   RequestKind = "budget"   // a budget is spent
	RequestFault    RequestKind = "fault"    // something is wrong on the machine or with the base
)

// Request is something that waits for the human.
type Request struct {
	Kind RequestKind `json:"kind"`
	// ID is the id of the question, "" if it is not a question.
	ID    string     `json:"id,omitempty"`
	Work  string     `json:"work,omitempty"`
	Text  string     `json:"text"`
	Since *time.Time `json:"since,omitempty"`
	// Command is what to type. Answers are the answers with a special meaning.
	Command string   `json:"command"`
	Answers []string `json:"answers,omitempty"`
	// Also are other commands to look at it or to decide otherwise.
	Also []string `json:"also,omitempty"`
}

// NewStatus returns the status as far as the state has it. It does not know the names of agents and
// which runs are alive.
func NewStatus(s *rules.State, now time.Time) *Status {
	run := s.Status(now)
	st := &Status{Box: s.Box(), At: now.UTC(), Events: s.Seq(), Standing: run.Standing,
		Reasons: orEmpty(run.Reasons), Crews: []Crew{},
		Paused: s.Paused(), Cancelled: s.Cancelled(), Plans: plans(s), Tasks: []Task{},
		Requests: requests(s, run), Spending: spending(s, now),
		Base: base(s), RateLimits: []RateLimit{}}
	if !run.Wake.IsZero() {
		st.Wake = &run.Wake
	}
	st.Counts.Tasks, st.Counts.Completed = run.Tasks, run.Completed
	works := 0
	for w := range s.Works() {
		st.add(s, w, now)
		works++
	}
	if run.Standing == rules.StandingEmpty && works > 0 {
		st.Standing, st.Reasons = StandingByHand, []string{} // they say that there is no plan
	}
	for _, role := range rules.DispatchRoles() {
		if until := s.Limited(role); until.After(now) {
			st.RateLimits = append(st.RateLimits, RateLimit{Role: role, Until: until})
		}
	}
	for _, a := range s.Agents() {
		if a.Limited.After(now) {
			st.RateLimits = append(st.RateLimits, RateLimit{Agent: a.Agent, Until: a.Limited})
		}
		if a.Until.After(now) {
			st.RateLimits = append(st.RateLimits, RateLimit{Agent: a.Agent, Until: a.Until,
				Cause: a.Down})
		}
	}
	return st
}

// add counts a work item, and lists it if it does not merely wait, or if words wait for its agents.
func (st *Status) add(s *rules.State, w *rules.Work, now time.Time) {
	if w.Task == nil && !w.Done() {
		st.Counts.ByHand++
	}
	if w.Task != nil && !s.InPlan(w) || w.Task == nil && w.Done() {
		return
	}
	t := NewTask(s, w, now)
	if w.Task != nil && w.Task.Kind == rules.KindTask {
		st.Counts.add(t.Condition)
	}
	started := t.Attempts > 0 || len(w.Past) > 0
	switch t.Condition {
	case Completed, Cancelled:
		return
	case Waiting:
		started = false
	case Ready:
	default:
		started = true
	}
	if started || len(t.MessagesFor) > 0 {
		st.Tasks = append(st.Tasks, t)
	}
}

func (c *Counts) add(is Condition) {
	switch is {
	case Cancelled:
		c.Cancelled++
	case Working, Parked:
		c.Working++
	case Asking, NeedsApproval:
		c.Asking++
	case Ready:
		c.Ready++
	case Paused:
		c.Paused++
	case Waiting, InRemediation, Blocked:
		c.Waiting++
	}
}

// plans returns the plans of a box. Boxes of earlier versions have tasks without one.
func plans(s *rules.State) []Plan {
	list := []Plan{}
	for _, p := range s.Plans() {
		list = append(list, Plan{ID: p.ID, Title: p.Name, Source: p.Source, File: p.File,
			Current: p.ID == s.PlanID()})
	}
	index := func(id string) int { return slices.IndexFunc(list, func(p Plan) bool { return p.ID == id }) }
	for w := range s.Works() {
		if w.Task == nil || w.Task.Kind != rules.KindTask {
			continue
		}
		i := index(w.Task.Plan)
		if i < 0 {
			_, name, _ := s.Plan()
			list = append(list, Plan{ID: w.Task.Plan, Title: name,
				Current: w.Task.Plan == s.PlanID()})
			i = len(list) - 1
		}
		switch {
		case w.Phase == signalbox.PhaseCompleted:
			list[i].Tasks++
			list[i].Completed++
		case w.Task.Cancelled != "":
			list[i].Cancelled++
		default:
			list[i].Tasks++
		}
	}
	return list
}

func spending(s *rules.State, now time.Time) Spending {
	sum := Spending{Usage: usageOf(s.Spent()), Budgets: []BudgetUse{}}
	plans := map[string]bool{}
	for w := range s.Works() {
		if w.Task != nil && w.Task.Kind == rules.KindTask &&
			(w.Task.Spent.Tokens > 0 || w.Task.Spent.CostMicros > 0) {
			plans[w.Task.Plan] = true
		}
	}
	sum.Plans = len(plans)
	for _, b := range s.Budgets() {
		sum.Budgets = append(sum.Budgets, budgetUse(b))
	}
	if policy, _ := s.Policy(); policy.Window.Tokens > 0 {
		used, ends := s.Window(now)
		sum.Window = &Window{Tokens: used, Limit: policy.Window.Tokens}
		if !ends.IsZero() {
			sum.Window.Ends = &ends
		}
	}
	return sum
}

func usageOf(s rules.Spent) Usage {
	return Usage{s.Tokens, s.EstimatedTokens, s.CostMicros, s.Time.Seconds(), s.UnknownTokens,
		s.UnknownCost}
}

func budgetUse(b rules.BudgetUse) BudgetUse {
	return BudgetUse{b.Cap, b.Role, usageOf(b.Spent),
		Usage{Tokens: b.Budget.Tokens, CostMicros: b.Budget.CostMicros,
			Seconds: b.Budget.Time.Seconds()}, b.Paused}
}

// TaskBudget returns the use of the budget of a task, nil if it has none.
func TaskBudget(s *rules.State, w *rules.Work) *BudgetUse {
	use, ok := s.TaskBudget(w)
	if !ok {
		return nil
	}
	budget := budgetUse(use)
	return &budget
}

func base(s *rules.State) Base {
	b := Base{Commit: s.Base(), Accepted: s.AcceptedFailures()}
	if red := s.RedBaseline(); red != nil {
		b.Red, b.Failing = red.ID, red.Task.Failing
	}
	return b
}

// NewRequest returns an open question as a request.
func NewRequest(q *rules.Question) Request {
	r := Request{Kind: RequestQuestion, ID: q.ID, Work: q.Work, Text: q.Text, Since: &q.Asked,
		Command: "signalbox answer " + q.ID + " TEXT"}
	switch q.Kind {
	case rules.AskedBudget:
		r.Kind, r.Answers = RequestBudget, []string{"yes", "no"}
	case rules.AskedBaseline:
		r.Kind, r.Answers = RequestFault, []string{"again", "repair", "accept"}
	case rules.AskedRemediation:
		r.Kind, r.Answers = RequestFault, []string{"healthy", "halt"}
	case rules.AskedAgent:
		r.Kind, r.Answers = RequestFault, []string{"retry"}
	case rules.AskedSetup:
		r.Kind, r.Answers = RequestFault, []string{"again"}
	case rules.AskedTimeout:
		r.Kind = RequestFault
	case rules.AskedUnchanged:
		r.Answers = []string{"done"}
	case rules.AskedRequest:
		r.Answers = []string{"again"}
	case rules.AskedFileSize:
		r.Answers = []string{"keep"}
	}
	return r
}

// requests returns what waits for the human: questions in the order they were asked, then
// approvals.
func requests(s *rules.State, run rules.Status) []Request {
	list := []Request{}
	for _, q := range s.Questions() {
		if !q.Open() {
			continue
		}
		list = append(list, NewRequest(q))
	}
	for _, id := range run.Approvals {
		list = append(list, Request{Kind: RequestApproval, Work: id,
			Text: questions.ApprovalText(s, id), Command: "signalbox approve " + id,
			Also: []string{"signalbox diff " + id, "signalbox reject " + id + " TEXT"}})
	}
	return list
}

// Waiting returns how many questions and how many approvals wait for the human.
func (st *Status) Waiting() (questions, approvals int) {
	for _, r := range st.Requests {
		switch {
		case r.ID != "":
			questions++
		case r.Kind == RequestApproval:
			approvals++
		}
	}
	return questions, approvals
}

// FindWork returns a work item by its id, or by the name that a person gave it. The ids in answers
// are never ambiguous, although a later plan may have a task of that name.
func FindWork(s *rules.State, name string) (*rules.Work, error) {
	if w, known := s.Work(name); known {
		return w, nil
	}
	return s.Find(name)
}

// Journal is the part of a ledger that inspecting needs.
type Journal interface {
	Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error)
}

var _ Journal = journal.Journal(nil)

// ReadStatus returns the status of an open box.
func ReadStatus(ctx context.Context, b *box.Box, now time.Time) (*Status, error) {
	var st *Status
	b.Engine.View(func(s *rules.State) { st = NewStatus(s, now) })
	if err := st.nameAgents(ctx, b.Journal); err != nil && !isAway(err) {
		return nil, err
	}
	crews, err := agent.Crews(filepath.Join(b.Dir, agent.RegisterFolder))
	if err != nil {
		return nil, err
	}
	st.addCrews(crews)
	if err := st.addMachines(ctx, b); err != nil && !isAway(err) {
		return nil, err
	}
	copies, err := b.Copies(ctx)
	if err != nil && !isAway(err) {
		return nil, err
	}
	for _, c := range copies {
		shown := Copy{Node: c.Node, Events: c.Events, Problem: c.Problem}
		if !c.Verified.IsZero() {
			shown.Verified = &c.Verified
		}
		st.Copies = append(st.Copies, shown)
	}
	if err := st.addClocks(ctx, b); err != nil && !isAway(err) {
		return nil, err
	}
	return st, nil
}

// FindBehind finds out whether the base branch waits behind the base; see the function.
func (st *Status) FindBehind(ctx context.Context, b *box.Box, root string) {
	st.Base.Behind = FindBehind(ctx, b.Config, root)
}

// FindBehind returns why the base branch waits behind the base, nil if it does not. root is the
// folder of the project; "" means that there is none. Without an answer from git there is no reason.
func FindBehind(ctx context.Context, c *config.Config, root string) *workspace.Behind {
	if c.Workspace.Shared() || root == "" {
		return nil
	}
	behind, err := workspace.FindBehind(ctx, root, c.Deliver.Target)
	if err != nil {
		return nil
	}
	return behind
}

// FindLeft finds the cancelled tasks that keep their worktrees on this machine.
func (st *Status) FindLeft(b *box.Box) {
	b.Engine.View(func(s *rules.State) {
		for w := range s.Works() {
			if w.Task == nil || w.Task.Cancelled == "" || w.Lease != nil {
				continue
			}
			if _, err := os.Stat(filepath.Join(b.Dir, workspace.TreesFolder, w.ID)); err == nil {
				st.Left = append(st.Left, w.ID)
			}
		}
	})
}

// addClocks compares the clocks of this machine and of the others with that of the database that
// they share.
func (st *Status) addClocks(ctx context.Context, b *box.Box) error {
	warn := func(text, fix string) {
		if text != "" {
			st.Requests = append(st.Requests, Request{Kind: RequestFault, Text: text + ": " + fix,
				Command: "signalbox doctor"})
		}
	}
	offset, ok, err := b.ClockOffset(ctx)
	if err != nil || !ok {
		return err
	}
	ahead := offset.Ahead.Seconds()
	st.ClockAhead = &ahead
	warn(offset.Text(), box.FixClock)
	clocks, err := b.Clocks(ctx)
	host, _ := os.Hostname() // its clock was compared above
	for _, c := range clocks {
		st.Clocks = append(st.Clocks, Clock{c.Machine, c.Ahead.Seconds()})
		if c.Machine != host {
			warn(box.ClockText(c), box.FixClocks)
		}
	}
	return err
}

// isAway reports whether an error means that the ledger does not answer. Without the names of
// agents and machines, which are not part of the state, the status is still worth having.
func isAway(err error) bool {
	return errors.Is(err, journal.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// addMachines adds the machines that are at work, if several can share the ledger.
func (st *Status) addMachines(ctx context.Context, b *box.Box) (err error) {
	if !b.Config.ManyMachines() {
		return nil
	}
	var workers []*Worker
	for i := range st.Tasks {
		worker := st.Tasks[i].Worker
		if worker == nil {
			continue
		}
		if worker.Machine, err = machineOf(ctx, b.Journal, worker.Epoch); err != nil {
			return err
		}
		if worker.Machine != "" {
			workers = append(workers, worker)
		}
	}
	distinguishMachines(workers)
	tasks := map[string]int{}
	for _, worker := range workers {
		if !worker.Lost {
			tasks[worker.Machine]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tasks)) {
		st.Machines = append(st.Machines, Machine{name, tasks[name]})
	}
	return nil
}

// distinguishMachines changes the names of machines that have the same one.
func distinguishMachines(workers []*Worker) {
	machines := map[string]map[string]bool{} // what distinguishes the machines of each name
	for _, w := range workers {
		if machines[w.Machine] == nil {
			machines[w.Machine] = map[string]bool{}
		}
		machines[w.Machine][agent.MachineOf(w.Session)] = true
	}
	for _, w := range workers {
		if len(machines[w.Machine]) > 1 {
			host, _, _ := strings.Cut(w.Machine, ".")
			w.Machine = host + "-" + agent.MachineOf(w.Session)
		}
	}
}

// nameAgents adds the names of the agents that are at work.
func (st *Status) nameAgents(ctx context.Context, j Journal) error {
	for i := range st.Tasks {
		worker := st.Tasks[i].Worker
		if worker == nil || !RunsAgent(worker.Role) {
			continue
		}
		started, err := startOf(ctx, j, st.Tasks[i].ID, worker.Epoch)
		if err != nil {
			return err
		}
		if worker.Agent = started.Agent; started.Sandbox.Mode != "" {
			worker.Sandbox = &started.Sandbox
		}
	}
	return nil
}

// addCrews adds the registered crews, and what a human must know about them.
func (st *Status) addCrews(crews []agent.Crew) {
	alive := false
	for _, c := range crews {
		st.Crews = append(st.Crews, Crew{c.ID, c.Alive, len(c.Sessions)})
		alive = alive || c.Alive
		if c.Alive {
			continue
		}
		for i := range st.Tasks {
			if worker := st.Tasks[i].Worker; worker != nil &&
				strings.HasPrefix(worker.Session, c.ID+".") {
				worker.Lost = true
			}
		}
	}
	if alive || st.HeldElsewhere() {
		return
	}
	switch st.Standing {
	case rules.StandingWorking:
		st.Continue = st.runCommand()
		st.Requests = append(st.Requests,
			Request{Kind: RequestFault,
				Text: "no run is active on this machine, so no task advances", Command: st.Continue})
	case rules.StandingAsking, rules.StandingPaused, rules.StandingLimited, rules.StandingWaiting:
		st.Continue = st.runCommand()
	}
}

// HowToContinue returns the commands that continue the plan, "" if a run is at work or starting one
// would not help. Unlike Continue it includes the one that ends a pause.
func (st *Status) HowToContinue() string {
	if resume := st.resumeCommand(); resume != "" && st.Continue != "" {
		return resume + ", then " + st.Continue
	}
	return st.Continue
}

// resumeCommand returns the command that ends the pause that keeps a run from continuing, "" if
// there is none.
func (st *Status) resumeCommand() string {
	if st.Paused {
		return "signalbox resume"
	}
	if st.Standing != rules.StandingPaused {
		return ""
	}
	paused := rules.Status{RunPaused: slices.ContainsFunc(st.Spending.Budgets, func(b BudgetUse) bool { return b.Paused })}
	for _, t := range st.Tasks {
		if t.Condition == Paused {
			paused.Paused = append(paused.Paused, t.ID)
		}
	}
	return paused.ResumeCommand()
}

// runCommand returns the command that starts a run of the current plan. Without a file, signalbox
// run continues what the box has.
func (st *Status) runCommand() string {
	for _, p := range st.Plans {
		if file := p.file(); p.Current && file != "" {
			return "signalbox run " + text.ShellWord(file)
		}
	}
	return "signalbox run"
}

// Active reports whether a run or worker is alive on this machine.
func (st *Status) Active() bool {
	return slices.ContainsFunc(st.Crews, func(c Crew) bool { return c.Alive })
}

// HeldElsewhere reports whether somebody else than a crew that was killed on this machine works on
// a task of a plan.
func (st *Status) HeldElsewhere() bool {
	return slices.ContainsFunc(st.Tasks,
		func(t Task) bool { return t.Kind != "" && t.Worker != nil && !t.Worker.Lost })
}

// file returns the file of the plan, "" if it is not known.
func (p *Plan) file() string {
	switch {
	case strings.HasPrefix(p.Source, "id:"), strings.HasPrefix(p.Source, "stdin:"):
		return p.File
	case p.Source == rules.AddedSource:
		return ""
	}
	return p.Source
}

func orEmpty(list []string) []string { return append([]string{}, list...) }
