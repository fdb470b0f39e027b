package notify

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"signalbox/internal/core/box"
	"signalbox/internal/durable"
	"signalbox/internal/run/outbound"
)

// Options configure a Sender and Test.
type Options struct {
	// Project is the name of the project, for people.
	Project string
	// Getenv returns the variables that have secrets.
	Getenv func(string) string
	// Environ is the environment that commands get a part of.
	Environ []string
	// Log receives diagnostics; nil discards them. They contain no secrets.
	Log *slog.Logger

	delays *delays // nil means defaultDelays
}

// delays are how long a Sender waits.
type delays struct {
	look  time.Duration // between looks at the ledger
	lock  time.Duration // before it tries again to become the one that sends
	retry time.Duration // after the first failure; it doubles with each further one
	most  time.Duration // after many failures
	drain time.Duration // for the delivery when a run ends
	send  time.Duration // for one delivery
}

func defaultDelays() *delays {
	return &delays{look: 200 * time.Millisecond, lock: 2 * time.Second, retry: time.Second,
		most: 5 * time.Minute, drain: 5 * time.Second, send: 10 * time.Second}
}

// pause returns how long to wait after a failure that follows n others.
func (d *delays) pause(n int) time.Duration { return min(d.retry<<min(n, 20), d.most) }

// Sender notifies the operator of a box.
type Sender struct {
	box     *box.Box
	opts    Options
	log     *slog.Logger
	client  *http.Client
	targets []*target

	lock  *os.File       // nil unless this process is the one that sends
	wake  chan struct{}  // capacity 1: a delivery has ended
	sends sync.WaitGroup // deliveries in progress

	mu  sync.Mutex // guards out, and due, failures, err and busy of the targets
	out *outbox

	warnMu sync.Mutex
	// the last error that was logged, by what it is about; guarded by warnMu
	warned map[string]string
}

// Failure is a target with messages that could not be delivered to it.
type Failure struct {
	Target   string
	Messages int
	Err      error
}

// New returns a Sender for the targets in the configuration of a box.
func New(b *box.Box, o Options) *Sender {
	s := &Sender{box: b, opts: o, log: o.Log, client: outbound.NewClient(),
		wake: make(chan struct{}, 1), warned: map[string]string{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.opts.delays == nil {
		s.opts.delays = defaultDelays()
	}
	s.targets = targetsOf(b.Config.Notify, s.client, &s.opts)
	return s
}

// Run notifies the targets until ctx is done. Then it waits for the delivery of the remaining
// messages, for a limited time, and returns what could not be delivered: the next Sender of the box
// sends it. While another process sends, it waits for that process to end. The engine of the box
// must be following the ledger until ctx is done.
func (s *Sender) Run(ctx context.Context) []Failure {
	if len(s.targets) == 0 {
		return nil
	}
	defer s.client.CloseIdleConnections()
	defer s.release()
	defer s.sends.Wait()
	sending, stop := context.WithCancel(context.Background())
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(s.opts.delays.drain, stop) })()
	for ctx.Err() == nil {
		if !s.acquire() {
			sleep(ctx, s.opts.delays.lock)
			continue
		}
		seen := s.box.Engine.Tail().Seq
		s.box.Engine.WhenAvailable(ctx, s.look) // otherwise the next look finds it
		s.deliver(sending, (*target).isDue)
		s.wait(ctx, seen)
	}
	return s.finish(sending)
}

// acquire makes this process the one that sends, and reports whether it is.
func (s *Sender) acquire() bool {
	if s.lock != nil {
		return true
	}
	f, err := os.OpenFile(filepath.Join(s.box.Dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		s.warnOnce("lock", "cannot send notifications", err)
		return false
	}
	locked, err := durable.TryLockFile(f)
	if err != nil {
		s.warnOnce("lock", "cannot send notifications", err)
	}
	if !locked {
		f.Close()
		return false
	}
	s.lock = f
	s.mu.Lock()
	defer s.mu.Unlock()
	tail := uint64(math.MaxUint64)
	// the process that had the lock may have seen more of the ledger
	if s.box.Engine.Refresh(context.Background()) == nil {
		tail = s.box.Engine.Tail().Seq
	}
	// Read it only now: another process may have changed it until it released the lock.
	if s.out, err = readOutbox(filepath.Join(s.box.Dir, outboxName), s.box.ID(), tail); err != nil {
		s.warnOnce("outbox",
			"cannot read which notifications were delivered; they may be sent again", err)
	}
	s.dropTargets()
	return true
}

// dropTargets removes targets from the outbox that are no longer configured.
func (s *Sender) dropTargets() {
	for i := range s.out.Pending {
		s.out.Pending[i].Targets = slices.DeleteFunc(s.out.Pending[i].Targets,
			func(name string) bool {
				return !slices.ContainsFunc(s.targets, func(t *target) bool { return t.name == name })
			})
	}
	s.out.removeEmpty()
}

func (s *Sender) release() {
	if s.lock != nil {
		s.lock.Close()
		s.lock = nil
	}
}

// wait waits until the ledger has grown, a delivery has ended, a retry is due, or ctx is done.
func (s *Sender) wait(ctx context.Context, seen uint64) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	advanced := make(chan struct{})
	go func() {
		defer close(advanced)
		if s.box.Engine.Wait(waiting, seen) == nil {
			sleep(waiting, s.opts.delays.look) // several events are often appended together
		}
	}()
	select {
	case <-advanced:
	case <-s.wake:
	case <-s.nextRetry():
	}
	cancel()
	<-advanced
}

