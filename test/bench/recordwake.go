package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"signalbox"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
)

const (
	goalHandOver = 5 * time.Millisecond // plus two syncs
	goalAcross   = 25 * time.Millisecond
	goalWake     = 5 * time.Millisecond

	samplesARound = 100
	// idle is the pause before each sample, in which the other side starts to wait.
	idle = 4 * time.Millisecond
)

// claimTask waits for work and claims it, the given number of times.
func claimTask(place string, times int, send func(report) error) error {
	b, err := openBox(place)
	if err != nil {
		return err
	}
	return errors.Join(claimAll(b.engine, times, send), b.close())
}

func claimAll(e *engine.Engine, times int, send func(report) error) error {
	for i := range times {
		id := fmt.Sprintf("%d-%d", os.Getpid(), i)
		claim := rules.Claim{Role: signalbox.RoleDeveloper, Session: id, Actor: "developer-1",
			Lease: id}
		answer, err := e.DoWhenPossible(context.Background(), claim)
		if err != nil {
			return err
		}
		if err := send(report{What: answer.Work, At: time.Now().UnixNano(),
			Events: answer.Seq}); err != nil {
			return err
		}
	}
	return nil
}

// watchTask reports the time at which it receives each of the given number of events.
func watchTask(place string, times int, send func(report) error) error {
	j, err := openJournal(place)
	if err != nil {
		return err
	}
	defer j.Close()
	for e, err := range j.Watch(context.Background(), 0) {
		if err != nil {
			return err
		}
		now := time.Now().UnixNano()
		if err := send(report{What: strconv.FormatUint(e.Seq, 10), At: now}); err != nil ||
			e.Seq == uint64(times) {
			return err
		}
	}
	return nil
}

// stopwatch collects latencies. It also records how much of each was the call itself, and by how
// much idle pauses were too long, which is the machine's own latency.
type stopwatch struct{ took, called, overslept []time.Duration }

// sample calls do after a pause, and records the time from the start that do returns until the
// expected report.
func (w *stopwatch) sample(receive func() (report, error), what string,
	do func() (time.Time, error)) error {
	slept := time.Now()
	time.Sleep(idle)
	w.overslept = append(w.overslept, time.Since(slept)-idle)
	start, err := do()
	if err != nil {
		return err
	}
	w.called = append(w.called, time.Since(start))
	r, err := receive()
	if err == nil && r.What != what {
		err = fmt.Errorf("the report is about %q, want %q", r.What, what)
	}
	w.took = append(w.took, time.Duration(r.At-start.UnixNano()))
	return err
}

// latencies is a row of the table.
type latencies struct {
	name string
	took []time.Duration
	goal time.Duration // for the 99th percentile; 0 means none
}

func formatMilliseconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1000) }

func printLatencies(title, header string, rows ...latencies) {
	var t table
	t.row(header, "samples", "p50 ms", "p90 ms", "p99 ms", "goal for p99")
	for _, l := range rows {
		cells := []string{l.name, fmt.Sprint(len(l.took))}
		for _, percent := range []int{50, 90, 99} {
			cells = append(cells, formatMilliseconds(percentile(l.took, percent)))
		}
		goal := ""
		if l.goal > 0 {
			goal = formatGoal("≤ "+formatMilliseconds(l.goal)+" ms",
				percentile(l.took, 99) <= l.goal)
		}
		t.row(append(cells, goal)...)
	}
	t.print(title)
}

