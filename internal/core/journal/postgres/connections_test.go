package postgres

import (
	"context"
	"io"
	"testing"
	"time"

	"signalbox/internal/testkit/must"
)

// slowReader has no bytes until done is closed. It announces that it is read.
type slowReader struct{ reading, done chan struct{} }

func (r slowReader) Read([]byte) (int, error) {
	r.reading <- struct{}{}
	<-r.done
	return 0, io.EOF
}

// TestAppendDoesNotWaitForUploads checks that blobs whose bytes come slowly leave connections for
// everything else.
func TestAppendDoesNotWaitForUploads(t *testing.T) {
	j := openJournal(t, newSchema())
	defer j.Close()
	const uploads = connections + 1
	r := slowReader{make(chan struct{}, uploads), make(chan struct{})}
	stored := make(chan error, uploads)
	for range uploads {
		go func() {
			_, err := j.PutBlob(t.Context(), r)
			stored <- err
		}()
	}
	for range maxUploads {
		<-r.reading
	}
	for seq := range uint64(3) {
		must.Succeed(t, appendEvent(t, j, seq+1))
	}
	close(r.done)
	for range uploads {
		must.Succeed(t, <-stored)
	}
}

// TestClosingNotifiesOthers checks that the events of a command that ends after its append are seen
// at once, not when the others poll.
func TestClosingNotifiesOthers(t *testing.T) {
	schema := newSchema()
	openJournal(t, schema).Close()
	open := func(poll time.Duration) *Journal {
		j, err := Open(t.Context(), shared.Need(t).Address,
			Options{Schema: schema, poll: poll, patience: time.Minute, notice: time.Minute})
		must.Succeed(t, err)
		return j
	}
	watcher := open(time.Hour)
	defer watcher.Close()
	for seq := uint64(1); seq <= 8; seq++ {
		seen := watchUntil(t.Context(), watcher, seq)
		j := open(0)
		must.Succeed(t, appendEvent(t, j, seq))
		must.Succeed(t, j.Close())
		must.Succeed(t, <-seen)
	}
}

// A process whose role has no connection left for notifications reads the log from time to time.
func TestWatchWithoutNotifications(t *testing.T) {
	schema, worker := newSchema(), newRole(t)
	j := openJournal(t, schema)
	defer j.Close()
	must.Succeed(t, j.Grant(t.Context(), worker, Work))
	execute(t, "ALTER ROLE "+worker+" CONNECTION LIMIT 1")
	watcher, err := Open(t.Context(), as(t, worker),
		Options{Schema: schema, poll: 10 * time.Millisecond})
	must.Succeed(t, err)
	defer watcher.Close()
	must.Succeed(t, appendEvent(t, j, 1))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for e, err := range watcher.Watch(ctx, 0) {
		if must.Succeed(t, err); e.Seq == 4 {
			break
		}
		must.Succeed(t, appendEvent(t, j, e.Seq+1)) // the watch must be woken for each event
	}
}
