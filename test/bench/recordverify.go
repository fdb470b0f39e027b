package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"runtime"

	"signalbox"
)

const (
	goalVerify = 0.4 // times SHA-256

	verifyEvents = 1 << 16
)

// compareVerify compares the verification of events in memory with SHA-256 over the bytes that
// their hashes cover.
func compareVerify(_ string, s settings) error {
	events := sealedEvents(verifyEvents)
	preimages := make([][]byte, len(events))
	for i := range events {
		preimages[i] = appendPreimage(nil, &events[i])
	}
	whole := bytes.Join(preimages, nil)
	racers := []*racer{
		{name: "SHA-256 of the bytes of each event", run: func() error {
			for _, p := range preimages {
				sha256.Sum256(p)
			}
			return nil
		}},
		{name: "SHA-256 of all bytes in one piece", run: func() error {
			sha256.Sum256(whole)
			return nil
		}},
		{name: "verify, one worker on one core", run: func() error {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			return verifySlice(events, 1)
		}},
		{name: "verify, two workers", run: func() error { return verifySlice(events, 2) }},
	}
	for _, r := range racers {
		r.amount = len(whole)
	}
	rounds := shortRounds * s.rounds
	if err := race("verify", rounds, racers...); err != nil {
		return err
	}
	var t table
	t.row(fmt.Sprintf("%d events of %d bytes", len(events), len(whole)/len(events)), "MB/s",
		"slowest–fastest",
		"× each", "× one piece", "× one worker", "goal")
	for i, r := range racers {
		cells := r.cells(megabyte)
		for _, peer := range racers[:3] {
			cells = append(cells, fmt.Sprintf("%.2f", r.times(peer)))
		}
		goal := ""
		if i == 2 {
			goal = formatGoal(fmt.Sprintf("≥ %g × each", goalVerify),
				r.times(racers[0]) >= goalVerify)
		}
		t.row(append(cells, goal)...)
	}
	t.print(fmt.Sprintf("Verification in memory (median of %d interleaved rounds)", rounds))
	return nil
}

// appendPreimage appends the bytes that the hash of an event covers, as
// docs/reference/ledger-format.md specifies.
func appendPreimage(dst []byte, e *signalbox.Event) []byte {
	dst = append(dst, "signalbox/event/v1\n"...)
	for _, field := range [][]byte{
		binary.BigEndian.AppendUint64(nil, e.Seq), []byte(e.Time.Format(signalbox.EventTime)),
		[]byte(e.Type),
		[]byte(e.Work), []byte(e.Session), []byte(e.Actor), e.Data, e.Prev[:],
	} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(len(field)))
		dst = append(dst, field...)
	}
	return dst
}

func verifySlice(events []signalbox.Event, workers int) error {
	all := uint64(len(events))
	read := func(_ context.Context, after uint64, limit int) ([]signalbox.Event, error) {
		return events[after:min(after+uint64(limit), all)], nil
	}
	_, err := verify(all, read, workers)
	return err
}
