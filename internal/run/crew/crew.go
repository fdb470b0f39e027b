// Package crew does the work that the rules hand out. A crew is what one process contributes to a box: it asks for whatever is
// to be done next, builds the prompt, starts the agent, hears it while it runs, and hands in what it said; it runs the checks
// and merges. Everything that matters is in the ledger: a crew that is killed at any instant leaves nothing that another
// cannot take up. Several crews, in several processes, may work on one box.
package crew

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/workspace"
)

// Options says how a crew works.
type Options struct {
	// Roles are those that the crew fills; nil is all of them.
	Roles []signalbox.Role
	// Actor is who the crew's sessions belong to; "" is "crew".
	Actor string
	// Stay keeps the crew at work when there is nothing left to do, until its context ends.
	Stay bool
	// LeaveQuestions ends the run when nothing can go on before the human says something, an answer or an order; else it waits for that.
	LeaveQuestions bool
	// ExitSignals are taken beside line signals if this is set; else they are refused, as everywhere where the agent exit
	// protocol is not enabled.
	ExitSignals bool
	// Live hears what agents do while they do it; nil drops it. It must be quick, and is called by several goroutines.
	Live func(Activity)
	// Log hears what is no answer to anybody; nil drops it.
	Log *slog.Logger

	pauses *pauses // nil is the usual ones
	// start starts a program; nil is process.Start.
	start func(process.Spec, func(process.ID) error) (*process.Process, error)
}

// pauses are how long a crew waits for programs.
type pauses struct {
	// park is how long an agent that has to wait for an expert or a file may go on before it is ended.
	park time.Duration
	// quiet is how long a stream is silent after a signal until no fields of it are expected any more.
	quiet time.Duration
	// linger shortens how long an agent may go on after its last word; 0 leaves it to the agent's command.
	linger time.Duration
	// start are the pauses before an agent that could not be started is tried again.
	start []time.Duration
	// place are the pauses before something is tried again that failed in a tree, in git or on the disk.
	place []time.Duration
}

func usualPauses() *pauses {
	return &pauses{park: 10 * time.Second, quiet: time.Second, start: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second},
		place: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}}
}

// Activity is something an agent just did. It is not in the ledger.
type Activity struct {
	Work, Session string
	Role          signalbox.Role
	// Text is one line that may hold anything the agent wrote: escape it.
	Text string
}

// Crew is what one process contributes to a box.
type Crew struct {
	box   *box.Box
	place Place
	owner *agent.Owner
	opts  Options
	log   *slog.Logger

	ended   chan struct{}   // has room for one: a session has ended
	mourned map[string]bool // crews whose end is waited for; of the goroutine that hands out

	mu       sync.Mutex // guards what follows
	sessions map[string]*session
	number   int
	running  sync.WaitGroup
}

// Outcome is how a run ended.
type Outcome struct {
	rules.Status
}

// TreesFolder is where a box has the trees of its tasks.
const TreesFolder = "trees"

// Place is where work is done.
type Place struct {
	// Root is the project's folder.
	Root string
	// Repo has a tree for each task; nil means that all work in Root.
	Repo *workspace.Repo
}

// New returns a crew for a box. It frees what crews left behind that are gone, and ends their agents.
func New(ctx context.Context, b *box.Box, place Place, opts *Options) (*Crew, error) {
	c := &Crew{box: b, place: place, ended: make(chan struct{}, 1), mourned: map[string]bool{}, sessions: map[string]*session{}}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.Roles == nil {
		c.opts.Roles = rules.DispatchRoles()
	}
	if c.opts.Actor == "" {
		c.opts.Actor = "crew"
	}
	if c.opts.pauses == nil {
		c.opts.pauses = usualPauses()
	}
	if c.log = c.opts.Log; c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if err := c.validateTemplates(); err != nil {
		return nil, err
	}
	if err := c.inherit(ctx); err != nil {
		return nil, err
	}
	if err := c.sweep(ctx); err != nil {
		return nil, err
	}
	owner, err := agent.Join(c.file("crews"))
	if err != nil {
		return nil, err
	}
	c.owner = owner
	return c, nil
}

func (c *Crew) file(name string) string { return filepath.Join(c.box.Dir, name) }

// refused tells an error that is the rules' answer from one that says that something is broken, such as the clock.
func refused(err error) bool {
	answer := (*rules.RefusedError)(nil)
	return errors.As(err, &answer)
}

// Close leaves the register of crews. Run has returned before.
func (c *Crew) Close() error { return c.owner.Leave() }

