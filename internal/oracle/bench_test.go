package oracle_test

// Benchmarks of whole conversations: the real model clients and a scripted model server in a
// process of its own, over loopback, with sessions, journals and a ledger on disk. Every
// conversation is compared with the script.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/internal/core/box"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/must"
	"signalbox/internal/tree/turnlog"
)

// benchServer in the environment makes the test binary the model server of a benchmark.
const benchServer = "SIGNALBOX_BENCH_MODEL_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(benchServer) != "" {
		if err := serveBenchModel(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	benchPieces = 50 // pieces of text in a reply, about one for each word
	benchMarker = "Begin"
)

// held as the pause between pieces makes the server wait until the benchmark releases the answer.
const held = time.Hour

// benchScript answers in turns, all but the last with a tool call. The pieces of the last turn are
// pause apart; unless it is held, so are those of the others.
func benchScript(turns int, pause time.Duration) *modelserver.Script {
	c := modelserver.Conversation{Match: &modelserver.Match{User: "auth"}}
	for turn := 1; turn <= turns; turn++ {
		t := modelserver.Turn{Match: &modelserver.Match{Turn: turn},
			Parts: []modelserver.Part{{Pieces: benchReply(turn)}}}
		end := enough
		// the reasons differ, because a repeated reason means that the model is stuck
		if turn < turns {
			end = fmt.Sprintf("\n<signal type=\"need_turn\"><reason>part %d is missing</reason><confidence>0.8</confidence></signal>", turn+1)
			t.Parts = append(t.Parts,
				modelserver.Part{Call: &modelserver.Call{ID: fmt.Sprintf("call_%d", turn),
					Name: "read_file",
					Arguments: json.RawMessage(fmt.Sprintf(`{"path":"notes.txt","from":%d,"to":%d}`,
						turn, turn+20))}})
		}
		if turn == turns || pause != held {
			t.Every = modelserver.Duration(pause)
		}
		t.Parts[0].Pieces = append(t.Parts[0].Pieces, end)
		c.Turns = append(c.Turns, t)
	}
	return &modelserver.Script{Name: "bench", Conversations: []modelserver.Conversation{c}}
}

func benchReply(turn int) []string {
	words := []string{fmt.Sprintf("%s %d ", benchMarker, turn)}
	for i := 1; i < benchPieces; i++ {
		words = append(words, fmt.Sprintf("word%d.%d ", turn, i))
	}
	return words
}

// serveBenchModel reads a script, prints its address, and serves until its input ends. The next
// line of input releases the answers that are held.
func serveBenchModel(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	script, err := modelserver.ParseScript("bench", text)
	if err != nil {
		return err
	}
	released := make(chan struct{})
	server, err := modelserver.New(script,
		&modelserver.Options{Keep: 1, Sleep: func(ctx context.Context, d time.Duration) error {
			over := time.After(d)
			if d == held {
				over = nil
			}
			select {
			case <-released:
			case <-over:
			case <-ctx.Done():
				return ctx.Err()
			}
			return nil
		}})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go http.Serve(listener, server)
	fmt.Fprintf(out, "http://%s\n", listener.Addr())
	if _, err := lines.ReadBytes('\n'); err == nil {
		close(released)
		_, _ = lines.ReadBytes('\n')
	}
	return listener.Close()
}

// benchSite is a box on disk with an oracle for each protocol.
type benchSite struct {
	dir     string
	oracles map[model.Provider]*oracle.Oracle
	release func() // lets held answers continue
	number  atomic.Int64
}

