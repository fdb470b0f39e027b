package access

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/testkit/must"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func TestScopes(t *testing.T) {
	scopes := []Scope{Read, Private, Answer, Operate, Session("s-1"), Session("s-2")}
	allowed := map[Scope][]Scope{
		Public:         nil,
		Read:           {Read, Private},
		Answer:         {Read, Private, Answer},
		Operate:        scopes,
		Session("s-1"): {Session("s-1")},
	}
	for has, needs := range allowed {
		for _, needed := range scopes {
			want := false
			for _, n := range needs {
				want = want || n == needed
			}
			if got := has.Allows(needed); got != want {
				t.Errorf("scope %q allows %q: %t, want %t", has, needed, got, want)
			}
		}
		if !has.Allows(Public) {
			t.Errorf("scope %q does not allow what everyone may do", has)
		}
	}
	for _, bad := range []string{"", "all", "READ", "private", "session:", "session:../x",
		"session:a b"} {
		if s, err := ParseScope(bad); err == nil {
			t.Errorf("ParseScope(%q) = %q, want an error", bad, s)
		}
	}
}

func TestTokensAreStoredAsDigests(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(dir)
	secret, err := s.Create(t.Context(), Token{Name: "ci", Kind: KindToken, Scope: Read,
		Created: noon})
	must.Succeed(t, err)
	data, err := os.ReadFile(filepath.Join(dir, tokenFile))
	must.Succeed(t, err)
	if strings.Contains(string(data), secret) ||
		strings.Contains(string(data), strings.TrimPrefix(secret, tokenPrefix)) {
		t.Errorf("the file has the token itself:\n%s", data)
	}
	info, err := os.Stat(filepath.Join(dir, tokenFile))
	must.Succeed(t, err)
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the file has mode %o, want 600", mode)
	}
	if got, err := NewStore(dir).Find(secret, noon, KindToken); err != nil || got.Name != "ci" ||
		got.Scope != Read {
		t.Errorf("Find = %+v, %v", got, err)
	}
	for name, find := range map[string]func() (Token, error){
		"wrong":      func() (Token, error) { return s.Find(secret+"x", noon, KindToken) },
		"empty":      func() (Token, error) { return s.Find("", noon, KindToken) },
		"wrong kind": func() (Token, error) { return s.Find(secret, noon, KindBrowser, KindLink) },
		"the digest": func() (Token, error) { return s.Find(digest(secret), noon, KindToken) },
	} {
		if got, err := find(); !errors.Is(err, ErrUnknownToken) {
			t.Errorf("%s: found %+v, %v", name, got, err)
		}
	}
}

func TestRevokedAndExpiredTokens(t *testing.T) {
	dir := t.TempDir()
	here, elsewhere := NewStore(dir), NewStore(dir)
	secret, err := here.Create(t.Context(), Token{Name: "a", Kind: KindToken, Scope: Read,
		Created: noon, Expires: noon.Add(time.Hour)})
	must.Succeed(t, err)
	if _, err := here.Find(secret, noon.Add(time.Hour-1), KindToken); err != nil {
		t.Error("before it expires:", err)
	}
	if _, err := here.Find(secret, noon.Add(time.Hour), KindToken); !errors.Is(err,
		ErrExpiredToken) {
		t.Error("when it expires:", err)
	}
	if _, err := here.Create(t.Context(), Token{Name: "a", Kind: KindToken, Scope: Read,
		Created: noon}); signalbox.CodeOf(err) != signalbox.CodeConflict {
		t.Error("a second token of that name:", err)
	}
	if err := elsewhere.Revoke(t.Context(), "a"); err != nil { // as another process does
		t.Fatal(err)
	}
	if _, err := here.Find(secret, noon, KindToken); !errors.Is(err, ErrUnknownToken) {
		t.Error("after it was revoked elsewhere:", err)
	}
	if err := here.Revoke(t.Context(), "a"); signalbox.CodeOf(err) != signalbox.CodeNotFound {
		t.Error("revoked again:", err)
	}
}