// Run works until the plan is complete or stuck, or ctx ends; then it ends its agents and frees what they held, and the error
// is ctx's. With Options.Stay it works until ctx ends.
func (c *Crew) Run(ctx context.Context) (Outcome, error) {
	following, stop := context.WithCancelCause(ctx)
	var helpers sync.WaitGroup
	helpers.Go(func() {
		if err := c.box.Engine.Follow(following); following.Err() == nil {
			stop(err)
		}
	})
	outcome, err := c.work(following)
	if following.Err() != nil && ctx.Err() == nil {
		err = context.Cause(following)
	}
	c.endAll()
	c.running.Wait()
	if err != nil { // what the sessions did while they ended counts too
		outcome, _ = c.look()
	}
	stop(nil)
	helpers.Wait()
	return outcome, err
}

// work hands out what is to be done until there is nothing left.
func (c *Crew) work(ctx context.Context) (Outcome, error) {
	for {
		seen := c.box.Engine.Tail().Seq
		if err := c.fill(ctx); err != nil {
			return Outcome{}, err
		}
		c.attend()
		c.mourn(ctx)
		outcome, wake := c.look()
		if c.over(outcome) {
			return outcome, nil
		}
		if err := c.wait(ctx, seen, wake); err != nil {
			return outcome, err
		}
	}
}

// over tells whether the run has come to its end for this crew.
func (c *Crew) over(o Outcome) bool {
	if c.opts.Stay {
		return false
	}
	c.mu.Lock()
	busy := len(c.sessions) > 0
	c.mu.Unlock()
	if busy {
		return false
	}
	switch o.Standing {
	case rules.StandingComplete, rules.StandingStuck:
		return true
	case rules.StandingAsking, rules.StandingPaused:
		return c.opts.LeaveQuestions
	}
	return false
}

func (c *Crew) look() (o Outcome, wake time.Time) {
	now := time.Now()
	c.box.Engine.View(func(s *rules.State) {
		o.Status = s.Status(now)
		wake, _ = s.NextWake(now)
	})
	return o, wake
}

// wait blocks until the ledger has moved on, a session has ended, or a rate limit ends.
func (c *Crew) wait(ctx context.Context, seen uint64, wake time.Time) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	if !wake.IsZero() {
		defer time.AfterFunc(time.Until(wake), cancel).Stop()
	}
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		select {
		case <-c.ended:
			cancel()
		case <-waiting.Done():
		}
	}()
	err := c.box.Engine.Wait(waiting, seen)
	cancel()
	<-listening // else it could take what is meant for the next
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		return nil
	}
	return err
}

// fill starts whatever is to be done now.
func (c *Crew) fill(ctx context.Context) error {
	for ctx.Err() == nil {
		possible := false
		c.box.Engine.View(func(s *rules.State) { possible = s.CanDispatch(c.opts.Roles, time.Now()) })
		if !possible {
			return nil
		}
		answer, err := c.box.Engine.Do(ctx, rules.Dispatch{Roles: c.opts.Roles, Session: c.newSession(), Actor: c.opts.Actor,
			Lease: box.NewID("l"), TTL: c.box.Config.Lease.TTL})
		if errors.Is(err, rules.ErrNothingToClaim) {
			return nil
		}
		if err != nil {
			return err
		}
		c.start(ctx, answer)
	}
	return ctx.Err()
}

func (c *Crew) newSession() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	return fmt.Sprintf("%s.%d", c.owner.ID(), c.number)
}

// start begins a session in the background.
func (c *Crew) start(ctx context.Context, granted rules.Answer) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &session{crew: c, work: granted.Work, id: granted.Session, role: granted.Lease.Role, epoch: granted.Lease.Epoch,
		expires: granted.Lease.Expires, cancel: cancel, woken: make(chan struct{}, 1)}
	c.mu.Lock()
	c.sessions[s.id] = s
	c.mu.Unlock()
	c.running.Go(func() {
		defer cancel(nil)
		s.run(ctx)
		c.mu.Lock()
		delete(c.sessions, s.id)
		c.mu.Unlock()
		poke(c.ended)
	})
}

// attend tells sessions what the ledger says about their leases: that they are gone, or that their waiting is over.
func (c *Crew) attend() {
	c.mu.Lock()
	sessions := make([]*session, 0, len(c.sessions))
	for _, s := range c.sessions {
		sessions = append(sessions, s)
	}
	c.mu.Unlock()
	c.box.Engine.View(func(state *rules.State) {
		for _, s := range sessions {
			w, _ := state.Work(s.work)
			switch {
			case w.Lease == nil || w.Lease.Epoch != s.epoch:
				s.cancel(errLeaseLost)
			case w.Task.Parked != nil:
				s.wake()
			}
		}
	})
}

func (c *Crew) endAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sessions {
		s.cancel(errInterrupted)
	}
}
