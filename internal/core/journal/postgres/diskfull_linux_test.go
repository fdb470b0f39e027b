package postgres

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/pgserver"
	"signalbox/ledger"
)

// On a full disk nothing is stored, reading works, and the journal works again when there is space.
func TestDiskFull(t *testing.T) {
	server := startServer(t, pgserver.Options{})
	disk := server.SmallDisk(t, "8m")
	j := openBox(t, server.Address, Options{})
	must.Succeed(t, appendEvent(t, j, 1))
	must.Succeed(t, disk.Fill())
	data := make([]byte, 300_000)
	rand.Read(data)
	large := event(2)
	large.Data = data
	large.Hash = ledger.Sum(&large)
	for name, call := range map[string]func() error{
		"append": func() error { return j.Append(t.Context(), 1, []signalbox.Event{large}) },
		"put":    func() error { _, err := j.PutBlob(t.Context(), bytes.NewReader(data)); return err },
	} {
		err := call()
		if err == nil || !strings.Contains(err.Error(), "the disk of the database is full") ||
			signalbox.HintOf(err) == "" || errors.Is(err, journal.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "append" && !errors.Is(err, journal.ErrNotStored) {
			t.Errorf("append: %v", err)
		}
	}
	if events, err := j.Read(t.Context(), 0, 10); err != nil || len(events) != 1 {
		t.Errorf("%d events, %v", len(events), err)
	}
	must.Succeed(t, disk.Free())
	must.Succeed(t, j.Append(t.Context(), 1, []signalbox.Event{large}))
}
