package nats

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/natsserver"
)

// proxy is between a client and a server. It breaks the first connection on which a marked message
// is sent.
type proxy struct {
	listener net.Listener
	mark     string
	forward  bool   // the marked message reaches the server, and its answer is lost
	broken   func() // called before the connection breaks

	once   sync.Once
	mu     sync.Mutex
	server string     // guarded by mu
	conns  []net.Conn // of clients; guarded by mu
	paused bool       // connections are refused; guarded by mu
}

// pause breaks all connections and refuses new ones, or allows them again.
func (p *proxy) pause(paused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused = paused; paused {
		for _, conn := range p.conns {
			conn.Close()
		}
	}
}

// redirect breaks all connections and makes new ones to another server.
func (p *proxy) redirect(address string) {
	p.pause(true)
	p.mu.Lock()
	p.server = strings.TrimPrefix(address, "nats://")
	p.mu.Unlock()
	p.pause(false)
}

func startProxy(t *testing.T, address string, p *proxy) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	p.listener, p.server = listener, strings.TrimPrefix(address, "nats://")
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			if p.paused {
				client.Close()
			}
			p.conns = append(p.conns, client)
			p.mu.Unlock()
			go p.serve(client)
		}
	}()
	return "nats://" + listener.Addr().String()
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	address := p.server
	p.mu.Unlock()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	var (
		mu   sync.Mutex
		mute bool
	)
	go func() {
		buffer := make([]byte, 1<<16)
		for {
			n, err := server.Read(buffer)
			mu.Lock()
			silent := mute
			mu.Unlock()
			if err != nil || silent {
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 1<<20)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if bytes.Contains(buffer[:n], []byte(p.mark)) {
			first := false
			p.once.Do(func() { first = true })
			if first {
				mu.Lock()
				mute = true
				mu.Unlock()
				if p.forward {
					_, _ = server.Write(buffer[:n])
				}
				p.broken()
				return
			}
		}
		if _, err := server.Write(buffer[:n]); err != nil && !errors.Is(err, io.EOF) {
			return
		}
	}
}

// An append whose answer is lost is sent again, and is stored once. If it was lost itself and
// somebody else has appended in the meantime, it is a conflict, even if they have appended the same
// events.
func TestConnectionBreaksInAnAppend(t *testing.T) {
	address := natsserver.Start(t, nil)
	for _, n := range []int{1, 3} {
		for name, test := range map[string]struct {
			forward, other bool
			want           error
		}{
			"the answer is lost":                         {true, false, nil},
			"the message is lost":                        {false, false, nil},
			"the message is lost, and another is stored": {false, true, journal.ErrConflict},
		} {
			t.Run(name, func(t *testing.T) {
				box := "/" + newName()
				other := openJournal(t, address+box)
				defer other.Close()
				events := testEvents(0, n)
				mark := jetstream.ExpectedLastSeqHeader
				if n > 1 {
					mark = batchCommit
				}
				p := &proxy{mark: mark, forward: test.forward, broken: func() {
					if test.other {
						if err := other.Append(context.Background(), 0, events); err != nil {
							t.Error(err)
						}
					}
					for test.forward { // until it is stored
						if head, err := other.Head(context.Background()); head > 0 || err != nil {
							return
						}
					}
				}}
				j, err := Open(t.Context(), startProxy(t, address, p)+box,
					Options{patience: time.Minute})
				must.Succeed(t, err)
				defer j.Close()
				if err := j.Append(t.Context(), 0, events); !errors.Is(err, test.want) {
					t.Errorf("append: %v, want %v", err, test.want)
				}
				if head, err := other.Head(t.Context()); head != uint64(n) || err != nil {
					t.Errorf("head is %d, %v", head, err)
				}
			})
		}
	}
}

