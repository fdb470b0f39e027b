package postgres

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"signalbox"
	"signalbox/internal/core/journal"
)

// explain converts errors of the database that a user can fix to a *signalbox.Error with a hint. It
// returns all other errors unchanged.
func explain(err error) error {
	if known := (*signalbox.Error)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	what, hint := explainDatabase(err)
	if isUnavailable(err) { // also from where retry cannot be used
		err = unavailable(err)
	}
	err = shorten(err)
	if failure := (*pgconn.PgError)(nil); errors.As(err, &failure) &&
		(failure.Code == clockAhead || failure.Code == ledgerAhead) {
		err = fmt.Errorf("%w: %w", journal.ErrClockSkew, err)
	}
	if what == "" {
		return err
	}
	return signalbox.CodeFailed.Errorf(hint,
		"%s: %w", what, err)
}

// lineError is an error with another text, on one line.
type lineError struct {
	text string
	err  error
}

func (e *lineError) Error() string { return e.text }
func (e *lineError) Unwrap() error { return e.err }

// shorten makes the text of an error that a connection returned one line, with the last cause of
// each host: without sslmode, pgx tries each host with TLS and then without.
func shorten(err error) error {
	before, list, found := strings.Cut(err.Error(), "\n")
	if !found {
		return err
	}
	var hosts []string
	causes := map[string]string{}
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		host, cause, _ := strings.Cut(line, ": ")
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
		causes[host] = cause
	}
	for i, host := range hosts {
		hosts[i] = strings.TrimSuffix(host+": "+causes[host], ": ")
	}
	return &lineError{strings.TrimSpace(before) + " " + strings.Join(hosts, "; "), err}
}

// lastCauses returns the text of shorten.
func lastCauses(err error) string { return shorten(err).Error() }

func explainDatabase(err error) (what, hint string) {
	failure, certificate := (*pgconn.PgError)(nil), (*tls.CertificateVerificationError)(nil)
	switch {
	case errors.As(err, &failure):
		if sharesConnections(failure) {
			return "a program between signalbox and the database, such as PgBouncer, does not keep connections apart", "connect to the server itself; docs/explanation/scaling.md lists the settings with which PgBouncer works"
		}
		if failure.Code == clockAhead {
			machine, _ := os.Hostname() // "" if the machine has no name
			return fmt.Sprintf("the clock of this machine, %s, is more than %s ahead of that of the database", machine, journal.MaxAhead),
				"correct the clock of the machine or of the database, and use a time service on both"
		}
		if what, hint := explainCode(failure.Code); what != "" {
			return what, hint
		}
	case errors.As(err, &certificate):
		return "the certificate of the database is not trusted",
			"name the authority that signed it with sslrootcert=FILE in the address of the journal"
	case wantsClearText(err):
		return "the database asks for the password in a way that is not allowed without TLS",
			"turn on ssl on the server, and add sslmode=verify-full or sslmode=require to the address of the journal"
	case refusesTLS(err):
		return "the database does not offer TLS, which the address of the journal requires",
			"turn on ssl on the server, or correct sslmode in the address of the journal"
	case strings.Contains(err.Error(),
		"read only connection"): // of pgconn.ValidateConnectTargetSessionAttrsReadWrite
		return "the database is read-only",
			"name the primary server in the address of the journal, or all servers: postgres://USER@HOST1,HOST2/DATABASE"
	}
	if isUnavailable(err) {
		return "the database cannot be reached",
			"check that PostgreSQL runs, and the address of the journal; signalbox tries again"
	}
	return "", ""
}

// sharesConnections reports whether a failure is that of a pool that does not accept the parameters
// of a connection, or gives its prepared statements to another one. The code 08P01 alone is also
// that of a pool whose server is away.
func sharesConnections(failure *pgconn.PgError) bool {
	return failure.Code == "42P05" || failure.Code == "26000" || failure.Code == "08P01" &&
		strings.Contains(failure.Message, "startup parameter")
}

func explainCode(code string) (what, hint string) {
	switch {
	case strings.HasPrefix(code, "28"):
		return "the database refuses the login",
			"check the user in the address of the journal, its password in ~/.pgpass or PGPASSWORD, and sslmode=require if the server wants TLS"
	case code == "3D000":
		return "the database does not exist",
			"create it with createdb, or correct the address of the journal"
	case code == "42501":
		return "the user has no right to do this",
			"the owner of the ledger grants rights with signalbox ledger grant ROLE"
	case code == "53100":
		return "the disk of the database is full",
			"free space on the disk of the database, and try again"
	case code == "53300":
		return "the database has too many connections",
			"raise max_connections, or use fewer processes"
	case code == "55P03":
		return "the ledger is still locked",
			"check that the synchronous replicas of the database run, and that no process keeps the ledger locked"
	case code == "25006":
		return "the database is read-only",
			"name the primary server in the address of the journal, or all servers: postgres://USER@HOST1,HOST2/DATABASE"
	case code == oldProgram:
		return "the tables of the ledger were changed for a newer version of signalbox",
			"install the version of signalbox that the other machines use"
	case code == invalidEvent:
		return "the event is not valid",
			"install the version of signalbox that the other machines use"
	case code == ledgerAhead:
		return "the time of the ledger is ahead of the clock of the database",
			"correct the clock of the database if it is wrong; otherwise a machine whose clock was ahead wrote the last event: run signalbox ledger repair --clock"
	}
	return "", ""
}
