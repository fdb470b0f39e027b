package ledger

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox"
)

// benchLog is a log of typical events: their preimages have 250 to 500 bytes. It returns the bytes
// of all preimages.
func benchLog(n int) (events []signalbox.Event, preimages int64) {
	events = make([]signalbox.Event, n)
	for i := range events {
		e := &events[i]
		*e = signalbox.Event{
			Time: time.Unix(1772280000, int64(i)), Type: "AgentSessionCompleted",
			Work: fmt.Sprintf("task-%06d", i), Session: fmt.Sprintf("session-%06d", i),
			Actor: "developer-1",
			Data:  fmt.Appendf(nil, `{"n":"%06d","notes":"%s"}`, i, strings.Repeat("x", i%250)),
		}
		preimages += int64(preimageBytes(e))
	}
	new(Tail).Seal(events)
	return events, preimages
}

func preimageBytes(e *signalbox.Event) int {
	return 512 - shortText + len(e.Type) + len(e.Work) + len(e.Session) + len(e.Actor) + len(e.Data)
}

// BenchmarkVerify sets the verification of events in memory beside SHA-256 over the same bytes:
// compare MB/s.
func BenchmarkVerify(b *testing.B) {
	events, preimages := benchLog(1 << 14)
	b.Run("sha256", func(b *testing.B) {
		input := make([]byte, preimages)
		b.SetBytes(preimages)
		for b.Loop() {
			rest := input
			for i := range events {
				n := preimageBytes(&events[i])
				sha256.Sum256(rest[:n])
				rest = rest[n:]
			}
		}
	})
	b.Run("sum", func(b *testing.B) {
		b.SetBytes(preimages)
		for b.Loop() {
			for i := range events {
				Sum(&events[i])
			}
		}
	})
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("verify/workers=%d", workers), func(b *testing.B) {
			b.SetBytes(preimages)
			for b.Loop() {
				report, err := Verify(context.Background(), uint64(len(events)),
					readFrom(events, 0), &VerifyOptions{Workers: workers})
				if err != nil || !report.OK {
					b.Fatal(report, err)
				}
			}
		})
	}
}

// BenchmarkProve makes a proof from the hashes of a million events.
func BenchmarkProve(b *testing.B) {
	private, public := testKey(b, 1, testOrigin)
	events, _ := benchLog(1)
	hashes := append(hashesOf(events), someLeaves(1_000_000-1)...)
	checkpoint := signed(b, checkpointAt(hashes, len(hashes)), private)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Prove(&events[0], checkpoint, public, yield(hashes)); err != nil {
			b.Fatal(err)
		}
	}
}
