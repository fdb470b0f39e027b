package dashboard

import (
	"bytes"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"signalbox/internal/serve/access"
	"signalbox/internal/testkit/must"
)

// TestRefusedCallersSeeNothing makes requests that are refused, and gets pages for everyone: none
// shows the box.
func TestRefusedCallersSeeNothing(t *testing.T) {
	s := newStage(t)
	beyond, err := New(s.box,
		access.NewGuard(s.store, &access.Options{Hosts: []string{"box.example"}}),
		Options{Name: "secretproject"})
	must.Succeed(t, err)
	mux := http.NewServeMux()
	beyond.Register(mux)
	for _, test := range []struct {
		method, path, host, origin string
		status                     int
		plain                      bool
	}{
		{http.MethodPost, "/work/T1/approve", "box.example", "", http.StatusUnauthorized, false},
		{http.MethodPost, "/login", "box.example", "", http.StatusUnauthorized, false},
		{http.MethodGet, "/login", "box.example", "", http.StatusOK, false},
		{http.MethodGet, "/verify", "box.example", "", http.StatusOK, false},
		{http.MethodGet, "/", "box.example", "", http.StatusUnauthorized, false},
		{http.MethodGet, "/", "evil.example", "", http.StatusForbidden, true},
		{http.MethodGet, "/login", "evil.example", "", http.StatusForbidden, true},
		{http.MethodPost, "/work/T1/approve", "box.example", "http://evil.example",
			http.StatusForbidden, true},
	} {
		r := httptest.NewRequest(test.method, test.path, strings.NewReader(""))
		r.Host = test.host
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		page := w.Body.String()
		if w.Code != test.status || strings.HasPrefix(w.Header().Get("Content-Type"),
			"text/plain") != test.plain {
			t.Errorf("%s %s of %s: %d %s", test.method, test.path, test.host, w.Code,
				w.Header().Get("Content-Type"))
		}
		for _, hidden := range []string{"secretproject", "<title>(", `id="standing"`,
			`id="pages"`} {
			if strings.Contains(page, hidden) {
				t.Errorf("%s %s of %s shows %s:\n%s", test.method, test.path, test.host, hidden,
					page)
			}
		}
		if !test.plain && strings.Contains(page, "data-seq") &&
			!strings.Contains(page, `data-seq="0"`) {
			t.Errorf("%s %s shows the number of events", test.method, test.path)
		}
	}
}

// TestFailedPage shows an error of the server: the page has no detail, and the log has it.
func TestFailedPage(t *testing.T) {
	s := newStage(t)
	var log bytes.Buffer
	s.dashboard.opts.Log = slog.New(slog.NewTextHandler(&log, nil))
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/board", nil)
	r.Host = "127.0.0.1"
	s.dashboard.fail(w, r, access.Caller{Scope: access.Read}, &secretError{})
	if page := w.Body.String(); w.Code != http.StatusInternalServerError ||
		strings.Contains(page, "/home/ann") || !strings.Contains(log.String(), "/home/ann") {
		t.Errorf("%d, logged %q:\n%s", w.Code, log.String(), page)
	}
}

type secretError struct{}

func (*secretError) Error() string { return "open /home/ann/file: it failed" }

// TestFindFromAnywhere looks for a text from positions that are not in the transcript.
func TestFindFromAnywhere(t *testing.T) {
	const text = "one two one"
	for _, test := range []struct {
		at   int64
		back bool
		hit  int64
	}{
		{math.MaxInt64, false, -1}, {math.MaxInt64, true, 8}, {math.MaxInt64 - 1, false, -1},
		{math.MaxInt64 - 1<<23, false, -1},
		{math.MinInt64, false, 0}, {math.MinInt64, true, -1}, {-1, false, 0},
		{int64(len(text)), true, 8},
	} {
		hit, next, err := find(strings.NewReader(text), int64(len(text)), "one", test.at, test.back)
		if hit != test.hit || next != -1 || err != nil {
			t.Errorf("from %d, back %t: %d, %d, %v", test.at, test.back, hit, next, err)
		}
	}
}