// An expired token is denied with the reason, until it is forgotten.
func TestExpiredTokensSayWhy(t *testing.T) {
	store, now := NewStore(t.TempDir()), noon
	g := NewGuard(store, &Options{Now: func() time.Time { return now }})
	secret, err := store.Create(t.Context(), Token{Name: "ci", Kind: KindToken, Scope: Read,
		Created: noon, Expires: noon.Add(time.Hour)})
	must.Succeed(t, err)
	link, err := store.NewLink(t.Context(), "laptop", Read, noon)
	must.Succeed(t, err)
	check := func() error {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = "127.0.0.1:7700"
		r.Header.Set("Authorization", "Bearer "+secret)
		_, err := g.Check(r, Read, false)
		return err
	}
	if err := check(); err != nil {
		t.Error("before it expires:", err)
	}
	now = noon.Add(time.Hour)
	const why = "the token ci expired at 2026-05-01 13:00:00 UTC: signalbox token create prints another one"
	create := func(name string) {
		t.Helper()
		if _, err := store.Create(t.Context(), Token{Name: name, Kind: KindToken, Scope: Read,
			Created: now}); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{"a", "b"} { // making another token does not forget it
		if err := check(); StatusOf(err) != http.StatusUnauthorized || err.Error() != why {
			t.Errorf("after it has expired: %v", err)
		}
		create(other)
	}
	if _, err := store.Find(link, now, KindLink); !errors.Is(err, ErrUnknownToken) {
		t.Errorf("an expired link is still known: %v", err)
	}
	create("ci") // its name is free again
	if err := check(); StatusOf(err) != http.StatusUnauthorized || err.Error() == why {
		t.Errorf("after its name was given to another token: %v", err)
	}
}

// Expired tokens do not keep new ones out, and are forgotten in the end.
func TestExpiredTokensMakeRoom(t *testing.T) {
	store := NewStore(t.TempDir())
	var old []Token
	for i := range maxTokens {
		old = append(old, Token{Name: fmt.Sprintf("ci-%d", i), Kind: KindToken, Scope: Read,
			Created: noon, Expires: noon.Add(time.Hour)})
	}
	count := func(now time.Time, name string) int {
		t.Helper()
		if _, err := store.Create(t.Context(), Token{Name: name, Kind: KindToken, Scope: Read,
			Created: now}); err != nil {
			t.Fatal(err)
		}
		tokens, err := store.List()
		must.Succeed(t, err)
		return len(tokens)
	}
	for _, test := range []struct {
		name string
		old  int
		now  time.Time
		want int
	}{
		{"room for all", 5, noon.Add(time.Hour), 6},
		{"no room", maxTokens, noon.Add(time.Hour), 1},
		{"long ago", 5, noon.Add(time.Hour + expiredLife), 1},
	} {
		err := store.change(t.Context(),
			func([]Token) ([]Token, error) { return old[:test.old], nil })
		must.Succeed(t, err)
		if got := count(test.now, "new"); got != test.want {
			t.Errorf("%s: %d tokens, want %d", test.name, got, test.want)
		}
	}
}

func TestLinksWorkOnce(t *testing.T) {
	store := NewStore(t.TempDir())
	secret, err := store.NewLink(t.Context(), "phone", Answer, noon)
	must.Succeed(t, err)
	var wins sync.Map
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if cookie, err := store.Redeem(t.Context(), secret, noon, time.Hour); err == nil {
				wins.Store(cookie, true)
			}
		})
	}
	group.Wait()
	count := 0
	for cookie := range wins.Range {
		count++
		if got, err := store.Find(cookie.(string), noon, KindBrowser); err != nil ||
			got.Scope != Answer || got.Name != "phone" {
			t.Errorf("the cookie gives %+v, %v", got, err)
		}
	}
	if count != 1 {
		t.Errorf("%d browsers logged in by one link, want 1", count)
	}
	late, err := store.NewLink(t.Context(), "late", Answer, noon)
	must.Succeed(t, err)
	if _, err := store.Redeem(t.Context(), late, noon.Add(LinkLife), time.Hour); !errors.Is(err,
		ErrUnknownToken) {
		t.Error("an expired link:", err)
	}
}