// timeHandOver measures the time from submitting an exit signal until the next worker, who is
// waiting, has claimed the work.
func timeHandOver(dir string, s settings) error {
	var inside, across stopwatch
	var syncs []time.Duration
	pages, err := newDisk(dir)
	if err != nil {
		return err
	}
	writeTwice := func() error { return errors.Join(pages.writePage(), pages.writePage()) }
	samples := samplesARound * s.rounds
	for _, c := range []struct {
		across bool
		watch  *stopwatch
	}{{false, &inside}, {true, &across}} {
		progress("hand-over, across processes: %v", c.across)
		folder, err := folderIn(dir, fmt.Sprint(c.across))
		if err != nil {
			return err
		}
		if err := handOver(folder, c.across, samples, c.watch, writeTwice, &syncs); err != nil {
			return err
		}
	}
	printLatencies("Hand-over", "exit signal submitted → next worker has claimed",
		latencies{"in one process", inside.took, goalHandOver + percentile(syncs, 99)},
		latencies{"across processes", across.took, goalAcross},
		latencies{"two writes of 4 KiB, each synced, meanwhile", syncs, 0},
		latencies{fmt.Sprintf("a pause of %v is too long by", idle),
			append(inside.overslept, across.overslept...), 0})
	return pages.Close()
}

// handOver submits exit signals, one at a time. After each it calls the rival, and records how long
// that took.
func handOver(place string, across bool, samples int, w *stopwatch, rival func() error,
	rivals *[]time.Duration) error {
	b, err := openBox(place)
	if err != nil {
		return err
	}
	if err := parallel(samples, b.draft); err != nil {
		return err
	}
	receive, wait, err := b.claim(place, across, samples)
	if err != nil {
		return err
	}
	exits := newWorkload()
	for i := range samples {
		// as an engine that follows the journal would have done
		if err := b.engine.Refresh(context.Background()); err != nil {
			return err
		}
		err := w.sample(receive, workID(i), func() (time.Time, error) {
			start := time.Now()
			_, err := b.engine.Do(context.Background(), exits.exit(workID(i), signalbox.PhaseDraft,
				signalbox.ExitCompleted))
			return start, err
		})
		start := time.Now()
		if err := errors.Join(err, rival()); err != nil {
			return err
		}
		*rivals = append(*rivals, time.Since(start))
	}
	return errors.Join(wait(), b.close())
}

func workID(i int) string { return fmt.Sprintf("task-%d", i) }

// draft opens work in DRAFT, and claims it in a session with the same name.
func (b *benchBox) draft(i int) error {
	id := workID(i)
	_, err := b.engine.Do(context.Background(), rules.OpenWork{Work: id, Title: "Show the total",
		Phase: signalbox.PhaseDraft, Actor: "operator"})
	if err == nil {
		_, err = b.engine.Do(context.Background(),
			rules.Claim{Work: id, Role: signalbox.RoleBusinessAnalyst, Session: id,
				Actor: "analyst-1", Lease: id})
	}
	return err
}

// claim starts to claim work for developers, the given number of times, with the same engine or in
// another process.
func (b *benchBox) claim(place string, across bool, times int) (receive func() (report, error),
	wait func() error, err error) {
	if across {
		c, err := startChild("claim", place, times)
		if err != nil {
			return nil, nil, err
		}
		return c.receive, c.Wait, nil
	}
	claims, ended := make(chan report, times), make(chan error, 1)
	go func() {
		defer close(claims)
		ended <- claimAll(b.engine, times, func(r report) error {
			claims <- r
			return nil
		})
	}()
	return func() (report, error) { return <-claims, nil }, func() error { return <-ended }, nil
}

// timeWake measures the time from the return of Append until another process has the event.
func timeWake(dir string, s settings) error {
	progress("wake")
	events := sealedEvents(samplesARound*s.rounds + 1)
	add, stop, err := openJournalStore(dir)
	if err != nil {
		return err
	}
	c, err := startChild("watch", dir, len(events))
	if err != nil {
		return err
	}
	var w stopwatch
	for i := range events {
		err := w.sample(c.receive, fmt.Sprint(i+1), func() (time.Time, error) {
			err := add(events[i : i+1])
			return time.Now(), err
		})
		if err != nil {
			return err
		}
	}
	// The child may not have watched yet at the first event.
	printLatencies("Wake", "append returned → another process has the event",
		latencies{"through the journal", w.took[1:], goalWake},
		latencies{fmt.Sprintf("a pause of %v is too long by", idle), w.overslept, 0})
	return errors.Join(c.Wait(), stop())
}
