package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"signalbox/internal/serve/access"
	"signalbox/internal/testkit/must"
)

// TestTokensExpire creates tokens with each kind of end. One of an earlier version, which had none
// by default, stays valid, and doctor names it.
func TestTokensExpire(t *testing.T) {
	b := newTestBox(t)
	for name, test := range map[string]struct {
		args []string
		life time.Duration // 0 means forever
	}{
		"default": {nil, 90 * 24 * time.Hour},
		"day":     {[]string{"--expires", "24h"}, 24 * time.Hour},
		"never":   {[]string{"--expires", "never"}, 0},
		"old":     {[]string{"--expires", "1ns"}, 1},
	} {
		var got struct {
			Created time.Time
			Expires *time.Time
		}
		args := append([]string{"token", "create", name, "--scope", "read", "--json"}, test.args...)
		must.Succeed(t, json.Unmarshal([]byte(b.must(args...)), &got))
		life := time.Duration(0)
		if got.Expires != nil {
			life = got.Expires.Sub(got.Created)
		}
		if life != test.life {
			t.Errorf("%s: created %v, expires %v", name, got.Created, got.Expires)
		}
	}
	for _, bad := range []string{"0", "-1h", "tomorrow", "", "Never"} {
		p, out, stderr := b.program("token", "create", "bad", "--scope", "read", "--expires="+bad)
		if status := execute(p); status != 2 || out.Len() > 0 ||
			!strings.Contains(stderr.String(), "720h") {
			t.Errorf("--expires %q: status %d: %s%s", bad, status, out, stderr)
		}
	}
	store := access.NewStore(b.dir)
	earlier, err := store.Create(t.Context(), access.Token{Name: "earlier", Kind: access.KindToken,
		Scope: access.Read, Created: time.Now()})
	must.Succeed(t, err)
	if _, err := store.Find(earlier, time.Now().AddDate(100, 0, 0), access.KindToken); err != nil {
		t.Errorf("a token of an earlier version: %v", err)
	}
	list := b.must("token", "list")
	for _, line := range []string{`default +token +read +\S+ \S+ +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`,
		`never +token .* never`, `earlier +token .* never`, `old +token .*\d \(expired\)`} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).MatchString(list) {
			t.Errorf("no line like %s in\n%s", line, list)
		}
	}
	p, out, _ := b.program("doctor")
	execute(p) // other checks may fail on this machine
	warns := regexp.MustCompile(`(?m)^warning +tokens +these never expire: never, earlier$`)
	if !warns.MatchString(out.String()) {
		t.Errorf("doctor:\n%s", out)
	}
	b.must("token", "revoke", "never")
	b.must("token", "revoke", "earlier")
	p, out, _ = b.program("doctor")
	execute(p)
	if strings.Contains(out.String(), "tokens") {
		t.Errorf("doctor, without such tokens:\n%s", out)
	}
}
