package stream

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// memory is a ledger in memory.
type memory struct {
	mu     sync.Mutex
	events []signalbox.Event
	grown  chan struct{}
}

func newMemory(n int) *memory {
	m := &memory{grown: make(chan struct{})}
	m.append(n)
	return m
}

func (m *memory) append(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range n {
		seq := uint64(len(m.events) + 1)
		work := fmt.Sprintf("T%d", seq%3)
		m.events = append(m.events, signalbox.Event{Seq: seq, Type: "Happened", Work: work,
			Data: []byte("{}")})
	}
	close(m.grown)
	m.grown = make(chan struct{})
}

func (m *memory) Read(_ context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if after >= uint64(len(m.events)) {
		return nil, nil
	}
	rest := m.events[after:]
	return rest[:min(len(rest), limit)], nil
}

func (m *memory) Watch(ctx context.Context, after uint64) iter.Seq2[signalbox.Event, error] {
	return func(yield func(signalbox.Event, error) bool) {
		for {
			m.mu.Lock()
			grown := m.grown
			m.mu.Unlock()
			events, _ := m.Read(ctx, after, 100)
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
			if len(events) > 0 {
				continue
			}
			select {
			case <-grown:
			case <-ctx.Done():
				yield(signalbox.Event{}, ctx.Err())
				return
			}
		}
	}
}

// TestNextHasNoGaps reads from every position, in memory and behind it.
func TestNextHasNoGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		m := newMemory(2 * keptEvents)
		h := NewHub(m, 100)
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		synctest.Wait()
		if len(h.recent) > keptEvents {
			t.Errorf("%d events in memory, limit %d", len(h.recent), keptEvents)
		}
		for _, after := range []uint64{0, 1, 99, keptEvents - 1, keptEvents, keptEvents + 1,
			2*keptEvents - 1} {
			for want := after; want < uint64(2*keptEvents); {
				entries, err := h.Next(ctx, want)
				if err != nil || len(entries) == 0 {
					t.Fatalf("Next(%d) = %d events, %v", want, len(entries), err)
				}
				for _, e := range entries {
					if want++; e.Seq != want {
						t.Fatalf("after %d: got event %d, want %d", after, e.Seq, want)
					}
				}
			}
		}
		got := make(chan []Entry)
		go func() {
			entries, _ := h.Next(ctx, uint64(2*keptEvents))
			got <- entries
		}()
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("Next returned before there was an event")
		default:
		}
		m.append(1)
		if entries := <-got; len(entries) != 1 || entries[0].Seq != uint64(2*keptEvents+1) {
			t.Errorf("Next = %v", entries)
		}
		stop()
		if err := <-ended; err != context.Canceled {
			t.Error("Run returned", err)
		}
		if _, err := h.Next(t.Context(), uint64(2*keptEvents+1)); err != context.Canceled {
			t.Error("Next after the end returned", err)
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	h := NewHub(newMemory(0), 0)
	large := make([]byte, keptBytes/4)
	for i := range 20 {
		h.add(Entry{Seq: uint64(i + 1), JSON: large})
	}
	if h.bytes > keptBytes || len(h.recent) == 0 {
		t.Errorf("%d events with %d bytes in memory, limit %d", len(h.recent), h.bytes, keptBytes)
	}
	h.add(Entry{Seq: 21, JSON: make([]byte, 2*keptBytes)})
	if len(h.recent) != 1 {
		t.Errorf("%d events in memory besides one that is too large", len(h.recent))
	}
}

func allow() error { return nil }

// client reads a stream of server-sent events as a browser does.
type client struct {
	last string
	got  []uint64
}

// read connects and reads some events, then cuts the connection.
func (c *client) read(t *testing.T, url string, events int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	must.Succeed(t, err)
	r.Header.Set("Last-Event-ID", c.last)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return // the server is being restarted
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	id, data := "", ""
	for events > 0 {
		line, err := lines.ReadString('\n')
		if err != nil {
			if err != io.EOF && ctx.Err() == nil {
				return // the server cut the connection
			}
			return
		}
		switch line = strings.TrimSuffix(line, "\n"); {
		case strings.HasPrefix(line, "id: "):
			id = line[4:]
		case strings.HasPrefix(line, "data: "):
			data = line[6:]
		case line == "": // only a complete event counts
			if id != "" {
				c.last = id
			}
			if data != "" {
				var e signalbox.Event
				must.Succeed(t, json.Unmarshal([]byte(data), &e))
				c.got = append(c.got, e.Seq)
				events--
			}
			id, data = "", ""
		}
	}
}

// TestStreamSurvivesCuts cuts the connection, and restarts the server, a hundred times at random:
// the client gets each event once.
func TestStreamSurvivesCuts(t *testing.T) {
	const total = 3000
	random := rand.New(rand.NewPCG(1, 2))
	m := newMemory(10)
	var hub *Hub
	var stop context.CancelFunc
	var stopped chan struct{}
	start := func() {
		ctx, cancel := context.WithCancel(context.Background())
		// a hub starts with as much memory as it has seen
		head := uint64(random.IntN(len(m.events)))
		hub, stop, stopped = NewHub(m, head), cancel, make(chan struct{})
		h, done := hub, stopped
		go func() {
			defer close(done)
			h.Run(ctx)
		}()
	}
	start()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		after, _ := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64)
		hub.Serve(r.Context(), w, after, Filter{}, allow)
	}))
	defer server.Close()
	c := &client{last: "0"}
	for cut := 0; len(c.got) < total || cut < 100; cut++ {
		if missing := total - len(m.events); missing > 0 {
			m.append(min(missing, random.IntN(60)))
		}
		if random.IntN(4) == 0 {
			stop()
			<-stopped
			start()
		}
		left := len(m.events) - len(c.got)
		if left == 0 && len(m.events) == total && cut >= 100 {
			break
		}
		if left > 0 {
			c.read(t, server.URL, 1+random.IntN(left))
		}
	}
	stop()
	<-stopped
	if len(c.got) != total {
		t.Fatalf("got %d events, want %d", len(c.got), total)
	}
	for i, seq := range c.got {
		if seq != uint64(i+1) {
			t.Fatalf("event %d of the client has the number %d", i+1, seq)
		}
	}
}

// TestFilteredStreamsResume skips the events of other work, also when it resumes.
func TestFilteredStreamsResume(t *testing.T) {
	m := newMemory(300)
	h := NewHub(m, 300)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go h.Run(ctx)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		after, _ := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64)
		h.Serve(r.Context(), w, after, Filter{Work: "T1"}, allow)
	}))
	defer server.Close()
	c := &client{last: "0"}
	for len(c.got) < 100 {
		c.read(t, server.URL, min(7, 100-len(c.got)))
	}
	for i, seq := range c.got {
		if want := uint64(3*i + 1); seq != want {
			t.Fatalf("event %d of the client has the number %d, want %d", i, seq, want)
		}
	}
}
