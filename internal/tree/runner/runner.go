// Package runner runs behaviour trees: it ticks them, starts and cancels their jobs, and writes a
// journal from which another process can resume a run.
//
// A tick is written to the journal before its effects, and the journal is synced before jobs are
// started and published values are delivered. So a resumed run starts only the jobs that had not
// finished, and delivers again only the values of its last tick. Ticks are triggered by the end of
// jobs and by timers; nothing is polled.
//
// When Do returns, no job is running, except for one that did not stop within the grace period,
// which is an error.
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

// Errors that stop a run which makes no progress. They are wrapped with the names of the running
// leaves. The run can be resumed from its journal.
var (
	// ErrTickBudget means that the tree is still running after the maximum number of ticks.
	ErrTickBudget = errors.New("tick budget spent")
	// ErrNoProgress means that nothing changed for the time that the watchdog allows.
	ErrNoProgress = errors.New("no progress")
	// ErrStuck means that the tree is running without a job or timer that could wake it.
	ErrStuck = errors.New("nothing can wake the tree")
	// ErrJobStuck means that a cancelled job did not end.
	ErrJobStuck = errors.New("a cancelled job does not end")
)

// Options configures a run.
type Options struct {
	// Run holds the ID, inputs, tools and model of the run. Do sets Record if there is a journal.
	Run tree.RunOptions
	// Journal is the file to write, or to resume from. Empty means none.
	Journal string
	// File and Source are the file of the tree, for the journal.
	File, Source string
	// MaxTicks is the maximum number of ticks; default 100,000.
	MaxTicks int
	// Watchdog is how long a run may make no progress, after the last of the tree's running waits,
	// backoffs and timeouts has ended; default 10 minutes. A negative value disables it.
	Watchdog time.Duration
	// Grace is how long a cancelled job may take to end; default 10 seconds.
	Grace time.Duration
	// Emitted is called with each published value after it was recorded; nil drops them. When a run
	// is resumed, Emitted may be called again with the values of the last tick: see Emit.Seq. An
	// error stops the run, which can be resumed.
	Emitted func(ctx context.Context, run *tree.Run, e tree.Emit) error
	// EmitUnsynced delivers values before their tick is on stable storage. After a power failure, a
	// run may repeat the tick. Set it only if the repeated values are the same, and receiving them
	// again does no harm.
	EmitUnsynced bool
	// Opened, if not nil, is called once with the new or resumed run before its first tick.
	Opened func(*tree.Run)
	// Ticked, if not nil, is called after each recorded tick.
	Ticked func(*tree.Run)
}

// Do runs a tree until it ends, or resumes it from its journal, and returns the run. If the journal
// has the end of the run, Do returns the run as it ended. The error is the reason why the run did
// not end: an error of the context, of the journal or of Emitted, or one of the errors above.
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
	e := &execution{Options: opts, jobs: map[int]*job{}, queued: map[int]tree.Start{}, ended: make(chan struct{}, 1)}
	if err := e.open(t); err != nil {
		return nil, errors.Join(err, e.journal.close())
	}
	e.resumed.lastTick, e.resumed.at = e.run.Now(), time.Now()
	if e.finished {
		return e.run, e.journal.close()
	}
	err := e.loop(ctx)
	err = errors.Join(err, e.stopAll())
	err = e.writeEnding(ctx, err)
	return e.run, errors.Join(err, e.journal.close())
}

// execution is a run with its jobs.
type execution struct {
	Options
	run     *tree.Run
	journal *writer
	jobs    map[int]*job
	// queued holds the jobs that a tick requested and that are not started yet.
	queued map[int]tree.Start
	// resumed holds the time of the last tick when this process opened the run, and the time at
	// which it did.
	resumed struct{ lastTick, at time.Time }
	// ended receives a value when a job ends. It has room for one.
	ended chan struct{}
	// progress is the time of the last change.
	progress time.Time
	// ticked reports whether this process has ticked the tree.
	ticked bool
	// finished reports whether the journal has the end of the run.
	finished bool
	// before holds the jobs that were running before the last tick in the journal.
	before []tree.Start
}

// job is a started job. result is valid once ended is closed.
type job struct {
	start  tree.Start
	cancel context.CancelFunc
	ended  chan struct{}
	result tree.Result
}

// open creates a run, or replays its journal.
func (e *execution) open(t *tree.Tree) error {
	if e.Journal == "" {
		run, err := tree.NewRun(t, &e.Run)
		e.run = run
		return err
	}
	e.Run.Record = true
	file, err := openJournal(e.Journal)
	if err != nil {
		return err
	}
	e.journal = &writer{file: file}
	j, err := readJournal(e.Journal, file, func(h tree.Header) error {
		run, err := StartReplay(t, h)
		e.run = run
		return err
	}, func(rec *tree.Record) error {
		e.before = e.run.Pending() // the tick may halt some of them
		return e.run.Replay(rec)
	})
	if err != nil {
		return err
	}
	if err := e.journal.resume(j); err != nil {
		return err
	}
	if e.finished = j.Ended(); e.finished {
		return nil
	}
	if e.run != nil {
		return e.run.Resume(&e.Run)
	}
	if e.run, err = tree.NewRun(t, &e.Run); err != nil {
		return err
	}
	h := e.run.Header(&e.Run, time.Now())
	h.File, h.Source = e.File, e.Source
	return e.journal.write(func(dst []byte) []byte { return tree.AppendHeader(dst, h) })
}

