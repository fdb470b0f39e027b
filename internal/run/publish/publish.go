// Package publish sends the events of a ledger to webhooks, as CloudEvents: each at least once, and
// in order.
//
// The ledger itself is the queue. A file of the box remembers how far each webhook has got, so
// nothing waits for a webhook, and nothing is lost while it cannot be reached.
package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/durable"
	"signalbox/internal/run/outbound"
	"signalbox/internal/text"
)

// Files of the box.
const (
	stateName = "webhooks.json"
	lockName  = "webhooks.lock"
)

// Options configure a Publisher.
type Options struct {
	// Getenv returns the variables that have secrets.
	Getenv func(string) string
	// Log receives diagnostics; nil discards them. They contain no secrets.
	Log *slog.Logger

	delays *delays // nil means defaultDelays
}

// delays are how long a Publisher waits.
type delays struct {
	lock  time.Duration // before it tries again to become the one that publishes
	retry time.Duration // after the first failure; it doubles with each further one
	most  time.Duration // after many failures
	send  time.Duration // for one event
	drain time.Duration // for the remaining events when its process ends
}

func defaultDelays() *delays {
	return &delays{lock: 2 * time.Second, retry: time.Second, most: 5 * time.Minute,
		send: 10 * time.Second, drain: 5 * time.Second}
}

// Publisher sends the events of a box to the webhooks in its configuration.
type Publisher struct {
	box    *box.Box
	opts   Options
	client *http.Client
	began  uint64 // the last event before it was made

	mu    sync.Mutex // guards state
	state state
}

// state is what a Publisher remembers: the last event that each webhook has got or does not want,
// by the hash of its address, which may be secret.
type state struct {
	Box      string            `json:"box"`
	Webhooks map[string]uint64 `json:"webhooks"`
}

func keyOf(w config.Webhook) string {
	hash := sha256.Sum256([]byte(w.URL))
	return hex.EncodeToString(hash[:8])
}

