package nats

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/natsserver"
)

// removeEvent stores n events and removes one of them. Streams of signalbox do not permit that, so
// it makes the stream again.
func removeEvent(t *testing.T, j *Journal, n int, seq uint64) {
	t.Helper()
	call := func(subject string, request any) {
		t.Helper()
		must.Succeed(t, j.retry(t.Context(), func() error {
			return j.api(t.Context(), subject+"."+j.name, request, nil)
		}))
	}
	info, err := j.streamInfo(t.Context(), j.name)
	must.Succeed(t, err)
	config := info.Config
	config.DenyDelete = false
	call("STREAM.DELETE", nil)
	call("STREAM.CREATE", config)
	must.Succeed(t, j.Append(t.Context(), 0, testEvents(0, n)))
	call("STREAM.MSG.DELETE", map[string]any{"seq": seq})
	config.DenyDelete = true
	call("STREAM.UPDATE", config)
}

// Reads find an event that is missing in the middle at once, and name it: a read returns the events
// before it, and the next one finds out whether it stays missing. Servers that do not prove who
// leads may be out of date, so nothing is damaged for certain, but the warning names the event.
func TestReadUpToMissingEvent(t *testing.T) {
	t.Parallel()
	const n, gone = 300, 150
	for name, test := range map[string]struct {
		open func(t *testing.T) *Journal
		want error
	}{
		"a server": {func(t *testing.T) *Journal {
			return openJournal(t, natsserver.Start(t, nil)+"/shop")
		}, journal.ErrDamaged},
		"servers": {func(t *testing.T) *Journal {
			address := startServers(t, deniedAccounts)
			j, err := Open(t.Context(), strings.Replace(address, "//", "//worker:pw@", 1)+"/shop",
				Options{Create: true, patience: time.Minute, attempt: time.Second})
			must.Succeed(t, err)
			return j
		}, journal.ErrUnavailable},
		"nodes": {func(t *testing.T) *Journal {
			c := newCluster(t, 3)
			c.startAll(t)
			return c.open(t, "a", "shop")
		}, journal.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := test.open(t)
			defer j.Close()
			removeEvent(t, j, n, gone)
			for _, known := range []uint64{n, 0} { // from any server, and from the leader
				j.known.Store(known)
				if events, err := j.Read(t.Context(), 0, maxRead); err != nil ||
					len(events) != gone-1 {
					t.Errorf("%d events, %v, want those before %d", len(events), err, gone)
				}
			}
			var warnings bytes.Buffer
			j.log = slog.New(slog.NewTextHandler(&warnings, nil))
			j.opts.patience = unknownFor
			err := untilProven(j, func(j *Journal) error {
				_, err := j.Read(t.Context(), gone-1, maxRead)
				return err
			}, test.want)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), "event 150") {
				t.Errorf("%v, want %v", err, test.want)
			}
			warns := strings.Contains(warnings.String(), "event 150 is missing")
			if warns != errors.Is(test.want, journal.ErrUnavailable) {
				t.Errorf("warnings: %s", &warnings)
			}
		})
	}
}
