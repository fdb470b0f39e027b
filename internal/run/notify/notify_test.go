package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/outbound"
	"signalbox/internal/run/planload"
	"signalbox/internal/run/questions"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

func decode(t *testing.T, r request) Message {
	t.Helper()
	var m Message
	if err := json.Unmarshal(r.body, &m); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
	return m
}

// A question is posted, signed, until the server accepts it, each time with the same id. The
// command gets the same text.
func TestQuestion(t *testing.T) {
	server, got := receiver(t, func(n int) int {
		if n < 3 {
			return http.StatusServiceUnavailable
		}
		return http.StatusNoContent
	})
	told := filepath.Join(t.TempDir(), "told")
	key := []byte("a key of more than 24 bytes")
	k := newKit(t, fmt.Sprintf(
		"notify:\n  webhook: {url: '%s/hook', secret_env: HOOK}\n  command: [sh, -c, 'cat >>%s; test -z \"$HOOK\"']\n", server.URL, told), true, "T1")
	k.ask("Why?")
	if left := k.send("HOOK=whsec_" + base64.StdEncoding.EncodeToString(key)); left != nil {
		t.Fatalf("not delivered: %v", left)
	}
	seq := uint64(0)
	k.box.Engine.View(func(s *rules.State) { seq = s.Questions()[0].Seq })
	id := fmt.Sprintf("%s-%d-question", k.box.ID(), seq)
	var first []byte
	for range 3 {
		r := next(t, got)
		m := decode(t, r)
		if m.ID != id || m.Event != config.NotifyQuestion || m.Question != "Q-1" ||
			m.Kind != rules.AskedClarification || m.Work != "T1" || m.Text != "Why?" ||
			m.Box != k.box.ID() || m.Project != "app" {
			t.Errorf("got %s", r.body)
		}
		if first == nil {
			first = r.body
		}
		if string(r.body) != string(first) {
			t.Errorf("first %s, then %s", first, r.body)
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + r.header.Get("webhook-timestamp") + "." + string(r.body)))
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.header.Get(
			"webhook-id") != id || r.header.Get("webhook-signature") != want ||
			r.header.Get("Content-Type") != "application/json" {
			t.Errorf("headers %v, want the signature %s", r.header, want)
		}
	}
	wantNone(t, got)
	if text, err := os.ReadFile(told); err != nil || string(text) != string(first)+"\n" {
		t.Errorf("the command got %s (%v)", text, err)
	}
	if left := k.send("HOOK=x"); left != nil {
		t.Errorf("not delivered: %v", left)
	}
	wantNone(t, got)
	// the time of a line may have 503 in it too
	if strings.Count(k.log.String(), "the server answered 503") != 1 {
		t.Errorf("log: %s", k.log.String())
	}
}

// A process that is killed after it has sent a message, and before it has stored that, sends it
// again with the same id and text.
func TestKilledBetweenSendingAndRemembering(t *testing.T) {
	killed, dead := make(chan func(), 1), make(chan struct{})
	server, got := receiver(t, func(n int) int {
		if n == 1 {
			(<-killed)() // while the process waits for the answer
		}
		return http.StatusOK
	})
	k := newKit(t, "notify: {webhook: '"+server.URL+"'}\n", true, "T1")
	k.ask("Why?")
	child, _ := startChild(t, k.box.Dir)
	killed <- func() {
		child.Process.Kill()
		child.Wait()
		close(dead)
	}
	first := next(t, got)
	<-dead        // while it lives it has the lock, and the next process leaves the message to it
	for range 2 { // the second time there is nothing left
		again, stdin := startChild(t, k.box.Dir)
		stdin.Close()
		must.Succeed(t, again.Wait())
	}
	second := next(t, got)
	if decode(t, first).ID == "" || string(first.body) != string(second.body) ||
		first.header.Get("webhook-id") != second.header.Get("webhook-id") {
		t.Errorf("first %s, then %s", first.body, second.body)
	}
	wantNone(t, got)
}

// Wherever a process is killed, the message arrives, and always with the same id.
func TestCrashes(t *testing.T) {
	server, got := receiver(t, nil)
	for name, crash := range map[string]func(*Sender){
		"before the look": func(s *Sender) { s.acquire() },
		"before sending":  func(s *Sender) { s.acquire(); s.look() },
		"the outbox is lost": func(s *Sender) {
			s.acquire()
			s.look()
			s.targets[0].send(context.Background(), &s.out.Pending[0].Message)
			os.Remove(filepath.Join(s.box.Dir, outboxName))
		},
		"the outbox is damaged": func(s *Sender) {
			s.acquire()
			os.WriteFile(filepath.Join(s.box.Dir, outboxName), []byte("{\"seq\":"), 0o600)
		},
	} {
		k := newKit(t, "notify: {webhook: '"+server.URL+"'}\n", true, "T1")
		k.ask("Why?")
		s := k.sender()
		crash(s)
		s.lock.Close() // as the system does
		if left := k.send(); left != nil {
			t.Fatalf("%s: %v", name, left)
		}
		ids := map[string]bool{}
		for n := len(got); n > 0; n-- {
			ids[decode(t, <-got).ID] = true
		}
		if len(ids) != 1 {
			t.Errorf("%s: ids %v", name, ids)
		}
	}
}

// Each event is sent once, to the targets that want it, and not again when nothing happened.
func TestEvents(t *testing.T) {
	server, got := receiver(t, nil)
	hook := func(more string) string {
		return "notify: {webhook: {url: '" + server.URL + "'}, ntfy: {url: '" + server.URL +
			"', topic: done-only, events: [done]}}\n" + more
	}
	want := func(k *kit, event config.NotifyEvent, words ...string) {
		t.Helper()
		for range 2 {
			if left := k.send(); left != nil {
				t.Fatal(left)
			}
		}
		wanted := []string{"/"}
		if event == config.NotifyDone {
			wanted = append(wanted, "/done-only")
		}
		var paths []string
		for n := len(got); n > 0; n-- {
			r := <-got
			paths = append(paths, r.path)
			if r.path != "/" {
				continue
			}
			if m := decode(t, r); m.Event != event || m.Seq == 0 ||
				m.ID != messageID(k.box.ID(), m.Seq, event) {
				t.Errorf("%s: got %s", event, r.body)
			}
			for _, word := range words {
				if !strings.Contains(string(r.body), word) {
					t.Errorf("%s: %q is not in %s", event, word, r.body)
				}
			}
		}
		slices.Sort(paths)
		if !slices.Equal(paths, wanted) {
			t.Errorf("%s: requests to %v, want %v", event, paths, wanted)
		}
	}

	k := newKit(t, hook(""), true, "T1")
	k.advance()
	want(k, config.NotifyDone, "all 1 task")

	k = newKit(t, hook(""), true, "T1")
	k.do(rules.Order{What: rules.OrderCancel, Work: "T1", Actor: "ann"})
	k.advance() // the baseline
	want(k, config.NotifyStuck, "T1 is cancelled")
	k.do(rules.Order{What: rules.OrderRetry, Work: "T1", Actor: "ann"})
	k.advance()
	want(k, config.NotifyDone)

	k = newKit(t, hook("approve: merge\n"), false, "T1")
	k.advance()
	want(k, config.NotifyApproval, `"work":"T1"`, `"commit":"abc1234`, "signalbox approve T1")

	k = newKit(t, hook("budget: {task: {tokens: 10}}\n"), true, "T1")
	k.turn(signalbox.NameReadyForReview, rules.SignalFields{}, rules.Spent{Tokens: 20})
	want(k, config.NotifyBudget, `"question":"Q-1"`, "budget.task")

	k = newKit(t, hook("budget: {window: {tokens: 10, every: 5h}}\n"), true, "T1")
	k.turn(signalbox.NameReadyForReview, rules.SignalFields{}, rules.Spent{Tokens: 20})
	want(k, config.NotifyBudget, "token window")
}

