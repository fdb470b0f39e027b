package postgres

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// channel is the name under which the processes of a box notify each other.
func (j *Journal) channel() string { return "signalbox_" + strconv.FormatUint(uint64(j.lock), 36) }

// tell makes notifyOthers notify other processes of a head.
func (j *Journal) tell(head uint64) {
	for {
		select {
		case j.notify <- head:
			return
		case <-j.notify: // an older one, which it replaces
		}
	}
}

// notifyPause is the time between two notifications. While many events are appended, one
// notification tells of all of them.
const notifyPause = 2 * time.Millisecond

// notifyOthers notifies other processes of new heads until the journal is closed. What fails is not
// tried again: they also poll.
func (j *Journal) notifyOthers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			select {
			case head := <-j.notify: // a command that ends after its append
				j.notifyOnce(head)
			default:
			}
			return
		case head := <-j.notify:
			j.notifyOnce(head)
		}
		select {
		case <-ctx.Done():
		case <-time.After(notifyPause):
		}
	}
}

// notifyTimeout bounds a notification. Closing the journal waits for it.
const notifyTimeout = 2 * time.Second

func (j *Journal) notifyOnce(head uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), j.opts.notice)
	defer cancel()
	var batch pgx.Batch
	batch.Queue("SET LOCAL synchronous_commit = off") // there is nothing to lose
	batch.Queue("SELECT pg_notify($1, $2)", j.channel(), strconv.FormatUint(head, 10))
	if err := j.pool.SendBatch(ctx, &batch).Close(); err != nil {
		j.log.Debug("cannot notify others of new events", "error", err)
	}
}

// watchOthers receives notifications, and reads the head from time to time, until the journal is
// closed.
func (j *Journal) watchOthers(ctx context.Context) {
	for ctx.Err() == nil {
		if err := j.listen(ctx); err != nil && ctx.Err() == nil {
			j.log.Debug("cannot receive notifications of the database: events of other processes are seen late", "delay", j.opts.poll, "error", err)
		}
		j.Wake()
		select {
		case <-ctx.Done():
		case <-time.After(min(j.opts.poll, defaultPoll)):
		}
	}
}

// listen receives notifications on a connection of its own until it fails or ctx is done.
func (j *Journal) listen(ctx context.Context) error {
	config := j.pool.Config().ConnConfig
	neverCancel(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{j.channel()}.Sanitize()); err != nil {
		return err
	}
	var compared time.Time
	for quiet := true; ; {
		if time.Since(compared) >= clockPause {
			if err := j.within(ctx, func(ctx context.Context) error {
				return j.showClock(ctx, conn)
			}); err != nil {
				return err
			}
			compared = time.Now()
		}
		if quiet {
			// Reading the head on this connection also finds out whether it still leads to a
			// server.
			err := j.within(ctx, func(ctx context.Context) error {
				head, _, err := j.queryLast(ctx, conn)
				if err == nil {
					j.Set(head)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		waiting, cancel := context.WithTimeout(ctx, j.opts.poll)
		got, err := conn.WaitForNotification(waiting)
		cancel()
		quiet = errors.Is(err, context.DeadlineExceeded)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case quiet:
		case err != nil:
			return err
		default:
			if head, err := strconv.ParseUint(got.Payload, 10, 64); err == nil {
				j.Set(head)
			}
		}
	}
}