// New returns a Publisher for an open box. A webhook that was not known before gets the events from
// now on. New returns an error if a webhook names a type of event that does not exist.
func New(b *box.Box, o Options) (*Publisher, error) {
	for _, w := range b.Config.Webhooks {
		for _, name := range w.Types {
			if !slices.Contains(rules.EventTypes(), name) {
				hint := "the types are listed in docs/reference/events.md"
				if near := text.Closest(name, rules.EventTypes()); near != "" {
					hint = "did you mean " + near + "?"
				}
				return nil, signalbox.CodeUsage.Errorf(hint,
					"webhooks: there is no event type %q", name)
			}
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.delays == nil {
		o.delays = defaultDelays()
	}
	return &Publisher{box: b, opts: o, client: outbound.NewClient(), began: b.Engine.Tail().Seq},
		nil
}

// Run publishes until ctx is done, and then the remaining events for a short time. While another
// process publishes, it waits for that process to end. The engine of the box must be following the
// ledger until ctx is done.
func (p *Publisher) Run(ctx context.Context) {
	if len(p.box.Config.Webhooks) == 0 {
		return
	}
	lock := p.acquire(ctx)
	if lock == nil {
		return
	}
	defer lock.Close()
	if err := p.load(ctx); err != nil {
		p.opts.Log.Warn("cannot publish events", "error", err)
		return
	}
	p.publish(ctx)
}

// publish sends every webhook what it has not got.
func (p *Publisher) publish(ctx context.Context) {
	defer p.client.CloseIdleConnections()
	var webhooks sync.WaitGroup
	for _, w := range p.box.Config.Webhooks {
		webhooks.Go(func() { p.follow(ctx, w) })
	}
	webhooks.Wait()
}

// acquire makes this process the one that publishes. It returns nil if ctx is done before.
func (p *Publisher) acquire(ctx context.Context) *os.File {
	for {
		f, err := os.OpenFile(filepath.Join(p.box.Dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			p.opts.Log.Warn("cannot publish events", "error", err)
			return nil
		}
		locked, err := durable.TryLockFile(f)
		if locked {
			return f
		}
		f.Close()
		if err != nil {
			p.opts.Log.Warn("cannot publish events", "error", err)
			return nil
		}
		if !pause(ctx, p.opts.delays.lock) {
			return nil
		}
	}
}

// load reads how far the webhooks have got. A webhook that is not known begins with the next event
// after New, and so do all of them if the file belongs to another box or a longer ledger: the box
// was replaced by a copy.
func (p *Publisher) load(ctx context.Context) error {
	// What the process that had the lock has seen is needed even if this one is stopping.
	if err := p.box.Engine.Refresh(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	tail := p.box.Engine.Tail().Seq
	var known state
	data, err := os.ReadFile(filepath.Join(p.box.Dir, stateName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		if err := json.Unmarshal(data, &known); err != nil {
			p.opts.Log.Warn("cannot read what webhooks have got; they continue with the next event",
				"file", stateName, "error", err)
		}
	}
	p.state = state{Box: p.box.ID(), Webhooks: map[string]uint64{}}
	for _, w := range p.box.Config.Webhooks {
		seq, ok := known.Webhooks[keyOf(w)]
		if !ok || known.Box != p.box.ID() || seq > tail {
			seq = p.began
		}
		p.state.Webhooks[keyOf(w)] = seq
	}
	return p.save()
}

// advance records that a webhook has got everything up to seq.
func (p *Publisher) advance(w config.Webhook, seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Webhooks[keyOf(w)] = seq
	if err := p.save(); err != nil {
		p.opts.Log.Warn("cannot record what a webhook has got; it may get events again", "error",
			err)
	}
}

func (p *Publisher) save() error {
	data, err := json.Marshal(p.state)
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(p.box.Dir, stateName), data, 0o600)
}

// errStopped means that the time for sending is over.
var errStopped = errors.New("stopped")

// follow sends a webhook the events that it has not got, and waits for more, until ctx is done and
// nothing is left or the time for that is over.
func (p *Publisher) follow(ctx context.Context, w config.Webhook) {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(p.opts.delays.drain, stop) })()
	for {
		p.mu.Lock()
		after := p.state.Webhooks[keyOf(w)]
		p.mu.Unlock()
		err := p.box.Follow(ctx, after,
			func(events []signalbox.Event) error { return p.sendAll(sending, w, events) })
		if err == nil || errors.Is(err, errStopped) || !p.failed(sending, w, 0, "", err) {
			return
		}
	}
}

// sendAll sends a webhook those of some events that it wants.
func (p *Publisher) sendAll(ctx context.Context, w config.Webhook, events []signalbox.Event) error {
	for i := range events {
		if !p.wants(w, &events[i]) {
			continue
		}
		if !p.deliver(ctx, w, &events[i]) {
			return errStopped
		}
		p.advance(w, events[i].Seq)
	}
	if last := &events[len(events)-1]; !p.wants(w, last) {
		p.advance(w, last.Seq)
	}
	return nil
}

func (p *Publisher) wants(w config.Webhook, e *signalbox.Event) bool {
	return len(w.Types) == 0 || slices.Contains(w.Types, e.Type)
}

// maxRefusals is how often an event is sent that a webhook refuses because of its content.
const maxRefusals = 5

// deliver sends an event until the webhook accepts it. It returns false if ctx is done before. An
// event whose content the webhook refuses is sent without data, and then skipped: no one may keep
// later events from it by one that it does not like.
func (p *Publisher) deliver(ctx context.Context, w config.Webhook, e *signalbox.Event) bool {
	last, refusals := "", 0
	for n := 0; ctx.Err() == nil; n++ {
		err := p.send(ctx, w, e, refusals >= maxRefusals)
		if err == nil {
			return true
		}
		if errors.Is(err, outbound.ErrContent) {
			refusals++
		}
		if refusals == 2*maxRefusals {
			p.opts.Log.Warn("a webhook refuses an event, which is skipped", "webhook", p.number(w),
				"event", e.Seq, "error", err)
			return true
		}
		if !p.failed(ctx, w, n, last, err) {
			return false
		}
		last = err.Error()
	}
	return false
}

// number returns which of the configured webhooks it is, from 1.
func (p *Publisher) number(w config.Webhook) int {
	return slices.IndexFunc(p.box.Config.Webhooks,
		func(other config.Webhook) bool { return other.URL == w.URL }) + 1
}

// failed logs a failure that follows n others, unless it is the same as the last one, and waits. It
// returns false if ctx is done before.
func (p *Publisher) failed(ctx context.Context, w config.Webhook, n int, last string,
	err error) bool {
	if ctx.Err() == nil && err.Error() != last {
		p.opts.Log.Warn("cannot send events to a webhook; trying again", "webhook", p.number(w),
			"error", err)
	}
	return pause(ctx, min(p.opts.delays.retry<<min(n, 20), p.opts.delays.most))
}

// send sends an event, perhaps without its data.
func (p *Publisher) send(ctx context.Context, w config.Webhook, e *signalbox.Event,
	empty bool) error {
	ctx, cancel := context.WithTimeout(ctx, p.opts.delays.send)
	defer cancel()
	event := p.box.CloudEvent(e)
	if empty {
		event.Data = json.RawMessage("null")
	}
	body, err := json.Marshal(event)
	if err != nil {
		return err
	}
	header, err := outbound.Secret{Env: w.SecretEnv, File: w.SecretFile}.Header(p.opts.Getenv,
		fmt.Sprintf("%s-%d", p.box.ID(), e.Seq), body)
	if err != nil {
		return err
	}
	header.Set("Content-Type", "application/cloudevents+json")
	return outbound.Post(ctx, p.client, w.URL, header, body)
}

// pause waits, and reports whether ctx is still not done.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
