package nats

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/natsserver"
	"signalbox/ledger"
)

// jetStream returns a client of a server.
func jetStream(t testing.TB, address string) jetstream.JetStream {
	t.Helper()
	conn, err := natsgo.Connect(address, natsgo.Timeout(time.Minute))
	must.Succeed(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(time.Minute))
	must.Succeed(t, err)
	return js
}

// streams describes the streams of a server.
func streams(t testing.TB, js jetstream.JetStream) (list []string) {
	t.Helper()
	all := js.ListStreams(t.Context())
	for info := range all.Info() {
		config, err := json.Marshal(info.Config)
		must.Succeed(t, err)
		list = append(list, fmt.Sprintf("%d messages, %s", info.State.Msgs, config))
	}
	must.Succeed(t, all.Err())
	return list
}

// wantRefusal checks that a journal cannot be opened, and that the error says why and what to do.
func wantRefusal(t *testing.T, address string, opts Options, code signalbox.Code, want string) {
	t.Helper()
	j, err := Open(t.Context(), address, opts)
	if err == nil {
		j.Close()
	}
	if err == nil || !strings.Contains(err.Error(), want) || signalbox.CodeOf(err) != code {
		t.Errorf("%v (code %v), want %q with code %v", err, signalbox.CodeOf(err), want, code)
	}
	if signalbox.HintOf(err) == "" && code != signalbox.CodeUsage {
		t.Errorf("no hint: %v", err)
	}
}

// Users who name a wrong server or stream learn what is wrong and what to do, and nothing is
// written.
func TestRefuseStreams(t *testing.T) {
	address := natsserver.Start(t, nil)
	js := jetStream(t, address)
	for name, test := range map[string]struct {
		kind   string
		change func(*jetstream.StreamConfig)
		want   string
	}{
		"a foreign stream": {kindEvents, func(c *jetstream.StreamConfig) { c.Metadata = nil },
			"does not belong to signalbox"},
		"foreign files": {kindFiles, func(c *jetstream.StreamConfig) { c.Metadata = nil },
			"does not belong to signalbox"},
		"a newer format": {kindEvents,
			func(c *jetstream.StreamConfig) { c.Metadata[metaFormat] = "99" }, `has format "99"`},
		"an older format": {kindEvents,
			func(c *jetstream.StreamConfig) { c.Metadata[metaFormat] = "0" }, `has format "0"`},
		"in memory": {kindEvents,
			func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
			"is only in memory"},
		"an age": {kindEvents,
			func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "has limits"},
		"a number of events": {kindEvents, func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 },
			"has limits"},
		"a number of bytes": {kindEvents,
			func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, "has limits"},
		"one per subject": {kindEvents,
			func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }, "has limits"},
		"a work queue": {kindEvents,
			func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
			"has limits"},
		"events can be erased": {kindEvents,
			func(c *jetstream.StreamConfig) { c.DenyDelete = false }, "allows deleting events"},
		"no batches": {kindEvents,
			func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false },
			"does not allow atomic batches"},
		"expiring events": {kindEvents,
			func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true },
			"has settings with which it cannot be used"},
		"small messages": {kindEvents,
			func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 },
			"accepts messages of at most 1000 bytes"},
		"early answers": {kindFiles,
			func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
			"before they are on disk"},
		"files that expire": {kindFiles,
			func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "has limits"},
		"subjects of another": {kindEvents,
			func(c *jetstream.StreamConfig) { c.Name = "other" + c.Name; c.Metadata = nil },
			"another stream has the subjects"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJournal(newName(), Options{})
			for _, kind := range []string{kindFiles, kindEvents} {
				config := j.config(kind, 1)
				if kind == test.kind {
					test.change(&config)
				} else if strings.HasPrefix(test.want, "another") {
					continue
				}
				if _, err := js.CreateStream(t.Context(), config); err != nil {
					t.Fatal(err)
				}
			}
			before := streams(t, js)
			wantRefusal(t, address+"/"+j.name, Options{Create: true}, signalbox.CodeFailed,
				test.want)
			if diff := cmp.Diff(before, streams(t, js)); diff != "" {
				t.Errorf("streams were changed (-before +after):\n%s", diff)
			}
		})
	}
	before := len(streams(t, js))
	wantRefusal(t, address+"/missing", Options{}, signalbox.CodeNotFound,
		"there is no stream missing")
	wantRefusal(t, address+"/three?replicas=3", Options{Create: true}, signalbox.CodeFailed,
		"too few servers for 3 replicas")
	if after := len(streams(t, js)); after != before {
		t.Errorf("there are %d streams, want %d", after, before)
	}
}

