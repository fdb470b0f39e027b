package postgres

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"signalbox/internal/testkit/must"
)

// deadlines records the deadline of each statement that reads a piece.
type deadlines struct{ pieces []time.Time }

func (d *deadlines) TraceQueryStart(ctx context.Context, _ *pgx.Conn,
	query pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(query.SQL, "SELECT substring(data") {
		end, _ := ctx.Deadline()
		d.pieces = append(d.pieces, end)
	}
	return ctx
}

func (d *deadlines) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Storing a large blob again reads it, which may take long over a slow link: the timeout is for
// each piece.
func TestKnownBlobIsReadSlowly(t *testing.T) {
	j := openJournal(t, newSchema())
	defer j.Close()
	const pieces = 2
	content := bytes.Repeat([]byte("x"), pieces*pieceBytes)
	traced := &deadlines{}
	config := j.pool.Config()
	config.ConnConfig.Tracer = traced
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must.Succeed(t, err)
	j.pool.Close()
	j.pool = pool
	for range 2 {
		if _, err := j.PutBlob(t.Context(), bytes.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	if len(traced.pieces) != pieces {
		t.Fatalf("%d pieces were read, want %d", len(traced.pieces), pieces)
	}
	for i := range pieces - 1 {
		if !traced.pieces[i+1].After(traced.pieces[i]) {
			t.Errorf("pieces %d and %d have to arrive in the same time", i, i+1)
		}
	}
}