// Servers that lost an event and stored another in its place do not let a process in that knows
// only the lost one: that would break the chain of hashes.
func TestAppendAfterLostEvent(t *testing.T) {
	box := "/" + newName()
	before, after := natsserver.Start(t, nil), natsserver.Start(t, nil)
	events := testEvents(0, 4)
	replaced := testEvents(0, 3)
	replaced[2].Hash[5] = 1
	other := openJournal(t, after+box)
	defer other.Close()
	must.Succeed(t, other.Append(t.Context(), 0, replaced))
	openJournal(t, before+box).Close()
	for name, mark := range map[string]string{"before the append": "no message has this",
		"in the append": jetstream.ExpectedLastSeqHeader + ": 3"} {
		t.Run(name, func(t *testing.T) {
			p := &proxy{mark: mark}
			p.broken = func() { p.redirect(after) }
			j, err := Open(t.Context(), startProxy(t, before, p)+box,
				Options{patience: time.Minute})
			must.Succeed(t, err)
			defer j.Close()
			if head, err := j.Head(t.Context()); err != nil {
				t.Fatal(err)
			} else if head == 0 {
				err = j.Append(t.Context(), 0, events[:3])
				must.Succeed(t, err)
			} else if _, err := j.Read(t.Context(), 0, 3); err != nil {
				t.Fatal(err)
			}
			if name == "before the append" {
				p.redirect(after)
			}
			if err := j.Append(t.Context(), 3,
				events[3:]); signalbox.CodeOf(err) != signalbox.CodeUsage {
				t.Errorf("append after a lost event: %v, want an error about its hash", err)
			}
			if head, err := other.Head(t.Context()); head != 3 || err != nil {
				t.Errorf("head is %d, %v, want 3", head, err)
			}
		})
	}
}

// A server that has just become the leader may not know the stream yet. If it stays unknown, it was
// deleted.
func TestUnknownStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &client{opts: Options{patience: time.Minute}}
		unknown := &jetstream.APIError{Code: 404, ErrorCode: jetstream.JSErrCodeStreamNotFound,
			Description: "stream not found"}
		calls := 0
		err := j.retry(t.Context(), func() error {
			if calls++; calls < 3 {
				return unknown
			}
			return nil
		})
		if err != nil || calls != 3 {
			t.Errorf("known in the end, after %d calls: %v", calls, err)
		}
		began := time.Now()
		err = j.retry(t.Context(), func() error { return unknown })
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "was deleted") ||
			took < unknownFor || took > 2*unknownFor {
			t.Errorf("deleted: after %v, %v", took, err)
		}
	})
}

// What was seen long ago, or by a call that began before the connection broke, is not trusted.
func TestLastKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal("shop", Options{})
		e := testEvents(4, 1)[0]
		want := func(seq uint64) {
			t.Helper()
			if got := j.lastKnown().seq; got != seq {
				t.Errorf("last known event is %d, want %d", got, seq)
			}
		}
		j.remember(&e, time.Now())
		want(5)
		time.Sleep(trustLast + 1)
		want(0)
		began := time.Now()
		j.remember(&testEvents(2, 1)[0], began)
		want(3)
		time.Sleep(time.Nanosecond)
		j.forgetLast()
		want(0)
		j.remember(&e, began)
		want(0)
		j.remember(&e, time.Now())
		want(5)
	})
}

