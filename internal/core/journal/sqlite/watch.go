package sqlite

import (
	"context"
	"iter"
	"os"
	"time"

	"github.com/fsnotify/fsnotify"

	"signalbox"
)

// Watch yields the events that follow the event after, and waits for more.
func (j *Journal) Watch(ctx context.Context, after uint64) iter.Seq2[signalbox.Event, error] {
	return func(yield func(signalbox.Event, error) bool) {
		j.startWatching()
		j.head.Watch(ctx, j.calls, after, j.read)(yield)
	}
}

// notify wakes the watches of this process and of others. If writing the file fails, the others
// find out at their next tick.
func (j *Journal) notify(head uint64) {
	j.head.Set(head)
	_, _ = j.wake.WriteAt([]byte{'!'}, 0)
}

// openWake opens the file wake, and creates it if necessary. It writes the byte at once, so that
// writing it later needs no disk space.
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

// startWatching starts watchOthers, once. When it returns, notifications are active: every append
// that a later read does not see will cause one.
func (j *Journal) startWatching() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.watching || j.calls.Enter(context.Background()) != nil {
		return
	}
	j.watching = true
	watcher, err := j.watchWake()
	if err != nil {
		j.log.Warn("file notifications are not available: events of other processes are seen late",
			"delay", j.opts.tick, "error", err)
	}
	go j.watchOthers(watcher)
}

func (j *Journal) watchWake() (*fsnotify.Watcher, error) {
	if j.opts.noFSNotify {
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

// watchOthers reads the head when another process has written, and at each tick. The watcher may be
// nil.
func (j *Journal) watchOthers(watcher *fsnotify.Watcher) {
	defer j.calls.Leave()
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
		case <-j.calls.Closing:
			return
		case <-written:
		case <-failed: // for example too many notifications at once
		case <-tick.C:
		}
		j.updateHead()
	}
}

// updateHead reads the head and notifies the watches. If reading fails it wakes them too, and they
// report the error.
func (j *Journal) updateHead() {
	var head uint64
	err := j.onReader(context.Background(), func(c *conn) (err error) {
		head, _, err = c.last()
		return err
	})
	if err != nil {
		j.head.Wake()
		return
	}
	j.head.Set(head)
}
