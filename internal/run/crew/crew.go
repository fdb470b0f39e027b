// Package crew carries out the work of a box. A Crew runs its agents, checks and merges in one
// process. For each lease that the rules grant it opens a workspace, builds the prompt, starts the
// agent, reads its output while it runs, and reports its signals.
//
// Everything that matters is in the ledger. A crew may be killed at any time; another one continues
// its work. Several crews, in several processes, may work on one box.
package crew

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/core/box"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/checkrun"
	"signalbox/internal/run/checks"
	"signalbox/internal/run/deliver"
	"signalbox/internal/run/forge"
	"signalbox/internal/run/project"
	"signalbox/internal/run/transport"
	"signalbox/internal/run/turnprompt"
	"signalbox/internal/run/workspace"
	"signalbox/internal/team"
)

// Options configure a crew.
type Options struct {
	// Roles are the roles that the crew fills; nil means all of them.
	Roles []signalbox.Role
	// Slots is how many sessions the crew runs at once, besides those that wait for an expert or a
	// file; 0 means as many as the box allows.
	Slots uint
	// Actor is recorded as the owner of the crew's sessions; "" means "crew".
	Actor string
	// Stay makes Run wait for more work when there is nothing left to do, until its context is
	// done.
	Stay bool
	// LeaveQuestions makes Run return when no work can continue without an answer or an order from
	// a human, or before a pull request is merged. Otherwise it waits for that.
	LeaveQuestions bool
	// Keyed gives each agent a key that its signals must have, even if the configuration does not.
	Keyed bool
	// ExitSignals enables the agent exit protocol. Otherwise exit signals are refused.
	ExitSignals bool
	// MCP serves MCP to the agent of a session, on a connection over which it sends and gets
	// messages, one per line, until the connection or ctx ends. What the agent does must go through
	// the rules as that session. Nil means that agents have no MCP server.
	MCP func(ctx context.Context, b *box.Box, agent AgentSession, conn io.ReadWriter) error
	// Team is the team's configuration, to say when it changes on the base branch. Nil means that
	// it is not known.
	Team *team.Shared
	// Live receives what agents write, as they write it; nil discards it. It must return quickly
	// and may be called concurrently.
	Live func(agent.Activity)
	// Tools receives the calls of tools, as agents report them, and their results; nil discards
	// them. It must return quickly and may be called concurrently.
	Tools func(agent.ToolUse)
	// Log receives diagnostics; nil discards them.
	Log *slog.Logger

	seams
}

// seams are what only tests set. The zero value is the real thing.
type seams struct {
	// machines means that other machines share the ledger, even if the configuration does not say
	// so.
	machines bool
	// ports is the register of ports; "" means the user's.
	ports string
	// copies means that home folders are copied even where the system has layers.
	copies bool
	// forge opens pull requests; nil means the one that the configuration names.
	forge  forge.Forge
	delays *delays // nil means defaultDelays
	// start starts a program; nil means process.Start.
	start func(process.Spec, func(process.ID) error) (program, error)
}

// delays are how long a crew waits.
type delays struct {
	// park is how long an agent that must wait for an expert or a file may keep running before it
	// is ended.
	park time.Duration
	// quiet is how long a stream must be silent after a signal until no more of its fields are
	// expected.
	quiet time.Duration
	// linger is how long an agent may keep running after its turn has ended; 0 means the linger
	// time of its command.
	linger time.Duration
	// finish is how long a program that has sent its verdict may take to end its turn after a cap
	// is reached; 0 means finishTime.
	finish time.Duration
	// look is the time between looks at what a program uses that does not report it; 0 means
	// lookEvery.
	look time.Duration
	// refused is for how long a program may repeat requests that its service refuses because of a
	// rate limit; 0 means refusedTime.
	refused time.Duration
	// start are the pauses before an agent that could not be started is started again.
	start []time.Duration
	// size is the pause before the size of an agent's working copy is measured again.
	size time.Duration
	// retry are the pauses before something that failed in a worktree, in git or on the disk is
	// tried again.
	retry []time.Duration
	// request is the pause between looks at open pull requests; 0 means the configured one.
	request time.Duration
	// firstLook is how long a run looks at open pull requests before it starts agents; 0 means
	// firstLook.
	firstLook time.Duration
	// version is how long a program may take to print its version; 0 means versionTimeout.
	version time.Duration
	// slowRequest is how long a pull request may wait until the user is told.
	slowRequest time.Duration
}