// A watch continues after its connection broke, and sees at once what it missed.
func TestWatchSurvivesReconnect(t *testing.T) {
	address := natsserver.Start(t, nil)
	box := "/" + newName()
	other := openJournal(t, address+box)
	defer other.Close()
	p := &proxy{mark: "no message has this"}
	j, err := Open(t.Context(), startProxy(t, address, p)+box,
		Options{poll: time.Hour, patience: time.Minute})
	must.Succeed(t, err)
	defer j.Close()
	events := make(chan uint64)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(events)
		for e, err := range j.Watch(ctx, 0) {
			if err != nil {
				return
			}
			events <- e.Seq
		}
	}()
	for seq := range uint64(20) {
		if seq%5 == 4 {
			for range 20 { // meanwhile the watch has read to the end, and waits
				if _, err := j.Head(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			p.pause(true)
		}
		must.Succeed(t, other.Append(t.Context(), seq, testEvents(seq, 1)))
		p.pause(false)
		if got := <-events; got != seq+1 {
			t.Fatalf("event %d, want %d", got, seq+1)
		}
	}
}

// While no server can be reached, calls fail with ErrUnavailable when their patience ends, or
// earlier with the error of the context.
func TestUnavailable(t *testing.T) {
	address := natsserver.Start(t, nil)
	box := "/" + newName()
	openJournal(t, address+box).Close()
	p := &proxy{mark: "no message has this"}
	through := startProxy(t, address, p)
	var journals []*Journal
	for _, patience := range []time.Duration{100 * time.Millisecond, time.Hour} {
		j, err := Open(t.Context(), through+box, Options{patience: patience})
		must.Succeed(t, err)
		defer j.Close()
		journals = append(journals, j)
	}
	p.pause(true)
	err := journals[0].Append(t.Context(), 0, testEvents(0, 1))
	if !errors.Is(err, journal.ErrUnavailable) || signalbox.HintOf(err) == "" {
		t.Errorf("append: %v, want %q with a hint", err, journal.ErrUnavailable)
	}
	if _, err := journals[0].Head(t.Context()); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("head: %v, want %q", err, journal.ErrUnavailable)
	}
	if err := journals[0].Append(t.Context(), 0, testEvents(0, 1)); !errors.Is(err,
		journal.ErrUnavailable) || !errors.Is(err, journal.ErrNotStored) {
		t.Errorf("append without a connection: %v, want %q and %q", err, journal.ErrUnavailable,
			journal.ErrNotStored)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := journals[1].Head(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("head: %v, want %q", err, context.DeadlineExceeded)
	}
}

// fakeServer returns a journal whose server answers as the functions of subjects say.
func fakeServer(t *testing.T, opts Options, answer map[string]func(m *natsgo.Msg)) *Journal {
	t.Helper()
	address := natsserver.Start(t, func(o *server.Options) { o.JetStream = false })
	conn, err := natsgo.Connect(address, natsgo.Timeout(time.Minute))
	must.Succeed(t, err)
	t.Cleanup(conn.Close)
	for subject, f := range answer {
		if _, err := conn.Subscribe(subject, f); err != nil {
			t.Fatal(err)
		}
	}
	must.Succeed(t, conn.Flush())
	attempt := opts.attempt
	opts.attempt = time.Minute // also to connect, and for answers that no test wants to be late
	j := newJournal("shop", opts)
	must.Succeed(t, j.connect(t.Context(), []string{address}, nil))
	if attempt != 0 {
		j.opts.attempt = attempt
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// respond answers with each of the texts, and then always with the last one.
func respond(texts ...string) func(*natsgo.Msg) {
	return func(m *natsgo.Msg) {
		_ = m.Respond([]byte(texts[0]))
		texts = texts[min(1, len(texts)-1):]
	}
}

// A server that has lost its majority may still have an earlier attempt of a message in its queue.
// Then the message is sent again.
func TestDuplicateInProcess(t *testing.T) {
	j := fakeServer(t, Options{}, map[string]func(*natsgo.Msg){
		"fake": respond(`{"error":{"code":409,"err_code":10158,"description":"duplicate message id is in process"}}`, `{"stream":"x","seq":7}`)})
	if seq, err := j.store(t.Context(), "fake", []byte("x"), nil); seq != 7 || err != nil {
		t.Errorf("%d, %v, want 7", seq, err)
	}
}

// While a server does not know yet that it was replaced as the leader, both it and its successor
// get what is published. The first one rejects what the other one stores.
func TestTwoLeaders(t *testing.T) {
	const (
		wrong   = `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"}}`
		full    = `{"error":{"code":500,"err_code":10122,"description":"some limit is reached"}}`
		none    = `{"error":{"code":404,"err_code":10037,"description":"no message found"}}`
		cluster = `,"cluster":{"leader":"a","replicas":[{"name":"b","active":1},{"name":"c","active":1}]}`
	)
	for name, test := range map[string]struct {
		answer     string // to what is published
		replicated bool
		stored     int  // how many of the two events the successor has
		own        bool // they are those that were published

		fails, conflicts, notStored bool
	}{
		"it is stored":                 {wrong, true, 2, true, false, false, false},
		"another one is stored":        {wrong, true, 2, false, true, true, false},
		"a shorter one is stored":      {wrong, true, 1, false, true, true, false},
		"nothing is stored":            {wrong, true, 0, false, true, false, false}, // yet
		"nothing, on one server":       {wrong, false, 0, false, true, false, true},
		"a limit is reached":           {full, true, 0, false, true, false, false},
		"the only server has no space": {full, false, 0, false, true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events := testEvents(0, 2)
			var (
				mu        sync.Mutex
				published [][]byte
			)
			info := fmt.Sprintf(`{"ts":"2026-01-01T00:00:00Z","state":{"last_seq":%d}`, test.stored)
			if test.replicated {
				info += cluster
			}
			j := fakeServer(t, Options{patience: time.Minute}, map[string]func(*natsgo.Msg){
				newJournal("shop", Options{}).eventSubject(): func(m *natsgo.Msg) {
					mu.Lock()
					published = append(published, m.Data)
					mu.Unlock()
					if m.Reply != "" {
						_ = m.Respond([]byte(test.answer))
					}
				},
				"$JS.API.STREAM.INFO.shop": respond(info + "}"),
				"$JS.API.STREAM.MSG.GET.shop": func(m *natsgo.Msg) {
					if test.stored == 0 {
						_ = m.Respond([]byte(none))
						return
					}
					mu.Lock()
					defer mu.Unlock()
					data := published[len(published)-2]
					if !test.own {
						data = encodeEvent(1, &events[0])
					}
					text, err := json.Marshal(map[string]any{"message": message{Seq: 1,
						Data: data}})
					if err != nil {
						t.Error(err)
					}
					_ = m.Respond(text)
				},
			})
			if _, err := j.streamInfo(t.Context(), "shop"); err != nil { // as when it is opened
				t.Fatal(err)
			}
			if test.answer == wrong && test.stored == 0 {
				j.opts.patience = time.Second // which it waits for
			}
			err := j.Append(t.Context(), 0, events)
			if (err != nil) != test.fails ||
				errors.Is(err, journal.ErrConflict) != test.conflicts ||
				errors.Is(err, journal.ErrNotStored) != test.notStored {
				t.Errorf("append: %v", err)
			}
		})
	}
}

// untilProven calls f, again if it must prove that something is damaged: on a slow machine its
// patience may end before something has been missing for long enough.
func untilProven(j *Journal, f func(*Journal) error, want error) (err error) {
	for range 20 {
		if err = f(j); want != journal.ErrDamaged || !errors.Is(err, journal.ErrUnavailable) {
			break
		}
	}
	return err
}

// A leader that was replaced may say that an event does not exist. Only an event that stays missing
// is damage.
func TestMissingEvent(t *testing.T) {
	const missing, info = `{"error":{"code":404,"err_code":10037,"description":"no message found"}}`, `{"ts":"2026-01-01T00:00:00Z","state":{"last_seq":3}}`
	event := testEvents(0, 1)[0]
	found, err := json.Marshal(map[string]any{"message": message{Seq: 1,
		Data: encodeEvent(1, &event)}})
	must.Succeed(t, err)
	for name, test := range map[string]struct {
		answers []string
		want    error
	}{
		"found later": {[]string{missing, string(found)}, nil},
		"never found": {[]string{missing}, journal.ErrDamaged},
	} {
		calls := map[string]func(*Journal) error{
			"read": func(j *Journal) error {
				j.raiseKnown(1)
				events, err := j.Read(t.Context(), 0, 1)
				if err == nil && len(events) != 1 {
					t.Errorf("%s: %d events", name, len(events))
				}
				return err
			},
			"append": func(j *Journal) error { return j.Append(t.Context(), 1, testEvents(1, 1)) },
		}
		for call, f := range calls {
			j := fakeServer(t, Options{patience: time.Second}, map[string]func(*natsgo.Msg){
				"$JS.API.STREAM.MSG.GET.shop": respond(test.answers...),
				"$JS.API.STREAM.INFO.shop":    respond(info),
				"$JS.API.DIRECT.GET.shop": func(m *natsgo.Msg) {
					_ = m.RespondMsg(&natsgo.Msg{Header: natsgo.Header{"Status": {"404"}}})
				},
				"signalbox.shop.event": respond(`{"stream":"shop","seq":2}`),
			})
			if test.want == nil {
				j.opts.patience = time.Minute
			}
			if err := untilProven(j, f, test.want); !errors.Is(err, test.want) {
				t.Errorf("%s, %s: %v, want %v", call, name, err, test.want)
			}
		}
	}
}

// fakeNodes makes the server of a journal that of three nodes. Each list of states is what they
// answer to a question, and then always the last one.
func fakeNodes(t *testing.T, j *Journal, answers ...[]nodeState) {
	t.Helper()
	j.embedded, j.alone, j.nodes = true, true, []string{"a", "b", "c"}
	_, err := j.conn.Subscribe(nodeSubject("shop"), func(m *natsgo.Msg) {
		for _, state := range answers[0] {
			text, err := json.Marshal(state)
			if err != nil {
				t.Error(err)
			}
			_ = m.Respond(text)
		}
		answers = answers[min(1, len(answers)-1):]
	})
	must.Succeed(t, err)
}

// led returns the states of three nodes. The first one leads, and has messages.
func led(head uint64, messages ...message) []nodeState {
	return []nodeState{
		{Node: "a", Copy: true, Size: 3, Term: 7, Leader: true, Head: head, Messages: messages},
		{Node: "b", Copy: true, Size: 3, Term: 7},
		{Node: "c", Copy: true, Size: 3, Term: 7},
	}
}

// replaced returns the states of three nodes. The first one was replaced as the leader, and does
// not know it.
func replaced(head uint64) []nodeState {
	states := led(head)
	states[1].Term, states[2].Term = 8, 8
	return states
}

// What a leader that was replaced says of blobs is not believed: neither that there is none, nor
// that a piece is missing, nor that a message to be erased does not exist.
func TestMissingBlob(t *testing.T) {
	const (
		missing = `{"error":{"code":404,"err_code":10037,"description":"no message found"}}`
		gone    = `{"error":{"code":400,"err_code":10043,"description":"sequence 1 not found"}}`
		away    = `{"error":{"code":503,"err_code":10008,"description":"not available"}}`
	)
	text := func(m message) string {
		b, err := json.Marshal(map[string]any{"message": m})
		must.Succeed(t, err)
		return string(b)
	}
	data := content(1, 1)
	digest := signalbox.Hash(sha256.Sum256(data))
	f := file{size: pieceBytes, pieces: []uint64{1}}
	blob, part := message{Seq: 2, Data: f.encode(nil)}, message{Seq: 1, Data: data}
	entry, piece := text(blob), text(part)
	get := func(j *Journal) error {
		r, err := j.GetBlob(t.Context(), digest)
		if err == nil {
			r.Close()
		}
		return err
	}
	open := func(j *Journal) error {
		_, err := j.OpenBlob(t.Context(), digest)
		return err
	}
	erase := func(j *Journal) error { return j.erase(t.Context(), 1) }
	none, unknown := led(2), replaced(2)
	for name, test := range map[string]struct {
		call            func(*Journal) error
		entries, pieces []string // what is answered to requests for the entry, and for the piece
		nodes           [][]nodeState
		want            error
	}{
		"no blob": {get, []string{missing}, nil, [][]nodeState{none}, journal.ErrNoBlob},
		"no blob, after no answer": {get, []string{away, missing}, nil, [][]nodeState{none},
			journal.ErrNoBlob},
		"no blob to open": {open, []string{missing}, nil, [][]nodeState{none},
			journal.ErrNoBlob},
		"no blob, not proven": {get, []string{missing}, nil, [][]nodeState{unknown},
			journal.ErrUnavailable},
		"no blob to open, not proven": {open, []string{missing}, nil, [][]nodeState{unknown},
			journal.ErrUnavailable},
		"a blob, says the leader": {get, []string{missing}, []string{piece},
			[][]nodeState{led(2, blob)}, nil},
		"a blob, says the next leader": {get, []string{missing}, []string{piece},
			[][]nodeState{unknown, led(2, blob)}, nil},
		"no piece": {get, []string{entry}, []string{missing}, [][]nodeState{none},
			journal.ErrDamaged},
		"no piece, not proven": {get, []string{entry}, []string{missing},
			[][]nodeState{unknown}, journal.ErrUnavailable},
		"a piece, says the leader": {get, []string{entry}, []string{missing},
			[][]nodeState{led(2, part)}, nil},
		"nothing to erase": {erase, nil, []string{missing}, [][]nodeState{none}, nil},
		"nothing to erase, not proven": {erase, nil, []string{missing}, [][]nodeState{unknown},
			journal.ErrUnavailable},
		"something to erase, not found": {erase, nil, []string{piece}, [][]nodeState{none},
			journal.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries, pieces := respond(test.entries...), respond(test.pieces...)
			patience := time.Second
			if test.want == nil {
				patience = time.Minute
			}
			j := fakeServer(t, Options{patience: patience}, map[string]func(*natsgo.Msg){
				"$JS.API.STREAM.MSG.GET.shop_files": func(m *natsgo.Msg) {
					if bytes.Contains(m.Data, []byte("last_by_subj")) {
						entries(m)
					} else {
						pieces(m)
					}
				},
				"$JS.API.STREAM.MSG.DELETE.shop_files": respond(gone),
			})
			fakeNodes(t, j, test.nodes...)
			if err := untilProven(j, test.call, test.want); !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
		})
	}
}

// A server that is behind has only some of the events, and one whose copy has diverged has others.
// What counts is what the leader has.
func TestServerIsBehind(t *testing.T) {
	stored := testEvents(0, 4)
	for name, test := range map[string]struct {
		known    uint64 // to the reader
		bytes    int    // that the server answers with at most; 0 means no limit
		lead     int    // how many events the leader has
		diverged bool   // the server has another event 3
		want     int
	}{
		"it lacks one":                   {4, 0, 4, false, 4},
		"it lacks what is not known":     {2, 0, 4, false, 4},
		"nothing is known":               {0, 0, 4, false, 4},
		"the log has lost an event":      {4, 0, 3, false, 3},
		"the log has lost two events":    {4, 0, 2, false, 2},
		"it has more than it may answer": {4, 1, 4, false, 1},
		"it has another event":           {4, 0, 4, true, 4},
	} {
		j := fakeServer(t, Options{patience: time.Minute}, map[string]func(*natsgo.Msg){
			"$JS.API.DIRECT.GET.shop": func(m *natsgo.Msg) {
				var request directRequest
				if err := json.Unmarshal(m.Data, &request); err != nil {
					t.Error(err)
				}
				sent := 0
				for _, e := range stored[:3] {
					if e.Seq == 3 && test.diverged {
						e.Hash[0]++
					}
					if e.Seq < request.Seq || test.bytes != 0 && sent > 0 {
						continue
					}
					answer := natsgo.NewMsg(m.Reply)
					answer.Header.Set(jetstream.SequenceHeader, strconv.FormatUint(e.Seq, 10))
					answer.Data = encodeEvent(1, &e)
					_ = m.RespondMsg(answer)
					sent++
				}
				end := natsgo.NewMsg(m.Reply)
				end.Header.Set("Status", "404")
				if sent > 0 {
					end.Header.Set("Status", "204")
					end.Header.Set(numPending, strconv.Itoa(3-int(request.Seq-1)-sent))
				}
				_ = m.RespondMsg(end)
			},
			"$JS.API.STREAM.MSG.GET.shop": func(m *natsgo.Msg) {
				var request messageRequest
				if err := json.Unmarshal(m.Data, &request); err != nil {
					t.Error(err)
				}
				if request.Seq > uint64(test.lead) {
					_ = m.Respond([]byte(
						`{"error":{"code":404,"err_code":10037,"description":"no message found"}}`))
					return
				}
				text, err := json.Marshal(map[string]any{"message": message{Seq: request.Seq,
					Data: encodeEvent(1, &stored[request.Seq-1])}})
				if err != nil {
					t.Error(err)
				}
				_ = m.Respond(text)
			},
			"$JS.API.STREAM.INFO.shop": respond(fmt.Sprintf(`{"state":{"last_seq":%d}}`,
				test.lead)),
		})
		j.raiseKnown(test.known)
		events, err := j.Read(t.Context(), 0, 100)
		if diff := cmp.Diff(stored[:test.want], events); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if head, err := j.Head(t.Context()); head != uint64(test.lead) || err != nil {
			t.Errorf("%s: head is %d, %v", name, head, err)
		}
	}
}

// On a slow network a read returns what has arrived, and asks for less if nothing has.
func TestSlowRead(t *testing.T) {
	var (
		mu    sync.Mutex
		asked []int
	)
	last, err := json.Marshal(map[string]any{"message": message{Seq: 2,
		Data: encodeEvent(1, &testEvents(1, 1)[0])}})
	must.Succeed(t, err)
	j := fakeServer(t, Options{attempt: 200 * time.Millisecond, patience: time.Minute},
		map[string]func(*natsgo.Msg){
			"$JS.API.STREAM.INFO.shop":    respond(`{"state":{"last_seq":2}}`),
			"$JS.API.STREAM.MSG.GET.shop": respond(string(last)),
			"$JS.API.DIRECT.GET.shop": func(m *natsgo.Msg) {
				var request directRequest
				if err := json.Unmarshal(m.Data, &request); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if asked = append(asked, request.MaxBytes); len(asked) < 3 {
					return
				}
				for i, e := range testEvents(0, 2) { // and no end
					answer := natsgo.NewMsg(m.Reply)
					answer.Header.Set(jetstream.SequenceHeader, strconv.Itoa(i+1))
					answer.Data = encodeEvent(1, &e)
					_ = m.RespondMsg(answer)
				}
			}})
	j.raiseKnown(2)
	events, err := j.Read(t.Context(), 0, 100)
	if err != nil || len(events) == 0 {
		t.Errorf("%d events, %v", len(events), err)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []int{8 << 20, 4 << 20, 2 << 20}; len(asked) < 3 ||
		!slices.Equal(asked[:3], want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
}
