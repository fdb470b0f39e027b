// Package runner runs behaviour trees for real: it gives them time, starts and cancels their jobs, and keeps a journal
// from which a run goes on after its process was killed.
//
// A tick is written to the journal before anything that it asks for is done, and the journal is synced before jobs are
// started and emitted values are handed out. So a run that goes on starts only jobs that were not finished, and hands
// out again only the values of its last tick. Ticks are driven by the end of jobs and by timers; nothing is polled.
//
// When Do returns, no job is running, but for one that did not heed its context within the grace period, which is an
// error that names it.
package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"signalbox/internal/tree"
)

// Errors that end a runaway run. They come wrapped, with the leaves that are running. The journal can be continued.
var (
	// ErrTickBudget: the tree was ticked as often as allowed, and is running still.
	ErrTickBudget = errors.New("tick budget spent")
	// ErrNoProgress: nothing changed for as long as the watchdog allows.
	ErrNoProgress = errors.New("no progress")
	// ErrStuck: the tree is running, and there is neither a job nor a timer that could wake it.
	ErrStuck = errors.New("nothing can wake the tree")
	// ErrJobStuck: a job that was cancelled did not end.
	ErrJobStuck = errors.New("a cancelled job does not end")
)

// Options say how a tree is run.
type Options struct {
	// Run has the run's name, inputs, tools and model. Record is set when there is a journal.
	Run tree.RunOptions
	// Journal is the file to keep, or to go on from. Zero: none.
	Journal string
	// File and Source are what the tree was made from, for the journal.
	File, Source string
	// MaxTicks is how often the tree may be ticked in all. Zero: 100,000.
	MaxTicks int
	// Watchdog is how long a run may make no progress while no wait, backoff or timeout of the tree says how long
	// it will take. Zero: ten minutes. Negative: for ever.
	Watchdog time.Duration
	// Grace is how long a cancelled job may take to end. Zero: ten seconds.
	Grace time.Duration
	// Emitted gets each value that a leaf published, after it was recorded. It may get the values of the last tick
	// again when a run goes on: Emit.Seq tells. An error stops the run, which can go on. Nil: they are dropped.
	Emitted func(ctx context.Context, run *tree.Run, e tree.Emit) error
	// EmitUnsynced hands values out before their tick is on stable storage. After a power cut a run may come to the same tick
	// again: whoever sets it must not mind to get the same values once more, and must know that they will be the same.
	EmitUnsynced bool
	// Opened is called once, before anything is done, with the run as it stands. Nil: nobody looks.
	Opened func(*tree.Run)
	// Ticked is called after each tick was recorded. Nil: nobody looks.
	Ticked func(*tree.Run)
}

// Do runs a tree to its end, from the beginning or from where its journal stands, and returns the run. A run that ended
// already is returned as it ended. The error says why the run did not end: the context's, one of the errors above, or the
// journal's or Emitted's.
func Do(ctx context.Context, t *tree.Tree, o *Options) (*tree.Run, error) {
	opts := *o
	if opts.MaxTicks == 0 {
		opts.MaxTicks = 100_000
	}
	if opts.Watchdog == 0 {
		opts.Watchdog = 10 * time.Minute
	}
	if opts.Grace == 0 {
		opts.Grace = 10 * time.Second
	}
	if opts.Run.ID == "" {
		opts.Run.ID = rand.Text() // the keys of jobs must differ from those of other runs
	}
	r := &running{Options: opts, jobs: map[int]*job{}, owed: map[int]tree.Start{}, ended: make(chan struct{}, 1)}
	if err := r.open(t); err != nil {
		return nil, errors.Join(err, r.journal.close())
	}
	r.begun.at, r.begun.since = r.run.Now(), time.Now()
	if r.over {
		return r.run, r.journal.close()
	}
	err := r.loop(ctx)
	err = errors.Join(err, r.stopAll())
	err = r.note(ctx, err)
	return r.run, errors.Join(err, r.journal.close())
}

// running is a run and what it has under way.
type running struct {
	Options
	run     *tree.Run
	journal *writer
	jobs    map[int]*job
	// owed are jobs that a tick began and that were not started yet.
	owed map[int]tree.Start
	// begun is the time of the last tick when this process took the run over, and when that was.
	begun struct{ at, since time.Time }
	// ended has something in it when a job ended since it was last read.
	ended chan struct{}
	// progress is when something changed last.
	progress time.Time
	// ticked: this process has ticked the tree.
	ticked bool
	// over: the journal says that the run ended long ago.
	over bool
	// left were running before the last tick of another process.
	left []tree.Start
}

// job is one that was started. result is there when ended is closed.
type job struct {
	start  tree.Start
	cancel context.CancelFunc
	ended  chan struct{}
	result tree.Result
}