// TestCheck is the table of access: who may do what, from where.
func TestCheck(t *testing.T) {
	store := NewStore(t.TempDir())
	secrets := map[Scope]string{}
	for _, scope := range []Scope{Read, Answer, Operate, Session("s-1")} {
		secret, err := store.Create(t.Context(),
			Token{Name: strings.ReplaceAll(string(scope), ":", "-"), Kind: KindToken, Scope: scope,
				Created: noon})
		must.Succeed(t, err)
		secrets[scope] = "Bearer " + secret
	}
	link, err := store.NewLink(t.Context(), "laptop", Answer, noon)
	must.Succeed(t, err)
	cookie, err := store.Redeem(t.Context(), link, noon, time.Hour)
	must.Succeed(t, err)
	const here, login = "127.0.0.1:7700", "box-k3vq7w.localhost:7700"
	tests := []struct {
		name    string
		host    string
		headers map[string]string
		needed  Scope
		writes  bool
		public  bool // anonymous reads are allowed
		want    int
	}{
		{name: "health", host: here, needed: Public, want: 200},
		{name: "read anonymously on loopback", host: here, needed: Read, public: true, want: 200},
		{name: "read on loopback", host: here, needed: Read, want: 401},
		{name: "read with a token", host: here, needed: Read,
			headers: map[string]string{"Authorization": secrets[Read]}, want: 200},
		{name: "private on loopback", host: here, needed: Private, public: true, want: 401},
		{name: "private by a name of the box", host: "box-k3vq7w.localhost:7700", needed: Private,
			public: true, want: 401},
		{name: "private with a token", host: here, needed: Private, public: true,
			headers: map[string]string{"Authorization": secrets[Read]}, want: 200},
		{name: "private with a cookie", host: login, needed: Private, public: true,
			headers: map[string]string{"Cookie": "signalbox-box-1=" + cookie}, want: 200},
		{name: "private with an old cookie", host: login, needed: Private, public: true,
			headers: map[string]string{"Cookie": "signalbox-box-1=old"}, want: 401},
		{name: "private with the token of a session", host: here, needed: Private, public: true,
			headers: map[string]string{"Authorization": secrets[Session("s-1")]}, want: 403},
		{name: "private with the secret of a lease", host: here, needed: Private, public: true,
			headers: map[string]string{"Authorization": "Bearer secret-x"}, want: 403},
		{name: "read by localhost", host: "localhost:7700", needed: Read, public: true, want: 200},
		{name: "read by IPv6", host: "[::1]:7700", needed: Read, public: true, want: 200},
		{name: "read by a name of the box", host: "box-k3vq7w.localhost:7700", needed: Read,
			public: true, want: 200},
		{name: "read by a known name", host: "Box.example", needed: Read, public: true, want: 401},
		{name: "read by a known name with a token", host: "Box.example", needed: Read,
			headers: map[string]string{"Authorization": secrets[Read]}, want: 200},
		{name: "the name of another box", host: "box-1.localhost:7700", needed: Read, public: true,
			want: 403},
		{name: "localhost look-alike", host: "evil-localhost", needed: Read, public: true,
			want: 403},
		{name: "cookie of another box", host: login, needed: Answer, writes: true,
			headers: map[string]string{"Cookie": "signalbox-box-2=" + cookie}, want: 401},
		{name: "rebinding", host: "evil.example:7700", needed: Read, public: true, want: 403},
		{name: "rebinding with a token", host: "evil.example", needed: Read,
			headers: map[string]string{"Authorization": secrets[Operate]}, want: 403},
		{name: "rebinding of health", host: "evil.example", needed: Public, want: 403},
		{name: "no host", host: "", needed: Public, want: 403},
		{name: "loopback look-alike", host: "127.0.0.1.evil.example", needed: Read, public: true,
			want: 403},
		{name: "a wrong token may not even read", host: here, needed: Read, public: true,
			headers: map[string]string{"Authorization": "Bearer sbx_wrong"}, want: 401},
		{name: "another scheme", host: here, needed: Read, public: true,
			headers: map[string]string{"Authorization": "Basic abc"}, want: 401},
		{name: "write without a token", host: here, needed: Answer, writes: true, public: true,
			want: 401},
		{name: "write of scope read without a token", host: here, needed: Read, writes: true,
			public: true, want: 401},
		{name: "write with read", host: here, needed: Answer, writes: true,
			headers: map[string]string{"Authorization": secrets[Read]}, want: 403},
		{name: "write with answer", host: here, needed: Answer, writes: true,
			headers: map[string]string{"Authorization": secrets[Answer]}, want: 200},
		{name: "operate with answer", host: here, needed: Operate, writes: true,
			headers: map[string]string{"Authorization": secrets[Answer]}, want: 403},
		{name: "operate", host: here, needed: Operate, writes: true,
			headers: map[string]string{"Authorization": secrets[Operate]}, want: 200},
		{name: "its session", host: here, needed: Session("s-1"), writes: true,
			headers: map[string]string{"Authorization": secrets[Session("s-1")]}, want: 200},
		{name: "another session", host: here, needed: Session("s-2"), writes: true,
			headers: map[string]string{"Authorization": secrets[Session("s-1")]}, want: 403},
		{name: "a session reads nothing", host: here, needed: Read,
			headers: map[string]string{"Authorization": secrets[Session("s-1")]}, want: 403},
		{name: "operate includes sessions", host: here, needed: Session("s-2"), writes: true,
			headers: map[string]string{"Authorization": secrets[Operate]}, want: 200},
		{name: "a lease's secret for a session", host: here, needed: Session("s-2"), writes: true,
			headers: map[string]string{"Authorization": "Bearer secret-x"}, want: 200},
		{name: "a lease's secret for reading", host: here, needed: Read, public: true,
			headers: map[string]string{"Authorization": "Bearer secret-x"}, want: 403},
		{name: "a lease's secret for operating", host: here, needed: Operate, writes: true,
			headers: map[string]string{"Authorization": "Bearer secret-x"}, want: 403},
		{name: "same origin", host: here, needed: Answer, writes: true,
			headers: map[string]string{"Authorization": secrets[Answer], "Origin": "http://" + here,
				"Sec-Fetch-Site": "same-origin"}, want: 200},
		{name: "cross-site write", host: login, needed: Answer, writes: true,
			headers: map[string]string{"Cookie": "signalbox-box-1=" + cookie,
				"Origin": "http://evil.example"}, want: 403},
		{name: "cross-site write without Origin", host: login, needed: Answer, writes: true,
			headers: map[string]string{"Cookie": "signalbox-box-1=" + cookie,
				"Sec-Fetch-Site": "cross-site"}, want: 403},
		{name: "cross-site form", host: login, needed: Answer, writes: true,
			headers: map[string]string{"Cookie": "signalbox-box-1=" + cookie,
				"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate",
				"Sec-Fetch-Dest": "document"}, want: 403},
		{name: "null origin", host: login, needed: Answer, writes: true,
			headers: map[string]string{"Cookie": "signalbox-box-1=" + cookie, "Origin": "null"},
			want:    403},
		{name: "another port", host: login, needed: Answer, writes: true,
			headers: map[string]string{"Cookie": "signalbox-box-1=" + cookie,
				"Origin": "http://127.0.0.1:9999"}, want: 403},
		{name: "same site, another port", host: login, needed: Answer, writes: true,
			headers: map[string]string{"Cookie": "signalbox-box-1=" + cookie,
				"Sec-Fetch-Site": "same-site"}, want: 403},
		{name: "cross-site read by script", host: here, needed: Read, public: true,
			headers: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
			want:    403},
		{name: "cross-site frame", host: here, needed: Read, public: true,
			headers: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate",
				"Sec-Fetch-Dest": "iframe"}, want: 403},
		{name: "a link on another page", host: here, needed: Read, public: true,
			headers: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate",
				"Sec-Fetch-Dest": "document"}, want: 200},
		{name: "cookie write", host: login, needed: Answer, writes: true,
			headers: map[string]string{"Cookie": "signalbox-box-1=" + cookie, "Origin": "http://" +
				login}, want: 200},
		{name: "cookie operate", host: login, needed: Operate, writes: true,
			headers: map[string]string{"Cookie": "signalbox-box-1=" + cookie, "Origin": "http://" +
				login}, want: 403},
		{name: "old cookie reads", host: login, needed: Read, public: true,
			headers: map[string]string{"Cookie": "signalbox-box-1" + "=old"}, want: 200},
		{name: "old cookie writes", host: login, needed: Answer, writes: true,
			headers: map[string]string{"Cookie": "signalbox-box-1" + "=old"}, want: 401},
		{name: "cookie under a name that others can listen on", host: here, needed: Answer,
			writes: true, headers: map[string]string{"Cookie": "signalbox-box-1=" + cookie,
				"Origin": "http://" + here}, want: 401},
		{name: "cookie under localhost", host: "localhost:7700", needed: Private, public: true,
			headers: map[string]string{"Cookie": "signalbox-box-1=" + cookie}, want: 401},
		{name: "cookie under a configured name", host: "box.example", needed: Answer, writes: true,
			headers: map[string]string{"Cookie": "signalbox-box-1=" + cookie,
				"Origin": "http://box.example"}, want: 200},
		{name: "a token as a cookie", host: login, needed: Operate, writes: true,
			headers: map[string]string{"Cookie": "signalbox-box-1=" +
				strings.TrimPrefix(secrets[Operate], "Bearer ")}, want: 401},
		{name: "a cookie as a token", host: here, needed: Answer, writes: true,
			headers: map[string]string{"Authorization": "Bearer " + cookie}, want: 401},
		{name: "a link as a token", host: here, needed: Answer, writes: true,
			headers: map[string]string{"Authorization": "Bearer " + link}, want: 401},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := NewGuard(store, &Options{Hosts: []string{"box.example"},
				AnonymousReads: test.public, Box: "box-1", LoginHost: "box-k3vq7w.localhost",
				Now: func() time.Time { return noon }})
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Host = test.host
			for name, value := range test.headers {
				r.Header.Set(name, value)
			}
			got := http.StatusOK
			_, err := g.Check(r, test.needed, test.writes)
			if denied := (*DeniedError)(nil); errors.As(err, &denied) {
				got = denied.Status
			} else if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("status %d (%v), want %d", got, err, test.want)
			}
		})
	}
}