func defaultDelays() *delays {
	return &delays{slowRequest: deliver.SlowRequest, size: 10 * time.Second, park: 10 * time.Second,
		quiet: time.Second, start: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second},
		retry: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
			16 * time.Second}}
}

// firstLook bounds how long a run looks at open pull requests before it starts agents.
const firstLook = 30 * time.Second

// Crew carries out work of a box in one process.
type Crew struct {
	box     *box.Box
	project project.Project
	branch  string // the base branch, "" if there is none
	owner   *agent.Owner
	site    contain.Site
	checks  *checks.Runner
	// requests are the open pull requests, and stack is the delivered work that other work builds
	// on.
	requests *deliver.Requests
	stack    deliver.Stack
	// exchange brings commits to other machines, and follower keeps the base branch where the
	// ledger says.
	exchange *transport.Exchange
	follower *transport.Follower
	machine  string // the name of this machine, "" if only this machine uses the ledger
	opts     Options
	log      *slog.Logger
	prompts  *turnprompt.Builder
	// heartbeat keeps the leases of checks and merges alive.
	heartbeat *heartbeat

	ended   chan struct{}   // capacity 1: a session has ended
	watched map[string]bool // peers whose end is waited for; used by the dispatching goroutine only
	warned  map[string]bool // work that cannot be checked; used by the dispatching goroutine only
	settled atomic.Bool     // it was said that the team's configuration has changed
	// completed is how many tasks were completed when tidy last looked; used by the dispatching
	// goroutine only.
	completed int
	// mayHold means that Run was stopped while it asked for work, and may yet get a lease. Close
	// reads it after Run has returned.
	mayHold bool

	mu       sync.Mutex // guards the fields below
	sessions map[string]*session
	number   int
	told     map[string]bool // warnings that were logged
	running  sync.WaitGroup

	versionsMu sync.Mutex
	versions   map[string]string // of agent programs, "" if not known; guarded by versionsMu
}

// defaultActor is recorded for what a crew does on its own.
const defaultActor = "crew"

