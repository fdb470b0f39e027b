package sqlite

import (
	"context"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"signalbox"
)

// A watch reads so many events, or bytes, at a time.
const (
	watchEvents = 256
	watchBytes  = 1 << 20
)

// news tells the watches of this journal that the log may have moved.
type news struct {
	mu      sync.Mutex
	head    uint64        // of what was told last; guarded by mu
	changed chan struct{} // closed at the next news; guarded by mu
}

// next returns a channel that is closed when something happens after this call.
func (n *news) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// tell wakes everybody, unless all know already that the log is at head.
func (n *news) tell(head uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if head != n.head {
		n.head = head
		close(n.changed)
		n.changed = make(chan struct{})
	}
}

// Watch yields the events that follow after, and waits for more.
func (j *Journal) Watch(ctx context.Context, after uint64) iter.Seq2[signalbox.Event, error] {
	return func(yield func(signalbox.Event, error) bool) {
		j.listen()
		for {
			next := j.news.next()
			events, err := j.read(ctx, after, watchEvents, watchBytes)
			for _, e := range events {
				after = e.Seq
				if !yield(e, nil) {
					return
				}
			}
			if err == nil && len(events) == 0 {
				_, err = await(ctx, j, next)
			}
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(signalbox.Event{}, err)
				return
			}
		}
	}
}

// announce tells the watches of this process that the log is at head, and wakes those of others. If that fails,
// their next tick finds out.
func (j *Journal) announce(head uint64) {
	j.news.tell(head)
	_, _ = j.wake.WriteAt([]byte{'!'}, 0)
}

// openWake opens the file that wakes, and makes it if there is none. It has its byte from the start, so that to write
// it needs no room on the disk later.
func openWake(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := file.WriteAt([]byte{'!'}, 0); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// listen begins to listen to other processes, once. When it returns the notifications are armed: an append that a
// later read does not see will be heard.
func (j *Journal) listen() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.hearing || j.closed {
		return
	}
	j.hearing = true
	watcher, err := j.watchWake()
	if err != nil {
		j.log.Warn("no file notifications: events of other processes are seen late",
			"delay", j.opts.tick, "error", err)
	}
	j.calls.Add(1)
	go j.hear(watcher)
}

func (j *Journal) watchWake() (*fsnotify.Watcher, error) {
	if j.opts.deaf {
		return nil, os.ErrInvalid
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := watcher.Add(j.path(wakeFile)); err != nil {
		watcher.Close()
		return nil, err
	}
	return watcher, nil
}

// hear looks at the log when another process has written, and at each tick. The watcher is nil if there is none.
func (j *Journal) hear(watcher *fsnotify.Watcher) {
	defer j.leave()
	var (
		written chan fsnotify.Event
		failed  chan error
	)
	if watcher != nil {
		defer watcher.Close()
		written, failed = watcher.Events, watcher.Errors
	}
	tick := time.NewTicker(j.opts.tick)
	defer tick.Stop()
	for {
		select {
		case <-j.closing:
			return
		case <-written:
		case <-failed: // such as too many at once
		case <-tick.C:
		}
		j.look()
	}
}

// look tells the watches where the log is. If it cannot be read they are to find out why themselves.
func (j *Journal) look() {
	var head uint64
	err := j.onReader(context.Background(), func(c *conn) (err error) {
		head, _, err = c.last()
		return err
	})
	if err != nil {
		j.news.tell(^uint64(0))
		return
	}
	j.news.tell(head)
}
