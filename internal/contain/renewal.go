package contain

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/lazy"
	"signalbox/internal/text"
)

// entry describes an object in the file of a login: which of its fields a program renews. Names of
// fields are paths in the object, such as "tokens.access_token".
type entry struct {
	// at is where the object is in the file; "*" stands for every name.
	at []string
	// kind is the value of the field "type" of such an object; "" means that it has no type.
	kind string
	// tokens and times are what is renewed, all of it or nothing. Times are numbers, or text in RFC
	// 3339.
	tokens, times []string
	// once are tokens that the server sends only once, so that a program may drop them. The user's
	// stay.
	once []string
	// same are the account, the organisation and the addresses that the tokens are for. If one of
	// them differs, nothing is renewed.
	same []string
	// own are fields that a program changes without anybody's doing. They are not copied either,
	// but that is not worth a word.
	own []string
}

// renewable has the entries of each file with a login, by its name in a home folder. Fields that
// are not named here are never copied to the user's file. Claude Code and opencode keep tokens of
// several services.
var renewable = map[string][]entry{
	".claude/.credentials.json": {
		{
			tokens: []string{"claudeAiOauth.accessToken", "claudeAiOauth.refreshToken"},
			times:  []string{"claudeAiOauth.expiresAt", "claudeAiOauth.refreshTokenExpiresAt"},
			same: []string{"organizationUuid", "claudeAiOauth.organizationUuid",
				"claudeAiOauth.accountUuid", "claudeAiOauth.clientId"},
			own: []string{"claudeAiOauth.scopes", "claudeAiOauth.subscriptionType",
				"claudeAiOauth.subscriptionTypeSource",
				"claudeAiOauth.subscriptionTypeVerifiedAt", "claudeAiOauth.rateLimitTier",
				"claudeAiOauth.refreshTokenExpiresAt"},
		},
		{
			at: []string{"mcpOAuth", "*"}, tokens: []string{"accessToken", "refreshToken"},
			times: []string{"expiresAt"},
			same:  []string{"serverName", "serverUrl", "clientId", "clientSecret", "issuer"},
			own:   []string{"scope", "stepUpScope", "discoveryState"},
		},
		{
			at: []string{"enterpriseGateway"}, tokens: []string{"jwt", "idpRefreshToken"},
			times: []string{"expiresAt"},
			same:  []string{"url"},
		},
	},
	".codex/auth.json": {{
		tokens: []string{"tokens.id_token", "tokens.access_token", "tokens.refresh_token"},
		times:  []string{"last_refresh"},
		same:   []string{"auth_mode", "tokens.account_id"}, own: []string{"agent_identity"},
	}},
	".gemini/oauth_creds.json": {{
		tokens: []string{"access_token", "refresh_token", "id_token"},
		times:  []string{"expiry_date"},
		once:   []string{"refresh_token"},
		same:   []string{"type", "client_id"},
		own:    []string{"scope", "token_type", "refresh_token_expires_in"},
	}},
	".gemini/google_accounts.json": nil,
	".local/share/opencode/auth.json": {{
		at: []string{"*"}, kind: "oauth", tokens: []string{"access", "refresh"},
		times: []string{"expires"},
		same:  []string{"accountId", "enterpriseUrl"},
	}},
}

// renewLogin returns the user's file with the tokens that a program has renewed in its copy. name
// is that of the file in the home folder, and base the user's file when the program got it. An
// entry that has changed in the user's file meanwhile stays as it is there. refused are the changes
// in the copy that were not taken, without their values. now is the time, from which new times may
// not be far away.
func renewLogin(name string, base, user, copied []byte, now time.Time) (renewed []byte,
	refused []string, err error) {
	r := renewal{handled: map[string]bool{}, latest: now.Add(maxAhead)}
	for _, d := range []struct {
		what string
		text []byte
		to   *document
	}{{"the login that it got", base, &r.base}, {"your file", user, &r.user}, {"the copy", copied, &r.copied}} {
		if *d.to, err = parseDocument(d.text); err != nil {
			return user, nil, fmt.Errorf("%s: %w", d.what, err)
		}
	}
	for _, e := range renewable[name] {
		for _, at := range r.base.expand(e.at, nil) {
			if !e.describes(r.base, at) {
				continue
			}
			r.refuse(r.renew(e, at))
		}
	}
	r.compare(r.base.root, r.copied.root, nil)
	return r.edited(), r.refused, nil
}

// renewal is how a user's file is renewed.
type renewal struct {
	base, user, copied document
	edits              []edit
	// handled are the paths of fields that renew decides about, or that need not be reported.
	handled map[string]bool
	refused []string
	// latest is the last time that is taken.
	latest time.Time
}

// edit replaces a value in the user's file.
type edit struct {
	at   *place
	with []byte
}

// edited returns the user's file with all edits.
func (r *renewal) edited() []byte {
	slices.SortFunc(r.edits, func(a, b edit) int { return a.at.start - b.at.start })
	var out bytes.Buffer
	done := 0
	for _, e := range r.edits {
		out.Write(r.user.text[done:e.at.start])
		out.Write(e.with)
		done = e.at.end
	}
	out.Write(r.user.text[done:])
	return out.Bytes()
}

// maxRefused bounds how many refused changes are named: a program can make up as many as it likes.
const maxRefused = 20

// refuse notes a change that is not taken; "" is none.
func (r *renewal) refuse(fault string) {
	if fault != "" && len(r.refused) < maxRefused {
		r.refused = append(r.refused, fault)
	}
}

// expand returns the paths of objects that match a pattern.
func (d document) expand(pattern, at []string) [][]string {
	v := d.at(at)
	if v == nil || !v.object {
		return nil
	}
	if len(pattern) == 0 {
		return [][]string{at}
	}
	if pattern[0] != "*" {
		return d.expand(pattern[1:], slices.Concat(at, pattern[:1]))
	}
	var paths [][]string
	for _, f := range v.fields {
		paths = append(paths, d.expand(pattern[1:], slices.Concat(at, []string{f.name}))...)
	}
	return paths
}

// describes reports whether the object at a path has the entry's kind.
func (e entry) describes(d document, at []string) bool {
	if e.kind == "" {
		return true
	}
	kind, _ := decodeJSON(d.raw(slices.Concat(at, []string{"type"}))).(string)
	return kind == e.kind
}

// below returns the path of a field of an entry.
func below(at []string, name string) []string { return slices.Concat(at, strings.Split(name, ".")) }

func key(path []string) string { return strings.Join(path, "\x00") }

// renew takes the tokens of an entry, or returns why it does not; "" also if there is nothing new.
func (r *renewal) renew(e entry, at []string) (fault string) {
	for _, name := range e.own {
		r.handled[key(below(at, name))] = true
	}
	var changed [][]string
	known, missed := true, false // the user's file has the same, or has changed
	for _, name := range slices.Concat(e.tokens, e.times) {
		path := below(at, name)
		before, now, theirs := r.base.raw(path), r.user.raw(path), r.copied.raw(path)
		missed = missed || !sameJSON(before, now)
		if before == nil || theirs == nil || sameJSON(before, theirs) {
			continue // never a new field; of missing ones, see below
		}
		r.handled[key(path)] = true
		changed = append(changed, path)
		known = known && sameJSON(now, theirs)
	}
	if len(changed) == 0 || known {
		return ""
	}
	refuse := func(path []string, why string) string { return formatPath(path...) + " " + why }
	if missed {
		return refuse(changed[0], "was renewed, but your file was changed meanwhile")
	}
	if !e.describes(r.user, at) || !e.describes(r.copied, at) {
		return refuse(changed[0], "is of another type")
	}
	for _, name := range e.same {
		path := below(at, name)
		if was := r.user.raw(path); was != nil && !sameJSON(was, r.copied.raw(path)) {
			return refuse(changed[0], "is for another "+name[strings.LastIndexByte(name, '.')+1:])
		}
	}
	for _, name := range e.tokens {
		path := below(at, name)
		if r.base.raw(path) != nil && r.copied.raw(path) == nil && !slices.Contains(e.once, name) {
			return refuse(path, "is missing")
		}
	}
	var edits []edit
	for _, path := range changed {
		was, now := decodeJSON(r.user.raw(path)), decodeJSON(r.copied.raw(path))
		isToken := slices.ContainsFunc(e.tokens,
			func(name string) bool { return slices.Equal(below(at, name), path) })
		if isToken && !sameAccount(was, now) {
			return refuse(path, "is for another account")
		}
		with, err := encodeRenewed(was, now, isToken, r.latest)
		if err != nil {
			return refuse(path, err.Error())
		}
		edits = append(edits, edit{r.user.at(path), with})
	}
	r.edits = append(r.edits, edits...)
	return ""
}