// StartReplay returns a run for replaying the records of a journal.
func StartReplay(t *tree.Tree, h tree.Header) (*tree.Run, error) {
	if h.Shape != t.Shape() {
		return nil, tree.ErrOtherTree
	}
	inputs, globals, err := h.ReadInputs()
	if err != nil {
		return nil, err
	}
	return tree.NewReplay(t, &tree.RunOptions{ID: h.Run, Inputs: inputs, Globals: globals,
		Observe: true})
}

// writeEnding writes to the journal how the run ended or why it stopped.
func (e *execution) writeEnding(ctx context.Context, err error) error {
	ending := tree.Ending{End: e.run.Status().String(), At: time.Now().UTC()}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		ending.End = Interrupted
	default:
		ending.End, ending.Error = Failed, err.Error()
	}
	return errors.Join(err,
		e.journal.write(func(dst []byte) []byte { return tree.AppendEnding(dst, ending) }))
}

// loop ticks until the tree ends. It begins with the effects of the last tick, because a resumed
// run may have been stopped before all of them were done.
func (e *execution) loop(ctx context.Context) error {
	e.progress = e.now()
	e.queue(e.run.Pending())
	e.reapHalted(ctx, e.before)
	if e.Opened != nil {
		e.Opened(e.run)
	}
	for {
		if err := e.afterTick(ctx); err != nil {
			return err
		}
		if e.run.Status().Done() {
			return nil
		}
		if e.run.Ticks() >= e.MaxTicks {
			return fmt.Errorf("%w: %d ticks; running: %s", ErrTickBudget, e.run.Ticks(),
				e.runningLeaves())
		}
		// In a resumed run, a timer that ended in the meantime may halt a queued job, which must
		// not be started then.
		if e.ticked || !e.due(e.now()) {
			e.startQueued(ctx)
		}
		if e.run.Ticks() > 0 {
			if err := e.wait(ctx); err != nil {
				return err
			}
			// A job may have failed because the context is done. Its result is dropped, and the job
			// is started again when the run is resumed.
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		e.run.Tick(e.now())
		e.ticked = true
		if e.run.Changed() {
			e.progress = e.now()
		}
		if err := e.journal.write(e.run.AppendRecord); err != nil {
			return fmt.Errorf("the tick could not be recorded: %w", err)
		}
		if e.Ticked != nil {
			e.Ticked(e.run)
		}
		if err := e.checkWatchdog(e.now()); err != nil && !e.run.Status().Done() {
			return err
		}
		e.queue(e.run.Started())
	}
}

// now returns the time for the tree: the system time, or, if the system clock was set back, the
// time of the last tick in the journal plus the time since the run was resumed.
func (e *execution) now() time.Time {
	now := time.Now()
	if least := e.resumed.lastTick.Add(now.Sub(e.resumed.at)); least.After(now) {
		return least
	}
	return now
}

// queue adds jobs to start.
func (e *execution) queue(starts []tree.Start) {
	for _, s := range starts {
		e.queued[s.Node] = s
	}
}

func (e *execution) startQueued(ctx context.Context) {
	for _, node := range slices.Sorted(maps.Keys(e.queued)) {
		e.start(ctx, e.queued[node])
	}
	clear(e.queued)
}

// reapHalted starts the halted ones of jobs with a context that is done. A process that was killed
// before it could cancel them may have left programs running, which such a job stops. afterTick
// waits for them.
func (e *execution) reapHalted(ctx context.Context, jobs []tree.Start) {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, s := range jobs {
		if s.Job == nil { // a replay does not know the tools and the model
			leaf, _ := e.Run.Services.Find(s.Request.Kind, s.Request.Name)
			s.Job = leaf.Job
		}
		if s.Job != nil && slices.Contains(e.run.Halted(), int32(s.Node)) {
			e.start(ended, s)
		}
	}
}

// afterTick does what the last tick requires, except for starting jobs.
func (e *execution) afterTick(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(e.queued) > 0 || len(e.run.Emitted()) > 0 && !e.EmitUnsynced || e.run.Status().Done() {
		if err := e.journal.sync(); err != nil {
			return fmt.Errorf("the tick could not be recorded: %w", err)
		}
	}
	if e.Emitted != nil {
		for _, emitted := range e.run.Emitted() {
			if err := e.Emitted(ctx, e.run, emitted); err != nil {
				return fmt.Errorf("the value that %s published could not be delivered: %w",
					e.run.Tree().Path(emitted.Node), err)
			}
		}
	}
	var halted []int
	for _, i := range e.run.Halted() {
		if s, queued := e.queued[int(i)]; queued && e.run.View(int(i)).Status != tree.Running {
			delete(e.queued, int(i))
			e.reapHalted(ctx, []tree.Start{s})
		}
		halted = append(halted, int(i))
	}
	return e.stop(halted)
}

func (e *execution) start(ctx context.Context, s tree.Start) {
	ctx, cancel := context.WithCancel(ctx)
	j := &job{start: s, cancel: cancel, ended: make(chan struct{})}
	e.jobs[s.Node] = j
	go func() {
		defer func() { // also if the job calls runtime.Goexit
			cancel()
			close(j.ended)
			select {
			case e.ended <- struct{}{}:
			default: // another job has ended already
			}
		}()
		j.result = tree.Result{Status: tree.Failure, Err: "the job ended without a result"}
		j.result = perform(ctx, s)
	}()
}

// perform runs a job and turns a panic into a failure.
func perform(ctx context.Context, s tree.Start) (result tree.Result) {
	defer func() {
		if v := recover(); v != nil {
			result = tree.Result{Status: tree.Failure, Err: fmt.Sprintf("panic: %v", v)}
		}
	}()
	return s.Job(ctx, s.Request)
}

// stop cancels the jobs of nodes and waits for their end. All share one grace period.
func (e *execution) stop(nodes []int) error {
	var cancelled []*job
	for _, node := range nodes {
		if j := e.jobs[node]; j != nil {
			delete(e.jobs, node)
			j.cancel()
			cancelled = append(cancelled, j)
		}
	}
	grace := time.NewTimer(e.Grace)
	defer grace.Stop()
	var errs []error
	for _, j := range cancelled {
		select {
		case <-j.ended:
			continue
		case <-grace.C:
			grace.Reset(0) // the others have no time left either
		}
		if !j.hasEnded() {
			errs = append(errs, fmt.Errorf("%w: %s, %s after it was cancelled", ErrJobStuck,
				j.start.Request.Path, e.Grace))
		}
	}
	return errors.Join(errs...)
}

func (e *execution) stopAll() error { return e.stop(slices.Sorted(maps.Keys(e.jobs))) }

func (j *job) hasEnded() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// collectResults passes the results of ended jobs to the run.
func (e *execution) collectResults() {
	for node, j := range e.jobs {
		if j.hasEnded() {
			delete(e.jobs, node)
			e.run.Finish(j.start, j.result)
		}
	}
}

// wait returns when the next tick is due.
func (e *execution) wait(ctx context.Context) error {
	for {
		e.collectResults()
		wake, timed := e.run.Wake()
		now := e.now()
		switch {
		case e.run.Ready(), e.due(now):
			return nil
		case !timed && len(e.jobs) == 0 && !e.ticked:
			return nil // it was stuck in another process, and may no longer be
		case !timed && len(e.jobs) == 0:
			return fmt.Errorf("%w: %s answered RUNNING and asked for no timer", ErrStuck,
				e.runningLeaves())
		}
		next := wake
		if !timed { // a timer may bring progress, so the watchdog waits for it
			next, timed = e.watchdogDeadline()
		}
		if err := e.sleep(ctx, timed, next.Sub(now)); err != nil {
			return err
		}
	}
}

// sleep returns when a job ends, or after d if timed is set.
func (e *execution) sleep(ctx context.Context, timed bool, d time.Duration) error {
	var timer <-chan time.Time
	if timed {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-e.ended:
		return nil
	case <-timer:
	}
	if _, woken := e.run.Wake(); woken {
		return nil
	}
	return e.checkWatchdog(e.now())
}

// due reports whether a timer requires a tick.
func (e *execution) due(now time.Time) bool {
	wake, timed := e.run.Wake()
	return timed && !wake.After(now)
}

// watchdogDeadline returns the time at which the watchdog stops the run, and false if it is
// disabled.
func (e *execution) watchdogDeadline() (time.Time, bool) {
	from := e.progress
	if until := e.run.LatestDeadline(); until.After(from) {
		from = until
	}
	return from.Add(e.Watchdog), e.Watchdog > 0
}

func (e *execution) checkWatchdog(now time.Time) error {
	if now.Before(e.progress.Add(e.Watchdog)) {
		return nil // cheaper than watchdogDeadline, which visits all nodes
	}
	if deadline, enabled := e.watchdogDeadline(); enabled && !now.Before(deadline) {
		return fmt.Errorf("%w for %s: %s", ErrNoProgress, e.Watchdog, e.runningLeaves())
	}
	return nil
}

// runningLeaves returns the paths of at most three running leaves.
func (e *execution) runningLeaves() string {
	var paths []string
	t := e.run.Tree()
	for i := range t.Len() {
		if info := t.Info(i); e.run.View(i).Status == tree.Running && len(info.Children) == 0 {
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