// New returns a crew for a box and its project. It ends the agents of crews that were killed,
// releases their work, and removes their leftovers.
func New(ctx context.Context, b *box.Box, in project.Project, opts *Options) (*Crew, error) {
	c := &Crew{box: b, project: in, ended: make(chan struct{}, 1), watched: map[string]bool{},
		warned: map[string]bool{}, sessions: map[string]*session{}, told: map[string]bool{}}
	if in.Repo != nil {
		c.branch = in.Repo.Base
		in.Repo.Warn = c.warnOnce
	}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.Roles == nil {
		c.opts.Roles = rules.DispatchRoles()
	}
	if c.opts.Actor == "" {
		c.opts.Actor = defaultActor
	}
	if c.opts.delays == nil {
		c.opts.delays = defaultDelays()
	}
	if c.log = c.opts.Log; c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	for _, role := range config.AgentRoles() { // before any agent is started
		if err := turnprompt.CheckTemplate(b.Config, b.Dir, role, c.keyed()); err != nil {
			return nil, err
		}
	}
	root := ""
	if in.Repo != nil {
		root = in.Root
	}
	c.prompts = turnprompt.New(b, turnprompt.Options{Branch: c.branch, Root: root,
		ExitSignals: c.opts.ExitSignals})
	var err error
	if c.site, err = in.Site(b.Config, b.Dir); err != nil {
		return nil, err
	}
	c.site.Cache.Copy = c.opts.copies
	shared := c.opts.machines || b.Config.ManyMachines()
	if b.Config.ManyMachines() {
		lease, standard := b.Config.Lease, config.Default().Lease
		err := cmp.Or(checkLease("lease.ttl", lease.TTL, standard.TTL, b.Config.Grace),
			checkLease("lease.checks", lease.Short(), standard.Checks, b.Config.Grace))
		if err != nil {
			return nil, err
		}
	}
	if shared {
		c.machine = machineName(b.Config)
	}
	if c.keyed() {
		if err := agent.CheckKeyed(b.Config, c.opts.Roles); err != nil {
			return nil, err
		}
	}
	target, err := deliver.Find(in.Repo, b.Config.Deliver,
		deliver.Options{Open: len(deliver.Waiting(b)) > 0, Forge: c.opts.forge})
	if err != nil && b.Config.Deliver.Pushes() {
		return nil, err
	} else if err != nil { // the configuration has changed since a request was opened
		c.log.Warn("cannot look at open pull requests", "error", workspace.Explain(err))
	}
	if err := b.Engine.WhenAvailable(ctx, func() (err error) {
		c.exchange, err = transport.Open(ctx, b, in.Repo, c.opts.Actor, shared)
		return err
	}); err != nil {
		return nil, err
	}
	c.heartbeat = &heartbeat{ttl: c.shortTTL(), renew: c.renewLeases, spawn: c.running.Go}
	c.follower = transport.NewFollower(c.exchange, c.log, c.noteTeam)
	c.stack = deliver.Stack{Box: b, Repo: in.Repo, Exchange: c.exchange}
	c.requests = &deliver.Requests{Target: target, Box: b, Follower: c.follower,
		Actor: c.opts.Actor, Slow: c.opts.delays.slowRequest,
		Pause: cmp.Or(c.opts.delays.request, b.Config.Deliver.Interval()), Warn: c.warnOnce,
		Reported: c.removeCompleted}
	// before the work of killed crews is released: somebody may have been at work
	c.follower.Observe(ctx, true)
	if err := b.Engine.WhenAvailable(ctx, func() error { return c.reapOrphans(ctx) }); err != nil {
		return nil, err
	}
	if err := c.removeLeftovers(ctx); err != nil {
		return nil, err
	}
	owner, err := agent.Join(c.file(agent.RegisterFolder))
	if err != nil {
		return nil, err
	}
	c.owner = owner
	c.checks = &checks.Runner{Site: c.site, Repo: in.Repo, Support: process.Support(), Exchange: c.exchange, Owner: owner,
		PortRegister: c.opts.ports, Log: c.log, Warn: c.warnOnce,
		Start: func(spec process.Spec, started func(process.ID) error) (checkrun.Running, error) {
			return c.start(spec, started)
		}}
	return c, nil
}

// machineName returns the name of this machine among those that share the ledger: that of its node
// if they run the ledger themselves, otherwise its host name, which is "" if it has none. The
// settings can name a cluster that the ledger is not in.
func machineName(c *config.Config) string {
	if c.Journal == config.JournalCluster {
		return c.Cluster.Node
	}
	host, _ := os.Hostname()
	return host
}

// noteTeam says, once, that the base branch has another version of the team's configuration than
// the one that the crew works with.
func (c *Crew) noteTeam(ctx context.Context, base string) {
	shared := c.opts.Team
	if shared == nil || shared.Commit == "" || shared.Commit == base || c.settled.Load() {
		return
	}
	changed, err := c.project.Repo.Differing(ctx, shared.Commit, base)
	if err != nil || !slices.ContainsFunc(changed, shared.Uses) || c.settled.Swap(true) {
		return
	}
	c.log.Warn("the team's configuration has changed on " + c.branch +
		"; this run keeps the one that it started with, and the next run uses the new one")
}

// warnOnce logs a warning, once for each text.
func (c *Crew) warnOnce(text string) {
	c.mu.Lock()
	known := c.told[text]
	c.told[text] = true
	c.mu.Unlock()
	if !known {
		c.log.Warn(text)
	}
}

