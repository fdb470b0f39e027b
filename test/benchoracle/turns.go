package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"signalbox/internal/oracle/session"
)

const goalTurn = 2 * time.Millisecond

// memoryFolder is where Linux has files in memory.
const memoryFolder = "/dev/shm"

// measureTurns tells what the oracle adds to the model's time.
func measureTurns(ctx context.Context, s settings) (err error) {
	quick := pace{pieces: pieces}
	script := newScript(turnsEach, quick)
	questions := min(100, 2*s.rounds)
	addLong(script, questions, quick)
	server, err := startServer(script, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	contestants := []*contestant{{title: "on the disk", dir: s.dir}}
	if _, err := os.Stat(memoryFolder); err == nil {
		contestants = append(contestants, &contestant{title: "in memory", dir: memoryFolder})
	}
	for _, c := range contestants {
		if c.site, err = newSite(ctx, c.dir, server.url, nil); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.site.close()) }()
	}
	var synced samples
	for round := range s.rounds {
		for _, c := range contestants {
			if err := c.once(ctx, round); err != nil {
				return err
			}
			written, err := syncedWrites(s.dir, turnsEach)
			if err != nil {
				return err
			}
			synced = append(synced, written...)
		}
	}
	var t table
	t.row("overhead of a turn", "turns", "p50 ms", "p90 ms", "p99 ms", "goal for p99")
	for _, c := range contestants {
		c.rows(&t)
	}
	t.percentiles("4 KiB written and synced, meanwhile", synced, 0)
	t.print(fmt.Sprintf("A turn beside the model's own time: %d pieces of text a reply", pieces))
	if err := measureLong(ctx, contestants, questions); err != nil {
		return err
	}
	return printClients(ctx, server.url, 5*s.rounds)
}

// contestant is a place to write to.
type contestant struct {
	title, dir string
	site       *site
	// turns are by protocol and with or without tools.
	turns [len(providers)][2][]turnTime
}

// once has one conversation of each kind.
func (c *contestant) once(ctx context.Context, round int) error {
	for p := range providers {
		for tools := range 2 {
			took, err := c.site.hold(ctx, talk{provider: p, variant: round % variants, turns: turnsEach, pieces: pieces, tools: tools == 1})
			if err != nil {
				return err
			}
			if round > 0 { // the first has connections to make
				c.turns[p][tools] = append(c.turns[p][tools], took.turns...)
			}
		}
	}
	return nil
}

// rows adds what was measured to a table.
func (c *contestant) rows(t *table) {
	var all, first, callbacks, between samples
	for p, name := range providers {
		for tools, with := range []string{"without tools", "with a tool call in all turns but the last"} {
			var kind samples
			for i, turn := range c.turns[p][tools] {
				kind = append(kind, turn.overhead())
				callbacks = append(callbacks, turn.callbacks)
				between = append(between, turn.between)
				if i%turnsEach == 0 {
					first = append(first, turn.overhead())
				}
			}
			t.percentiles(fmt.Sprintf("%s, %s, %s", c.title, name, with), kind, 0)
			all = append(all, kind...)
		}
	}
	t.percentiles(c.title+", all of these", all, goalTurn)
	t.percentiles("… the first turn of each question", first, 0)
	t.percentiles(fmt.Sprintf("… while the reply comes, about %d pieces", pieces+5), callbacks, 0)
	t.percentiles("… between replies: tools called, signal heard and recorded, decision", between, 0)
}

// syncedWrites tells what the disk takes by itself.
func syncedWrites(dir string, n int) (samples, error) {
	f, err := os.CreateTemp(dir, "benchoracle-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var took samples
	block := make([]byte, 4096)
	for range n {
		begun := time.Now()
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begun))
	}
	return took, nil
}

// measureLong compares the beginning and the end of a conversation of many questions. It is in memory, if that can be, since a
// disk differs more from one minute to the next than what is looked for.
func measureLong(ctx context.Context, contestants []*contestant, questions int) (err error) {
	c := contestants[len(contestants)-1]
	kept, err := session.Create(c.site.sessions(), "O-long")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	var inner, last samples // turns that another follows, and the last ones of questions
	for i := range questions {
		took, err := c.site.ask(ctx, kept, talk{turns: turnsEach, pieces: pieces}, fmt.Sprintf("What does the %s do? Question %d.", longTopic, i))
		if err != nil {
			return err
		}
		for n, turn := range took.turns {
			if n == len(took.turns)-1 {
				last = append(last, turn.overhead())
			} else {
				inner = append(inner, turn.overhead())
			}
		}
	}
	var t table
	t.row("overhead, median", "first fifth, ms", "last fifth, ms", "last ÷ first")
	for _, kind := range []struct {
		title string
		took  samples
	}{{"turns that another follows", inner}, {"last turns of questions", last}} {
		part := len(kind.took) / 5
		begin, end := kind.took[:part].at(50), kind.took[len(kind.took)-part:].at(50)
		t.row(kind.title, ms(begin), ms(end), fmt.Sprintf("%.2f", float64(end)/float64(begin)))
	}
	t.print(fmt.Sprintf("A long conversation: %d questions, %d turns, %s", questions, questions*turnsEach, c.title))
	return nil
}

func printClients(ctx context.Context, url string, rounds int) error {
	ours, bare, size, err := compareClients(ctx, url, rounds)
	if err != nil {
		return err
	}
	var t table
	t.row("one reply", "replies", "p50 ms", "p99 ms", "own part, p50 ms", "own part, p99 ms", "own part, × bare")
	for i, name := range providers {
		for _, c := range []struct {
			title string
			times clientTimes
		}{{"client of " + string(name), ours[i]}, {"bare net/http, " + string(name), bare[i]}} {
			t.row(c.title, fmt.Sprint(len(c.times.whole)), ms(c.times.whole.at(50)), ms(c.times.whole.at(99)), ms(c.times.own.at(50)), ms(c.times.own.at(99)),
				fmt.Sprintf("%.1f", float64(c.times.own.at(50))/float64(bare[i].own.at(50))))
		}
	}
	t.print(fmt.Sprintf("The model's client: a request of %d bytes, a reply of %d pieces", size, pieces+len(signal(1, turnsEach))))
	return nil
}