func newBenchSite(b *testing.B, script *modelserver.Script,
	transport http.RoundTripper) *benchSite {
	b.Helper()
	text, err := json.Marshal(script)
	must.Succeed(b, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), benchServer+"=1"), os.Stderr
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	must.Succeed(b, cmd.Start())
	b.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	var url string
	fmt.Fprintf(in, "%s\n", text)
	if _, err := fmt.Fscanln(out, &url); err != nil {
		b.Fatal(err)
	}
	s := &benchSite{dir: b.TempDir(), oracles: map[model.Provider]*oracle.Oracle{},
		release: func() { fmt.Fprintln(in, "release") }}
	must.Succeed(b, os.WriteFile(filepath.Join(s.dir, "notes.txt"),
		bytes.Repeat([]byte("a line of notes\n"), 200), 0o600))
	folder, opts := filepath.Join(s.dir, box.FolderName),
		&box.Options{KeyFile: filepath.Join(s.dir, "box.key")}
	if _, err := box.Init(b.Context(), folder, "bench", opts); err != nil {
		b.Fatal(err)
	}
	opened, err := box.Open(b.Context(), folder, opts)
	must.Succeed(b, err)
	b.Cleanup(func() { opened.Close() })
	read := toolbox.ReadFile(s.dir)
	use := read.Use
	read.Use = func(ctx context.Context, c toolbox.Call) (toolbox.Result, error) {
		start := time.Now()
		result, err := use(ctx, c)
		benchTimeOf(ctx).tools.Add(int64(time.Since(start)))
		return result, err
	}
	for _, p := range []model.Provider{model.OpenAI, model.Anthropic} {
		client, err := model.New(p, "rehearsal", &model.Options{BaseURL: url, Transport: transport})
		must.Succeed(b, err)
		b.Cleanup(client.Close)
		s.oracles[p], err = oracle.New(b.Context(), &oracle.Options{Model: benchModel{client},
			Tools: []toolbox.Tool{read}, Record: turnlog.To(opened.Engine, "bench")})
		must.Succeed(b, err)
	}
	return s
}

// converse asks one question in a session of its own and compares the conversation with the script.
func (s *benchSite) converse(ctx context.Context, p model.Provider, turns int,
	each func(chunk.Chunk)) (*benchTime, error) {
	id := fmt.Sprintf("O-%d", s.number.Add(1))
	kept, err := session.Create(s.dir, id)
	if err != nil {
		return nil, err
	}
	defer kept.Close()
	took, done := &benchTime{last: time.Now()}, 0
	answer, err := s.oracles[p].Ask(context.WithValue(ctx, benchTimeKey{}, took), kept, question+
		" "+id, func(c chunk.Chunk) error {
		if _, ok := c.(chunk.Done); ok {
			done++
		}
		each(c)
		return nil
	})
	took.addOverhead(time.Now())
	want := strings.TrimSpace(strings.Join(benchReply(turns), ""))
	switch {
	case err != nil:
		return nil, err
	case done != 1 || answer.Error != nil ||
		answer.Done.Reason != string(decide.ReasonContextSufficient) ||
		answer.Done.Turns != turns || answer.Text != want:
		return nil, fmt.Errorf("%s: done %d times, %+v, %q", id, done, answer.Done, answer.Text)
	}
	return took, nil
}

// benchTime measures what each turn costs besides the model client and the tools.
type benchTime struct {
	last     time.Time // when the last reply was complete
	overhead []time.Duration
	tools    atomic.Int64
}

type benchTimeKey struct{}

func benchTimeOf(ctx context.Context) *benchTime { return ctx.Value(benchTimeKey{}).(*benchTime) }

// addOverhead adds the time since the last reply, without tools, to the current turn.
func (t *benchTime) addOverhead(now time.Time) {
	t.overhead[len(t.overhead)-1] += now.Sub(t.last) - time.Duration(t.tools.Swap(0))
}

// benchModel is a model whose own time is not counted.
type benchModel struct{ oracle.Model }

func (m benchModel) Reply(ctx context.Context, r model.Request,
	on func(model.Event)) (*model.Reply, error) {
	t := benchTimeOf(ctx)
	if len(t.overhead) > 0 {
		t.addOverhead(time.Now())
	}
	t.overhead = append(t.overhead, 0)
	if len(t.overhead) == 1 {
		t.addOverhead(time.Now()) // the start of the question belongs to the first turn
	}
	var inCallbacks time.Duration
	reply, err := m.Model.Reply(ctx, r, func(e model.Event) {
		start := time.Now()
		on(e)
		inCallbacks += time.Since(start)
	})
	t.last = time.Now()
	t.overhead[len(t.overhead)-1] += inCallbacks
	return reply, err
}

