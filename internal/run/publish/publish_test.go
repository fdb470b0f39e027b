package publish

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// patience is how long a test waits for something that should happen at once.
const patience = 2 * time.Minute

// newBox returns a box whose configuration is settings, and that follows its ledger.
func newBox(t *testing.T, settings string) *box.Box {
	t.Helper()
	dir := filepath.Join(t.TempDir(), box.FolderName)
	options := &box.Options{KeyFile: filepath.Join(t.TempDir(), "box.key")}
	if _, err := box.Init(t.Context(), dir, "ann", options); err != nil {
		t.Fatal(err)
	}
	return openBox(t, dir, settings, options)
}

func openBox(t *testing.T, dir, settings string, options *box.Options) *box.Box {
	t.Helper()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, config.FileName), []byte(settings),
		0o600))
	b, err := box.Open(t.Context(), dir, options)
	must.Succeed(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// open opens work, which appends an event, and returns its sequence.
func open(t *testing.T, b *box.Box, id string) uint64 {
	t.Helper()
	if _, err := b.Engine.Do(t.Context(),
		rules.OpenWork{Work: id, Phase: signalbox.PhaseImplementation, Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	return b.Engine.Tail().Seq
}

// received is a request that a webhook got.
type received struct {
	header http.Header
	body   []byte
	event  box.CloudEvent
}

// receiver is a webhook. answer returns the status for its n-th request, from 0.
func receiver(t *testing.T, answer func(n int) int) (url string, got <-chan received) {
	t.Helper()
	requests := make(chan received, 1000)
	var mu sync.Mutex
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var event box.CloudEvent
		if err := json.Unmarshal(body, &event); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		mu.Lock()
		status := answer(n)
		n++
		mu.Unlock()
		requests <- received{r.Header, body, event}
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

func ok(int) int { return http.StatusOK }

func next(t *testing.T, got <-chan received) received {
	t.Helper()
	select {
	case r := <-got:
		return r
	case <-time.After(patience):
		t.Fatal("the webhook got nothing")
		return received{}
	}
}

func newPublisher(t *testing.T, b *box.Box) *Publisher {
	t.Helper()
	p, err := New(b, Options{Getenv: func(
		string) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte("secret"))
	},
		delays: &delays{lock: time.Millisecond, retry: time.Millisecond, most: time.Millisecond,
			send: patience, drain: patience}})
	must.Succeed(t, err)
	return p
}

// start publishes the events from now on, until the returned function is called.
func start(t *testing.T, b *box.Box) (stop func()) {
	t.Helper()
	p := newPublisher(t, b)
	lock := p.acquire(t.Context())
	must.Succeed(t, p.load(t.Context()))
	return inBackground(t, func(ctx context.Context) {
		defer lock.Close()
		p.publish(ctx)
	})
}

// inBackground calls f until the returned function is called, which waits for its end.
func inBackground(t *testing.T, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(stop)
	return stop
}

// A webhook gets every event that is recorded after it was configured, in order and signed.
func TestEventsArriveInOrder(t *testing.T) {
	url, got := receiver(t, ok)
	b := newBox(t, fmt.Sprintf("webhooks: [{url: %q, secret_env: HOOK}]\n", url))
	stop := start(t, b)
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprint(open(t, b, fmt.Sprintf("w-%d", i))))
	}
	stop()
	var ids []string
	for range want {
		r := next(t, got)
		ids = append(ids, r.event.ID)
		if r.header.Get("Content-Type") != "application/cloudevents+json" ||
			r.event.SpecVersion != "1.0" || r.event.Type != "signalbox.WorkOpened" ||
			r.header.Get("Webhook-Id") != b.ID()+"-"+r.event.ID {
			t.Errorf("got %+v with %v", r.event, r.header)
		}
		mac := hmac.New(sha256.New, []byte("secret"))
		fmt.Fprintf(mac, "%s.%s.%s", r.header.Get("Webhook-Id"), r.header.Get("Webhook-Timestamp"),
			r.body)
		if r.header.Get("Webhook-Signature") != "v1,"+
			base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
			t.Errorf("signature %q", r.header.Get("Webhook-Signature"))
		}
	}
	if !slices.Equal(ids, want) || len(got) > 0 {
		t.Errorf("got %v and %d more, want %v", ids, len(got), want)
	}
}

// An event that is not accepted is sent again, with the same id, before the ones after it.
func TestRefusedEventsAreSentAgain(t *testing.T) {
	url, got := receiver(t, func(n int) int {
		if n < 3 {
			return []int{500, 404, 302}[n] // nothing about the content
		}
		return 204
	})
	b := newBox(t, "webhooks: ["+url+"]\n")
	stop := start(t, b)
	first, second := open(t, b, "w-1"), open(t, b, "w-2")
	stop()
	var ids []string
	for range 5 {
		ids = append(ids, next(t, got).event.ID)
	}
	if want := strings.Fields(fmt.Sprint(first, first, first, first, second)); !slices.Equal(ids,
		want) {
		t.Errorf("got %v, want %v", ids, want)
	}
}

