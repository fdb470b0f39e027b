package dashboard

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"signalbox/internal/serve/access"
	"signalbox/internal/serve/transfer"
	"signalbox/internal/testkit/must"
)

// connection is a client's connection, which records the deadlines.
type connection struct {
	*httptest.ResponseRecorder
	readBy, writeBy time.Time
}

func (c *connection) SetReadDeadline(t time.Time) error  { c.readBy = t; return nil }
func (c *connection) SetWriteDeadline(t time.Time) error { c.writeBy = t; return nil }

// body is the body of a request.
type body struct {
	io.Reader
	onRead func()
}

func (b body) Read(p []byte) (int, error) {
	b.onRead()
	return b.Reader.Read(p)
}

// TestFormsAreReadInTime posts every form: its body has a deadline, which ends when it is read, and
// is not read at all if the request comes from elsewhere.
func TestFormsAreReadInTime(t *testing.T) {
	s := newStage(t)
	token, err := s.store.Create(t.Context(), access.Token{Name: "all", Kind: access.KindToken,
		Scope: access.Operate, Created: time.Now()})
	must.Succeed(t, err)
	for _, path := range []string{"/login", "/questions/Q-9/answer", "/work/T9/approve",
		"/work/T9/reject", "/work/T9/rework", "/work/T9/findings/F1/waive", "/work/T9/tell", "/work/T9/order", "/oracle"} {
		for _, kind := range []string{"application/x-www-form-urlencoded",
			"multipart/form-data; boundary=x", "text/plain"} {
			for name, from := range map[string]struct {
				host, origin string
				reads        bool
			}{
				"here":            {"127.0.0.1", "http://127.0.0.1", true},
				"another host":    {"evil.example", "http://evil.example", false},
				"another website": {"127.0.0.1", "http://evil.example", false},
			} {
				c := &connection{ResponseRecorder: httptest.NewRecorder()}
				read := false
				r := httptest.NewRequest(http.MethodPost, path,
					body{strings.NewReader("link=x&text=x"), func() {
						read = true
						if c.readBy.IsZero() {
							t.Errorf("%s, %s: the body is read without a deadline", path, kind)
						}
					}})
				r.Host = from.host
				r.Header.Set("Origin", from.origin)
				r.Header.Set("Content-Type", kind)
				r.Header.Set("Authorization", "Bearer "+token)
				s.mux.ServeHTTP(c, r)
				if read != from.reads {
					t.Errorf("%s, %s from %s: the body is read: %t", path, kind, name, read)
				}
				if c.readBy.IsZero() != from.reads {
					t.Errorf("%s, %s from %s: deadline %v at the end", path, kind, name, c.readBy)
				}
			}
		}
	}
}

// TestEveryPageHasADeadline gets pages, also such that fail.
func TestEveryPageHasADeadline(t *testing.T) {
	s := newStage(t)
	for path := range s.pages() {
		c := &connection{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = "127.0.0.1"
		s.mux.ServeHTTP(c, r)
		if c.writeBy.IsZero() {
			t.Errorf("%s is written without a deadline", path)
		}
	}
}

// TestHeavyPagesWaitForASlot takes all slots of callers without a token: diffs and logs are refused
// to them, other pages are not, and a caller with a token does not notice.
func TestHeavyPagesWaitForASlot(t *testing.T) {
	s := newStage(t)
	s.allowAnonymousReads()
	*s.dashboard.heavy = *transfer.NewSlots(maxHeavy, time.Nanosecond)
	*s.dashboard.publicHeavy = *transfer.NewSlots(maxPublicHeavy, time.Nanosecond)
	for range maxPublicHeavy {
		must.Succeed(t, s.dashboard.publicHeavy.Enter(t.Context()))
	}
	for range maxHeavy + 1 {
		if status, _, _ := s.get(s.viewer(), "/work/T2/log"); status != http.StatusOK {
			t.Errorf("with a token: %d", status)
		}
	}
	for path, want := range map[string]int{"/work/T2/log": http.StatusServiceUnavailable,
		"/work/T2/diff": http.StatusServiceUnavailable, "/work/T2": http.StatusOK,
		"/board": http.StatusOK} {
		if status, _, _ := s.get(http.DefaultClient, path); status != want {
			t.Errorf("%s without a slot: %d, want %d", path, status, want)
		}
	}
	s.dashboard.publicHeavy.Leave()
	for range 2 { // the first gives its slot back
		if status, _, _ := s.get(http.DefaultClient, "/work/T2/log"); status != http.StatusOK {
			t.Errorf("with a slot: %d", status)
		}
	}
}
