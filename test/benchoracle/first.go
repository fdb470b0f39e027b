package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"signalbox/internal/oracle/chunk"
)

const (
	goalFirst = time.Millisecond
	// crowd is how many conversations there are at once.
	crowd = 100
)

// paces of replies of which only the beginning matters: a model that is alone, a hundred that answer at different moments, as
// models do, and a hundred that begin in the same one.
var (
	alonePace    = pace{pieces: 5, delay: 2 * time.Millisecond, every: time.Millisecond}
	spreadPace   = pace{pieces: 10, delay: 20 * time.Millisecond, spread: 17 * time.Millisecond, every: 20 * time.Millisecond}
	togetherPace = pace{pieces: 10, delay: 200 * time.Millisecond, every: 20 * time.Millisecond}
)

// measureFirst tells how long the first words of a reply take from the connection to whoever listens.
func measureFirst(ctx context.Context, s settings) error {
	var t table
	t.row("first content out of the connection → emitted", "replies", "p50 ms", "p90 ms", "p99 ms", "goal for p99")
	crowds := max(1, s.rounds/20)
	for _, c := range []struct {
		title      string
		pace       pace
		rounds, at int
		goal       time.Duration
	}{
		{title: "one conversation", pace: alonePace, rounds: s.rounds, at: 1, goal: goalFirst},
		{title: fmt.Sprintf("%d conversations at once", crowd), pace: spreadPace, rounds: crowds, at: crowd, goal: goalFirst},
		{title: fmt.Sprintf("%d conversations at once, begun in the same moment", crowd), pace: togetherPace, rounds: crowds, at: crowd},
	} {
		ours, bare, err := firstWords(ctx, s, c.pace, c.rounds, c.at)
		if err != nil {
			return fmt.Errorf("%s: %w", c.title, err)
		}
		t.percentiles(c.title, ours, c.goal)
		t.percentiles("… a bare reader of as many streams", bare, 0)
	}
	t.print("First words")
	return nil
}

// firstWords has conversations, at of them at once, and as many bare streams beside the last reply of each.
func firstWords(ctx context.Context, s settings, p pace, rounds, at int) (ours, bare samples, err error) {
	server, err := startServer(newScript(turnsEach, p), false)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	transport := newTransport()
	defer transport.CloseIdleConnections()
	place, err := newSite(ctx, s.dir, server.url, transport)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, place.close()) }()
	for round := range rounds {
		requests := make([]*tap, at)
		all, err := together(at, func(i int) (samples, error) {
			requests[i] = &tap{}
			return oursFirst(ctx, place, requests[i], talk{provider: (i + round) % len(providers), variant: (i + round) % variants, turns: turnsEach, pieces: p.pieces})
		})
		if err != nil {
			return nil, nil, err
		}
		ours = append(ours, all...)
		all, err = together(at, func(i int) (samples, error) {
			return bareFirst(ctx, server.url, transport, requests[i])
		})
		if err != nil {
			return nil, nil, err
		}
		bare = append(bare, all...)
	}
	return ours, bare, nil
}

// together does something in n goroutines at once.
func together(n int, do func(i int) (samples, error)) (samples, error) {
	var mu sync.Mutex
	var all samples
	var errs []error
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			some, err := do(i)
			mu.Lock()
			defer mu.Unlock()
			all, errs = append(all, some...), append(errs, err)
		})
	}
	group.Wait()
	return all, errors.Join(errs...)
}

// oursFirst has a conversation.
func oursFirst(ctx context.Context, place *site, line *tap, t talk) (samples, error) {
	var took samples
	t.each = func(c chunk.Chunk) {
		if _, is := c.(chunk.Content); is && !line.counted {
			took = append(took, time.Since(line.arrived))
			line.counted = true
		}
	}
	_, err := place.hold(context.WithValue(ctx, tapKey{}, line), t)
	if err == nil && len(took) != t.turns {
		err = fmt.Errorf("%d first words in %d turns", len(took), t.turns)
	}
	return took, err
}

// bareFirst asks once more what a conversation asked last.
func bareFirst(ctx context.Context, url string, transport http.RoundTripper, asked *tap) (samples, error) {
	var took samples
	line := &tap{}
	err := bareReply(context.WithValue(ctx, tapKey{}, line), &http.Client{Transport: transport}, url+asked.path, asked.sent, func(string) {
		if took == nil {
			took = samples{time.Since(line.arrived)}
		}
	})
	return took, err
}