func TestRefuseServers(t *testing.T) {
	quick := Options{Create: true, patience: 300 * time.Millisecond, attempt: time.Minute}
	for name, test := range map[string]struct {
		change func(*server.Options)
		want   string
	}{
		"no JetStream": {func(o *server.Options) { o.JetStream = false },
			"the server has no JetStream"},
		"small messages": {func(o *server.Options) { o.MaxPayload = 1000 },
			"accepts messages of at most 1000 bytes"},
		"no login": {func(
			o *server.Options) {
			o.Users = []*server.User{{Username: "me", Password: "secret"}}
		},
			"the server refuses the login"},
		"TLS is required": {func(o *server.Options) {
			o.TLSConfig, _ = nodeTLS(NewSecret(), []string{"127.0.0.1"})
			o.TLSVerify = true
		}, "do not trust each other"},
	} {
		t.Run(name, func(t *testing.T) {
			wantRefusal(t, natsserver.Start(t, test.change), quick, signalbox.CodeFailed, test.want)
		})
	}
	wantRefusal(t, "nats://127.0.0.1:1/x", quick, signalbox.CodeFailed,
		"the servers cannot be reached")
	if _, err := Open(t.Context(), "nats://127.0.0.1:1/x", quick); !errors.Is(err,
		journal.ErrUnavailable) {
		t.Errorf("%v, want %q", err, journal.ErrUnavailable)
	}
	wantRefusal(t, oldServer(t), quick, signalbox.CodeFailed,
		"the server has version 2.11.9, which has no atomic batches")
}

// oldServer is a server that only tells clients that it is old.
func oldServer(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				fmt.Fprintf(conn, "INFO {\"server_id\":\"x\",\"version\":\"2.11.9\",\"headers\":true,\"max_payload\":1048576,\"proto\":1}\r\n")
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if lines.Text() == "PING" {
						fmt.Fprint(conn, "PONG\r\n")
					}
				}
			}()
		}
	}()
	return "nats://" + listener.Addr().String()
}

// A user who may only read can do that, and learns at once that more is not permitted.
func TestReadOnlyUser(t *testing.T) {
	address := natsserver.Start(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "writer", Password: "w"},
			{Username: "reader", Password: "r", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{"$JS.API.INFO",
					"$JS.API.STREAM.INFO.*", "$JS.API.STREAM.MSG.GET.*", "$JS.API.DIRECT.GET.*"}},
			}},
		}
	})
	as := func(user string) string { return strings.Replace(address, "nats://", "nats://"+user+"@", 1) + "/shop" }
	wantRefusal(t, as("reader:r"), Options{Create: true}, signalbox.CodeFailed,
		"the user of the journal has no right to do this")
	wantRefusal(t, as("reader:wrong"), Options{}, signalbox.CodeFailed,
		"the server refuses the login")
	writer := openJournal(t, as("writer:w"))
	defer writer.Close()
	must.Succeed(t, writer.Append(t.Context(), 0, testEvents(0, 3)))
	reader, err := Open(t.Context(), as("reader:r"), Options{attempt: time.Minute})
	must.Succeed(t, err)
	defer reader.Close()
	if events, err := reader.Read(t.Context(), 0, 10); len(events) != 3 || err != nil {
		t.Errorf("read %d events, %v", len(events), err)
	}
	for _, n := range []int{1, 2} {
		err := reader.Append(t.Context(), 3, testEvents(3, n))
		if !errors.Is(err, journal.ErrNotStored) ||
			!strings.Contains(fmt.Sprint(err), "has no right to do this") ||
			signalbox.HintOf(err) == "" {
			t.Errorf("a reader appended %d events: %v", n, err)
		}
	}
	if _, err := reader.PutBlob(t.Context(),
		strings.NewReader("x")); !strings.Contains(fmt.Sprint(err), "has no right to do this") {
		t.Errorf("a reader stored a blob: %v", err)
	}
	wantFinding(t, reader, "rights", journal.Problem, "may not append events")
	wantFinding(t, writer, "rights", journal.OK, "may append events")
	wantFinding(t, writer, "fsync", journal.Warning, "unknown")
	wantFinding(t, writer, "replicas", journal.Warning, "one replica of the ledger")
	wantFinding(t, writer, "server", journal.OK, "nats-server 2.")
	if head, err := writer.Head(t.Context()); head != 3 || err != nil {
		t.Errorf("head is %d, %v", head, err)
	}
	if now, err := reader.Time(t.Context()); now.IsZero() || err != nil {
		t.Errorf("the server's time is %v, %v", now, err)
	}
}