// open begins a run, or replays what the journal has of it.
func (r *running) open(t *tree.Tree) error {
	if r.Journal == "" {
		run, err := tree.NewRun(t, &r.Run)
		r.run = run
		return err
	}
	r.Run.Record = true
	file, err := openJournal(r.Journal)
	if err != nil {
		return err
	}
	r.journal = &writer{file: file}
	j, err := readJournal(r.Journal, file, func(h tree.Header) error {
		run, err := StartReplay(t, h)
		r.run = run
		return err
	}, func(rec *tree.Record) error {
		r.left = r.run.Pending() // before the tick: some of them it may leave
		return r.run.Replay(rec)
	})
	if err != nil {
		return err
	}
	if err := r.journal.goOn(j); err != nil {
		return err
	}
	if r.over = j.Ended(); r.over {
		return nil
	}
	if r.run != nil {
		return r.run.Resume(&r.Run)
	}
	if r.run, err = tree.NewRun(t, &r.Run); err != nil {
		return err
	}
	h := r.run.Header(&r.Run, time.Now())
	h.File, h.Source = r.File, r.Source
	return r.journal.write(func(dst []byte) []byte { return tree.AppendHeader(dst, h) })
}

// StartReplay returns a run that the records of a journal can be replayed in.
func StartReplay(t *tree.Tree, h tree.Header) (*tree.Run, error) {
	if h.Shape != t.Shape() {
		return nil, tree.ErrOtherTree
	}
	inputs, globals, err := h.ReadInputs()
	if err != nil {
		return nil, err
	}
	return tree.NewReplay(t, &tree.RunOptions{ID: h.Run, Inputs: inputs, Globals: globals, Observe: true})
}

// note ends the journal with how the run ended or was stopped.
func (r *running) note(ctx context.Context, err error) error {
	e := tree.Ending{End: r.run.Status().String(), At: time.Now().UTC()}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		e.End = Interrupted
	default:
		e.End, e.Error = Failed, err.Error()
	}
	return errors.Join(err, r.journal.write(func(dst []byte) []byte { return tree.AppendEnding(dst, e) }))
}

