package sqlite

import (
	"context"
	"os"
	"time"

	"github.com/fsnotify/fsnotify"
)

// wakeOthers wakes the watches of other processes. If writing the file fails, they find out at
// their next tick.
func (j *Journal) wakeOthers() { _, _ = j.wake.WriteAt([]byte{'!'}, 0) }

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

// follow starts watchOthers. When it returns, notifications are active: every append
// that a later read does not see will cause one.
func (j *Journal) follow() {
	watcher, err := j.watchWake()
	if err != nil {
		j.log.Warn("file notifications are not available: events of other processes are seen late",
			"delay", j.opts.tick, "error", err)
	}
	if !j.Go(func(ctx context.Context) { j.watchOthers(ctx, watcher) }) && watcher != nil {
		watcher.Close()
	}
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
func (j *Journal) watchOthers(ctx context.Context, watcher *fsnotify.Watcher) {
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
		case <-ctx.Done():
			return
		case <-written:
		case <-failed: // for example too many notifications at once
		case <-tick.C:
		}
		if head, err := j.last(ctx); err != nil {
			j.Wake() // the watches report the error
		} else {
			j.Set(head)
		}
	}
}
