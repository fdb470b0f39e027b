package postgres

import (
	"errors"
	"net"
	"testing"

	"signalbox/internal/testkit/must"
)

// A connection does not ask the server to cancel a statement: that would make a server that waits
// for its replica show what the replica does not have.
func TestNeverCancel(t *testing.T) {
	j := openJournal(t, newSchema())
	defer j.Close()
	conn, err := j.pool.Acquire(t.Context())
	must.Succeed(t, err)
	defer conn.Release()
	if err := conn.Conn().PgConn().CancelRequest(t.Context()); err == nil {
		t.Error("a request to cancel was sent")
	}
}

// A connection that is given up is closed soon, although the server hangs: closing the journal
// waits for it.
func TestHangingConnectionIsClosed(t *testing.T) {
	j := openJournal(t, newSchema())
	defer j.Close()
	conn, err := j.pool.Acquire(t.Context())
	must.Succeed(t, err)
	defer conn.Release()
	j.pool.Config().BeforeClose(conn.Conn())
	// the server sends nothing
	if _, err := conn.Conn().PgConn().Conn().Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v, want %v", err, net.ErrClosed)
	}
}