// The next process continues where the last one stopped. Events that were recorded meanwhile are
// not lost, and none comes twice.
func TestNextProcessContinues(t *testing.T) {
	url, got := receiver(t, ok)
	b := newBox(t, "webhooks: ["+url+"]\n")
	stop := start(t, b)
	seqs := []uint64{open(t, b, "w-1")}
	stop()
	seqs = append(seqs, open(t, b, "w-2"))
	stop = start(t, b)
	seqs = append(seqs, open(t, b, "w-3"))
	stop()
	for _, seq := range seqs {
		if r := next(t, got); r.event.ID != fmt.Sprint(seq) {
			t.Errorf("got event %s, want %d", r.event.ID, seq)
		}
	}
	if len(got) > 0 {
		t.Errorf("%d events came again", len(got))
	}
}

// A webhook gets only the types that it names, and one that does not answer delays no other.
func TestTypesAndSlowWebhooks(t *testing.T) {
	hangs := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
		<-hangs
	}))
	t.Cleanup(slow.Close)
	url, got := receiver(t, ok)
	b := newBox(t, fmt.Sprintf("webhooks: [%s, {url: %s, types: [LeaseGranted]}]\n", slow.URL, url))
	start(t, b)
	t.Cleanup(func() { close(hangs) }) // before it stops
	for i := range 3 {
		id := fmt.Sprintf("w-%d", i)
		open(t, b, id)
		if _, err := b.Engine.Do(t.Context(), rules.Claim{Work: id, Role: signalbox.RoleDeveloper,
			Session: "s-" + id, Actor: "ann", Lease: "l-" + id, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if r := next(t, got); r.event.Type != "signalbox.LeaseGranted" || r.event.Subject != id {
			t.Errorf("got %+v", r.event)
		}
	}
}

// Of two processes, one publishes. The other takes over when it ends.
func TestOneProcessPublishes(t *testing.T) {
	url, got := receiver(t, ok)
	b := newBox(t, "webhooks: ["+url+"]\n")
	stopFirst := start(t, b)
	stopSecond := inBackground(t, newPublisher(t, b).Run)
	first := open(t, b, "w-1")
	if r := next(t, got); r.event.ID != fmt.Sprint(first) {
		t.Errorf("got event %s, want %d", r.event.ID, first)
	}
	stopFirst()
	second := open(t, b, "w-2")
	if r := next(t, got); r.event.ID != fmt.Sprint(second) {
		t.Errorf("got event %s, want %d", r.event.ID, second)
	}
	stopSecond()
	if len(got) > 0 {
		t.Errorf("%d events came twice", len(got))
	}
}

// A state of another box does not count, nor does one of a longer ledger: the box was replaced by a
// copy.
func TestStateOfAnotherBox(t *testing.T) {
	url, got := receiver(t, ok)
	for _, other := range []string{`{"box":"box-other","webhooks":{"KEY":1}}`,
		`{"box":"BOX","webhooks":{"KEY":1000}}`, `{`} {
		b := newBox(t, "webhooks: ["+url+"]\n")
		open(t, b, "w-1")
		text := strings.NewReplacer("KEY", keyOf(b.Config.Webhooks[0]), "BOX",
			b.ID()).Replace(other)
		must.Succeed(t, os.WriteFile(filepath.Join(b.Dir, stateName), []byte(text), 0o600))
		p, err := New(b, Options{})
		must.Succeed(t, err)
		must.Succeed(t, p.load(t.Context()))
		if seq := p.state.Webhooks[keyOf(b.Config.Webhooks[0])]; seq != b.Engine.Tail().Seq {
			t.Errorf("%s: it continues after %d, want %d", other, seq, b.Engine.Tail().Seq)
		}
	}
	if len(got) > 0 {
		t.Errorf("%d events were sent", len(got))
	}
}

func TestUnknownType(t *testing.T) {
	b := newBox(t, "webhooks: [{url: http://127.0.0.1:1, types: [QuestionAskd]}]\n")
	_, err := New(b, Options{})
	if err == nil || !strings.Contains(err.Error(), `"QuestionAskd"`) ||
		signalbox.HintOf(err) != "did you mean QuestionAsked?" ||
		signalbox.CodeOf(err) != signalbox.CodeUsage {
		t.Errorf("error %v, hint %q", err, signalbox.HintOf(err))
	}
}

// An event that a webhook refuses because of its content is sent without data, and skipped if that
// is refused too. Later events arrive.
func TestEventsThatAreNeverAccepted(t *testing.T) {
	for skipped, accepts := range map[bool]func(*received) bool{
		false: func(r *received) bool { return string(r.event.Data) == "null" || r.event.Subject != "w-1" },
		true:  func(r *received) bool { return r.event.Subject != "w-1" },
	} {
		got := make(chan received, 100)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var request received
			if err := json.NewDecoder(r.Body).Decode(&request.event); err != nil {
				t.Error(err)
			}
			if !accepts(&request) {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
				return
			}
			got <- request
		}))
		defer server.Close()
		b := newBox(t, "webhooks: ["+server.URL+"]\n")
		stop := start(t, b)
		open(t, b, "w-1")
		open(t, b, "w-2")
		stop()
		close(got)
		var arrived []string
		for r := range got {
			arrived = append(arrived, r.event.Subject)
		}
		want := []string{"w-1", "w-2"}
		if skipped {
			want = want[1:]
		}
		if !slices.Equal(arrived, want) {
			t.Errorf("arrived %v, want %v", arrived, want)
		}
	}
}