func (c *Crew) file(name string) string { return filepath.Join(c.box.Dir, name) }

// Close leaves the register of crews. Call it after Run has returned. Leases that could not be
// released, because the disk was full or the crew was stopped while it got one, are left to the
// next crew on this machine.
func (c *Crew) Close() error {
	if c.mayHold || len(c.leasesOf(c.owner.ID())) > 0 {
		return c.owner.Abandon()
	}
	return c.owner.Leave()
}

// Run works until the plan is complete or stuck, or ctx is done. In the latter case it ends its
// agents, releases their work, and returns the error of ctx. With Options.Stay it works until ctx
// is done.
func (c *Crew) Run(ctx context.Context) (rules.Status, error) {
	following, stop := context.WithCancelCause(ctx)
	var helpers sync.WaitGroup
	helpers.Go(func() {
		if err := c.box.Engine.Follow(following); following.Err() == nil {
			stop(err)
		}
	})
	if c.requests.Can() && slices.Contains(c.opts.Roles, signalbox.RoleMerger) {
		looking, looked := context.WithTimeout(following,
			cmp.Or(c.opts.delays.firstLook, firstLook))
		c.requests.Look(looking) // before the loop can find that there is nothing to do
		looked()
		helpers.Go(func() { c.requests.Watch(following) })
	}
	outcome, err := c.dispatchLoop(following)
	c.mayHold = errors.Is(err, engine.ErrUnknownOutcome)
	if following.Err() != nil && ctx.Err() == nil {
		err = context.Cause(following)
	}
	c.cancelSessions()
	c.running.Wait()
	// the sessions may have changed the outcome, and their agents the base branch, while they
	// ended, and other processes may have completed the plan
	if err != nil {
		c.box.Engine.RefreshFinally(ctx)
		c.follower.Observe(context.WithoutCancel(ctx), false)
		outcome, _ = c.status()
	}
	stop(nil)
	helpers.Wait()
	return outcome, err
}

// Behind says why the base branch waits behind the base, "" if it does not.
func (c *Crew) Behind() string { return c.follower.Behind() }

// HasMore reports whether there is something to do after Run has returned without an error:
// something that another process recorded while this one was ending, and still saw this crew in the
// register. So call it after Close. From then on others see that no run is active.
func (c *Crew) HasMore(ctx context.Context) bool {
	if _, err := c.box.Engine.RefreshOrKnown(ctx); err != nil {
		return false
	}
	outcome, _ := c.status()
	return !c.isFinished(outcome, false)
}

// dispatchLoop starts sessions until there is nothing left to do.
func (c *Crew) dispatchLoop(ctx context.Context) (rules.Status, error) {
	for {
		seen := c.box.Engine.Tail().Seq
		if err := c.dispatch(ctx); err != nil {
			return rules.Status{}, err
		}
		c.updateSessions()
		c.watchPeers(ctx)
		c.warnUnchecked()
		// asked once: a session that ends from here on may have moved the base branch, and wakes
		// the loop
		busy := c.isBusy()
		if !busy {
			c.follower.Observe(ctx, false)
			c.tidy(ctx)
		}
		outcome, wake := c.status()
		// the base branch may be behind
		unseen := c.exchange.Shared() && c.box.Engine.Tail().Seq != seen
		if c.isFinished(outcome, busy) && !unseen {
			return outcome, nil
		}
		if err := c.wait(ctx, seen, wake); err != nil {
			return outcome, err
		}
	}
}

// isFinished reports whether Run can return. busy reports whether a session is running.
func (c *Crew) isFinished(o rules.Status, busy bool) bool {
	if c.opts.Stay || busy {
		return false
	}
	switch o.Standing {
	case rules.StandingComplete, rules.StandingStuck:
		return true
	case rules.StandingAsking, rules.StandingPaused, rules.StandingWaiting:
		return c.opts.LeaveQuestions
	}
	return false
}

// isBusy reports whether a session is running.
func (c *Crew) isBusy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sessions) > 0
}

