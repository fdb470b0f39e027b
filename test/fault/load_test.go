package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

// loadChild moves work, stores blobs and signs as fast as it can, and prints what was acknowledged.
// It runs until it is killed, its standard input is closed, or something fails. Its arguments are
// the box, the key file, its name, and the number of goroutines.
func loadChild(ctx context.Context, args []string) error {
	b, err := box.Open(ctx, args[0], &box.Options{KeyFile: args[1]})
	if err != nil {
		return err
	}
	defer b.Close()
	workers, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		io.Copy(io.Discard, os.Stdin) // ends when the test closes it or dies
		stop(errStopped)
	}()
	var working sync.WaitGroup
	for i := range workers {
		working.Go(func() { stop(loadWork(ctx, b, fmt.Sprintf("%s-%d", args[2], i))) })
	}
	working.Go(func() { stop(signRepeatedly(ctx, b)) })
	working.Wait()
	if err := context.Cause(ctx); err != errStopped {
		return err
	}
	return nil
}

var errStopped = errors.New("standard input was closed")

// loadWork claims, blocks and unblocks one work item until ctx is done.
func loadWork(ctx context.Context, b *box.Box, work string) error {
	if err := acknowledge(ctx, b, rules.OpenWork{Work: work, Title: "load", Actor: "tester"}, 0,
		0); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := acknowledge(ctx, b, claimOf(work, "s-"+work), 0, 0); err != nil {
			return err
		}
		blob, err := b.Engine.PutBlob(ctx,
			strings.NewReader(strings.Repeat(work, 1+rand.IntN(2000))))
		if err != nil {
			return err
		}
		if _, err := fmt.Printf("blob %s\n", blob); err != nil {
			return err
		}
		exit := rules.Exit{Session: "s-" + work, Signal: signalOf(signalbox.PhaseImplementation,
			signalbox.ExitBlocked), Blob: blob}
		if err := acknowledge(ctx, b, exit, 1, 2); err != nil {
			return err
		}
		if err := acknowledge(ctx, b, rules.Unblock{Work: work, Note: "continue", Actor: "tester"},
			1, 0); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// acknowledge executes a command and prints the event in its answer, with the given numbers of
// events before and after it that belong to the same command.
func acknowledge(ctx context.Context, b *box.Box, c rules.Command, before, after int) error {
	answer, err := b.Engine.Do(ctx, c)
	if err != nil {
		return err
	}
	var stored []signalbox.Event
	// a read may return fewer
	for first := answer.Seq - uint64(before); len(stored) != 1+before+after; {
		events, err := b.Journal.Read(ctx, first-1+uint64(len(stored)), 1+before+after-len(stored))
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return fmt.Errorf("%#v was answered with event %d, but event %d is not stored", c,
				answer.Seq, first+uint64(len(stored)))
		}
		stored = append(stored, events...)
	}
	var lines strings.Builder
	for _, e := range stored {
		fmt.Fprintf(&lines, "event %d %s\n", e.Seq, e.Hash)
	}
	_, err = os.Stdout.WriteString(lines.String()) // in a single write
	return err
}

func signRepeatedly(ctx context.Context, b *box.Box) error {
	for ctx.Err() == nil {
		checkpoint, err := b.Sign(ctx)
		if err != nil {
			return err
		}
		if _, err := fmt.Printf("checkpoint %d %s\n", checkpoint.Size,
			checkpoint.Root); err != nil {
			return err
		}
		if err := b.Engine.Wait(ctx, checkpoint.Size+50); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// acknowledged is the parsed output of a loadChild.
type acknowledged struct {
	lines       int
	events      map[uint64]signalbox.Hash
	blobs       []signalbox.Hash
	checkpoints map[uint64]signalbox.Hash
}

func newAcknowledged() *acknowledged {
	return &acknowledged{events: map[uint64]signalbox.Hash{},
		checkpoints: map[uint64]signalbox.Hash{}}
}

// addLine parses a line. An incomplete line, the last one of a killed process, acknowledges
// nothing.
func (a *acknowledged) addLine(t testing.TB, line string) {
	t.Helper()
	fields := strings.Fields(line)
	var hash signalbox.Hash
	if len(fields) < 2 || hash.UnmarshalText([]byte(fields[len(fields)-1])) != nil {
		return
	}
	var seq uint64
	if len(fields) == 3 {
		if _, err := fmt.Sscan(fields[1], &seq); err != nil {
			t.Errorf("a child printed %q", line)
		}
	}
	a.lines++
	switch fields[0] {
	case "event":
		a.events[seq] = hash
	case "blob":
		a.blobs = append(a.blobs, hash)
	case "checkpoint":
		a.checkpoints[seq] = hash
	}
}
