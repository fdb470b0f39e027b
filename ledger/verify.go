package ledger

import (
	"context"
	"fmt"
	"math/bits"
	"runtime"
	"sync"

	"signalbox"
)

// ReadFunc returns at most limit events that follow the event after, in order. It returns none only
// at the end of the log.
type ReadFunc func(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error)

// VerifyOptions are options for Verify.
type VerifyOptions struct {
	// Checkpoint is a checkpoint from OpenCheckpoint. If it is nil, Verify cannot detect that
	// events were removed from the end, or that the whole log was replaced.
	Checkpoint *Checkpoint
	// Workers is the number of goroutines that read and hash. Zero means GOMAXPROCS.
	Workers int
	// Chunk is the number of events that a worker reads at a time, rounded up to a power of two.
	// Zero means 512.
	Chunk int
	// Progress, if not nil, is called from time to time with the number of events verified so far,
	// on the goroutine that called Verify.
	Progress func(done uint64)
}

// Report is the result of Verify.
type Report struct {
	OK bool `json:"ok"`
	// Events is the number of valid events, counted from the first. Head is the hash of the last of
	// them (zero if there are none), and Root is the tree hash over them.
	Events uint64         `json:"events"`
	Head   signalbox.Hash `json:"head"`
	Root   signalbox.Hash `json:"root"`
	// FirstBad is the sequence number of the first invalid event, 0 if OK. The log before it is
	// valid. If the log is valid but is not the one that the checkpoint signed, FirstBad is 1,
	// because it is unknown which events were replaced.
	FirstBad uint64 `json:"first_bad"`
	// Reason describes what is wrong with FirstBad, empty if OK.
	Reason string `json:"reason"`
	// Checkpoint is the checkpoint from the options. If OK, the log starts with exactly the events
	// that it signed.
	Checkpoint *Checkpoint `json:"checkpoint"`
}

// Verify reads the events 1 to head and checks their sequence, times, links and hashes and, given a
// checkpoint, that the log contains what was signed. Problems with the log are in the report, which
// does not depend on how the work is divided; the error is for failed reads and a done context.
// read is called concurrently, but not after Verify has returned.
func Verify(ctx context.Context, head uint64, read ReadFunc, opts *VerifyOptions) (Report, error) {
	v := verification{head: head, read: read}
	if opts != nil {
		v.VerifyOptions = *opts
	}
	if v.Workers <= 0 {
		v.Workers = runtime.GOMAXPROCS(0)
	}
	if v.Chunk <= 0 {
		v.Chunk = 512
	}
	v.Chunk = 1 << bits.Len(uint(v.Chunk-1))
	var tail Tail
	bad, err := v.run(ctx, &tail)
	report := Report{
		OK: bad == nil && err == nil, Events: tail.Seq, Head: tail.Hash, Root: tail.Tree.Root(),
		Checkpoint: v.Checkpoint,
	}
	if bad != nil {
		report.FirstBad, report.Reason = bad.seq, bad.reason
	}
	return report, err
}

// finding is a problem with the log.
type finding struct {
	seq    uint64
	reason string
}

type verification struct {
	VerifyOptions
	head uint64
	read ReadFunc
}

