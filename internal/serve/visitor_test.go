package serve

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"signalbox/internal/serve/certificate"
	"signalbox/internal/testkit/must"
)

// TestVisitorsOnLoopback is another user of the machine, or an agent, who connects without a token:
// everything that reads the box is refused, and what is open tells nothing about it.
func TestVisitorsOnLoopback(t *testing.T) {
	mcp := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // has its own tokens
		w.WriteHeader(http.StatusTeapot)
	})
	for _, anonymous := range []bool{false, true} {
		s := newTarget(t, Options{AnonymousReads: anonymous, Project: "secret-project", MCP: mcp})
		reads := http.StatusUnauthorized
		if anonymous {
			reads = http.StatusOK
		}
		for path, want := range map[string]int{
			"/healthz": http.StatusOK, "/readyz": http.StatusOK, "/login": http.StatusOK,
			"/verify": http.StatusOK, "/static/verify.js": http.StatusOK,
			"/static/style.css": http.StatusOK,
			"/":                 reads, "/board": reads, "/metrics": reads, "/api/v1/status": reads,
			"/api/v1/openapi.json": reads, "/api/v1/ledger/events": reads,
			"/api/v1/ledger/verify": http.StatusUnauthorized, // it makes the server work hard
			"/mcp":                  http.StatusTeapot,
		} {
			answer, err := http.Get("http://" + s.address + path)
			must.Succeed(t, err)
			body, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil || answer.StatusCode != want {
				t.Errorf("%s, anonymous reads %t: %s, %v, want %d", path, anonymous, answer.Status,
					err, want)
			}
			for _, secret := range []string{"secret-project", s.box.ID(), "signalbox_work"} {
				if !anonymous && strings.Contains(string(body), secret) {
					t.Errorf("%s tells a visitor %q:\n%s", path, secret, body)
				}
			}
		}
	}
}

// TestStrictTransport: a browser that came over TLS is told to stay with it, on every page and
// under every name that is not one of its own machine.
func TestStrictTransport(t *testing.T) {
	pair, err := certificate.SelfSigned(t.TempDir(), []string{"box.example"})
	must.Succeed(t, err)
	secure := &tls.Config{Certificates: []tls.Certificate{pair}}
	for _, config := range []*tls.Config{nil, secure} {
		s := newTarget(t, Options{TLS: config, Hosts: []string{"box.example"}})
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		scheme := "http://"
		if config != nil {
			scheme = "https://"
		}
		for _, host := range []string{"box.example", "box.example:7700", "localhost:7700",
			"LOCALHOST.",
			"box-x.localhost:7700"} {
			for _, path := range []string{"/", "/healthz", "/api/v1/status", "/static/style.css",
				"/none"} {
				at := scheme + s.address + path
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
				must.Succeed(t, err)
				r.Host = host
				answer, err := client.Do(r)
				must.Succeed(t, err)
				answer.Body.Close()
				want := ""
				if config != nil && strings.HasPrefix(host, "box.example") {
					want = "max-age=31536000"
				}
				if got := answer.Header.Get("Strict-Transport-Security"); got != want {
					t.Errorf("%s%s%s: %q, want %q", scheme, host, path, got, want)
				}
			}
		}
	}
}
