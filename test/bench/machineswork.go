package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"signalbox/internal/core/rules"
	"signalbox/internal/text"
)

const (
	slice = 250 * time.Millisecond // the time between two reports of a worker
	// of each worker that count: the first ones in which all workers were at work
	workSlices = 8
)

// workTask executes commands, each of which appends one event, one after the other until it is
// killed. It follows the log, as a worker does, and reports how long each command took.
func workTask(place string, number int, send func(report) error) error {
	b, err := openBox(place)
	if err != nil {
		return err
	}
	followed := make(chan error, 1)
	go func() { followed <- b.engine.Follow(context.Background()) }()
	for n := b.engine.Tail().Seq; ; { // so that other workers before it have not used these names
		start := time.Now()
		r := report{What: fmt.Sprint(number), At: start.UnixNano()}
		for time.Since(start) < slice {
			before := time.Now()
			c := rules.OpenWork{Work: fmt.Sprintf("task-%d-%d", number, n),
				Title: "Show the total of an order on its page", Actor: "operator"}
			if _, err := b.engine.Do(context.Background(), c); err != nil {
				return err
			}
			n++
			r.Took = append(r.Took, time.Since(before))
		}
		r.Lasted = time.Since(start)
		select {
		case err := <-followed:
			return err
		default:
		}
		if r.Resident, err = peakResident(); err != nil {
			return err
		}
		if err := send(r); err != nil {
			return err
		}
	}
}

// crowd is a number of workers, each a process of its own, on a number of boxes.
type crowd struct {
	name    string
	workers int
	places  []string // of the boxes; worker i uses places[i%len(places)]

	rate        float64 // events a second, of all workers
	took        []time.Duration
	resident    int64 // of the largest process
	connections int   // to the database, of all processes
}

// run starts the workers, measures the given number of slices of each while all workers are busy,
// and ends them.
func (c *crowd) run(slices int, countConnections func() (int, error)) (err error) {
	workers := make([]*child, c.workers)
	defer func() {
		for _, w := range workers {
			if w != nil {
				w.Process.Kill()
				w.Wait() // it was killed
			}
		}
	}()
	for i := range workers {
		if workers[i], err = startChild("work", c.places[i%len(c.places)], i); err != nil {
			return err
		}
	}
	var started sync.WaitGroup // until each worker has sent a report
	started.Add(c.workers)
	var begun time.Time
	allBegun := sync.OnceFunc(func() { started.Wait(); begun = time.Now() })
	measured := make([][]report, c.workers)
	err = parallel(c.workers, func(i int) error {
		_, err := workers[i].receive()
		started.Done()
		if err != nil {
			return err
		}
		for allBegun(); len(measured[i]) < slices; {
			r, err := workers[i].receive()
			if err != nil {
				return err
			}
			if r.At >= begun.UnixNano() {
				measured[i] = append(measured[i], r)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, reports := range measured {
		events, lasted := 0, time.Duration(0)
		for _, r := range reports {
			events, lasted = events+len(r.Took), lasted+r.Lasted
			c.took, c.resident = append(c.took, r.Took...), max(c.resident, r.Resident)
		}
		c.rate += float64(events) / lasted.Seconds()
	}
	c.connections, err = countConnections()
	return err
}

// check returns an error unless the logs verify and have at least the events that were counted.
func (c *crowd) check() error {
	stored := 0
	for _, place := range c.places {
		j, err := openJournal(place)
		if err != nil {
			return err
		}
		events, err := verifyJournal(j, 0)
		if err := errors.Join(err, j.Close()); err != nil {
			return err
		}
		stored += int(events)
	}
	if stored < len(c.took) {
		return fmt.Errorf("the logs have %d events, want at least %d", stored, len(c.took))
	}
	return nil
}

// compareCrowds measures several workers on one box, and several boxes with a worker each.
func compareCrowds(name string, db database, s settings) error {
	var crowds []*crowd
	for _, workers := range s.workers {
		crowds = append(crowds,
			&crowd{name: fmt.Sprintf("%s on one box", text.Count(workers, "worker")),
				workers: workers, places: []string{db.place(fmt.Sprintf("workers_%d", workers))}})
	}
	for _, boxes := range s.boxes {
		c := &crowd{name: fmt.Sprintf("1 worker on each of %d boxes", boxes), workers: boxes}
		for i := range boxes {
			c.places = append(c.places, db.place(fmt.Sprintf("boxes_%d_%d", boxes, i)))
		}
		crowds = append(crowds, c)
	}
	var t table
	t.row("one event a command, every worker a process", "events a second", "p50 ms", "p99 ms",
		"peak resident MB a process", "connections a process")
	for _, c := range crowds {
		progress("%s: %s", name, c.name)
		for _, place := range c.places { // workers would all try to make it
			if err := openAndClose(place); err != nil {
				return err
			}
		}
		if err := c.run(workSlices, db.connections); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if err := c.check(); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		t.row(c.name, fmt.Sprintf("%.0f", c.rate), formatMilliseconds(percentile(c.took, 50)),
			formatMilliseconds(percentile(c.took, 99)),
			fmt.Sprintf("%.0f", float64(c.resident)/megabyte),
			fmt.Sprintf("%.1f", float64(c.connections)/float64(c.workers)))
	}
	t.print(fmt.Sprintf("Workers and boxes on %s (%v each)", name, slice*workSlices))
	return nil
}
