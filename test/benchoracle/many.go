package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/oracle/chunk"
)

const (
	// manyTurns is how many turns each of many conversations has: one with a tool call, and the answer.
	manyTurns = 2
	// filesEach is what a conversation has open: its record, its journal and its connection.
	filesEach = 3
)

// manyPace is that of the answers. Five thousand pieces a second from a thousand models is a load, and not all that two cores
// can do.
var manyPace = pace{pieces: 20, every: 200 * time.Millisecond}

// measureMany has many conversations open at once.
func measureMany(ctx context.Context, s settings) error {
	n := s.many
	if allowed := openFilesAllowed(); allowed > 0 && n*filesEach+100 > allowed {
		n = (allowed - 100) / filesEach
		fmt.Printf("\nThe system allows %d open files: %d conversations at once, in place of %d. Raise the hard limit (ulimit -Hn).\n", allowed, n, s.many)
	}
	script := newScript(manyTurns, manyPace)
	for i := range script.Conversations {
		script.Conversations[i].Turns[0].Every = 0 // only the answers wait at the gate
	}
	server, err := startServer(script, true)
	if err != nil {
		return err
	}
	stopped := false
	defer func() {
		if !stopped {
			_ = server.stop()
		}
	}()
	place, err := newSite(ctx, s.dir, server.url, nil)
	if err != nil {
		return err
	}
	m := &many{site: place, server: server, n: n, all: make(chan struct{}), profile: s.profile}
	err = m.run(ctx)
	stopped = true
	if err = errors.Join(err, server.stop()); err == nil {
		err = m.verify(ctx)
	}
	if err == nil {
		m.print(s.many)
	}
	return errors.Join(err, place.close())
}

// standing is what a process has at one moment.
type standing struct {
	at         time.Time
	cpu        time.Duration
	resident   int64 // bytes of memory
	live       int64 // bytes of the heap and of stacks that are in use
	goroutines int
	files      int
}

func stand() standing {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return standing{at: time.Now(), cpu: ownTime(), resident: resident("VmRSS"), live: int64(m.HeapAlloc + m.StackInuse),
		goroutines: runtime.NumGoroutine(), files: openFiles()}
}

// many is a number of conversations.
type many struct {
	site   *site
	server *server
	n      int
	// open counts those between the first words of their answer and its end, and most is the most that it was.
	open, most atomic.Int64
	all        chan struct{} // closed when all are open
	// profile is the file for a profile of the processor's time; that of the heap with all open is put beside it.
	profile string

	before, during, after standing
	left                  int // goroutines, when the idle connections are closed
	events                uint64
}

func (m *many) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.before = stand()
	var group sync.WaitGroup
	errs := make(chan error, m.n)
	for i := range m.n {
		group.Go(func() { errs <- m.talk(ctx, i) })
	}
	ended := make(chan struct{})
	go func() { group.Wait(); close(ended) }()
	select {
	case <-m.all:
	case err := <-errs:
		cancel()
		<-ended
		return fmt.Errorf("a conversation ended before all %d were open: %w", m.n, err)
	case <-time.After(5 * time.Minute):
		cancel()
		<-ended
		return fmt.Errorf("after five minutes only %d conversations are open", m.most.Load())
	}
	m.during = stand()
	if err := errors.Join(m.heap(), m.server.openGate()); err != nil {
		cancel()
		<-ended
		return err
	}
	<-ended
	m.after = stand()
	m.left = m.leftOver()
	close(errs)
	var wrong []error
	for err := range errs {
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}

// heap writes a profile of the heap, if a profile is wanted.
func (m *many) heap() error {
	if m.profile == "" {
		return nil
	}
	f, err := os.Create(m.profile + ".heap")
	if err != nil {
		return err
	}
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}

// leftOver closes idle connections, whose goroutines need a moment to end, and counts those that are left.
func (m *many) leftOver() int {
	for _, c := range m.site.clients {
		c.Close()
	}
	left := runtime.NumGoroutine()
	for range 100 {
		if left <= m.before.goroutines {
			break
		}
		time.Sleep(10 * time.Millisecond)
		left = runtime.NumGoroutine()
	}
	return left
}