// compare notes what a program added to its copy or changed there, apart from what renew decides.
// What it removed stays in the user's file, and is not worth a word: opencode removes what it does
// not know.
func (r *renewal) compare(base, copied *place, at []string) {
	for _, f := range copied.fields {
		path := slices.Concat(at, []string{f.name})
		was := base.get(f.name)
		switch {
		case r.handled[key(path)]:
		case was == nil:
			r.refuse(formatPath(path...) + " is new")
		case was.object && f.value.object:
			r.compare(was, f.value, path)
		case !sameJSON(r.base.raw(path), r.copied.raw(path)):
			r.refuse(formatPath(path...) + " was changed")
		}
	}
}

// maxToken bounds the length of a token. Tokens with the groups of a user have some thousand bytes.
const maxToken = 32 << 10

var (
	tokenText = lazy.Regexp(`^[!-~]+$`)
	timeText  = lazy.Regexp(`^[0-9]{1,16}(\.[0-9]{1,9})?$`)
)

// maxAhead is how far ahead a renewed time may be, a little more than a year. With a time that
// never comes, a program would not renew its tokens any more.
const maxAhead = 400 * 24 * time.Hour

var errAhead = errors.New("is more than a year ahead")

// readNumber returns the time of a number of milliseconds, or of seconds if it is so small that
// milliseconds would mean a time before these programs.
func readNumber(number json.Number) (time.Time, error) {
	value, err := number.Float64()
	if value < 1e11 {
		value *= 1000
	}
	return time.UnixMilli(int64(value)), err
}

// encodeRenewed returns the JSON of a renewed token or time, if it looks like one, has the type of
// the old one and is not after latest.
func encodeRenewed(was, now any, isToken bool, latest time.Time) ([]byte, error) {
	switch now := now.(type) {
	case string:
		if _, ok := was.(string); !ok {
			break
		}
		if isToken && len(now) <= maxToken && tokenText().MatchString(now) {
			return json.Marshal(now)
		}
		if !isToken && len(now) <= len(time.RFC3339Nano) {
			if at, err := time.Parse(time.RFC3339Nano, now); err == nil && at.After(latest) {
				return nil, errAhead
			} else if err == nil {
				return json.Marshal(now)
			}
		}
	case json.Number:
		if _, ok := was.(json.Number); ok && !isToken && timeText().MatchString(now.String()) {
			if at, err := readNumber(now); err != nil || at.After(latest) {
				return nil, errAhead
			}
			return []byte(now), nil
		}
	}
	if isToken {
		return nil, errors.New("is not a token")
	}
	return nil, errors.New("is not a time")
}

// claims are the parts of a signed token that say whose it is.
type claims struct {
	Subject string `json:"sub"`
	OpenAI  struct {
		Account string `json:"chatgpt_account_id"`
	} `json:"https://api.openai.com/auth"`
}

// sameAccount reports whether a token is for the account of the old one, if the old one names it.
// Signatures are not verified: only who issued a token could do that.
func sameAccount(was, now any) bool {
	before, ok := readClaims(was)
	if !ok || before == (claims{}) {
		return true
	}
	after, ok := readClaims(now)
	return ok && after == before
}

// readClaims reads a JSON Web Token.
func readClaims(token any) (c claims, ok bool) {
	written, _ := token.(string)
	parts := strings.Split(written, ".")
	if len(parts) != 3 {
		return c, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	return c, err == nil && json.Unmarshal(payload, &c) == nil
}

var plainName = lazy.Regexp(`^[A-Za-z0-9_-]{1,60}$`)

// formatPath returns a path for people. Names that a program made up are quoted and shortened.
func formatPath(names ...string) string {
	var parts []string
	for _, name := range names {
		if !plainName().MatchString(name) {
			name = strconv.QuoteToASCII(text.Shorten(name, 60))
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ".")
}
