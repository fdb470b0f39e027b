package contain

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// renewalCase is what a program does to its copy, as replacements of text, and what becomes of the
// user's file.
type renewalCase struct {
	name    string
	user    []string // replacements in the user's file meanwhile
	copied  []string
	renewed []string // replacements in the user's file afterwards, on top of user
	refused []string
}

// renewedAt is when logins are renewed in these tests.
var renewedAt = time.Date(2025, 11, 17, 9, 0, 0, 0, time.UTC)

// testRenewal runs the cases of a program on a file of the shape that it really writes.
func testRenewal(t *testing.T, file, base string, cases []renewalCase) {
	t.Helper()
	replace := func(text string, pairs []string) string {
		t.Helper()
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(text, pairs[i]) {
				t.Fatalf("%q is not in the file", pairs[i])
			}
		}
		return strings.NewReplacer(pairs...).Replace(text)
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			user := replace(base, tt.user)
			renewed, refused, err := renewLogin(file, []byte(base), []byte(user),
				[]byte(replace(base, tt.copied)), renewedAt)
			must.Succeed(t, err)
			if diff := cmp.Diff(replace(user, tt.renewed), string(renewed)); diff != "" {
				t.Errorf("the user's file (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.refused, refused); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

// signed returns a JSON Web Token with claims.
func signed(claims string) string {
	return "eyJhbGciOiJSUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(claims)) +
		".c2lnbmF0dXJl"
}

// openAI returns a token of an account of OpenAI.
func openAI(account string, number int) string {
	return signed(fmt.Sprintf(
		`{"sub":"auth0|u","exp":%d,"https://api.openai.com/auth":{"chatgpt_account_id":%q,"chatgpt_plan_type":"plus"}}`, number, account))
}

func TestRenewClaude(t *testing.T) {
	const base = `{"claudeAiOauth":{"accessToken":"sk-ant-oat01-a","refreshToken":"sk-ant-ort01-a","expiresAt":1763370000000,` +
		`"scopes":["user:inference","user:profile"],"subscriptionType":"max","rateLimitTier":"default_claude_max_5x",` +
		`"organizationUuid":"org-1"},"mcpOAuth":{"docs|0f1e":{"serverName":"docs","serverUrl":"https://docs.example/mcp",` +
		`"clientId":"c","accessToken":"ma","refreshToken":"mr","expiresAt":1,"scope":"read"}},` +
		`"enterpriseGateway":{"url":"https://gateway.example","jwt":"ja","idpRefreshToken":"ia","expiresAt":5},"organizationUuid":"org-1"}`
	tokens := []string{"oat01-a", "oat01-b", "ort01-a", "ort01-b", "1763370000000", "1763398800000"}
	testRenewal(t, ".claude/.credentials.json", base, []renewalCase{
		{name: "nothing"},
		{name: "renewed", copied: tokens, renewed: tokens},
		{name: "and what it notes for itself",
			copied: append([]string{`"subscriptionType":"max"`,
				`"subscriptionType":"pro","subscriptionTypeVerifiedAt":7,"refreshTokenExpiresAt":9`,
				`["user:inference",`, `["user:more",`}, tokens...),
			renewed: tokens},
		{name: "a token of an MCP server", copied: []string{`"ma"`, `"mb"`, `"mr"`, `"ms"`},
			renewed: []string{`"ma"`, `"mb"`, `"mr"`, `"ms"`}},
		{name: "a token of the gateway", copied: []string{`"ja"`, `"jb"`, `"ia"`, `"ib"`, `:5}`,
			`:6}`}, renewed: []string{`"ja"`, `"jb"`, `"ia"`, `"ib"`, `:5}`, `:6}`}},
		{name: "another gateway", copied: []string{`"ja"`, `"jb"`, "gateway.example",
			"attacker.example"},
			refused: []string{"enterpriseGateway.jwt is for another url",
				"enterpriseGateway.url was changed"}},
		{name: "another MCP server", copied: []string{`"ma"`, `"mb"`, "docs.example",
			"attacker.example"},
			refused: []string{`mcpOAuth."docs|0f1e".accessToken is for another serverUrl`,
				`mcpOAuth."docs|0f1e".serverUrl was changed`}},
		{name: "another organisation",
			copied: append([]string{`"organizationUuid":"org-1"`, `"organizationUuid":"org-2"`},
				tokens...),
			refused: []string{"claudeAiOauth.accessToken is for another organizationUuid",
				"claudeAiOauth.organizationUuid was changed", "organizationUuid was changed"}},
		{name: "no organisation", copied: append([]string{`,"organizationUuid":"org-1"}`, `}`},
			tokens...),
			refused: []string{"claudeAiOauth.accessToken is for another organizationUuid"}},
		{name: "a login that has ended", copied: []string{"sk-ant-oat01-a", "", "sk-ant-ort01-a",
			"", "1763370000000", "0"},
			refused: []string{"claudeAiOauth.accessToken is not a token"}},
		{name: "a token is missing",
			copied:  []string{"oat01-a", "oat01-b", `"refreshToken":"sk-ant-ort01-a",`, ""},
			refused: []string{"claudeAiOauth.refreshToken is missing"}},
		{name: "logged out",
			copied: []string{`"accessToken":"sk-ant-oat01-a","refreshToken":"sk-ant-ort01-a",`,
				""}},
		{name: "a time is missing",
			copied:  []string{"oat01-a", "oat01-b", `"expiresAt":1763370000000,`, ""},
			renewed: []string{"oat01-a", "oat01-b"}},
		{name: "a year ahead", copied: []string{"oat01-a", "oat01-b", "1763370000000",
			"1794906000000"},
			renewed: []string{"oat01-a", "oat01-b", "1763370000000", "1794906000000"}},
		{name: "two years ahead", copied: []string{"oat01-a", "oat01-b", "1763370000000",
			"1826442000000"},
			refused: []string{"claudeAiOauth.expiresAt is more than a year ahead"}},
		{name: "forever", copied: []string{"1763370000000", "9999999999999999"},
			refused: []string{"claudeAiOauth.expiresAt is more than a year ahead"}},
		{name: "two years ahead in seconds",
			copied:  []string{`"ja"`, `"jb"`, `:5}`, `:1826442000}`},
			refused: []string{"enterpriseGateway.expiresAt is more than a year ahead"}},
		{name: "a helper", copied: []string{`{"claudeAiOauth"`,
			`{"apiKeyHelper":"/tmp/evil","claudeAiOauth"`},
			refused: []string{"apiKeyHelper is new"}},
	})
}

func TestRenewCodex(t *testing.T) {
	a, b, swapped := openAI("acc-1", 1), openAI("acc-1", 2), openAI("acc-2", 2)
	base := fmt.Sprintf(`{
  "auth_mode": "chatgpt",
  "OPENAI_API_KEY": null,
  "tokens": {
    "id_token": %q,
    "access_token": "at-a",
    "refresh_token": "rt-a",
    "account_id": "acc-1"
  },
  "last_refresh": "2025-11-10T09:00:00.123456789Z"
}`, a)
	tokens := []string{a, b, "at-a", "at-b", "rt-a", "rt-b", "2025-11-10T09:00:00.123456789Z",
		"2025-11-17T09:00:00Z"}
	testRenewal(t, ".codex/auth.json", base, []renewalCase{
		{name: "renewed", copied: tokens, renewed: tokens},
		{name: "written without spaces",
			copied:  append([]string{"\n  ", "", "\n    ", "", `": `, `":`}, tokens...),
			renewed: tokens},
		{name: "an identity of the agent",
			copied: append([]string{`"last_refresh"`,
				`"agent_identity": {"agent_runtime_id": "x"}, "last_refresh"`}, tokens...),
			renewed: tokens},
		{name: "another account", copied: append([]string{`"acc-1"`, `"acc-2"`}, tokens...),
			refused: []string{"tokens.id_token is for another account_id",
				"tokens.account_id was changed"}},
		{name: "another account in the token", copied: []string{a, swapped, "rt-a", "rt-b"},
			refused: []string{"tokens.id_token is for another account"}},
		{name: "a token without an account", copied: []string{a, "opaque", "rt-a", "rt-b"},
			refused: []string{"tokens.id_token is for another account"}},
		{name: "a key", copied: []string{`"OPENAI_API_KEY": null`,
			`"OPENAI_API_KEY": "sk-attacker"`}, refused: []string{"OPENAI_API_KEY was changed"}},
		{name: "another mode", copied: []string{`"chatgpt"`, `"apikey"`, "at-a", "at-b"},
			refused: []string{"tokens.access_token is for another auth_mode",
				"auth_mode was changed"}},
		{name: "a time that is none",
			copied:  []string{"at-a", "at-b", "2025-11-10T09:00:00.123456789Z", "now"},
			refused: []string{"last_refresh is not a time"}},
		{name: "a time far ahead",
			copied: []string{"at-a", "at-b", "2025-11-10T09:00:00.123456789Z",
				"2999-01-01T00:00:00Z"},
			refused: []string{"last_refresh is more than a year ahead"}},
		{name: "a number as a time",
			copied:  []string{"at-a", "at-b", `"2025-11-10T09:00:00.123456789Z"`, "17"},
			refused: []string{"last_refresh is not a time"}},
		{name: "an object as a token", copied: []string{`"at-a"`, `{"x": 1}`},
			refused: []string{"tokens.access_token is not a token"}},
		{name: "a line in a token", copied: []string{"at-a", `at\nb`},
			refused: []string{"tokens.access_token is not a token"}},
		{name: "a long token", copied: []string{"at-a", strings.Repeat("x", maxToken+1)},
			refused: []string{"tokens.access_token is not a token"}},
		{name: "logged in again meanwhile", user: []string{"at-a", "at-u", "rt-a", "rt-u"},
			copied:  tokens,
			refused: []string{"tokens.id_token was renewed, but your file was changed meanwhile"}},
		{name: "renewed by another program meanwhile", user: tokens, copied: tokens},
		{name: "logged out meanwhile", user: []string{`"refresh_token": "rt-a",`, ``},
			copied:  tokens,
			refused: []string{"tokens.id_token was renewed, but your file was changed meanwhile"}},
	})
}

func TestRenewGemini(t *testing.T) {
	a, b, swapped := signed(`{"sub":"1","at_hash":"a"}`), signed(`{"sub":"1","at_hash":"b"}`),
		signed(`{"sub":"2"}`)
	base := fmt.Sprintf(`{
  "access_token": "ya29.a",
  "refresh_token": "1//a",
  "scope": "https://www.googleapis.com/auth/cloud-platform openid",
  "token_type": "Bearer",
  "id_token": %q,
  "expiry_date": 1763370000000
}`, a)
	tokens := []string{"ya29.a", "ya29.b", a, b, "1763370000000", "1763373600000"}
	testRenewal(t, ".gemini/oauth_creds.json", base, []renewalCase{
		{name: "renewed", copied: tokens, renewed: tokens},
		{name: "without a refresh token, in another order", // which Google does not send again
			copied: append([]string{"\n" + `  "refresh_token": "1//a",`, "",
				"cloud-platform openid", "openid cloud-platform"}, tokens...),
			renewed: tokens},
		{name: "without another token", copied: []string{"ya29.a", "ya29.b", "\n" +
			fmt.Sprintf(`  "id_token": %q,`, a), ""},
			refused: []string{"id_token is missing"}},
		{name: "another user", copied: []string{"ya29.a", "ya29.b", a, swapped, "1//a", "1//b"},
			refused: []string{"id_token is for another account"}},
		{name: "another kind of login",
			copied: []string{`{`,
				`{"type": "external_account", "credential_source": {"executable": {"command": "x"}},`,
				"ya29.a", "ya29.b"},
			renewed: []string{"ya29.a", "ya29.b"},
			refused: []string{"type is new", "credential_source is new"}},
	})
	testRenewal(t, ".gemini/google_accounts.json", `{"active": "ann@example.org", "old": []}`,
		[]renewalCase{
			{name: "another account", copied: []string{"ann@", "eve@"},
				refused: []string{"active was changed"}},
		})
}

func TestRenewOpencode(t *testing.T) {
	a, b, swapped := openAI("acc-1", 1), openAI("acc-1", 2), openAI("acc-2", 2)
	base := fmt.Sprintf(`{
  "openai": {"type": "oauth", "refresh": "rt-a", "access": %q, "expires": 1763370000000, "accountId": "acc-1"},
  "github-copilot": {"type": "oauth", "refresh": "gho_a", "access": "gho_a", "expires": 0, "enterpriseUrl": "ghe.example"},
  "anthropic": {"type": "api", "key": "sk-a"},
  "https://company.example": {"type": "wellknown", "key": "COMPANY_TOKEN", "token": "ct"},
  "newer": {"type": "unknown", "access": "n"}
}`, a)
	tokens := []string{a, b, "rt-a", "rt-b", "1763370000000", "1763373600000"}
	testRenewal(t, ".local/share/opencode/auth.json", base, []renewalCase{
		{name: "renewed", copied: tokens, renewed: tokens},
		{name: "what it does not know is removed",
			copied: append([]string{",\n" + `  "newer": {"type": "unknown", "access": "n"}`, ""},
				tokens...), renewed: tokens},
		{name: "a server that sends commands",
			copied: append([]string{`{` + "\n",
				`{"http://attacker.example": {"type": "wellknown", "key": "X", "token": "y"},` +
					"\n"},
				tokens...),
			renewed: tokens, refused: []string{`"http://attacker.example" is new`}},
		{name: "an entry becomes such a server", copied: []string{`"type": "api", "key": "sk-a"`,
			`"type": "wellknown", "key": "X", "token": "y"`},
			refused: []string{"anthropic.type was changed", "anthropic.key was changed",
				"anthropic.token is new"}},
		{name: "with new tokens", copied: []string{`"type": "oauth", "refresh": "rt-a"`,
			`"type": "wellknown", "key": "X", "token": "y", "refresh": "rt-b"`},
			refused: []string{"openai.refresh is of another type", "openai.type was changed",
				"openai.key is new", "openai.token is new"}},
		{name: "a key", copied: []string{"sk-a", "sk-b"},
			refused: []string{"anthropic.key was changed"}},
		{name: "the token of a server", copied: []string{`"ct"`, `"cu"`},
			refused: []string{`"https://company.example".token was changed`}},
		{name: "tokens of an unknown type", copied: []string{`"n"`, `"m"`},
			refused: []string{"newer.access was changed"}},
		{name: "another account", copied: []string{`"acc-1"`, `"acc-2"`, "rt-a", "rt-b"},
			refused: []string{"openai.refresh is for another accountId",
				"openai.accountId was changed"}},
		{name: "another account in the token", copied: []string{a, swapped, "rt-a", "rt-b"},
			refused: []string{"openai.access is for another account"}},
		{name: "another server", copied: []string{"gho_a", "gho_b", "ghe.example",
			"attacker.example"},
			refused: []string{"github-copilot.access is for another enterpriseUrl",
				"github-copilot.enterpriseUrl was changed"}},
		{name: "one is renewed here, the other elsewhere", user: []string{"gho_a", "gho_u"},
			copied: tokens, renewed: tokens},
		{name: "a name with invisible characters",
			copied:  []string{`{` + "\n", `{"a\u202e\u3164\n": 1,` + "\n"},
			refused: []string{`"a\u202e\u3164\n" is new`}},
		{name: "a long name", copied: []string{`{` + "\n", `{"` + strings.Repeat("x", 1000) +
			`": 1,` + "\n"},
			refused: []string{`"` + strings.Repeat("x", 59) + `\u2026" is new`}},
	})
}

// A copy that can be understood in two ways, or not at all, changes nothing.
func TestUnclearCopy(t *testing.T) {
	const base = `{"openai": {"type": "oauth", "access": "a", "refresh": "r", "expires": 1}}`
	for copied, want := range map[string]string{
		`{"openai": {"type": "oauth", "access": "b", "access": "c"}}`:                   "the copy: it has access twice",
		`{"openai": {"type": "oauth", "access": "b"}, "openai": {"type": "wellknown"}}`: "the copy: it has openai twice",
		`[{"a": 1, "a": 2}]`: "the copy: it has a twice",
		`{"openai": `:        "the copy: not valid JSON",
		``:                   "the copy: not valid JSON",
		`null`:               "the copy: not a JSON object",
		base + base:          "the copy: not valid JSON",
	} {
		renewed, refused, err := renewLogin(".local/share/opencode/auth.json", []byte(base),
			[]byte(base), []byte(copied), renewedAt)
		if string(renewed) != base || len(refused) > 0 || err == nil || err.Error() != want {
			t.Errorf("%s: %s, %q, %v", copied, renewed, refused, err)
		}
	}
}

// However many changes there are, only some are named.
func TestManyRefusedChanges(t *testing.T) {
	var copied bytes.Buffer
	for i := range 10_000 {
		fmt.Fprintf(&copied, `,"k%d":1`, i)
	}
	_, refused, err := renewLogin(".codex/auth.json", []byte(`{}`), []byte(`{}`),
		fmt.Appendf(nil, `{%s}`, copied.Bytes()[1:]), renewedAt)
	if err != nil || len(refused) != maxRefused {
		t.Errorf("%d are named: %v", len(refused), err)
	}
}

// samples are logins of each program, with which properties and fuzzing start.
var samples = map[string]string{
	".claude/.credentials.json": `{"claudeAiOauth":{"accessToken":"a","refreshToken":"r","expiresAt":1,"scopes":["s"]},"mcpOAuth":{"x":{"serverUrl":"u","accessToken":"a"}}}`,
	".codex/auth.json":          `{"OPENAI_API_KEY":null,"tokens":{"id_token":"i","access_token":"a","refresh_token":"r","account_id":"c"},"last_refresh":"2025-11-10T09:00:00Z"}`,
	".gemini/oauth_creds.json":  `{"access_token":"a","refresh_token":"r","id_token":"i","expiry_date":1,"scope":"s"}`,
	".local/share/opencode/auth.json": `{"openai":{"type":"oauth","access":"a","refresh":"r","expires":1,"accountId":"c"},"anthropic":{"type":"api","key":"k"},` +
		`"https://c":{"type":"wellknown","key":"K","token":"t"}}`,
}

// checkRenewal fails if anything in a user's file changed that is not a renewable field, or became
// something that is not a token or a time.
func checkRenewal(t interface{ Fatalf(string, ...any) }, file string, user, copied []byte) {
	renewed, _, err := renewLogin(file, user, user, copied, renewedAt)
	if err != nil {
		if !bytes.Equal(renewed, user) {
			t.Fatalf("%v, but the file became %s", err, renewed)
		}
		return
	}
	var before, after any
	if json.Unmarshal(user, &before) != nil || json.Unmarshal(renewed, &after) != nil {
		t.Fatalf("the file became %q", renewed)
	}
	if !reflect.DeepEqual(blankAt(file, nil, before), blankAt(file, nil, after)) {
		t.Fatalf("by the copy %s\nthe file %s\nbecame   %s", copied, user, renewed)
	}
	if odd := oddChange(before, after); odd != nil {
		t.Fatalf("by the copy %s\nthe file %s\ngot %v", copied, user, odd)
	}
}

// oddChange returns a value that replaced another one and is neither a token nor a time, nil if
// there is none.
func oddChange(before, after any) any {
	switch now := after.(type) {
	case map[string]any:
		was, _ := before.(map[string]any)
		for name, value := range now {
			if odd := oddChange(was[name], value); odd != nil {
				return odd
			}
		}
		return nil
	case string:
		if before == after || now != "" &&
			strings.IndexFunc(now, func(r rune) bool { return r < '!' || r > '~' }) < 0 {
			return nil
		}
	case float64:
		if now < 1e11 { // seconds
			now *= 1000
		}
		if before == after || now >= 0 && now <= float64(renewedAt.Add(maxAhead).UnixMilli()) {
			return nil
		}
	default:
		if reflect.DeepEqual(before, after) {
			return nil
		}
	}
	return after
}

// blankAt replaces tokens and times, by the names of their fields alone, with their types.
func blankAt(file string, path []string, value any) any {
	if object, ok := value.(map[string]any); ok {
		shape := map[string]any{}
		for name, value := range object {
			shape[name] = blankAt(file, slices.Concat(path, []string{name}), value)
		}
		return shape
	}
	// Written here once more, so that a mistake in the table is not repeated.
	allowed := map[string][]string{
		".claude/.credentials.json": {"claudeAiOauth.accessToken",
			"claudeAiOauth.refreshToken", "claudeAiOauth.expiresAt",
			"claudeAiOauth.refreshTokenExpiresAt", "mcpOAuth.*.accessToken",
			"mcpOAuth.*.refreshToken", "mcpOAuth.*.expiresAt", "enterpriseGateway.jwt",
			"enterpriseGateway.idpRefreshToken", "enterpriseGateway.expiresAt"},
		".codex/auth.json": {"tokens.id_token", "tokens.access_token",
			"tokens.refresh_token", "last_refresh"},
		".gemini/oauth_creds.json": {"access_token", "refresh_token", "id_token",
			"expiry_date"},
		".local/share/opencode/auth.json": {"*.access", "*.refresh", "*.expires"},
	}[file]
	for _, pattern := range allowed {
		names := strings.Split(pattern, ".")
		for i := range names {
			if i < len(path) && names[i] == "*" {
				names[i] = path[i]
			}
		}
		if slices.Equal(names, path) {
			return fmt.Sprintf("%T", value)
		}
	}
	return value
}

// jsonValue is a value of samples that is not an object.
var jsonValue = regexp.MustCompile(`:("[^"]*"|[0-9]+|null|\[[^]]*\])`)

// Whatever a program writes into its copy, only tokens and times of entries that were there change.
func TestOnlyTokensChange(t *testing.T) {
	for file, sample := range samples {
		t.Run(file, func(t *testing.T) {
			changed := 0
			starts := []string{sample, strings.ReplaceAll(sample, `"a"`, `"b"`)}
			for _, start := range starts { // each value by itself, which chance may not choose
				for _, at := range jsonValue.FindAllStringSubmatchIndex(start, -1) {
					for _, value := range []string{`"z"`, `2`, `"2020-01-01T00:00:00Z"`} {
						checkRenewal(t, file, []byte(sample),
							[]byte(start[:at[2]]+value+start[at[3]:]))
					}
				}
			}
			property.Check(t, func(t *rapid.T) {
				var copied any
				start := rapid.SampledFrom(starts).Draw(t, "start")
				must.Succeed(t, json.Unmarshal([]byte(start), &copied))
				for range rapid.IntRange(0, 6).Draw(t, "changes") {
					copied = mutate(t, copied)
				}
				text, err := json.Marshal(copied)
				must.Succeed(t, err)
				checkRenewal(t, file, []byte(sample), text)
				if renewed, _, _ := renewLogin(file, []byte(sample), []byte(sample), text,
					renewedAt); string(renewed) != sample {
					changed++
				}
			})
			if changed == 0 {
				t.Error("no case renewed anything")
			}
		})
	}
}

// mutate changes, adds or removes something in a value.
func mutate(t *rapid.T, value any) any {
	object, ok := value.(map[string]any)
	if !ok || rapid.IntRange(0, 9).Draw(t, "replace") == 0 {
		return rapid.OneOf(
			rapid.Map(rapid.StringMatching(`[!-~]{1,5}`), func(s string) any { return s }),
			rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Map(rapid.Float64Range(0, 1e12),
				func(f float64) any { return float64(int64(f)) }),
			rapid.SampledFrom([]any{nil, true, -1.0, []any{"x"},
				map[string]any{"type": "wellknown", "key": "X"}, "oauth", "2030-01-01T00:00:00Z"}),
		).Draw(t, "value")
	}
	names := slices.Sorted(maps.Keys(object))
	name := rapid.OneOf(rapid.SampledFrom(append(names, "http://attacker", "type", "access",
		"accessToken", "tokens")), rapid.String()).Draw(t, "name")
	if rapid.IntRange(0, 9).Draw(t, "remove") == 0 {
		delete(object, name)
	} else {
		object[name] = mutate(t, object[name])
	}
	return object
}

func FuzzRenewLogin(f *testing.F) {
	for file, sample := range samples {
		f.Add(file, []byte(sample), []byte(strings.ReplaceAll(sample, `"a"`, `"b"`)))
		f.Add(file, []byte(sample), []byte(`{"http://x":{"type":"wellknown"},`+sample[1:]))
	}
	f.Fuzz(func(t *testing.T, file string, user,
		copied []byte) {
		checkRenewal(t, file, user, copied)
	})
}