// The permissions that the documentation lists are enough.
func TestDocumentedPermissions(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/reference/configuration.md")
	must.Succeed(t, err)
	_, block, _ := strings.Cut(string(text), "```text\nauthorization {")
	block, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatal("the document has no permissions")
	}
	file := filepath.Join(t.TempDir(), "server.conf")
	must.Succeed(t, os.WriteFile(file,
		[]byte("authorization {"+strings.ReplaceAll(block, "PASSWORD", "pw")), 0o600))
	address := natsserver.Start(t, func(o *server.Options) {
		must.Succeed(t, o.ProcessConfigFile(file))
	})
	as := func(user string) string {
		return strings.Replace(address, "nats://", "nats://"+user+":pw@", 1) + "/shop"
	}
	owner := openJournal(t, as("owner"))
	defer owner.Close()
	worker, err := Open(t.Context(), as("worker"), Options{poll: time.Hour})
	must.Succeed(t, err)
	defer worker.Close()
	large := bytes.Repeat([]byte("x"), pieceBytes+1)
	digest, err := worker.PutBlob(t.Context(), bytes.NewReader(large))
	if err == nil {
		err = worker.DeleteBlob(t.Context(), digest)
	}
	if err == nil {
		err = worker.Append(t.Context(), 0, testEvents(0, 3))
	}
	must.Succeed(t, err)
	for e, err := range worker.Watch(t.Context(), 0) {
		must.Succeed(t, err)
		if e.Seq == 3 { // the next one wakes the watch by a notification
			must.Succeed(t, owner.Append(t.Context(), 3, testEvents(3, 1)))
		}
		if e.Seq == 4 {
			break
		}
	}
	wantRefusal(t, strings.Replace(as("worker"), "/shop", "/other", 1), Options{Create: true},
		signalbox.CodeFailed, "has no right to do this")
}

// One replica only is a warning.
func TestOneReplicaIsAWarning(t *testing.T) {
	var log bytes.Buffer
	j, err := Open(t.Context(), natsserver.Start(t, nil),
		Options{Create: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must.Succeed(t, err)
	j.Close()
	if !strings.Contains(log.String(), "only one replica") {
		t.Errorf("no warning in %q", log.String())
	}
}

// wantFinding checks a finding about a journal.
func wantFinding(t *testing.T, j *Journal, name string, level journal.Level, detail string) {
	t.Helper()
	findings, err := j.Inspect(t.Context())
	must.Succeed(t, err)
	for _, f := range findings {
		if f.Name == name {
			if f.Level != level || !strings.Contains(f.Detail, detail) ||
				(f.Fix == "") != (level == journal.OK) {
				t.Errorf("%s is %+v, want %s and %q", name, f, level, detail)
			}
			return
		}
	}
	t.Errorf("%s is not in %+v", name, findings)
}

func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"nats://a":                         "[nats://a] signalbox 0",
		"nats://a:4222/shop":               "[nats://a:4222] shop 0",
		"nats://a:1,b:2,c/shop?replicas=3": "[nats://a:1 nats://b:2 nats://c] shop 3",
		"nats://u:p@a,b/shop":              "[nats://u:p@a nats://u:p@b] shop 0",
		"nats://u@a,b/shop":                "[nats://a nats://b] shop 0",
		"tls://a/":                         "[tls://a] signalbox 0",
		"nats://[::1]:4222/shop":           "[nats://[::1]:4222] shop 0",
	} {
		a, err := parseAddress(text, "")
		if got := fmt.Sprint(a.servers, " ", a.name, " ", a.replicas); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "http://a", "nats://", "nats:///shop", "nats://a/shop_files", "nats://a/a.b",
		"nats://a/b/c", "nats://a/*", "nats://a,,b", "nats://u:hunter2@/x",
		"nats://u:hunter2@a%zz", "nats://a?credential=x", "nats://a?replicas=0",
		"nats://a?replicas=x", "nats://a?cert=/dev/null",
		"nats://a?credentials=/does/not/exist",
	} {
		_, err := parseAddress(text, "")
		if err == nil {
			t.Errorf("%q is an address", text)
		}
		if strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("the error contains the password: %v", err)
		}
	}
}

// testEvents returns n events that follow the event after.
func testEvents(after uint64, n int) []signalbox.Event {
	events := make([]signalbox.Event, after+uint64(n))
	prev := signalbox.Hash{}
	for i := range events {
		seq := uint64(i) + 1
		events[i] = signalbox.Event{Seq: seq, Time: time.Unix(int64(seq), 0).UTC(), Type: "x",
			Data: []byte("{}"), Prev: prev}
		events[i].Hash = ledger.Sum(&events[i])
		prev = events[i].Hash
	}
	return events[after:]
}
