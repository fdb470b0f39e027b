package box

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/natsserver"
)

// damageCounter counts the reads that find damage: servers of JetStream take seconds for each.
type damageCounter struct {
	journal.Journal
	damaged *atomic.Int32
}

func (c damageCounter) Read(ctx context.Context, after uint64,
	limit int) ([]signalbox.Event, error) {
	events, err := c.Journal.Read(ctx, after, limit)
	if errors.Is(err, journal.ErrDamaged) {
		c.damaged.Add(1)
	}
	return events, err
}

// Verify names an event that somebody removed from the database, in the middle or at the end, and
// does not look for it again and again.
func TestVerifyNamesMissingEvent(t *testing.T) {
	const events = 5
	for name, test := range map[string]struct {
		address func(t *testing.T) string
		remove  func(t *testing.T, address string, seq uint64)
	}{
		"postgres": {newSchema, removeFromPostgres},
		"nats": {func(t *testing.T) string { return natsserver.Start(t, nil) + "/shop" },
			removeFromNATS},
	} {
		for _, seq := range []uint64{3, events} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				address, damaged := test.address(t), atomic.Int32{}
				opts := &Options{KeyFile: filepath.Join(t.TempDir(), "box.key"), Journal: address}
				k := &kit{dir: filepath.Join(t.TempDir(), FolderName), opts: opts}
				_, err := Init(t.Context(), k.dir, "ann", opts)
				must.Succeed(t, err)
				b := k.open(t)
				write(t, b, "w2", "w3", "w4", "w5")
				must.Succeed(t, b.Close())
				test.remove(t, address, seq)
				opts.open = func(ctx context.Context, dir, address string, how access,
					opts *Options) (journal.Journal, error) {
					j, err := openJournal(ctx, dir, address, how, opts)
					return damageCounter{j, &damaged}, err
				}
				report := verify(t, k, VerifyOptions{})
				if report.OK || report.FirstBad != seq || damaged.Load() > 2 {
					t.Errorf("without event %d: report %+v after %d reads", seq, report,
						damaged.Load())
				}
			})
		}
	}
}

func removeFromPostgres(t *testing.T, address string, seq uint64) {
	t.Helper()
	db, err := sql.Open("pgx", strings.Replace(address, "schema=", "search_path=", 1))
	must.Succeed(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "ALTER TABLE events DISABLE TRIGGER USER")
	must.Succeed(t, err)
	_, err = db.ExecContext(t.Context(), "DELETE FROM events WHERE seq = $1", int64(seq))
	must.Succeed(t, err)
}

// removeFromNATS makes the stream again, because signalbox makes one that permits no removal.
func removeFromNATS(t *testing.T, address string, seq uint64) {
	t.Helper()
	conn, err := natsgo.Connect(address)
	must.Succeed(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	must.Succeed(t, err)
	stream, err := js.Stream(t.Context(), "shop")
	must.Succeed(t, err)
	config, last := stream.CachedInfo().Config, stream.CachedInfo().State.LastSeq
	var events []*natsgo.Msg
	for i := range last {
		m, err := stream.GetMsg(t.Context(), i+1)
		must.Succeed(t, err)
		events = append(events, &natsgo.Msg{Subject: m.Subject, Data: m.Data})
	}
	must.Succeed(t, js.DeleteStream(t.Context(), "shop"))
	config.DenyDelete = false
	stream, err = js.CreateStream(t.Context(), config)
	must.Succeed(t, err)
	for _, m := range events {
		_, err := js.PublishMsg(t.Context(), m)
		must.Succeed(t, err)
	}
	must.Succeed(t, stream.DeleteMsg(t.Context(), seq))
	config.DenyDelete = true
	_, err = js.UpdateStream(t.Context(), config)
	must.Succeed(t, err)
}
