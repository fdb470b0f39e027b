package agents_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"signalbox/internal/testkit/must"
)

// issuer renews the login of codex, like its vendor: a refresh token works once.
type issuer struct {
	*httptest.Server
	mu      sync.Mutex
	renewed int // how often; the refresh token that is valid has this number
	reused  int // how often a refresh token came that is not valid any more
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{}
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

// renewal is the path at which a login is renewed. codex asks its vendor for other things, too, and
// does without.
const renewal = "/oauth/token"

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != renewal {
		http.NotFound(w, r)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	var asked struct {
		RefreshToken string `json:"refresh_token"`
	}
	if json.NewDecoder(r.Body).Decode(&asked) != nil ||
		asked.RefreshToken != refreshToken(i.renewed) {
		i.reused++
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error": {"code": "refresh_token_reused"}}`)
		return
	}
	i.renewed++
	json.NewEncoder(w).Encode(tokens(i.renewed, time.Now().Add(24*time.Hour)))
}

func refreshToken(number int) string { return fmt.Sprintf("rt-%d", number) }

// tokens returns the tokens of a login.
func tokens(number int, expires time.Time) map[string]string {
	claims := fmt.Sprintf(
		`{"sub":"user","email":"ann@example.org","exp":%d,"jti":"%d","https://api.openai.com/auth":`+
			`{"chatgpt_account_id":"account","chatgpt_plan_type":"plus","chatgpt_user_id":"user"}}`,
		expires.Unix(), number)
	token := "eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	return map[string]string{"id_token": token, "access_token": token,
		"refresh_token": refreshToken(number)}
}

// renewLogins runs a plan with a codex whose login has expired. Its first session renews it, with a
// token that works once. All others, which have homes of their own, use what it renewed, and so
// does the user.
func renewLogins(t *testing.T) {
	s, i := newProject(t), newIssuer(t)
	server, end := s.serve(t, example(t, "greetings.yaml"))
	home := filepath.Join(filepath.Dir(s.dir), "home", ".codex")
	given := tokens(0, time.Now().Add(-time.Hour))
	given["account_id"] = "account"
	login, err := json.Marshal(map[string]any{"auth_mode": "chatgpt", "OPENAI_API_KEY": nil,
		"tokens": given, "last_refresh": "2025-11-01T00:00:00Z", "mine": 1})
	must.Succeed(t, err)
	settings := fmt.Sprintf(
		"model_provider = \"scripted\"\nchatgpt_base_url = %q\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = %q\n"+
			"wire_api = \"responses\"\nrequires_openai_auth = true\n[features]\nplugins = false\n",
		i.URL, server.OpenAI)
	must.Succeed(t, os.Mkdir(home, 0o700))
	for name, text := range map[string]string{"auth.json": string(login), "config.toml": settings} {
		must.Succeed(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o600))
	}
	s.writeConfig(t, fmt.Sprintf(
		"agents:\n  all: {preset: codex, model: rehearsal, env: {CODEX_REFRESH_TOKEN_URL_OVERRIDE: %q}}\nagent: all\n", i.URL+renewal))
	if heard, _ := s.runPlan(t, example(t, "greetings.md"), end); len(heard) != 6 {
		t.Errorf("heard %q", heard)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	text, err := os.ReadFile(filepath.Join(home, "auth.json"))
	var got struct {
		Tokens map[string]string
		Mine   int
	}
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil || got.Tokens["refresh_token"] != refreshToken(1) || got.Mine != 1 {
		t.Errorf("the user's login is %s, %v", text, err)
	}
	if i.renewed != 1 || i.reused != 0 {
		t.Errorf("the login was renewed %d times, and a token was used again %d times", i.renewed,
			i.reused)
	}
}
