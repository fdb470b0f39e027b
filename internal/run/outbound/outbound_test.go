package outbound

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"signalbox/internal/testkit/must"
)

// The file with the secret is used if the variable is not set, and a secret without prefix is used
// as it is.
func TestSecretFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	must.Succeed(t, os.WriteFile(file, []byte("from the file\n"), 0o600))
	for value, want := range map[string]string{"": "from the file",
		"from the variable": "from the variable"} {
		key, err := Secret{Env: "HOOK", File: file}.key(func(string) string { return value })
		if err != nil || string(key) != want {
			t.Errorf("%q: %q, %v", value, key, err)
		}
	}
}

// Some answers of a server mean that trying again may help, and others that somebody must change
// something. Redirects are not followed.
func TestAnswers(t *testing.T) {
	for code, want := range map[int]string{200: "", 204: "", 500: "temporary", 502: "temporary",
		503: "temporary", 408: "temporary", 425: "temporary", 429: "temporary",
		301: "permanent", 302: "permanent", 307: "permanent", 400: "permanent", 401: "permanent",
		403: "permanent", 404: "permanent", 410: "permanent"} {
		var requests atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
		}))
		defer server.Close()
		err := Post(t.Context(), NewClient(), server.URL, http.Header{}, nil)
		kind := ""
		if err != nil {
			kind = map[bool]string{true: "permanent", false: "temporary"}[IsPermanent(err)]
		}
		if kind != want || requests.Load() != 1 {
			t.Errorf("%d: %v after %d requests", code, err, requests.Load())
		}
	}
}
