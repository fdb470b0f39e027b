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
	// idle is the pause before each sample, in which whoever waits begins to.
	idle = 4 * time.Millisecond
)

// claimTask waits for work and claims it, so many times.
func claimTask(dir string, times int, tell func(said) error) error {
	b, err := openBox(dir)
	if err != nil {
		return err
	}
	return errors.Join(claimAll(b.engine, times, tell), b.close())
}

func claimAll(e *engine.Engine, times int, tell func(said) error) error {
	for i := range times {
		id := fmt.Sprintf("%d-%d", os.Getpid(), i)
		claim := rules.Claim{Role: signalbox.RoleDeveloper, Session: id, Actor: "developer-1", Lease: id}
		answer, err := e.DoWhenPossible(context.Background(), claim)
		if err != nil {
			return err
		}
		if err := tell(said{What: answer.Work, At: time.Now().UnixNano(), Events: answer.Seq}); err != nil {
			return err
		}
	}
	return nil
}

// watchTask tells when it has an event, for each of so many.
func watchTask(dir string, times int, tell func(said) error) error {
	j, err := openJournal(dir)
	if err != nil {
		return err
	}
	defer j.Close()
	for e, err := range j.Watch(context.Background(), 0) {
		if err != nil {
			return err
		}
		now := time.Now().UnixNano()
		if err := tell(said{What: strconv.FormatUint(e.Seq, 10), At: now}); err != nil || e.Seq == uint64(times) {
			return err
		}
	}
	return nil
}

// stopwatch collects how long things took. To know what the machine makes of any time, it also has by how much too long
// the pauses were in which nothing happened.
type stopwatch struct{ took, overslept []time.Duration }

// sample does something after a pause, and notes how long it took from the time that do returns until what was to come of it
// had come.
func (w *stopwatch) sample(hear func() (said, error), what string, do func() (time.Time, error)) error {
	slept := time.Now()
	time.Sleep(idle)
	w.overslept = append(w.overslept, time.Since(slept)-idle)
	start, err := do()
	if err != nil {
		return err
	}
	told, err := hear()
	if err == nil && told.What != what {
		err = fmt.Errorf("heard of %q, want %q", told.What, what)
	}
	w.took = append(w.took, time.Duration(told.At-start.UnixNano()))
	return err
}

// latencies are a row of samples.
type latencies struct {
	name string
	took []time.Duration
	goal time.Duration // of the 99th percentile; 0 is none
}

func printLatencies(title, header string, rows ...latencies) {
	var t table
	t.row(header, "samples", "p50 ms", "p90 ms", "p99 ms", "goal for p99")
	milliseconds := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1000) }
	for _, l := range rows {
		cells := []string{l.name, fmt.Sprint(len(l.took))}
		for _, hundredths := range []int{50, 90, 99} {
			cells = append(cells, milliseconds(percentile(l.took, hundredths)))
		}
		goal := ""
		if l.goal > 0 {
			goal = verdict("≤ "+milliseconds(l.goal)+" ms", percentile(l.took, 99) <= l.goal)
		}
		t.row(append(cells, goal)...)
	}
	t.print(title)
}

// timeHandOver measures from handing in an exit signal until the next worker, who waits, has claimed the work.
func timeHandOver(dir string, s settings) error {
	var inside, across stopwatch
	var syncs []time.Duration
	samples := samplesARound * s.rounds
	if err := errors.Join(handOver(dir, false, samples, &inside, &syncs), handOver(dir, true, samples, &across, &syncs)); err != nil {
		return err
	}
	printLatencies("Hand-over", "exit signal handed in → next worker has claimed",
		latencies{"in one process", inside.took, goalHandOver + percentile(syncs, 99)},
		latencies{"across processes", across.took, goalAcross},
		latencies{"two writes of 4 KiB, each synced, meanwhile", syncs, 0},
		latencies{fmt.Sprintf("a pause of %v is too long by", idle), append(inside.overslept, across.overslept...), 0})
	return nil
}

// handOver hands in exit signals, one at a time, and after each writes to the disk twice.
func handOver(dir string, across bool, samples int, w *stopwatch, syncs *[]time.Duration) error {
	progress("hand-over, across processes: %v", across)
	dir, err := folderIn(dir, fmt.Sprint(across))
	if err != nil {
		return err
	}
	pages, err := newDisk(dir)
	if err != nil {
		return err
	}
	b, err := openBox(dir)
	if err != nil {
		return err
	}
	if err := together(samples, b.draft); err != nil {
		return err
	}
	hear, wait, err := b.claim(dir, across, samples)
	if err != nil {
		return err
	}
	exits := newAuthor()
	for i := range samples {
		if err := b.engine.Refresh(context.Background()); err != nil { // as one that follows would have done
			return err
		}
		err := w.sample(hear, workID(i), func() (time.Time, error) {
			start := time.Now()
			_, err := b.engine.Do(context.Background(), exits.exit(workID(i), signalbox.PhaseDraft, signalbox.ExitCompleted))
			return start, err
		})
		start := time.Now()
		if err := errors.Join(err, pages.writePage(), pages.writePage()); err != nil {
			return err
		}
		*syncs = append(*syncs, time.Since(start))
	}
	return errors.Join(wait(), b.close(), pages.Close())
}

func workID(i int) string { return fmt.Sprintf("task-%d", i) }

// draft opens work in DRAFT, and claims it in a session of the same name.
func (b *benchBox) draft(i int) error {
	id := workID(i)
	_, err := b.engine.Do(context.Background(), rules.OpenWork{Work: id, Title: "Show the total", Phase: signalbox.PhaseDraft, Actor: "operator"})
	if err == nil {
		_, err = b.engine.Do(context.Background(), rules.Claim{Work: id, Role: signalbox.RoleBusinessAnalyst, Session: id, Actor: "analyst-1", Lease: id})
	}
	return err
}

// claim begins to claim what there is for developers, so many times, through the same engine or that of another process.
func (b *benchBox) claim(dir string, across bool, times int) (hear func() (said, error), wait func() error, err error) {
	if across {
		c, err := startChild("claim", dir, times)
		if err != nil {
			return nil, nil, err
		}
		return c.hear, c.Wait, nil
	}
	claims, ended := make(chan said, times), make(chan error, 1)
	go func() {
		defer close(claims)
		ended <- claimAll(b.engine, times, func(s said) error {
			claims <- s
			return nil
		})
	}()
	return func() (said, error) { return <-claims, nil }, func() error { return <-ended }, nil
}

// timeWake measures from an append's return until another process has the event.
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
		err := w.sample(c.hear, fmt.Sprint(i+1), func() (time.Time, error) {
			err := add(events[i : i+1])
			return time.Now(), err
		})
		if err != nil {
			return err
		}
	}
	// At the first event the child may not have watched yet.
	printLatencies("Wake", "append returned → another process has the event", latencies{"through the journal", w.took[1:], goalWake},
		latencies{fmt.Sprintf("a pause of %v is too long by", idle), w.overslept, 0})
	return errors.Join(c.Wait(), stop())
}
