package journaltest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"signalbox"
	"signalbox/internal/core/journal"
)

var concurrencyTests = map[string]func(*testing.T, *log){
	"ConcurrentWriters":   testContention,
	"ConcurrentConflicts": testOneWinner,
	"DurableAfterReopen":  testReopen,
	"DurableAfterKill":    testKill,
}

// Contend appends n events one by one while others append too. It returns when all are stored, or
// with the first error that is not a conflict.
func Contend(ctx context.Context, j journal.Log, who string, n int) error {
	var end chain
	for i := range n {
		for {
			e := []signalbox.Event{{Type: "Contended", Session: who, Actor: who,
				Work: strconv.Itoa(i)}}
			e[0].Time = end.peek(1)[0].Time
			end.seal(e)
			err := j.Append(ctx, end.seq, e)
			if err == nil {
				end.follow(e)
				break
			}
			if !errors.Is(err, journal.ErrConflict) {
				return err
			}
			if err := end.catchUp(ctx, j); err != nil {
				return err
			}
		}
	}
	return nil
}

// catchUp reads to the end of the log.
func (c *chain) catchUp(ctx context.Context, j journal.Log) error {
	for {
		events, err := j.Read(ctx, c.seq, 1000)
		if err != nil || len(events) == 0 {
			return err
		}
		c.follow(events)
	}
}

// CheckContention fails the test unless the log is one chain that has each event of each contender
// exactly once and in order.
func CheckContention(t testing.TB, j journal.Log, contenders []string, n int) {
	t.Helper()
	events := readAll(t, j, 0)
	checkChain(t, events)
	count := map[string]int{}
	for _, e := range events {
		if e.Work != strconv.Itoa(count[e.Session]) {
			t.Fatalf("event %d is number %s of %s, want %d", e.Seq, e.Work, e.Session,
				count[e.Session])
		}
		count[e.Session]++
	}
	for _, who := range contenders {
		if count[who] != n {
			t.Errorf("%s has %d events, acknowledged were %d", who, count[who], n)
		}
	}
	if len(events) != n*len(contenders) {
		t.Errorf("the log has %d events, acknowledged were %d", len(events), n*len(contenders))
	}
}

func testContention(t *testing.T, l *log) {
	const handles, writersEach, events = 3, 3, 12
	var (
		wg         sync.WaitGroup
		contenders []string
		ctx        = testContext(t)
	)
	for h := range handles {
		j := l.open(t)
		for w := range writersEach {
			who := fmt.Sprintf("writer-%d-%d", h, w)
			contenders = append(contenders, who)
			wg.Go(func() {
				if err := Contend(ctx, j, who, events); err != nil {
					t.Errorf("%s: %v", who, err)
				}
			})
		}
	}
	wg.Wait()
	j := l.open(t)
	CheckContention(t, j, contenders, events)
	if err := l.chain.catchUp(ctx, j); err != nil {
		t.Error(err)
	}
}

// testOneWinner lets several handles append after the same event at the same time.
func testOneWinner(t *testing.T, l *log) {
	var handles []journal.Log
	for range 4 {
		handles = append(handles, l.open(t))
	}
	for range 10 {
		events := l.chain.peek(5)
		errs := make([]error, len(handles))
		var wg sync.WaitGroup
		for i, j := range handles {
			wg.Go(func() { errs[i] = j.Append(testContext(t), l.chain.seq, events) })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else {
				wantError(t, "append of a loser", err, journal.ErrConflict)
			}
		}
		if won != 1 {
			t.Fatalf("%d appends after the same event succeeded, want 1", won)
		}
		l.chain.follow(events)
	}
}

func testReopen(t *testing.T, l *log) {
	var want []signalbox.Event
	for range 5 {
		j := l.Open(t)
		wantEvents(t, readAll(t, j, 0), want)
		want = append(want, l.grow(t, j, 3)...)
		if err := j.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
}

// AppendForever appends one event at a time, and writes a line with its sequence number to w when
// Append has returned. It is for the process of Log.AppendAndKill.
func AppendForever(ctx context.Context, j journal.Log, w io.Writer) error {
	var end chain
	if err := end.catchUp(ctx, j); err != nil {
		return err
	}
	for {
		events := end.batch()
		if err := j.Append(ctx, end.seq, events); err != nil {
			return err
		}
		end.follow(events)
		if _, err := fmt.Fprintln(w, end.seq); err != nil {
			return err
		}
	}
}

// batch returns the events that AppendForever appends next.
func (c chain) batch() []signalbox.Event { return c.peek(1 + int(c.seq%3)) }

// KillAfter starts a process that calls AppendForever, kills it after a number of lines, and
// returns the sequence number in the last one.
func KillAfter(t testing.TB, cmd *exec.Cmd, lines int) (acknowledged uint64) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	// Lines that are read after the kill are acknowledged events too.
	scanner := bufio.NewScanner(out)
	for n := 0; scanner.Scan(); n++ {
		if acknowledged, err = strconv.ParseUint(scanner.Text(), 10, 64); err != nil {
			t.Errorf("the process wrote: %s", scanner.Text())
		}
		if n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // killed
	if acknowledged < uint64(lines) {
		t.Fatalf("the process ended by itself, at event %d", acknowledged)
	}
	return acknowledged
}

func testKill(t *testing.T, l *log) {
	if l.AppendAndKill == nil {
		t.Skip("the driver has no AppendAndKill")
	}
	for range 3 {
		acknowledged := l.AppendAndKill(t, 5)
		j := l.open(t)
		events := readAll(t, j, 0)
		checkChain(t, events)
		if uint64(len(events)) < acknowledged {
			t.Fatalf("the log has %d events, acknowledged were %d", len(events), acknowledged)
		}
		l.chain.follow(events[:acknowledged])
		underWay, rest := l.chain.batch(), events[acknowledged:]
		if len(rest) == 0 {
			// What was under way may still arrive, as long as nothing else is in its place.
			next := l.chain.peek(1)
			err := j.Append(testContext(t), l.chain.seq, next)
			if err == nil {
				l.chain.follow(next)
				continue
			}
			wantError(t, "append after a killed process", err, journal.ErrConflict)
			rest = readAll(t, j, acknowledged)
		}
		wantEvents(t, rest, underWay)
		l.chain.follow(underWay)
		l.grow(t, j, 1)
	}
}