// loop ticks until the tree ends. It begins with what the last tick asked for, which, in a run that goes on, may have
// been done in part.
func (r *running) loop(ctx context.Context) error {
	r.progress = r.now()
	r.owe(r.run.Pending())
	r.clearUp(ctx, r.left)
	if r.Opened != nil {
		r.Opened(r.run)
	}
	for {
		if err := r.carryOut(ctx); err != nil {
			return err
		}
		if r.run.Status().Done() {
			return nil
		}
		if r.run.Ticks() >= r.MaxTicks {
			return fmt.Errorf("%w: %d ticks; running: %s", ErrTickBudget, r.run.Ticks(), r.leaves())
		}
		// In a run that goes on, a timer that ended meanwhile may leave what was under way: then it must not begin again.
		if r.ticked || !r.due(r.now()) {
			r.startOwed(ctx)
		}
		if r.run.Ticks() > 0 {
			if err := r.wait(ctx); err != nil {
				return err
			}
			// A job may have failed because the run is to stop: that is no result, and it is done again when the run goes on.
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		r.run.Tick(r.now())
		r.ticked = true
		if r.run.Changed() {
			r.progress = r.now()
		}
		if err := r.journal.write(r.run.AppendRecord); err != nil {
			return fmt.Errorf("the tick could not be recorded: %w", err)
		}
		if r.Ticked != nil {
			r.Ticked(r.run)
		}
		if err := r.overdue(r.now()); err != nil && !r.run.Status().Done() {
			return err
		}
		r.owe(r.run.Started())
	}
}

// now is the time for the tree: the system's, but never before that of the last tick, from which it goes on at the same
// pace if the system's clock was set back.
func (r *running) now() time.Time {
	now := time.Now()
	if least := r.begun.at.Add(now.Sub(r.begun.since)); least.After(now) {
		return least
	}
	return now
}

// owe remembers jobs that are to be started.
func (r *running) owe(starts []tree.Start) {
	for _, s := range starts {
		r.owed[s.Node] = s
	}
}

func (r *running) startOwed(ctx context.Context) {
	for _, node := range slices.Sorted(maps.Keys(r.owed)) {
		r.start(ctx, r.owed[node])
	}
	clear(r.owed)
}

// clearUp starts jobs that the tree has left, with a context that has ended: another process may have been killed before it
// could cancel them, and what it started may be running still. carryOut waits for them.
func (r *running) clearUp(ctx context.Context, left []tree.Start) {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, s := range left {
		if s.Job == nil { // while a run is replayed, tools and the model are not known
			leaf, _ := r.Run.Services.Find(s.Request.Kind, s.Request.Name)
			s.Job = leaf.Job
		}
		if s.Job != nil && slices.Contains(r.run.Halted(), int32(s.Node)) {
			r.start(ended, s)
		}
	}
}

// carryOut does what the last tick asked for, but for starting jobs.
func (r *running) carryOut(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(r.owed) > 0 || len(r.run.Emitted()) > 0 && !r.EmitUnsynced || r.run.Status().Done() {
		if err := r.journal.sync(); err != nil {
			return fmt.Errorf("the tick could not be recorded: %w", err)
		}
	}
	if r.Emitted != nil {
		for _, e := range r.run.Emitted() {
			if err := r.Emitted(ctx, r.run, e); err != nil {
				return fmt.Errorf("what %s published could not be handed out: %w", r.run.Tree().Path(e.Node), err)
			}
		}
	}
	var left []int
	for _, i := range r.run.Halted() {
		if s, owed := r.owed[int(i)]; owed && r.run.View(int(i)).Status != tree.Running {
			delete(r.owed, int(i))
			r.clearUp(ctx, []tree.Start{s})
		}
		left = append(left, int(i))
	}
	return r.stop(left)
}

func (r *running) start(ctx context.Context, s tree.Start) {
	ctx, cancel := context.WithCancel(ctx)
	j := &job{start: s, cancel: cancel, ended: make(chan struct{})}
	r.jobs[s.Node] = j
	go func() {
		defer func() { // also if the job ends its goroutine
			cancel()
			close(j.ended)
			select {
			case r.ended <- struct{}{}:
			default: // it was not read since another one ended
			}
		}()
		j.result = tree.Result{Status: tree.Failure, Err: "the job ended without a result"}
		j.result = perform(ctx, s)
	}()
}

// perform does a job; one that panics fails.
func perform(ctx context.Context, s tree.Start) (result tree.Result) {
	defer func() {
		if v := recover(); v != nil {
			result = tree.Result{Status: tree.Failure, Err: fmt.Sprintf("panic: %v", v)}
		}
	}()
	return s.Job(ctx, s.Request)
}

// stop cancels jobs, those that are still running, and waits for their end. All have the same grace period.
func (r *running) stop(nodes []int) error {
	var cancelled []*job
	for _, node := range nodes {
		if j := r.jobs[node]; j != nil {
			delete(r.jobs, node)
			j.cancel()
			cancelled = append(cancelled, j)
		}
	}
	grace := time.NewTimer(r.Grace)
	defer grace.Stop()
	var errs []error
	for _, j := range cancelled {
		select {
		case <-j.ended:
			continue
		case <-grace.C:
			grace.Reset(0) // it is over for the others too
		}
		if !j.over() {
			errs = append(errs, fmt.Errorf("%w: %s, %s after it was cancelled", ErrJobStuck, j.start.Request.Path, r.Grace))
		}
	}
	return errors.Join(errs...)
}

func (r *running) stopAll() error { return r.stop(slices.Sorted(maps.Keys(r.jobs))) }

func (j *job) over() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// take hands in how jobs ended.
func (r *running) take() {
	for node, j := range r.jobs {
		if j.over() {
			delete(r.jobs, node)
			r.run.Finish(j.start, j.result)
		}
	}
}

// wait returns when the next tick is due.
func (r *running) wait(ctx context.Context) error {
	for {
		r.take()
		wake, timed := r.run.Wake()
		now := r.now()
		switch {
		case r.run.Ready(), r.due(now):
			return nil
		case !timed && len(r.jobs) == 0 && !r.ticked:
			return nil // it was stuck in another process, and may not be any more
		case !timed && len(r.jobs) == 0:
			return fmt.Errorf("%w: %s answered RUNNING and asked for no timer", ErrStuck, r.leaves())
		}
		next := wake
		if !timed { // a timer may bring progress, so that it is waited for; nothing else says when there will be any
			next, timed = r.barks()
		}
		if err := r.sleep(ctx, timed, next.Sub(now)); err != nil {
			return err
		}
	}
}

// sleep returns when a job ended, or after d if it is timed.
func (r *running) sleep(ctx context.Context, timed bool, d time.Duration) error {
	var timer <-chan time.Time
	if timed {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ended:
		return nil
	case <-timer:
	}
	if _, woken := r.run.Wake(); woken {
		return nil
	}
	return r.overdue(r.now())
}

// due tells whether a timer asks for a tick.
func (r *running) due(now time.Time) bool {
	wake, timed := r.run.Wake()
	return timed && !wake.After(now)
}

// barks is when the watchdog ends the run.
func (r *running) barks() (time.Time, bool) {
	from := r.progress
	if until := r.run.LatestDeadline(); until.After(from) {
		from = until
	}
	return from.Add(r.Watchdog), r.Watchdog > 0
}

func (r *running) overdue(now time.Time) error {
	if now.Before(r.progress.Add(r.Watchdog)) {
		return nil // which costs less than to ask all nodes
	}
	if bark, watched := r.barks(); watched && !now.Before(bark) {
		return fmt.Errorf("%w for %s: %s", ErrNoProgress, r.Watchdog, r.leaves())
	}
	return nil
}

// leaves names those that are running, at most three.
func (r *running) leaves() string {
	var paths []string
	t := r.run.Tree()
	for i := range t.Len() {
		if info := t.Info(i); r.run.View(i).Status == tree.Running && len(info.Children) == 0 {
			paths = append(paths, info.Path)
		}
	}
	switch {
	case len(paths) == 0:
		return t.Info(0).Path
	case len(paths) > 3:
		paths = append(paths[:3], fmt.Sprintf("%d more", len(paths)-3))
	}
	return strings.Join(paths, ", ")
}