func (m *many) talk(ctx context.Context, i int) error {
	begun := false
	_, err := m.site.hold(ctx, talk{provider: i % len(providers), variant: i % variants, turns: manyTurns, pieces: manyPace.pieces, tools: true, each: func(c chunk.Chunk) {
		switch c := c.(type) {
		case chunk.Content:
			if c.Turn == manyTurns && !begun {
				begun = true
				open := m.open.Add(1)
				for most := m.most.Load(); open > most && !m.most.CompareAndSwap(most, open); most = m.most.Load() {
				}
				if open == int64(m.n) {
					close(m.all)
				}
			}
		case chunk.Done:
			if begun {
				m.open.Add(-1)
			}
		}
	}})
	return err
}

// verify looks at the ledger: it holds together, and has each signal of each conversation once.
func (m *many) verify(ctx context.Context) error {
	report, err := m.site.box.Verify(ctx, box.VerifyOptions{})
	if err != nil {
		return err
	}
	if !report.OK || report.Unjudged != nil {
		return fmt.Errorf("the ledger does not verify: %+v", report)
	}
	heard := map[string]map[string]int{}
	for e, err := range m.site.box.Events(ctx, 0) {
		if err != nil {
			return err
		}
		m.events++
		if e.Type != rules.TypeTurnSignalHeard {
			continue
		}
		var s rules.TurnSignalHeard
		if err := json.Unmarshal(e.Data, &s); err != nil {
			return err
		}
		if heard[s.Run] == nil {
			heard[s.Run] = map[string]int{}
		}
		heard[s.Run][s.Signal]++
	}
	if len(heard) != m.n {
		return fmt.Errorf("the ledger has signals of %d conversations, not %d", len(heard), m.n)
	}
	for run, signals := range heard {
		if len(signals) != 2 || signals["need_turn"] != 1 || signals["context_sufficient"] != 1 {
			return fmt.Errorf("the ledger has of run %s: %v", run, signals)
		}
	}
	return nil
}

func (m *many) print(wanted int) {
	each := func(n int64) string { return fmt.Sprintf("%.1f", float64(n)/float64(m.n)) }
	var t table
	t.row("many at once", "value", "")
	t.row("conversations between the first words of their answer and its end, at one moment", fmt.Sprint(m.most.Load()), verdict(fmt.Sprintf("≥ %d", wanted), m.most.Load() >= int64(wanted)))
	t.row("conversations with the right text, done once, and both signals on the ledger", fmt.Sprint(m.n), verdict("all", true))
	t.row("seconds until all were open", fmt.Sprintf("%.1f", m.during.at.Sub(m.before.at).Seconds()), "")
	t.row("seconds from there until all were done", fmt.Sprintf("%.1f", m.after.at.Sub(m.during.at).Seconds()), fmt.Sprintf("%.1f by the script", manyPace.takes().Seconds()))
	t.row("processor time, ms a conversation", ms((m.after.cpu-m.before.cpu)/time.Duration(m.n)), "of the oracle's process")
	t.row("processor time of the model server, ms a conversation", ms(m.server.cpu()/time.Duration(m.n)), "")
	if m.before.resident > 0 {
		t.row("resident memory before, with all open, and the peak, MB", fmt.Sprintf("%.0f, %.0f, %.0f", mb(m.before.resident), mb(m.during.resident), mb(resident("VmHWM"))), "")
		t.row("resident memory, KB a conversation", each((m.during.resident-m.before.resident)/1000), "after a collection")
	}
	t.row("heap and stacks in use, KB a conversation", each((m.during.live-m.before.live)/1000), "")
	t.row("goroutines a conversation", each(int64(m.during.goroutines-m.before.goroutines)), fmt.Sprintf("%d in all before, %d after", m.before.goroutines, m.left))
	if m.before.files > 0 {
		t.row("open files a conversation", each(int64(m.during.files-m.before.files)), fmt.Sprintf("%d are allowed", openFilesAllowed()))
	}
	t.row("events on the ledger, which verifies", fmt.Sprint(m.events), "")
	t.print(fmt.Sprintf("%d conversations at once: %d turns, a tool call, %d pieces a reply", m.n, manyTurns, manyPace.pieces))
}

// takes is how long the gaps between the pieces of an answer are in all.
func (p pace) takes() time.Duration {
	return time.Duration(p.pieces+len(signal(manyTurns, manyTurns))-1) * p.every
}

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }
