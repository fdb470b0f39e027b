package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"signalbox/internal/core/journal"
)

// errWarned means that the server answered with a warning: an administrator has made it not wait
// for its replica.
var errWarned = errors.New("the server warns")

// retry calls f until it succeeds or fails permanently, or until a restarted database should be
// back. Its error then matches journal.ErrUnavailable.
func (j *Journal) retry(ctx context.Context, f func(context.Context) error) error {
	end := time.Now().Add(j.opts.patience)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := f(ctx)
		if err == nil || ctx.Err() != nil || !isUnavailable(err) {
			return err
		}
		if failure := (*pgconn.PgError)(nil); !errors.As(err, &failure) ||
			!strings.HasPrefix(failure.Code, "5") {
			// the other connections are probably gone too, or lead to what is no longer the primary
			j.pool.Reset()
		}
		if time.Now().Add(pause).After(end) {
			return unavailable(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// answer calls f with a context that ends when an answer of the database takes too long, and calls
// it again as retry does.
func (j *Journal) answer(ctx context.Context, f func(context.Context) error) error {
	return j.retry(ctx, func(ctx context.Context) error { return j.within(ctx, f) })
}

// within calls f with a context that ends when an answer of the database takes too long.
func (j *Journal) within(ctx context.Context, f func(context.Context) error) error {
	inner, cancel := context.WithTimeout(ctx, j.opts.answer)
	defer cancel()
	err := f(inner)
	if err != nil && inner.Err() != nil && ctx.Err() == nil {
		err = unavailable(err)
	}
	return err
}

// transact calls f in a transaction that f may repeat.
func (j *Journal) transact(ctx context.Context, f func(context.Context, pgx.Tx) error) error {
	return j.retry(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, transactTimeout+j.opts.answer)
		defer cancel()
		return pgx.BeginFunc(ctx, j.pool, func(tx pgx.Tx) error { return f(ctx, tx) })
	})
}

// transactTimeout is how long the statements of a transaction may take, besides the answer to its
// commit.
const transactTimeout = time.Minute

// unavailable makes an error match journal.ErrUnavailable. It no longer matches the end of a
// context, which was not that of the caller.
func unavailable(err error) error {
	if errors.Is(err, journal.ErrUnavailable) {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("it does not answer: %v", err)
	}
	return fmt.Errorf("%w: %w", journal.ErrUnavailable, err)
}

// isUnavailable reports whether an error may go away by itself: the database is stopped, starts,
// waits for a replica, or cannot be reached.
func isUnavailable(err error) bool {
	if errors.Is(err, journal.ErrUnavailable) || errors.Is(err, errWarned) {
		return true
	}
	if failure := (*pgconn.PgError)(nil); errors.As(err, &failure) {
		switch code := failure.Code; {
		case strings.HasPrefix(code, "08") && !sharesConnections(failure), // connection exceptions
			// it stops, crashed, or starts
			code == "57P01", code == "57P02", code == "57P03", code == "57P05",
			code == "25006", // it is a standby now
			code == "53300", // too many connections
			// the log is locked, perhaps by a transaction that waits for a replica
			code == "55P03",
			code == "40001", code == "40P01": // the transaction must be tried again
			return true
		}
		return false
	}
	certificate, handshake := (*tls.CertificateVerificationError)(nil), tls.RecordHeaderError{}
	if errors.As(err, &certificate) || errors.As(err, &handshake) || refusesTLS(err) ||
		wantsClearText(err) {
		return false
	}
	connect, network := (*pgconn.ConnectError)(nil), (net.Error)(nil)
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, pgconn.ErrConnClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded)
}

// wantsClearText reports whether the server asked for a password in a way that the address, or mayLackTLS, does not allow. pgx has no value for this error.
func wantsClearText(err error) bool {
	return strings.Contains(err.Error(), "require_auth check failed")
}

// refusesTLS reports whether the server has no TLS. pgx has no value for this error.
func refusesTLS(err error) bool {
	return strings.Contains(lastCauses(err), "server refused TLS connection")
}