func TestLogInAndOut(t *testing.T) {
	store := NewStore(t.TempDir())
	g := NewGuard(store, &Options{Now: func() time.Time { return noon }})
	link, err := store.NewLink(t.Context(), "laptop", Operate, noon)
	must.Succeed(t, err)
	request := func(headers ...string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/login", nil)
		r.Host = "127.0.0.1:7700"
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return r
	}
	if err := g.LogIn(httptest.NewRecorder(), request("Origin", "http://evil.example"),
		link); err == nil {
		t.Error("a page of another origin logged in")
	}
	answer := httptest.NewRecorder()
	must.Succeed(t, g.LogIn(answer, request(), link))
	cookies := answer.Result().Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode {
		t.Fatalf("cookies %v, want one with HttpOnly and SameSite", cookies)
	}
	in := request("Cookie", cookies[0].Name+"="+cookies[0].Value)
	if caller, err := g.Check(in, Operate, true); err != nil || caller.Name != "laptop" ||
		!caller.Browser {
		t.Errorf("after logging in: %+v, %v", caller, err)
	}
	must.Succeed(t, g.LogOut(httptest.NewRecorder(), in))
	if _, err := g.Check(in, Operate, true); err == nil {
		t.Error("the cookie still works after logging out")
	}
}

// Nobody logs in under a name that a program on another port of this machine could also use.
func TestLogInNeedsTheLoginHost(t *testing.T) {
	store := NewStore(t.TempDir())
	host, err := store.LoginHost(t.Context())
	must.Succeed(t, err)
	g := NewGuard(store, &Options{LoginHost: host, Now: func() time.Time { return noon }})
	link, err := store.NewLink(t.Context(), "laptop", Operate, noon)
	must.Succeed(t, err)
	for _, name := range []string{"127.0.0.1:7700", "localhost:7700", "[::1]:7700", host +
		":7700"} {
		r, answer := httptest.NewRequest(http.MethodPost, "/login", nil), httptest.NewRecorder()
		r.Host = name
		err := g.LogIn(answer, r, link)
		if ok := err == nil && len(answer.Result().Cookies()) == 1; ok != strings.HasPrefix(name,
			host) {
			t.Errorf("login under %s: %v, cookies %v", name, err, answer.Result().Cookies())
		}
	}
}

// The login host of a box stays the same, and does not follow from anything that others know.
func TestLoginHost(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	names := map[string]bool{}
	for _, dir := range []string{dir, dir, other} {
		name, err := NewStore(dir).LoginHost(t.Context())
		if err != nil || !loginHosts().MatchString(name) {
			t.Fatalf("%q, %v", name, err)
		}
		names[name] = true
	}
	if len(names) != 2 {
		t.Errorf("names of two boxes: %v", names)
	}
	file := filepath.Join(dir, loginFile)
	info, err := os.Stat(file)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	must.Succeed(t, os.WriteFile(file, []byte("localhost\n"), 0o600))
	if name, err := NewStore(dir).LoginHost(t.Context()); err != nil ||
		!loginHosts().MatchString(name) {
		t.Errorf("after damage: %q, %v", name, err)
	}
}
