package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/serve/access"
	"signalbox/internal/serve/api"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/output"
)

// target is a server on a real listener, with everything that it logs.
type target struct {
	t       *testing.T
	box     *box.Box
	clock   *clock
	address string
	token   string // with the scope operate
	log     *output.Buffer
	opened  int
}

func newTarget(t *testing.T, opts Options) *target {
	t.Helper()
	dir := filepath.Join(t.TempDir(), box.FolderName)
	boxOptions := &box.Options{KeyFile: filepath.Join(filepath.Dir(dir), "box.key")}
	if _, err := box.Init(t.Context(), dir, "ann", boxOptions); err != nil {
		t.Fatal(err)
	}
	b, err := box.Open(t.Context(), dir, boxOptions)
	must.Succeed(t, err)
	s := &target{t: t, box: b, clock: newClock(), log: &output.Buffer{}}
	if s.token, err = access.NewStore(dir).Create(t.Context(),
		access.Token{Name: "robot", Kind: access.KindToken, Scope: access.Operate,
			Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	opts.API.ExitFlag = "true"
	opts.Log = slog.New(slog.NewTextHandler(s.log,
		&slog.HandlerOptions{Level: slog.LevelDebug - 4}))
	server, err := New(b, opts)
	must.Succeed(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	s.address = l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, &timedListener{l.(*net.TCPListener), s.clock}) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, b.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// dial connects, and sends something.
func (s *target) dial(text string) net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.address)
	must.Succeed(s.t, err)
	s.t.Cleanup(func() { conn.Close() })
	conn.(*net.TCPConn).SetReadBuffer(smallBuffer)
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// get is a request, without the empty line that ends it.
func (s *target) get(path string, headers ...string) string {
	return s.request("GET", path, headers...)
}

func (s *target) request(method, path string, headers ...string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: " + s.address + "\r\n" +
		strings.Join(append(headers, ""), "\r\n")
}

// bearer is the header with the token.
func (s *target) bearer() string { return "Authorization: Bearer " + s.token }

// serves checks that an ordinary client can read and write.
func (s *target) serves() {
	s.t.Helper()
	s.opened++
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	work := fmt.Sprintf("ordinary-%d", s.opened)
	for _, r := range []struct{ method, path, body string }{{"POST", "/api/v1/work", `{"work":"` + work + `"}`}, {"GET", "/api/v1/work/" + work, ""}, {"GET", "/board", ""}} {
		request, err := http.NewRequestWithContext(s.t.Context(), r.method, "http://"+
			s.address+r.path, strings.NewReader(r.body))
		must.Succeed(s.t, err)
		request.Header.Set("Authorization", "Bearer "+s.token)
		request.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(request)
		if err != nil {
			s.t.Fatalf("an ordinary client: %s %s: %v", r.method, r.path, err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			s.t.Fatalf("an ordinary client: %s %s: %s, %v: %s", r.method, r.path, answer.Status,
				err, body)
		}
	}
}

// TestSlowClients has clients that send or read as slowly as they can. Each loses its connection in
// time, and none delays others.
func TestSlowClients(t *testing.T) {
	s := newTarget(t, Options{AnonymousReads: true})
	for i := range 100 { // a stream that is longer than the buffers of the system
		s.do(rules.OpenWork{Work: fmt.Sprintf("long-%d", i), Title: strings.Repeat("long ", 800),
			Actor: "ann"})
	}
	blob, err := s.box.Engine.PutBlob(t.Context(), io.LimitReader(zeros{}, 4<<20))
	must.Succeed(t, err)
	post := s.request("POST", "/api/v1/work", "Content-Type: application/json",
		"Content-Length: 1000") + "\r\n"
	tests := []struct {
		name, sends string
		dribble     string // what is sent at each step
	}{
		{"sends nothing", "", ""},
		{"dribbles the headers", strings.TrimSuffix(s.get("/", "X-Slow: "), "\r\n"), "x"},
		{"dribbles many headers", s.get("/"), "X-Slow: x\r\n"},
		{"dribbles the body without a token", post, " "},
		{"dribbles the body", s.request("POST", "/api/v1/work", s.bearer(),
			"Content-Type: application/json", "Content-Length: 1000") + "\r\n", " "},
		{"dribbles a chunked body", s.request("POST", "/api/v1/work", s.bearer(),
			"Content-Type: application/json", "Transfer-Encoding: chunked") + "\r\n", "1\r\n \r\n"},
		{"dribbles a form", s.request("POST", "/login",
			"Content-Type: application/x-www-form-urlencoded", "Content-Length: 1000") + "\r\n",
			"x"},
		{"dribbles a body that is not needed", s.get("/api/v1/status", "Content-Length: 1000") +
			"\r\n", "x"},
		{"says nothing more after an answer", s.get("/healthz") + "\r\n", ""},
		{"does not read a page", strings.Repeat(s.get("/board")+"\r\n", 50), ""},
		{"does not read the document", strings.Repeat(s.get("/api/v1/openapi.json")+"\r\n", 50),
			""},
		{"does not read small answers", strings.Repeat(s.get("/healthz")+"\r\n", 20_000), ""},
		{"does not read a style sheet", strings.Repeat(s.get("/static/style.css")+"\r\n", 200), ""},
		{"does not read a blob", s.get("/api/v1/blobs/"+blob.String()) + "\r\n", ""},
		{"does not read a stream", s.get("/api/v1/events?after=0") + "\r\n", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			conn := s.dial("")
			go io.WriteString(conn, test.sends) // it blocks if the server does not read
			if strings.Contains(test.sends, "\r\n\r\n") {
				s.clock.await(t, conn,
					func(server *timedConn) bool { return server.answered || server.closed })
			}
			s.serves()
			took := s.clock.untilClosed(t, conn, func() {
				io.WriteString(conn, test.dribble) // an error means that the server has closed it
			})
			// An answer that is not read is not checked, because each of several answers has its
			// own time.
			if limit := readTimeout + writeTimeout; test.dribble != "" && took > limit {
				t.Errorf("the server closed the connection after %s, want at most %s", took, limit)
			}
		})
	}
	s.serves()
	s.checkSecrets()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func (s *target) do(c rules.Command) rules.Answer {
	s.t.Helper()
	answer, err := s.box.Engine.Do(s.t.Context(), c)
	if err != nil {
		s.t.Fatalf("%#v: %v", c, err)
	}
	return answer
}

// TestManyConnections opens more connections and streams than the server allows.
func TestManyConnections(t *testing.T) {
	const limit = 20
	s := newTarget(t, Options{AnonymousReads: true, MaxConnections: limit,
		API: api.Options{MaxStreams: 2, MaxPublicStreams: 3}})
	var idle []net.Conn
	for range 3 * limit {
		conn := s.dial(s.get("/healthz") + "\r\n")
		s.status(conn)
		idle = append(idle, conn)
	}
	for range limit {
		idle = append(idle, s.dial("")) // says nothing
	}
	s.serves()
	open := 0
	s.clock.mu.Lock()
	for _, conn := range s.clock.conns {
		if !conn.closed {
			open++
		}
	}
	s.clock.mu.Unlock()
	if open > limit+1 { // one is being accepted
		t.Errorf("%d connections are open, limit %d", open, limit)
	}
	if _, err := idle[0].Read(make([]byte, 1)); err == nil {
		t.Error("the oldest connection is still open")
	}

	var streams []net.Conn
	for i := range 6 {
		conn := s.dial(s.get("/api/v1/events") + "\r\n")
		if status := s.status(conn); (status == http.StatusOK) != (i < 3) ||
			status != http.StatusOK && status != http.StatusServiceUnavailable {
			t.Errorf("stream %d: status %d", i+1, status)
		}
		streams = append(streams, conn)
	}
	for i := range 3 { // callers with a token have places of their own
		if status := s.status(s.dial(s.get("/api/v1/events", s.bearer()) +
			"\r\n")); (status == http.StatusOK) != (i < 2) {
			t.Errorf("stream %d with a token: status %d", i+1, status)
		}
	}
	s.serves()
	streams[0].Close() // its place is free again
	for try := s.status(s.dial(s.get("/api/v1/events") + "\r\n")); try != http.StatusOK; {
		// the server notices when it writes, at the latest
		s.do(rules.OpenWork{Work: fmt.Sprintf("wake-%d", s.box.Engine.Tail().Seq), Actor: "ann"})
		try = s.status(s.dial(s.get("/api/v1/events") + "\r\n"))
	}
}

// TestSlowReadersWithoutAToken have all slots for readers without a token. One with a token gets
// its answer, and HEAD has the length of a blob.
func TestSlowReadersWithoutAToken(t *testing.T) {
	s := newTarget(t, Options{AnonymousReads: true})
	blob, err := s.box.Engine.PutBlob(t.Context(), io.LimitReader(zeros{}, 4<<20))
	must.Succeed(t, err)
	path := "/api/v1/blobs/" + blob.String()
	for range 2 {
		if status := s.status(s.dial(s.get(path) + "\r\n")); status != http.StatusOK {
			t.Fatalf("a reader without a token: status %d", status)
		}
	}
	third := s.dial(s.get(path) + "\r\n")
	for range 4 {
		if status := s.status(s.dial(s.get(path, s.bearer()) + "\r\n")); status != http.StatusOK {
			t.Errorf("a reader with a token: status %d", status)
		}
	}
	if status := s.status(third); status != http.StatusServiceUnavailable {
		t.Errorf("a third reader without a token: status %d", status)
	}
}

// TestHeadOfBlob gets the length of a blob whose bytes are damaged: they are not read for it.
func TestHeadOfBlob(t *testing.T) {
	s := newTarget(t, Options{})
	const size = 1 << 20
	blob, err := s.box.Engine.PutBlob(t.Context(), io.LimitReader(zeros{}, size))
	must.Succeed(t, err)
	damaged := 0
	err = filepath.WalkDir(s.box.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.Contains(strings.ReplaceAll(path, string(filepath.Separator), ""),
			blob.String()[4:]) && entry.Type().IsRegular() {
			damaged++
			os.Chmod(path, 0o600)
			err = os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o600)
		}
		return err
	})
	if err != nil || damaged != 1 {
		t.Fatalf("%d files: %v", damaged, err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, "http://"+s.address+
		"/api/v1/blobs/"+blob.String(), nil)
	must.Succeed(t, err)
	r.Header.Set("Authorization", "Bearer "+s.token)
	answer, err := http.DefaultClient.Do(r)
	must.Succeed(t, err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK || answer.ContentLength != size {
		t.Errorf("%s, %d bytes", answer.Status, answer.ContentLength)
	}
}

// status reads the answer on a connection up to its headers, and returns its status, 0 if there is
// none.
func (s *target) status(conn net.Conn) int {
	s.t.Helper()
	conn.SetReadDeadline(time.Now().Add(patience))
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		if timeout := (net.Error)(nil); errors.As(err, &timeout) && timeout.Timeout() {
			s.t.Error("the server does not answer")
		}
		return 0
	}
	return answer.StatusCode // its body may be a stream, which does not end
}

// TestRefusedRequests sends requests that must not be carried out. While each is being refused, the
// server serves others.
func TestRefusedRequests(t *testing.T) {
	s := newTarget(t, Options{})
	s.do(rules.OpenWork{Work: "t1", Actor: "ann"})
	open := func(body string, headers ...string) string { // opens work with a token
		headers = append([]string{s.bearer()}, headers...)
		return s.request("POST", "/api/v1/work",
			append(headers, fmt.Sprintf("Content-Length: %d", len(body)))...) + "\r\n" + body
	}
	const evil = `{"work":"evil"}`
	isJSON := "Content-Type: application/json"
	host := func(request, host string) string {
		return strings.Replace(request, "Host: "+s.address, "Host: "+host, 1)
	}
	many := strings.Repeat("x", 70<<10)
	tests := map[string]struct {
		sends  string
		status []int // one of these; 0 means that the connection is closed without an answer
	}{
		"another host": {host(open(evil, isJSON), "evil.example"), []int{403}},
		"another host reads": {host(s.get("/api/v1/status", s.bearer())+"\r\n",
			"evil.example:7700"), []int{403}},
		"another host reads the board": {host(s.get("/board", s.bearer())+"\r\n",
			"evil.example"), []int{403}},
		"another host reads the document": {host(s.get("/api/v1/openapi.json", s.bearer())+"\r\n",
			"evil.example"), []int{403}},
		"another host follows": {host(s.get("/api/v1/events", s.bearer())+"\r\n",
			"evil.example"), []int{403}},
		"another host reads the metrics": {host(s.get("/metrics", s.bearer())+"\r\n",
			"evil.example"), []int{403}},
		"a host that ends in a known one": {host(s.get("/api/v1/status", s.bearer())+"\r\n",
			"evil-localhost"), []int{403}},
		"a host that begins with one": {host(s.get("/api/v1/status", s.bearer())+"\r\n",
			"localhost.evil.example"), []int{403}},
		"an empty host": {host(s.get("/api/v1/status")+"\r\n", ""),
			[]int{400, 403}},
		"another host in the request line": {s.get("http://evil.example/api/v1/status") + "\r\n",
			[]int{403}},
		"no host":             {"GET /api/v1/status HTTP/1.1\r\n\r\n", []int{400}},
		"no host in HTTP/1.0": {"GET /api/v1/status HTTP/1.0\r\n\r\n", []int{403}},
		"two hosts": {s.get("/api/v1/status", "Host: evil.example") +
			"\r\n", []int{400}},
		"another origin": {open(evil, isJSON, "Origin: http://evil.example"),
			[]int{403}},
		"the origin null": {open(evil, isJSON, "Origin: null"), []int{403}},
		"another port of this machine": {open(evil, isJSON, "Origin: http://127.0.0.1:1"),
			[]int{403}},
		"another scheme": {open(evil, isJSON, "Origin: file://"+s.address),
			[]int{403}},
		"another site": {open(evil, isJSON, "Sec-Fetch-Site: cross-site"),
			[]int{403}},
		"another site of the same owner": {open(evil, isJSON, "Sec-Fetch-Site: same-site",
			"Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"), []int{403}},
		"another site reads": {s.get("/api/v1/status", s.bearer(),
			"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors") + "\r\n", []int{403}},
		"a form of another site": {open("work=evil",
			"Content-Type: application/x-www-form-urlencoded", "Origin: http://evil.example",
			"Sec-Fetch-Site: cross-site"), []int{403}},
		"a form": {open("work=evil",
			"Content-Type: application/x-www-form-urlencoded"), []int{415}},
		"JSON as plain text": {open(evil, "Content-Type: text/plain"), []int{415}},
		"JSON as a part of a form": {open("--b\r\n\r\n"+evil+"\r\n--b--",
			"Content-Type: multipart/form-data; boundary=b"), []int{415}},
		"no token": {strings.Replace(open(evil, isJSON), s.bearer(),
			"X-Nothing: x", 1), []int{401}},
		"a token in the address": {strings.Replace(strings.Replace(open(evil, isJSON),
			s.bearer(), "X-Nothing: x", 1), "/api/v1/work", "/api/v1/work?token="+s.token, 1),
			[]int{400, 401}},
		"a token of another scheme": {strings.Replace(open(evil, isJSON), "Bearer", "Basic",
			1), []int{401}},
		"a token as a cookie": {strings.Replace(open(evil, isJSON), s.bearer(),
			"Cookie: signalbox-"+s.box.ID()+"="+s.token, 1), []int{401}},
		"a method in a header": {s.get("/api/v1/work?work=evil", s.bearer(),
			"X-HTTP-Method-Override: POST") + "\r\n", []int{400}},
		"a method in a parameter": {s.get("/api/v1/work?_method=POST", s.bearer()) +
			"\r\n", []int{400}},
		"another method": {strings.Replace(open(evil, isJSON), "POST", "PUT", 1),
			[]int{404, 405}},
		"a method in lower case": {strings.Replace(open(evil, isJSON), "POST", "post",
			1), []int{404, 405}},
		"an unknown method": {strings.Replace(open(evil, isJSON), "POST", "EVIL",
			1), []int{404, 405}},
		"TRACE": {s.request("TRACE", "/api/v1/status", s.bearer()) +
			"\r\n", []int{404, 405}},
		"CONNECT": {"CONNECT " + s.address + " HTTP/1.1\r\nHost: " +
			s.address + "\r\n\r\n", []int{400, 404, 405}},
		"a proxy request": {s.get("http://"+s.address+"@evil.example/board") +
			"\r\n", []int{400, 403}},
		"too many headers": {s.get("/", "X-Large: "+many) + "\r\n", []int{431}},
		"a token that is too large": {s.get("/api/v1/status", "Authorization: Bearer "+
			many) + "\r\n", []int{431}},
		"an address that is too large": {s.get("/"+many) + "\r\n", []int{431}},
		"a parameter that is too large": {s.get("/api/v1/work?plan="+many) + "\r\n",
			[]int{431}},
		"a body that is too large": {open(`{"title":"`+strings.Repeat("x", 1<<20)+`"}`,
			isJSON), []int{413}},
		"a form that is too large": {s.request("POST", "/login",
			"Content-Type: application/x-www-form-urlencoded", "Content-Length: 1048576") +
			"\r\nlink=" + strings.Repeat("x", 1<<20-5), []int{400, 413}},
		"a length that is too large": {s.request("POST", "/api/v1/work", s.bearer(), isJSON,
			"Content-Length: 9223372036854775808") + "\r\n", []int{400}},
		"an enormous length": {s.request("POST", "/api/v1/work", isJSON,
			"Content-Length: 9223372036854775807") + "\r\n", []int{401}},
		"the folder above": {s.get("/static/../../../../etc/passwd", s.bearer()) +
			"\r\n", []int{307, 400, 404}},
		"the folder above, encoded": {s.get("/static/%2e%2e/%2e%2e/etc/passwd",
			s.bearer()) + "\r\n", []int{307, 400, 404}},
		"the folder above, encoded twice": {s.get("/static/%252e%252e%252fetc%252fpasswd",
			s.bearer()) + "\r\n", []int{404}},
		"the folder above, with slashes": {s.get("/static/..%2f..%2fetc%2fpasswd", s.bearer()) +
			"\r\n", []int{307, 400, 404}},
		"the folder above, with backslash": {s.get(`/static/..\..\etc\passwd`, s.bearer()) +
			"\r\n", []int{400, 404}},
		"the folder above, other backslash": {s.get("/static/..%5c..%5cetc%5cpasswd", s.bearer()) +
			"\r\n", []int{400, 404}},
		"a zero byte": {s.get("/static/style.css%00.html", s.bearer()) +
			"\r\n", []int{400, 404}},
		"a bare zero byte": {s.get("/static/style.css\x00", s.bearer()) + "\r\n",
			[]int{400, 404}},
		"a folder of files": {s.get("/static/", s.bearer()) + "\r\n",
			[]int{403, 404}},
		"a blob above": {s.get("/api/v1/blobs/..%2f..%2ftokens.json",
			s.bearer()) + "\r\n", []int{400, 404}},
		"work above": {s.get("/api/v1/work/..%2f..%2ftokens.json/log",
			s.bearer()) + "\r\n", []int{400, 404}},
		"a page of work above": {s.get("/work/..%2f..%2ftokens.json", s.bearer()) +
			"\r\n", []int{400, 404}},
		"a broken escape": {s.get("/api/v1/work/%zz", s.bearer()) + "\r\n",
			[]int{400}},
		"two lengths": {open(evil, isJSON, "Content-Length: 3"), []int{400}},
		"a negative length": {s.request("POST", "/api/v1/work", s.bearer(), isJSON,
			"Content-Length: -1") + "\r\n" + evil, []int{400}},
		"a length with a sign": {s.request("POST", "/api/v1/work", s.bearer(), isJSON,
			"Content-Length: +15") + "\r\n" + evil, []int{400}},
		"an unknown encoding": {s.request("POST", "/api/v1/work", s.bearer(), isJSON,
			"Transfer-Encoding: xchunked") + "\r\n" + evil, []int{400, 501}},
		"two encodings": {s.request("POST", "/api/v1/work", s.bearer(), isJSON,
			"Transfer-Encoding: chunked", "Transfer-Encoding: identity") + "\r\n0\r\n\r\n",
			[]int{400, 501}},
		"a list of encodings": {s.request("POST", "/api/v1/work", s.bearer(), isJSON,
			"Transfer-Encoding: gzip, chunked") + "\r\n0\r\n\r\n", []int{400, 501}},
		"a chunk without a length": {s.request("POST", "/api/v1/work", s.bearer(), isJSON,
			"Transfer-Encoding: chunked") + "\r\nxyz\r\n" + evil, []int{400, 408}},
		"a chunk that is too long": {s.request("POST", "/api/v1/work", s.bearer(), isJSON,
			"Transfer-Encoding: chunked") + "\r\nfffffffffffffffff\r\n" + evil, []int{400, 408}},
		"a space before the colon": {s.request("POST", "/api/v1/work", s.bearer(), isJSON,
			"Content-Length : 15") + "\r\n" + evil, []int{400}},
		"a folded header": {s.get("/api/v1/status", "X-Folded: a",
			" Authorization: Bearer x", "Broken") + "\r\n", []int{400}},
		"a header with a line end": {s.get("/api/v1/status", "X-Broken: a\rb") + "\r\n",
			[]int{400}},
		"a header with a zero byte": {s.get("/api/v1/status", "X-Broken: a\x00b") + "\r\n",
			[]int{400}},
		"another version": {"GET /api/v1/status HTTP/3.0\r\nHost: " + s.address +
			"\r\n\r\n", []int{400, 505}},
		"HTTP/0.9": {"GET /api/v1/status\r\n\r\n", []int{400}},
		"HTTP/2 without a word": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
			[]int{400, 403, 404, 505}},
		"TLS": {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", []int{0, 400}},
		"an expectation": {s.request("POST", "/api/v1/work", s.bearer(), isJSON,
			"Expect: 200-ok", "Content-Length: 15") + "\r\n" + evil, []int{417}},
		"a web socket of another page": {s.get("/api/v1/events", "Connection: Upgrade",
			"Upgrade: websocket", "Sec-WebSocket-Version: 13",
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
			"Origin: http://evil.example") + "\r\n", []int{403}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			conn := s.dial("")
			// the server may answer before it has read everything
			go io.WriteString(conn, test.sends)
			if got := s.status(conn); !contains(test.status, got) {
				t.Errorf("status %d, want one of %v", got, test.status)
			}
		})
	}
	for name, sends := range map[string]string{
		"a web socket": s.get("/api/v1/events", s.bearer(), "Connection: Upgrade",
			"Upgrade: websocket", "Sec-WebSocket-Version: 13",
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="),
		"HTTP/2": s.get("/api/v1/events", s.bearer(), "Connection: Upgrade, HTTP2-Settings",
			"Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"),
	} {
		// the same answer as without it
		if status := s.status(s.dial(sends + "\r\n")); status != http.StatusOK {
			t.Errorf("%s: status %d", name, status)
		}
	}
	s.serves()
	s.box.Engine.View(func(state *rules.State) {
		if _, found := state.Work("evil"); found {
			t.Error("a refused request was carried out")
		}
	})
	s.checkSecrets()
}

func contains(statuses []int, got int) bool {
	for _, status := range statuses {
		if status == got {
			return true
		}
	}
	return false
}

// TestSmuggledRequests hides a request in the body of another one. Servers and proxies that
// disagree about where a body ends would carry it out.
func TestSmuggledRequests(t *testing.T) {
	s := newTarget(t, Options{})
	hidden := s.request("POST", "/api/v1/work", s.bearer(), "Content-Type: application/json",
		"Content-Length: 15") + "\r\n" + `{"work":"evil"}`
	for name, sends := range map[string]string{
		"in a body of known length": s.get("/api/v1/status",
			fmt.Sprintf("Content-Length: %d", len(hidden))) + "\r\n" + hidden,
		"in a chunk": s.get("/api/v1/status", "Transfer-Encoding: chunked") +
			"\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden),
		"in a refused body": s.request("POST", "/api/v1/work",
			fmt.Sprintf("Content-Length: %d", len(hidden))) + "\r\n" + hidden,
		"in a trailer": s.get("/api/v1/status", "Transfer-Encoding: chunked",
			"Trailer: Authorization") + "\r\n0\r\nAuthorization: Bearer x\r\n\r\n",
		"after a broken chunk": s.request("POST", "/api/v1/work", s.bearer(),
			"Content-Type: application/json", "Transfer-Encoding: chunked") + "\r\nz\r\n\r\n" +
			hidden,
	} {
		t.Run(name, func(t *testing.T) {
			conn := s.dial(sends)
			conn.(*net.TCPConn).CloseWrite()
			conn.SetReadDeadline(time.Now().Add(patience))
			io.Copy(io.Discard, conn) // until the server has finished with it
			s.box.Engine.View(func(state *rules.State) {
				if _, found := state.Work("evil"); found {
					t.Error("the hidden request was carried out")
				}
			})
		})
	}
	s.serves()
}

// TestMemoryOfAttacks has many clients send large bodies that are refused, and read nothing of
// streams. The server keeps little of it.
func TestMemoryOfAttacks(t *testing.T) {
	s := newTarget(t, Options{AnonymousReads: true})
	for i := range 500 {
		s.do(rules.OpenWork{Work: fmt.Sprintf("long-%d", i), Title: strings.Repeat("long ", 800),
			Actor: "ann"})
	}
	body := bytes.Repeat([]byte("x"), 1<<20)
	before := heap()
	const clients = 50
	for range clients {
		s.clock.await(t, s.dial(s.get("/api/v1/events?after=0")+"\r\n"),
			func(server *timedConn) bool { return server.write != 0 })
		conn := s.dial("")
		go func() {
			io.WriteString(conn, s.request("POST", "/api/v1/work", "Content-Length: 100000000")+
				"\r\n")
			// without a copy, which would count as memory of the server until the connection is
			// closed
			conn.Write(body)
		}()
		// it may be closed while the client still sends
		if status := s.status(conn); status != http.StatusUnauthorized && status != 0 {
			t.Errorf("status %d", status)
		}
	}
	s.serves()
	const limit = 32 << 20 // the streams have 100 MB to send, and the bodies have 5 GB
	if grown := heap() - before; grown > limit {
		t.Errorf("%d clients take %d MB of memory, limit %d MB", 2*clients, grown>>20, limit>>20)
	}
}

// heap returns how much memory is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestSecretsStayInside uses every kind of secret, in the right and in wrong ways: none is in the
// log, or in a file of the box.
func TestSecretsStayInside(t *testing.T) {
	s := newTarget(t, Options{})
	store := access.NewStore(s.box.Dir)
	link, err := store.NewLink(t.Context(), "phone", access.Operate, time.Now())
	must.Succeed(t, err)
	host, err := store.LoginHost(t.Context())
	must.Succeed(t, err)
	send := func(method, path, secret, body string) (status int, answer string, cookie string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.address+path,
			strings.NewReader(body))
		must.Succeed(t, err)
		r.Header.Set("Content-Type", "application/json")
		if strings.HasPrefix(body, "link=") {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Host = host
		}
		if secret != "" {
			r.Header.Set("Authorization", "Bearer "+secret)
		}
		got, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		must.Succeed(t, err)
		defer got.Body.Close()
		data, err := io.ReadAll(got.Body)
		must.Succeed(t, err)
		for _, c := range got.Cookies() {
			cookie = c.Value
		}
		return got.StatusCode, string(data), cookie
	}
	s.serves()
	_, claimed, _ := send("POST", "/api/v1/claims", s.token, `{"role":"developer","session":"s-1"}`)
	_, secret, found := strings.Cut(claimed, `"secret":"`)
	secret, _, _ = strings.Cut(secret, `"`)
	if !found {
		t.Fatalf("claim: %s", claimed)
	}
	status, _, cookie := send("POST", "/login", "", "link="+link)
	if status != http.StatusSeeOther || cookie == "" {
		t.Fatalf("login: %d", status)
	}
	for _, hidden := range []string{s.token, link, cookie, secret} {
		for _, path := range []string{"/login?link=" + hidden, "/api/v1/status?token=" + hidden,
			"/" + hidden, "/work/" + hidden, "/api/v1/work/" + hidden, "/ledger/" + hidden,
			"/api/v1/blobs/" + hidden} {
			send("GET", path, "", "")
			send("POST", path, hidden+"x", "{}")
		}
		send("POST", "/api/v1/sessions/s-1/renew", hidden, `{"work":"`+hidden+`","epoch":1}`)
		s.status(s.dial(s.get("/api/v1/status", "Authorization: Bearer "+hidden, "Broken") +
			"\r\n"))
		s.status(s.dial(s.get("/api/v1/status", "Authorization: Bearer "+hidden, "X-Broken: \x00") +
			"\r\n"))
	}
	s.checkSecrets(link, cookie, secret)
}

// checkSecrets checks that the token and other secrets are neither in the log nor in a file.
func (s *target) checkSecrets(others ...string) {
	s.t.Helper()
	secrets := append(others, s.token)
	check := func(where, text string) {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				s.t.Errorf("%s has the secret %s", where, secret)
			}
		}
	}
	check("the log", s.log.String())
	files := 0
	err := filepath.WalkDir(filepath.Dir(s.box.Dir),
		func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil // the server has just replaced another file by it
			}
			files++
			check(path, string(data))
			return err
		})
	if err != nil || files < 3 {
		s.t.Errorf("%d files were read: %v", files, err)
	}
}