func reportPercentiles(b *testing.B, samples []time.Duration) {
	slices.Sort(samples)
	for _, percent := range []int{50, 99} {
		b.ReportMetric(float64(samples[(len(samples)-1)*percent/100])/1e6,
			fmt.Sprintf("p%d-ms", percent))
	}
}

// BenchmarkTurn measures what a turn costs besides the model and the tools, on disk.
func BenchmarkTurn(b *testing.B) {
	const turns = 4
	for _, p := range []model.Provider{model.OpenAI, model.Anthropic} {
		b.Run(string(p), func(b *testing.B) {
			s := newBenchSite(b, benchScript(turns, 0), nil)
			var all []time.Duration
			for b.Loop() {
				took, err := s.converse(b.Context(), p, turns, func(chunk.Chunk) {})
				must.Succeed(b, err)
				all = append(all, took.overhead...)
			}
			reportPercentiles(b, all)
		})
	}
}

// BenchmarkFirstContent measures the time from the first bytes of a reply's content on the
// connection to the chunk.
func BenchmarkFirstContent(b *testing.B) {
	const turns = 4
	for _, together := range []int{1, 100} {
		b.Run(fmt.Sprintf("%d-conversations", together), func(b *testing.B) {
			s := newBenchSite(b, benchScript(turns, 20*time.Millisecond),
				arrivalTransport{&http.Transport{MaxIdleConnsPerHost: 1024}})
			var mu sync.Mutex
			var all []time.Duration
			for b.Loop() {
				var group sync.WaitGroup
				for i := range together {
					group.Go(func() {
						a := &arrival{}
						_, err := s.converse(context.WithValue(b.Context(), arrivalKey{}, a),
							[]model.Provider{model.OpenAI, model.Anthropic}[i%2], turns,
							func(c chunk.Chunk) {
								if _, ok := c.(chunk.Content); ok && !a.at.IsZero() {
									mu.Lock()
									defer mu.Unlock()
									all = append(all, time.Since(a.at))
									a.at = time.Time{}
								}
							})
						if err != nil {
							b.Error(err)
						}
					})
				}
				group.Wait()
			}
			reportPercentiles(b, all)
		})
	}
}

// arrival is when the first content of the current reply came out of the connection.
type arrival struct{ at time.Time }

type arrivalKey struct{}

type arrivalTransport struct{ *http.Transport }

func (t arrivalTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.Transport.RoundTrip(r)
	if err == nil {
		res.Body = &arrivalBody{ReadCloser: res.Body,
			arrival: r.Context().Value(arrivalKey{}).(*arrival)}
	}
	return res, err
}

type arrivalBody struct {
	io.ReadCloser
	arrival *arrival
	read    []byte
	seen    bool
}

func (b *arrivalBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if !b.seen {
		b.read = append(b.read, p[:n]...)
		if b.seen = bytes.Contains(b.read, []byte(benchMarker)); b.seen {
			b.arrival.at = time.Now()
		}
	}
	return n, err
}

// BenchmarkConversations holds a thousand conversations open at one moment, in the middle of their
// answers.
func BenchmarkConversations(b *testing.B) {
	const turns, together = 2, 1000
	var perConversation float64
	for b.Loop() {
		s := newBenchSite(b, benchScript(turns, held), nil)
		before := liveBytes()
		var open atomic.Int64
		all := make(chan struct{})
		errs := make(chan error, together)
		for i := range together {
			go func() {
				begun := false
				_, err := s.converse(b.Context(),
					[]model.Provider{model.OpenAI, model.Anthropic}[i%2], turns,
					func(c chunk.Chunk) {
						if c, ok := c.(chunk.Content); ok && c.Turn == turns && !begun {
							begun = true
							if open.Add(1) == together {
								close(all)
							}
						}
					})
				errs <- err
			}()
		}
		select {
		case <-all:
		case err := <-errs:
			b.Fatalf("a conversation ended before all were open: %v", err)
		}
		perConversation = float64(liveBytes()-before) / together
		s.release()
		for range together {
			must.Succeed(b, <-errs)
		}
	}
	b.ReportMetric(perConversation/1000, "KB/conversation")
}

// liveBytes returns the heap and stacks in use after a collection.
func liveBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
