package postgres

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"signalbox"
	"signalbox/internal/core/journal"
)

// Whatever a method was doing when the connection was lost, its error says that the journal is not
// available, and not that something is wrong with it.
func TestLostConnections(t *testing.T) {
	for _, lost := range []error{
		fmt.Errorf("write failed: %w", &net.OpError{Op: "write", Err: syscall.EPIPE}),
		io.ErrUnexpectedEOF, &pgconn.PgError{Code: "57P01"}, &pgconn.PgError{Code: "57P03"},
	} {
		if err := explain(lost); !errors.Is(err, journal.ErrUnavailable) || !errors.Is(err, lost) {
			t.Errorf("%v: %v", lost, err)
		}
	}
	for _, lasting := range []error{&pgconn.PgError{Code: "42501"}, &pgconn.PgError{Code: "53100"},
		errors.New("other")} {
		if err := explain(lasting); errors.Is(err, journal.ErrUnavailable) {
			t.Errorf("%v: %v", lasting, err)
		}
	}
}

// pgx lists what it tried on several lines, and each host twice if sslmode is not set. What it
// tried last counts.
func TestConnectErrorsAreShort(t *testing.T) {
	tried := errors.New(
		"failed to connect to `user=ann database=shop`:\n\t127.0.0.1:5 (a): server refused TLS connection\n\t127.0.0.1:5 (a): failed to receive message: EOF\n\t127.0.0.1:6 (b): dial error: refused")
	const want = "failed to connect to `user=ann database=shop`: 127.0.0.1:5 (a): failed to receive message: EOF; 127.0.0.1:6 (b): dial error: refused"
	if err := explain(tried); err == nil || err.Error() != want || !errors.Is(err, tried) {
		t.Errorf("%v", err)
	}
	required := errors.New(
		"failed to connect to `user=ann database=shop`: 127.0.0.1:5 (a): server refused TLS connection")
	if err := explain(required); !strings.HasPrefix(err.Error(),
		"the database does not offer TLS") {
		t.Errorf("%v", err)
	}
}

// Through a pool that shares connections nothing works, and waiting does not help. A pool whose
// server is away is another matter.
func TestPoolSharesConnections(t *testing.T) {
	for _, failure := range []*pgconn.PgError{
		{Code: "08P01", Severity: "FATAL",
			Message: "unsupported startup parameter: statement_timeout"}, {Code: "42P05"},
		{Code: "26000"},
	} {
		err := explain(failure)
		if known := (*signalbox.Error)(nil); errors.Is(err, journal.ErrUnavailable) ||
			!errors.As(err, &known) || !strings.Contains(known.Hint, "PgBouncer") {
			t.Errorf("%v: %v", failure, err)
		}
	}
	if err := explain(&pgconn.PgError{Code: "08P01", Severity: "FATAL",
		Message: "server conn crashed?"}); !errors.Is(err, journal.ErrUnavailable) {
		t.Error(err)
	}
}