// run advances tail, initially that of an empty log, past all valid events.
func (v *verification) run(ctx context.Context, tail *Tail) (*finding, error) {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if bad := v.compare(tail); bad != nil {
		return bad, nil
	}
	for job := range v.start(ctx, &running) {
		select {
		case c := <-job.done:
			if bad, err := v.join(tail, &c); bad != nil || err != nil {
				return bad, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if v.Progress != nil {
			v.Progress(tail.Seq)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c := v.Checkpoint; c != nil && c.Size > tail.Seq {
		missing := BadEventError{tail.Seq + 1,
			fmt.Sprintf("is missing: the checkpoint signed %d events", c.Size)}
		return &finding{missing.Seq, missing.Error()}, nil
	}
	return nil, nil
}

// job is a range of events to read: count events that follow the event after.
type job struct {
	after uint64
	count int
	done  chan chunk
}

// start starts the workers and returns the jobs in order. The channel buffers a few more jobs than
// there are workers.
func (v *verification) start(ctx context.Context, running *sync.WaitGroup) <-chan job {
	ordered := make(chan job, 4*v.Workers)
	waiting := make(chan job)
	running.Go(func() {
		defer close(ordered)
		defer close(waiting)
		for after := uint64(0); after < v.head; {
			next := job{after, int(min(uint64(v.Chunk), v.head-after)), make(chan chunk, 1)}
			for _, queue := range [...]chan job{ordered, waiting} {
				select {
				case queue <- next:
				case <-ctx.Done():
					return
				}
			}
			after += uint64(next.count)
		}
	})
	for range v.Workers {
		running.Go(func() {
			for job := range waiting {
				job.done <- v.readChunk(ctx, job)
			}
		})
	}
	return ordered
}

// chunk is the result of one job.
type chunk struct {
	// first is the first event, unchecked: that needs the tail of the log before it.
	first *signalbox.Event
	// tail is the tail after the last valid event. Its tree contains only the leaves of this chunk.
	tail Tail
	// signed is the tail at the last event of the checkpoint, if that is in this chunk.
	signed *Tail
	// err is a *BadEventError or the error of a failed read.
	err error
}

func (v *verification) readChunk(ctx context.Context, job job) (c chunk) {
	for seen := 0; seen < job.count; {
		next := job.after + uint64(seen) + 1
		events, err := v.read(ctx, next-1, job.count-seen)
		if err != nil {
			c.err = fmt.Errorf("verify: read event %d: %w", next, err)
			return c
		}
		if len(events) == 0 {
			c.err = &BadEventError{next, fmt.Sprintf("is missing: the log should end at event %d",
				v.head)}
			return c
		}
		for i := range events {
			if c.err = c.add(&events[i], job, seen); c.err != nil {
				return c
			}
			if v.Checkpoint != nil && v.Checkpoint.Size == c.tail.Seq {
				signed := c.tail
				c.signed = &signed
			}
			seen++
		}
	}
	return c
}

func (c *chunk) add(e *signalbox.Event, job job, seen int) error {
	switch seen {
	case 0:
		first := *e
		c.first = &first
		c.tail.moveTo(e)
		return nil
	case job.count:
		return &BadEventError{job.after + uint64(seen) + 1,
			"was not requested: the read returned too many events"}
	}
	return c.tail.Extend(e)
}

// join checks that the chunk continues the log that ends at tail, and advances tail past the valid
// events. It finds the same problem first that a sequential pass over the log would find first.
func (v *verification) join(tail *Tail, c *chunk) (*finding, error) {
	if c.first != nil {
		if bad := tail.check(c.first); bad != nil {
			return &finding{bad.Seq, bad.Error()}, nil
		}
		if c.signed != nil {
			upTo := *tail
			upTo.join(c.signed)
			if bad := v.compare(&upTo); bad != nil {
				*tail = upTo
				return bad, nil
			}
		}
		tail.join(&c.tail)
	}
	if bad, ok := c.err.(*BadEventError); ok {
		return &finding{bad.Seq, bad.Error()}, nil
	}
	return nil, c.err
}

// join advances the tail to that of a chunk that continues the log.
func (t *Tail) join(chunk *Tail) {
	t.Seq, t.Time, t.Hash = chunk.Seq, chunk.Time, chunk.Hash
	t.Tree.appendTree(&chunk.Tree)
}

// compare checks, if tail is at the end of the checkpoint, that the log is the one that was signed.
func (v *verification) compare(tail *Tail) *finding {
	if v.Checkpoint == nil || v.Checkpoint.Size != tail.Seq ||
		v.Checkpoint.Root == tail.Tree.Root() {
		return nil
	}
	return &finding{1, fmt.Sprintf("the first %d events are not those that the checkpoint signed",
		tail.Seq)}
}