// validID is what ntfy accepts.
var validID = regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`)

// Every merge that needs approval gives a notification of its own: several at the same time, and
// the same task again.
func TestApprovals(t *testing.T) {
	server, got := receiver(t, nil)
	k := newKit(t, "approve: merge\nnotify: {webhook: '"+server.URL+"'}\n", false, "T1", "T2", "T3")
	k.advance()
	approve := func(mode string) {
		k.box.Config.Approve = mode
		k.do(rules.Configure{Policy: planload.PolicyOf(k.box.Config, false), Actor: "ann"})
	}
	approve("") // they are ready to merge, and no approval is needed
	if left := k.send(); left != nil {
		t.Fatal(left)
	}
	wantNone(t, got)
	approve(config.ApproveMerge)
	ids := map[string]bool{}
	want := func(works ...string) {
		t.Helper()
		for range 2 {
			if left := k.send(); left != nil {
				t.Fatal(left)
			}
		}
		var told []string
		for n := len(got); n > 0; n-- {
			m := decode(t, <-got)
			told = append(told, m.Work)
			if ids[m.ID] || m.Event != config.NotifyApproval || !validID.MatchString(m.ID) {
				t.Errorf("got %+v", m)
			}
			ids[m.ID] = true
		}
		slices.Sort(told)
		if !slices.Equal(told, works) {
			t.Errorf("notified of %v, want %v", told, works)
		}
	}
	want("T1", "T2", "T3")
	k.do(rules.Order{What: rules.OrderCancel, Work: "T2", Actor: "ann"})
	want()
	k.do(rules.Order{What: rules.OrderRetry, Work: "T2", Actor: "ann"})
	want("T2")
}

// A run that the operator cancelled or paused is not stuck.
func TestOperatorIsNotToldOfHisOwnOrders(t *testing.T) {
	server, got := receiver(t, nil)
	for _, order := range []rules.Order{{What: rules.OrderPause, Actor: "ann"},
		{What: rules.OrderCancel, Actor: "ann"}} {
		k := newKit(t, "notify: {webhook: '"+server.URL+"'}\n", true, "T1")
		k.do(order)
		if left := k.send(); left != nil {
			t.Error(left)
		}
		wantNone(t, got)
	}
}

// What cannot be delivered is reported, and sent by the next Sender unless it was answered
// meanwhile.
func TestUndelivered(t *testing.T) {
	down := true
	server, got := receiver(t, func(int) int {
		if down {
			return http.StatusForbidden
		}
		return http.StatusOK
	})
	k := newKit(t, "notify: {webhook: '"+server.URL+"/services/s3cret'}\n", true, "T1", "T2")
	k.ask("Why?")
	k.ask("What?")
	left := k.send()
	if len(left) != 1 || left[0].Target != "the webhook" || left[0].Messages != 2 ||
		!strings.Contains(left[0].Err.Error(), "403") {
		t.Fatalf("left %+v", left)
	}
	id := decode(t, next(t, got)).ID
	wantNone(t, got) // the server does not change its mind
	k.do(rules.AnswerQuestion{Question: "Q-2", Answer: "that", Actor: "ann"})
	down = false
	if left := k.send(); left != nil {
		t.Fatal(left)
	}
	if again := decode(t, next(t, got)); again.ID != id || again.Question != "Q-1" {
		t.Errorf("got %+v, want %s", again, id)
	}
	wantNone(t, got)
}

// A Sender that runs sends what happens, and several processes do not send it twice.
func TestOneSender(t *testing.T) {
	server, got := receiver(t, nil)
	k := newKit(t, "notify: {webhook: '"+server.URL+"'}\n", true, "T1", "T2", "T3")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	for range 3 {
		other, err := box.Open(t.Context(), k.box.Dir, nil)
		must.Succeed(t, err)
		s := (&kit{t: t, box: other}).sender()
		following, unfollow := context.WithCancel(context.Background())
		running.Go(func() { other.Engine.Follow(following) })
		running.Go(func() {
			defer unfollow()
			if left := s.Run(ctx); left != nil {
				t.Errorf("left %+v", left)
			}
		})
		t.Cleanup(func() { other.Close() })
	}
	for _, id := range []string{"Q-1", "Q-2", "Q-3"} {
		k.ask("Why?")
		if m := decode(t, next(t, got)); m.Question != id {
			t.Errorf("got %+v, want %s", m, id)
		}
	}
	stop()
	running.Wait()
	wantNone(t, got)
}

// A process that takes over knows what the other has delivered, even if it has not seen all of the
// ledger yet.
func TestTakeOver(t *testing.T) {
	server, got := receiver(t, nil)
	k := newKit(t, "notify: {webhook: '"+server.URL+"'}\n", true, "T1")
	other, err := box.Open(t.Context(), k.box.Dir, nil)
	must.Succeed(t, err)
	defer other.Close()
	k.ask("Why?")
	if left := k.send(); left != nil {
		t.Fatal(left)
	}
	next(t, got)
	if left := (&kit{t: t, box: other}).send(); left != nil {
		t.Fatal(left)
	}
	wantNone(t, got)
}

// A target that hangs does not keep the others from being notified, not even at the end.
func TestHangingTarget(t *testing.T) {
	release := make(chan struct{})
	hanging, _ := receiver(t, func(int) int { <-release; return http.StatusOK })
	defer close(release)
	server, got := receiver(t, nil)
	k := newKit(t, "notify: {webhook: '"+hanging.URL+"', ntfy: {url: '"+server.URL+
		"', topic: t}}\n", true, "T1")
	ctx, stop := context.WithCancel(t.Context())
	s := k.sender()
	done := make(chan []Failure, 1)
	ended := make(chan struct{})
	s.opts.delays.drain = 0
	k.ask("Why?")
	go func() {
		defer close(ended)
		done <- s.Run(ctx)
	}()
	next(t, got)
	for {
		s.mu.Lock()
		delivered := s.out.count("ntfy") == 0
		s.mu.Unlock()
		if delivered {
			break
		}
		runtime.Gosched()
	}
	stop()
	if left := <-done; len(left) != 1 || left[0].Target != "the webhook" || left[0].Messages != 1 {
		t.Errorf("left %+v", left)
	}
	<-ended
}

// hostile is text of an agent that tries everything.
const hostile = "\x1b[31mred\x07\r\nX-Injected: yes\r\n\r\nbody \u202egnp.exe =?utf-8?q?=41?= \" & (do shell script \"touch /tmp/x\") \\ <b>bold</b> -e `id` $(id) \x00 \xff ünïcödé"

func isClean(s string, lines bool) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !(lines && (r == '\n' || r == '\t')) &&
			(unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
	})
}

func TestHostileText(t *testing.T) {
	server, got := receiver(t, nil)
	k := newKit(t, "notify: {webhook: '"+server.URL+"', ntfy: {url: '"+server.URL+
		"/', topic: t, token_env: TOKEN, click: 'https://example.org/a'}}\n", true, "T1")
	k.ask(hostile + strings.Repeat("long ", 1000))
	if left := k.send("TOKEN=tk_abc"); left != nil {
		t.Fatal(left)
	}
	for range 2 {
		r := next(t, got)
		if r.header.Get("X-Injected") != "" {
			t.Errorf("headers %v", r.header)
		}
		if r.path != "/t" {
			if m := decode(t, r); !isClean(m.Text, true) || !isClean(m.Title, false) ||
				len(m.Text) > 4*maxText {
				t.Errorf("got %q", r.body)
			}
			continue
		}
		if !isClean(string(r.body), true) || len(r.body) > 4096 ||
			!strings.HasSuffix(string(r.body), "\n\nsignalbox answer Q-1 TEXT") {
			t.Errorf("got %q", r.body)
		}
		if h := r.header; h.Get("Authorization") != "Bearer tk_abc" ||
			h.Get("Click") != "https://example.org/a" || h.Get("Priority") != "high" ||
			h.Get("Tags") != "signalbox,question" ||
			h.Get("Title") != "signalbox app: T1 asks you (Q-1)" {
			t.Errorf("headers %v", h)
		}
	}
}

func TestHeadings(t *testing.T) {
	m := Message{Project: hostile, Title: hostile, Text: "-" + hostile, Command: "signalbox answer"}
	encoded := encodeHeader(m.heading())
	for _, r := range encoded {
		if r < ' ' || r > '~' {
			t.Fatalf("%q is not a header", encoded)
		}
	}
	decoded, err := new(mime.WordDecoder).DecodeHeader(encoded)
	if err != nil || !isClean(decoded, false) || !strings.HasPrefix(decoded, "signalbox ") ||
		len([]rune(decoded)) > maxTitle+20 {
		t.Errorf("decoded %q, %v", decoded, err)
	}
	plain := encodeHeader("=?utf-8?q?=41?= x")
	if decoded, _ := new(mime.WordDecoder).DecodeHeader(plain); decoded != "= ?utf-8?q?=41?= x" {
		t.Errorf("decoded %q", decoded)
	}
	linux, err := desktopCommand("linux", &m)
	if err != nil || len(linux) != 5 || linux[2] != "--" || strings.ContainsAny(linux[4], "<>") ||
		!isClean(linux[3], false) || !isClean(linux[4], true) {
		t.Errorf("linux %q, %v", linux, err)
	}
	// The script is the same for every message, and the first argument is not a flag.
	mac, err := desktopCommand("darwin", &m)
	harmless, _ := desktopCommand("darwin", &Message{})
	if err != nil || len(mac) != 9 || !slices.Equal(mac[:7], harmless[:7]) ||
		!strings.HasPrefix(mac[7], "signalbox ") {
		t.Errorf("darwin %q, %v", mac, err)
	}
	if _, err := desktopCommand("plan9", &m); !outbound.IsPermanent(err) {
		t.Errorf("plan9: %v", err)
	}
}

// Commands of the user get what they need to run, and no keys of models.
func TestEnvironmentOfCommands(t *testing.T) {
	told := filepath.Join(t.TempDir(), "told")
	k := newKit(t, "notify: {command: {run: [sh, -c, 'env >"+told+"'], env_pass: [CHAT_TOKEN]}}\n",
		true, "T1")
	k.ask("Why?")
	if left := k.send("ANTHROPIC_API_KEY=secret", "CHAT_TOKEN=mine", "DISPLAY=:7"); left != nil {
		t.Fatal(left)
	}
	text, err := os.ReadFile(told)
	if err != nil || strings.Contains(string(text), "ANTHROPIC") ||
		!strings.Contains(string(text), "CHAT_TOKEN=mine\n") ||
		!strings.Contains(string(text), "DISPLAY=:7\n") {
		t.Errorf("%s (%v)", text, err)
	}
}

// No error contains a secret: not an address, not a token, not a key.
func TestSecretsAreNotLogged(t *testing.T) {
	server, got := receiver(t, func(int) int { return http.StatusFound })
	dir := t.TempDir()
	for name, content := range map[string]string{"damaged": "whsec_!!s3cret!!", "empty": " \n"} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	for settings, want := range map[string]string{
		"webhook: 'http://127.0.0.1:1/s3cret'": "connect",
		"webhook: '" + server.URL +
			"/s3cret'": "302 Found; redirects are not followed",
		"webhook: {url: '" + server.URL +
			"', secret_env: UNSET}": "the environment variable UNSET with the secret is not set",
		"webhook: {url: '" + server.URL + "', secret_file: '" + filepath.Join(dir, "none") +
			"'}": "cannot read the secret",
		"webhook: {url: '" + server.URL + "', secret_file: '" + filepath.Join(dir, "empty") +
			"'}": "is empty",
		"webhook: {url: '" + server.URL + "', secret_file: '" + filepath.Join(dir, "damaged") +
			"'}": "not base64",
		"ntfy: {url: '" + server.URL +
			"', topic: t, token_env: UNSET}": "the environment variable UNSET with the token is not set",
		"ntfy: {url: '" + server.URL +
			"', topic: t, token_env: BROKEN}": "the environment variable BROKEN does not have a token",
		"ntfy: {url: '" + server.URL +
			"', topic: s3cret}": "302 Found",
		"command: [no-such-program-anywhere, s3cret]":                 "the program no-such-program-anywhere was not found in PATH",
		"command: [sh, -c, 'printf \"bad\\033[31m\\n\" >&2; exit 3']": "exit status 3: bad",
	} {
		settings, err := config.Parse([]byte("notify: {" + settings + "}"))
		must.Succeed(t, err)
		results := Test(t.Context(), settings.Notify, "box-1",
			Options{Environ: os.Environ(), Getenv: func(name string) string {
				if name == "BROKEN" {
					return "s3cret\r\nX: y"
				}
				return ""
			}})
		if len(results) != 1 || results[0].OK || !strings.Contains(results[0].Error, want) ||
			strings.Contains(results[0].Error, "s3cret") || !isClean(results[0].Error, false) {
			t.Errorf("%+v: %+v, want %q", settings.Notify, results, want)
		}
	}
	for n := len(got); n > 0; n-- {
		if r := <-got; r.path == "/redirected" || !strings.HasSuffix(r.header.Get("webhook-id"),
			"-test") && r.header.Get("Priority") != "default" {
			t.Errorf("got %+v", r)
		}
	}
}

// Ids are different for different causes, and valid in headers and for ntfy.
func TestMessageID(t *testing.T) {
	ids := map[string]string{}
	property.Check(t, func(t *rapid.T) {
		box := rapid.StringMatching(`box-[0-9a-f]{12}`).Draw(t, "box")
		seq := rapid.Uint64Range(1, 1<<53).Draw(t, "seq")
		event := rapid.SampledFrom(append(config.NotifyEvents(), eventTest)).Draw(t, "event")
		id, cause := messageID(box, seq, event), fmt.Sprintf("%q %d %q", box, seq, event)
		if other, known := ids[id]; known && other != cause {
			t.Fatalf("%s is for %s and %s", id, cause, other)
		}
		ids[id] = cause
		if !validID.MatchString(id) || !validID.MatchString(id+subjectID("T1")) ||
			id != messageID(box, seq, event) {
			t.Fatalf("id %q", id)
		}
	})
}

// An outbox of another box, or of a longer ledger, does not count.
func TestOutboxOfAnotherBox(t *testing.T) {
	name := filepath.Join(t.TempDir(), outboxName)
	stored := &outbox{Box: "box-1", Seq: 10,
		Pending: []pending{{Message{ID: "x"}, []string{"webhook"}}}}
	must.Succeed(t, stored.write(name))
	for _, each := range []struct {
		box  string
		tail uint64
		want uint64
	}{{"box-1", 10, 10}, {"box-1", 9, 0}, {"box-2", 10, 0}} {
		got, err := readOutbox(name, each.box, each.tail)
		if err != nil || got.Seq != each.want || got.Box != each.box ||
			(len(got.Pending) > 0) != (each.want > 0) {
			t.Errorf("%+v: %+v, %v", each, got, err)
		}
	}
}

// A message is bounded: without its details if it must be.
func TestMessageIsBounded(t *testing.T) {
	fields := map[string]any{}
	for i := range 100 {
		fields[fmt.Sprint("Field ", i)] = []any{strings.Repeat("é", 5000),
			map[string]any{"a\x1b": map[string]any{"b": map[string]any{"c": "d"}}}}
	}
	m := questionMessage(&questions.Pending{Question: rules.Question{ID: "Q-1", Text: hostile},
		Fields: map[string]any{"Context": "a\x1bb"}, Output: "start" + strings.Repeat("é", 5000) +
			"end"})
	if m.fit(); m.Fields["Context"] != "a\ufffdb" || !strings.HasPrefix(m.Output, "…é") ||
		!strings.HasSuffix(m.Output, "éend") || len([]rune(m.Output)) != maxText {
		t.Errorf("fields %v, output of %d characters", m.Fields, len([]rune(m.Output)))
	}
	m = questionMessage(&questions.Pending{Question: rules.Question{ID: "Q-1", Text: hostile},
		Fields: fields})
	if len(m.Fields) != maxFields {
		t.Errorf("%d fields", len(m.Fields))
	}
	m.fit()
	if text, err := json.Marshal(m); err != nil || len(text) > maxBytes || m.Text == "" ||
		m.Fields != nil {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// Pauses grow, up to a limit.
func TestPauses(t *testing.T) {
	d := defaultDelays()
	last := time.Duration(0)
	for n := range 100 {
		pause := d.pause(n)
		if pause < last || pause > d.most || n == 0 && pause != d.retry || n == 99 &&
			pause != d.most {
			t.Errorf("pause %d: %s after %s", n, pause, last)
		}
		last = pause
	}
}

// The outbox is bounded.
func TestOutboxIsBounded(t *testing.T) {
	o := &outbox{}
	for i := range maxPending + 5 {
		o.add(Message{ID: fmt.Sprint(i)}, []string{"webhook"})
	}
	if len(o.Pending) != maxPending || o.Pending[0].Message.ID != "5" {
		t.Errorf("%d messages, the first is %+v", len(o.Pending), o.Pending[0])
	}
}

// A command that fails may lack a variable that it used to find in the user's environment.
func TestCommandHint(t *testing.T) {
	for script, hint := range map[string]bool{"echo no token; exit 3": true, "exit 3": true,
		"exit 0": false} {
		err := command{[]string{"sh", "-c", script}, os.Environ()}.send(t.Context(), &Message{})
		if got := err != nil &&
			strings.Contains(err.Error(), "notify.command.env_pass"); got != hint {
			t.Errorf("%q: %v", script, err)
		}
	}
	if err := (command{[]string{"no-such-program-here"}, nil}).send(t.Context(),
		&Message{}); !outbound.IsPermanent(err) || strings.Contains(err.Error(), "env_pass") {
		t.Errorf("a program that does not exist: %v", err)
	}
}

// A pull request that waits to be merged gives a notification with its address. One that was merged
// in the meantime does not.
func TestPullRequests(t *testing.T) {
	server, got := receiver(t, nil)
	k := newKit(t, "approve: merge\nnotify: {webhook: '"+server.URL+"'}\n", false, "T1", "T2")
	k.advance()
	k.box.Config.Approve, k.box.Config.Deliver.As = "", config.DeliverRequest
	k.do(rules.Configure{Policy: planload.PolicyOf(k.box.Config, false), Actor: "ann"})
	for n, work := range []string{"T1", "T2"} {
		answer, err := k.box.Engine.Do(t.Context(),
			rules.Dispatch{Roles: []signalbox.Role{signalbox.RoleMerger}, Session: "merger" + work,
				Actor: "crew", Lease: "l" + work, TTL: time.Hour})
		if err != nil || answer.Work != work {
			t.Fatal(answer.Work, err)
		}
		var commit string
		k.box.Engine.View(func(s *rules.State) {
			w, _ := s.Work(work)
			commit = w.Task.Commit
		})
		d := rules.Delivery{Tip: commit, Commit: commit, Branch: "signalbox/" + work,
			Request: fmt.Sprint("https://forge.example/pull/", n+1)}
		k.do(rules.ReportDelivery{Session: "merger" + work, Epoch: answer.Lease.Epoch, Delivery: d})
		if work == "T2" {
			k.do(rules.ReportRequest{Work: work, Actor: "crew", Request: d.Request, Commit: commit,
				Merged: commit})
		}
	}
	for range 2 {
		if left := k.send(); left != nil {
			t.Fatal(left)
		}
	}
	if n := len(got); n != 1 {
		t.Fatalf("%d notifications", n)
	}
	if m := decode(t, <-got); m.Event != config.NotifyApproval || m.Work != "T1" ||
		m.Request != "https://forge.example/pull/1" || !strings.Contains(m.Text, m.Request) {
		t.Errorf("got %+v", m)
	}
}

// A notification that could not be delivered is not sent any more once it is settled: the merge was
// approved, or the run continues.
func TestSettledIsNotSent(t *testing.T) {
	for name, each := range map[string]struct {
		settings string
		begin    func(k *kit)
		settle   rules.Command
	}{
		"approval": {"approve: merge\n", func(k *kit) { k.advance() },
			rules.Order{What: rules.OrderApprove, Work: "T1", Actor: "ann"}},
		"stuck": {"", func(k *kit) {
			k.do(rules.Order{What: rules.OrderCancel, Work: "T1", Actor: "ann"})
			k.advance()
		}, rules.Order{What: rules.OrderRetry, Work: "T1", Actor: "ann"}},
		"question": {"", func(k *kit) { k.ask("Why?") },
			rules.AnswerQuestion{Question: "Q-1", Answer: "because", Actor: "ann"}},
	} {
		t.Run(name, func(t *testing.T) {
			down := true
			server, got := receiver(t, func(int) int {
				if down {
					return http.StatusForbidden
				}
				return http.StatusOK
			})
			k := newKit(t, each.settings+"notify: {webhook: '"+server.URL+"'}\n", false, "T1")
			each.begin(k)
			if left := k.send(); len(left) != 1 || left[0].Messages != 1 {
				t.Fatalf("left %+v", left)
			}
			if m := decode(t, next(t, got)); string(m.Event) != name {
				t.Fatalf("got %+v", m)
			}
			down = false
			k.do(each.settle)
			if left := k.send(); left != nil {
				t.Fatalf("left %+v", left)
			}
			wantNone(t, got)
		})
	}
}

// What has been said is not said again when something else happens.
func TestSaidOnce(t *testing.T) {
	for name, each := range map[string]struct {
		settings string
		begin    func(k *kit)
	}{
		"done": {"", func(k *kit) { k.advance() }},
		"stuck": {"", func(k *kit) {
			k.do(rules.Order{What: rules.OrderCancel, Work: "T1", Actor: "ann"})
			k.advance()
		}},
		"budget": {"budget: {window: {tokens: 10, every: 5h}}\n", func(k *kit) {
			k.turn(signalbox.NameReadyForReview, rules.SignalFields{}, rules.Spent{Tokens: 20})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server, got := receiver(t, nil)
			k := newKit(t, each.settings+"notify: {webhook: '"+server.URL+"'}\n", true, "T1")
			each.begin(k)
			for i := range 3 {
				if left := k.send(); left != nil {
					t.Fatal(left)
				}
				if i == 0 {
					if m := decode(t, next(t, got)); string(m.Event) != name {
						t.Fatalf("got %+v", m)
					}
				}
				wantNone(t, got)
				k.do(rules.OpenWork{Work: fmt.Sprint("hand-", i),
					Phase: signalbox.PhaseImplementation, Actor: "ann"})
			}
		})
	}
}

// Messages for a target that is no longer configured are forgotten.
func TestRemovedTarget(t *testing.T) {
	down, _ := receiver(t, func(int) int { return http.StatusForbidden })
	server, got := receiver(t, nil)
	k := newKit(t, "notify: {webhook: '"+down.URL+"', ntfy: {url: '"+server.URL+"', topic: t}}\n",
		true, "T1")
	k.ask("Why?")
	if left := k.send(); len(left) != 1 {
		t.Fatalf("left %+v", left)
	}
	next(t, got)
	k.box.Config.Notify.Webhook = config.NotifyWebhook{}
	if left := k.send(); left != nil {
		t.Fatalf("left %+v", left)
	}
	wantNone(t, got)
	// so that the outbox is stored
	k.do(rules.OpenWork{Work: "hand", Phase: signalbox.PhaseImplementation, Actor: "ann"})
	k.send()
	if stored, err := readOutbox(filepath.Join(k.box.Dir, outboxName), k.box.ID(),
		math.MaxUint64); err != nil || len(stored.Pending) > 0 {
		t.Errorf("%+v, %v", stored, err)
	}
}

// Fields of a signal are cut where they are too deep.
func TestDeepFields(t *testing.T) {
	for name, wrap := range map[string]func(any) any{
		"groups": func(v any) any { return map[string]any{"a": v} },
		"lists":  func(v any) any { return []any{v} },
	} {
		var deep any = "bottom"
		for range 10 * maxDepth {
			deep = wrap(deep)
		}
		text, err := json.Marshal(clean(map[string]any{"top": deep}, maxDepth))
		if err != nil || strings.Contains(string(text), "bottom") ||
			!strings.Contains(string(text), "…") ||
			strings.Count(string(text), "{")+strings.Count(string(text), "[") != maxDepth {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}
