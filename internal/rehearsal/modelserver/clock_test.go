package modelserver

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/internal/testkit/must"
)

// TestThousandConcurrent checks that a thousand answers can be in progress at once: they wait for
// each other.
func TestThousandConcurrent(t *testing.T) {
	const all = 1000
	var arrived, done sync.WaitGroup
	arrived.Add(all)
	s, err := New(&Script{Conversations: []Conversation{{Turns: []Turn{{Delay: 1,
		Parts: []Part{{Text: "here"}}}}}}}, &Options{
		Sleep: func(context.Context, time.Duration) error {
			arrived.Done()
			arrived.Wait()
			return nil
		}})
	must.Succeed(t, err)
	for i := range all {
		done.Go(func() {
			protocol := protocols[i%len(protocols)]
			if got := serveQuestion(s, protocol, fmt.Sprint(i), true); !strings.Contains(got,
				`"here"`) {
				t.Errorf("%d: %s", i, got)
			}
		})
	}
	done.Wait()
}

// TestRealClock checks that without Options.Sleep delays are real, and that a disconnect ends a
// wait immediately.
func TestRealClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(&Script{Otherwise: &Turn{Delay: Duration(time.Hour),
			Parts: []Part{{Text: "late"}}}}, nil)
		must.Succeed(t, err)
		begin := time.Now()
		if got := serve(s, "chat", true); !strings.Contains(got, `"late"`) ||
			time.Since(begin) != time.Hour {
			t.Errorf("after %s: %s", time.Since(begin), got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		path, body := ask("chat", "x", true)
		w := newRecorder()
		begin = time.Now()
		s.ServeHTTP(w, mustRequest("POST", path, body).WithContext(ctx))
		if w.Body.Len() != 0 || time.Since(begin) != time.Minute {
			t.Errorf("after %s: %s", time.Since(begin), w.Body)
		}
	})
}

// TestHangLasts checks that a hang ends when the client disconnects, and not before, and that the
// turn is then available again.
func TestHangLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, protocol := range protocols {
			for i := range 4 {
				stream, after := i%2 == 0, i/2
				s, err := New(&Script{Conversations: []Conversation{{Turns: []Turn{{
					Parts:  []Part{{Pieces: []string{"one", "two"}}},
					Faults: []Fault{{Kind: FaultHang, AfterPieces: after}}}}}}}, nil)
				must.Succeed(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				path, body := ask(protocol, "x", stream)
				w := newRecorder()
				begin := time.Now()
				s.ServeHTTP(w, mustHeader(mustRequest("POST", path, body).WithContext(ctx)))
				cancel()
				if time.Since(begin) != time.Minute || (w.Body.Len() > 0) != (after > 0) {
					t.Errorf("%s, streamed %t, after %d: over after %s with %q", protocol, stream,
						after, time.Since(begin), w.Body)
				}
				if got := s.Requests()[0].Outcome; !strings.HasSuffix(got, "fault hang") ||
					stream && strings.Contains(w.Body.String(), `"two"`) {
					t.Errorf("recorded %q, sent %q", got, w.Body)
				}
				if again := readWhole(t, protocol,
					serve(s, protocol, false)); again.Text != "onetwo" {
					t.Errorf("then %+v", again)
				}
			}
		}
	})
}

// TestRecordedBeforeAnswered checks that a client that has read a byte of the answer finds the
// outcome in the record.
func TestRecordedBeforeAnswered(t *testing.T) {
	for _, protocol := range protocols {
		for _, stream := range []bool{true, false} {
			s, err := New(&Script{Otherwise: &Turn{Parts: []Part{{Text: "one"}}}}, nil)
			must.Succeed(t, err)
			var outcome string
			path, body := ask(protocol, "x", stream)
			look := func() { outcome = s.Requests()[0].Outcome }
			s.ServeHTTP(leaver{newRecorder(), `"one"`, look},
				mustHeader(mustRequest("POST", path, body)))
			if outcome != "otherwise" {
				t.Errorf("%s, streamed %t: %q", protocol, stream, outcome)
			}
		}
	}
}