// status returns the outcome so far, and when the next timer of the rules fires.
func (c *Crew) status() (o rules.Status, wake time.Time) {
	now := time.Now()
	c.box.Engine.View(func(s *rules.State) {
		o = s.Status(now)
		wake, _ = s.NextWake(now)
	})
	return o, wake
}

// wait waits until the ledger has grown past seq seen, a session has ended, or wake is reached.
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
	<-listening // so that it cannot take an event meant for the next call
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		return nil
	}
	return err
}

// dispatch starts a session for everything that can be done now.
func (c *Crew) dispatch(ctx context.Context) error {
	for ctx.Err() == nil {
		possible := false
		c.box.Engine.View(func(s *rules.State) {
			possible = c.hasFreeSlot(s) && s.CanDispatch(c.opts.Roles, c.checksByHand(), time.Now())
		})
		if !possible {
			return nil
		}
		c.follower.Observe(ctx, false) // not for every event, because it starts git
		secret := box.NewSecret()
		answer, err := c.box.Engine.DoPatiently(ctx, nil,
			rules.Dispatch{Roles: c.opts.Roles, Session: c.newSession(), Actor: c.opts.Actor,
				Lease: box.NewID("l"), TTL: c.box.Config.Lease.TTL,
				Secret: rules.HashSecret(secret),
				ByHand: c.checksByHand(), Machine: c.machine,
				Train: c.box.Config.Deliver.Train, Short: c.shortTTL()})
		if errors.Is(err, rules.ErrNothingToClaim) {
			return nil
		}
		if err != nil {
			return err
		}
		c.startSession(ctx, answer, secret)
	}
	return ctx.Err()
}

// hasFreeSlot reports whether the crew may start another session. One that waits for an expert or a
// file needs no slot, because the expert may need it; one that got what it waited for needs its
// slot again.
func (c *Crew) hasFreeSlot(state *rules.State) bool {
	if c.opts.Slots == 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	used := uint(0)
	for _, s := range c.sessions {
		if w, _ := state.Work(s.work); w.Task == nil || w.Task.Parked == nil ||
			w.Task.Parked.Ready {
			used++
		}
	}
	return used < c.opts.Slots
}

func (c *Crew) newSession() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	return fmt.Sprintf("%s.%d", c.owner.ID(), c.number)
}

// startSession runs a session in the background. The secret of its lease is for its agent.
func (c *Crew) startSession(ctx context.Context, granted rules.Answer, secret string) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &session{crew: c, work: granted.Work, id: granted.Session, role: granted.Lease.Role,
		epoch: granted.Lease.Epoch, expires: granted.Lease.Expires, cancel: cancel,
		over: ctx.Done()}
	s.assignment = newAssignment(s, granted, secret)
	s.leased, s.unlease = context.WithCancel(context.WithoutCancel(ctx))
	for _, other := range granted.Train {
		s.train = append(s.train, s.couple(other))
	}
	c.mu.Lock()
	c.sessions[s.id] = s
	c.mu.Unlock()
	c.running.Go(func() {
		defer cancel(nil)
		defer s.unlease()
		s.run(ctx)
		c.mu.Lock()
		delete(c.sessions, s.id)
		c.mu.Unlock()
		trySend(c.ended)
	})
}

// updateSessions cancels the sessions that lost their leases, and lets the agents of the others
// notice what is new about them.
func (c *Crew) updateSessions() {
	c.mu.Lock()
	sessions := make([]*session, 0, len(c.sessions))
	for _, s := range c.sessions {
		sessions = append(sessions, s)
	}
	c.mu.Unlock()
	c.box.Engine.View(func(state *rules.State) {
		for _, s := range sessions {
			w, _ := state.Work(s.work)
			if w.Lease == nil || w.Lease.Epoch != s.epoch {
				s.loseLease()
			} else if a, runs := s.assignment.(*agentRun); runs {
				a.notice(state, w)
			}
		}
	})
}

func (c *Crew) cancelSessions() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sessions {
		s.cancel(errInterrupted)
	}
}