// nextRetry returns a channel that receives when a target that failed is due. It never does if
// there is none.
func (s *Sender) nextRetry() <-chan time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first time.Time
	for _, t := range s.targets {
		if !t.busy && s.out.count(t.name) > 0 && (first.IsZero() || t.due.Before(first)) {
			first = t.due
		}
	}
	if first.IsZero() {
		return nil
	}
	return time.After(time.Until(first))
}

// deliver starts to send each target that may get messages what it has not got.
func (s *Sender) deliver(ctx context.Context, may func(*target) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.targets {
		if t.busy || s.out.count(t.name) == 0 || !may(t) {
			continue
		}
		t.busy = true
		s.sends.Go(func() {
			for s.sendNext(ctx, t) {
			}
			s.mu.Lock()
			t.busy = false
			s.mu.Unlock()
			select {
			case s.wake <- struct{}{}:
			default: // it is awake already
			}
		})
	}
}

// sendNext sends a target the oldest message that it has not got, and reports whether it accepted
// it.
func (s *Sender) sendNext(ctx context.Context, t *target) bool {
	s.mu.Lock()
	m, any := s.out.next(t.name)
	s.mu.Unlock()
	if !any || ctx.Err() != nil {
		return false
	}
	sending, cancel := context.WithTimeout(ctx, s.opts.delays.send)
	defer cancel()
	err := t.send(sending, &m)
	if err != nil && ctx.Err() == nil {
		s.warnOnce(t.name, "cannot notify "+t.title+"; trying again", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.err = err; err != nil {
		t.due = time.Now().Add(s.opts.delays.pause(t.failures))
		t.failures++
		return false
	}
	t.failures, t.due = 0, time.Time{}
	s.out.delivered(m.ID, t.name)
	s.save()
	return true
}

// finish sends the remaining messages when a run ends, until sending is done, and returns what
// could not be delivered.
func (s *Sender) finish(sending context.Context) (left []Failure) {
	for s.acquire() {
		s.box.Engine.Refresh(sending) // on an error, what is known is sent
		seen := s.box.Engine.Tail().Seq
		s.look()
		left = s.drain(sending)
		s.release()
		// Another process may have appended something and ended meanwhile, without sending it,
		// because this one had the lock.
		if s.box.Engine.Refresh(sending) != nil || s.box.Engine.Tail().Seq == seen {
			return left
		}
	}
	return nil // the process that has the lock sends it
}

// drain sends the remaining messages until there are none, only targets that will not accept them
// are left, or ctx is done.
func (s *Sender) drain(ctx context.Context) []Failure {
	s.mu.Lock()
	for _, t := range s.targets {
		t.failures = 0 // short pauses from now on
	}
	s.mu.Unlock()
	s.deliver(ctx, func(*target) bool { return true })
	for {
		s.deliver(ctx, func(t *target) bool { return t.isDue() && !outbound.IsPermanent(t.err) })
		left, waits := s.left()
		if !waits {
			return left
		}
		select {
		case <-s.wake:
		case <-s.nextRetry():
		case <-ctx.Done():
			s.sends.Wait() // they end at once
			left, _ := s.left()
			return left
		}
	}
}

// left returns what is not delivered, and whether it may still be.
func (s *Sender) left() (left []Failure, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.targets {
		if n := s.out.count(t.name); n > 0 {
			left = append(left, Failure{t.title, n, t.err})
			waits = waits || t.busy || !outbound.IsPermanent(t.err)
		}
	}
	return left, waits
}

// warnOnce logs an error unless it is the last one that was logged for the same thing.
func (s *Sender) warnOnce(about, warning string, err error) {
	s.warnMu.Lock()
	defer s.warnMu.Unlock()
	if s.warned[about] != err.Error() {
		s.warned[about] = err.Error()
		s.log.Warn(warning, "error", err)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
