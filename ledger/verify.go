package ledger

import (
	"context"
	"fmt"
	"math/bits"
	"runtime"
	"sync"

	"signalbox"
)

// ReadFunc returns at most limit events that follow after, in order, and none only at the end of the log.
type ReadFunc func(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error)

// VerifyOptions says how to verify and against what.
type VerifyOptions struct {
	// Checkpoint is one that OpenCheckpoint returned. Without one (nil), Verify cannot tell whether events were
	// cut off at the end, or whether the whole log was made anew.
	Checkpoint *Checkpoint
	// Workers is how many goroutines read and hash. Zero means GOMAXPROCS.
	Workers int
	// Chunk is how many events one worker holds, rounded up to a power of two. Zero means 512.
	Chunk int
	// Progress, if not nil, is called now and then with the number of events verified so far, by the goroutine
	// that called Verify.
	Progress func(done uint64)
}

// Report is what Verify found.
type Report struct {
	OK bool `json:"ok"`
	// Events is how many events from the first on are whole and follow one another. Head is the hash of the last
	// of them (zero if there is none), and Root the tree hash over them.
	Events uint64         `json:"events"`
	Head   signalbox.Hash `json:"head"`
	Root   signalbox.Hash `json:"root"`
	// FirstBad is the first sequence at which the log is not what it should be, 0 if OK. The log before it
	// holds together. It is 1 if the log holds together but is not the one that the checkpoint signed: then it cannot be
	// told which events were replaced.
	FirstBad uint64 `json:"first_bad"`
	// Reason is a sentence about FirstBad, empty if OK.
	Reason string `json:"reason"`
	// Checkpoint is that of the options. If OK, the log has exactly the events that it signed, and perhaps more.
	Checkpoint *Checkpoint `json:"checkpoint"`
}

// Verify reads the events 1 to head and checks sequence, time, chain and every hash and, given a checkpoint, that the log has
// what was signed. What is wrong with the log is in the report, and is the same however the work is divided; the
// error is for reads that fail and a context that ends. read is called by several goroutines at once, and not
// after Verify has returned.
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
		OK: bad == nil && err == nil, Events: tail.Seq, Head: tail.Hash, Root: tail.Tree.Root(), Checkpoint: v.Checkpoint,
	}
	if bad != nil {
		report.FirstBad, report.Reason = bad.seq, bad.reason
	}
	return report, err
}

// finding is what is wrong with a log.
type finding struct {
	seq    uint64
	reason string
}

type verification struct {
	VerifyOptions
	head uint64
	read ReadFunc
}

// run moves tail, which begins as that of an empty log, past all events that are whole.
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
		missing := BadEventError{tail.Seq + 1, fmt.Sprintf("is missing: the checkpoint signed %d events", c.Size)}
		return &finding{missing.Seq, missing.Error()}, nil
	}
	return nil, nil
}

// job is a chunk to be: count events that follow after.
type job struct {
	after uint64
	count int
	done  chan chunk
}

// start lets the workers loose and returns the jobs in order, a few more than there are workers.
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

// chunk is what a worker found in the events of one job.
type chunk struct {
	// first is the first event, unchecked: only whoever has verified the log before it can do that.
	first *signalbox.Event
	// tail is past the last event that follows from first. Its tree has the leaves of this chunk only.
	tail Tail
	// signed is tail as it was at the last event of the checkpoint, if that is in this chunk.
	signed *Tail
	// err is a *BadEventError, or a read that failed.
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
			c.err = &BadEventError{next, fmt.Sprintf("is missing: the log should end at event %d", v.head)}
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
		return &BadEventError{job.after + uint64(seen) + 1, "was not asked for: the read returned too many events"}
	}
	return c.tail.Extend(e)
}

// join checks that the chunk continues the log that ends at tail, and moves tail past what is whole of it. What it
// finds first is what a single pass over the log would have found first.
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

// join moves the tail to that of a chunk that continues the log.
func (t *Tail) join(chunk *Tail) {
	t.Seq, t.Time, t.Hash = chunk.Seq, chunk.Time, chunk.Hash
	t.Tree.appendTree(&chunk.Tree)
}

// compare looks whether a log that ends where the checkpoint does is the one that was signed.
func (v *verification) compare(tail *Tail) *finding {
	if v.Checkpoint == nil || v.Checkpoint.Size != tail.Seq || v.Checkpoint.Root == tail.Tree.Root() {
		return nil
	}
	return &finding{1, fmt.Sprintf("the first %d events are not those that the checkpoint signed", tail.Seq)}
}
