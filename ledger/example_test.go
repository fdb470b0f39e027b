package ledger_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"time"

	"signalbox"
	"signalbox/ledger"
)

// exampleLog returns a log of three events and the tail after them.
func exampleLog() ([]signalbox.Event, ledger.Tail) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	events := []signalbox.Event{
		{Time: at, Type: "BoxOpened", Actor: "ann", Data: []byte(`{"box":"example"}`)},
		{Time: at.Add(time.Second), Type: "WorkOpened", Work: "task-1", Actor: "ann",
			Data: []byte(`{"title":"Add a button"}`)},
		{Time: at.Add(time.Minute), Type: "WorkOpened", Work: "task-2", Actor: "bob",
			Data: []byte(`{"title":"Test it"}`)},
	}
	var tail ledger.Tail
	tail.Seal(events)
	return events, tail
}

func exampleKey() (private, public string) {
	seed := bytes.NewReader(make([]byte, 64)) // use crypto/rand.Reader
	private, public, err := ledger.GenerateKey(seed, "example.org/box")
	if err != nil {
		panic(err)
	}
	return private, public
}

// hashesOf yields the hashes of events, as Prove needs them.
func hashesOf(events []signalbox.Event) iter.Seq2[signalbox.Hash, error] {
	return func(yield func(signalbox.Hash, error) bool) {
		for i := range events {
			if !yield(events[i].Hash, nil) {
				return
			}
		}
	}
}

// Appends events to a log, signs it, and later finds out that someone changed an event.
func ExampleVerify() {
	events, tail := exampleLog()
	private, public := exampleKey()
	signed, err := ledger.Sign(ledger.Checkpoint{Origin: "example.org/box", Size: tail.Seq,
		Root: tail.Tree.Root()}, private)
	if err != nil {
		fmt.Println(err)
		return
	}
	checkpoint, err := ledger.OpenCheckpoint(signed, public)
	if err != nil {
		fmt.Println(err)
		return
	}

	read := func(_ context.Context, after uint64, limit int) ([]signalbox.Event, error) {
		rest := events[after:]
		return rest[:min(limit, len(rest))], nil
	}
	report, err := ledger.Verify(context.Background(), tail.Seq, read,
		&ledger.VerifyOptions{Checkpoint: &checkpoint})
	fmt.Println(report.OK, report.Events, err)
	events[1].Actor = "eve"
	report, err = ledger.Verify(context.Background(), tail.Seq, read,
		&ledger.VerifyOptions{Checkpoint: &checkpoint})
	fmt.Println(report.OK, report.FirstBad, report.Reason, err)
	// Output:
	// true 3 <nil>
	// false 2 event 2 was changed: its hash is not that of its content <nil>
}

// Proves that an event is in the log. The reader needs only the public key.
func ExampleProve() {
	events, tail := exampleLog()
	private, public := exampleKey()
	checkpoint, err := ledger.Sign(ledger.Checkpoint{Origin: "example.org/box", Size: tail.Seq,
		Root: tail.Tree.Root()}, private)
	if err != nil {
		fmt.Println(err)
		return
	}
	proof, err := ledger.Prove(&events[1], checkpoint, public, hashesOf(events))
	if err != nil {
		fmt.Println(err)
		return
	}
	file := proof.Format() // send this

	received, err := ledger.ParseProof(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	covered, err := received.Check(public)
	fmt.Printf("event %d, %s: one of %d signed events, %v\n", received.Event.Seq,
		received.Event.Data, covered.Size, err)
	// Output:
	// event 2, {"title":"Add a button"}: one of 3 signed events, <nil>
}

// Proves that a later log continues an earlier one.
func ExampleCheckConsistency() {
	events, tail := exampleLog()
	var earlier ledger.Tail
	for i := range events[:2] {
		if err := earlier.Extend(&events[i]); err != nil {
			fmt.Println(err)
			return
		}
	}
	proof, err := ledger.ProveConsistency(earlier.Seq, tail.Seq, hashesOf(events))
	if err != nil {
		fmt.Println(err)
		return
	}
	older := ledger.Checkpoint{Origin: "example.org/box", Size: earlier.Seq, Root: earlier.Tree.Root()}
	newer := ledger.Checkpoint{Origin: "example.org/box", Size: tail.Seq, Root: tail.Tree.Root()}
	fmt.Println(ledger.CheckConsistency(older, newer, proof))
	// Output:
	// <nil>
}
