package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/durable"
	"signalbox/internal/lazy"
)

// Kind is how a token is used.
type Kind string

const (
	// KindToken is sent in the header Authorization: Bearer.
	KindToken Kind = "token"
	// KindBrowser is a cookie of a browser that has logged in.
	KindBrowser Kind = "browser"
	// KindLink is in a link that logs a browser in, once.
	KindLink Kind = "link"
)

// Token describes a token. The token itself is not stored.
type Token struct {
	Name    string    `json:"name"`
	Kind    Kind      `json:"kind"`
	Scope   Scope     `json:"scope"`
	Created time.Time `json:"created"`
	// Expires is when it stops being valid; the zero time means never.
	Expires time.Time `json:"expires,omitzero"`
	// Digest is the SHA-256 of the token, in hexadecimal digits.
	Digest string `json:"sha256"`
}

// Expired reports whether the token is no longer valid.
func (t *Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

const (
	// tokenFile is the name of the file with the tokens in the folder of the box.
	tokenFile = "tokens.json"
	// tokenPrefix makes tokens recognisable to people and to scanners for leaked secrets.
	tokenPrefix = "sbx_"
	// maxTokenFile is the largest file that is read.
	maxTokenFile = 1 << 20
	// maxTokens bounds the number of tokens, so that checking one stays fast.
	maxTokens = 1000
	// expiredLife is how long an expired token is remembered, so that its holder learns why it is
	// refused.
	expiredLife = 30 * 24 * time.Hour
)

var (
	// ErrUnknownToken means that a token does not exist, was revoked, or expired so long ago that
	// it is forgotten.
	ErrUnknownToken = errors.New("the token is unknown, has expired, or was revoked")
	// ErrExpiredToken means that a token has expired.
	ErrExpiredToken = errors.New("the token has expired")
)

// Store keeps the digests of the tokens of a box. Any number of processes may use one store. Its
// methods are safe for concurrent use.
type Store struct {
	file string

	// mu guards the fields below, which cache the file.
	mu     sync.Mutex
	read   os.FileInfo // the file that tokens was read from
	tokens []Token
}

// NewStore returns the store of the box in a folder.
func NewStore(boxDir string) *Store { return &Store{file: filepath.Join(boxDir, tokenFile)} }

// loginFile is the name of the file with the login host, beside that of the tokens.
const loginFile = "login.host"

// loginHosts are the names that LoginHost returns.
var loginHosts = lazy.Regexp(`^box-[a-z2-7]{26}\.localhost$`)

// LoginHost returns the host name under which the browser of a person on this machine logs in to
// the box. Browsers send cookies to every port of a host, and an agent may listen on another port,
// so the name cannot be guessed. Browsers resolve every name below localhost to loopback.
func (s *Store) LoginHost(ctx context.Context) (string, error) {
	lock, err := durable.Acquire(ctx, s.file+".lock")
	if err != nil {
		return "", err
	}
	defer lock.Release()
	file := filepath.Join(filepath.Dir(s.file), loginFile)
	known, err := durable.ReadRegular(file, 1<<10)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if name := strings.TrimSpace(string(known)); loginHosts().MatchString(name) {
		return name, nil
	}
	name := "box-" + strings.ToLower(rand.Text()) + ".localhost"
	return name, durable.Replace(file, []byte(name+"\n"), 0o600)
}

// Create adds a token and returns it. No valid token may have its name. Expired tokens are
// forgotten if their name is used again, if they are links or cookies, after a while, or to make
// room.
func (s *Store) Create(ctx context.Context, t Token) (secret string, err error) {
	if err := signalbox.CheckID(t.Name); err != nil {
		return "", fmt.Errorf("the name of the token: %w", err)
	}
	random := make([]byte, 32)
	rand.Read(random) // never fails
	secret = tokenPrefix + base64.RawURLEncoding.EncodeToString(random)
	t.Digest = digest(secret)
	return secret, s.change(ctx, func(tokens []Token) ([]Token, error) {
		full := len(tokens) >= maxTokens
		tokens = slices.DeleteFunc(tokens, func(old Token) bool {
			longAgo := old.Expired(t.Created.Add(-expiredLife))
			return old.Expired(t.Created) &&
				(full || longAgo || old.Name == t.Name || old.Kind != KindToken)
		})
		if slices.ContainsFunc(tokens, func(old Token) bool { return old.Name == t.Name }) {
			return nil, signalbox.CodeConflict.Errorf(
				"choose another name, or revoke that token: signalbox token revoke "+t.Name,
				"there is a token with the name '%s'", t.Name)
		}
		if len(tokens) >= maxTokens {
			return nil, signalbox.CodeFailed.Errorf(
				"revoke those that are no longer used: signalbox token list", "there are %d tokens",
				len(tokens))
		}
		return append(tokens, t), nil
	})
}

// Revoke removes a token by its name. It returns an error with CodeNotFound if there is none.
func (s *Store) Revoke(ctx context.Context, name string) error {
	return s.change(ctx, func(tokens []Token) ([]Token, error) {
		rest := slices.DeleteFunc(slices.Clone(tokens),
			func(t Token) bool { return t.Name == name })
		if len(rest) == len(tokens) {
			return nil, signalbox.CodeNotFound.Errorf("list them with signalbox token list",
				"there is no token with the name '%s'", name)
		}
		return rest, nil
	})
}

// List returns the tokens in the order in which they were created.
func (s *Store) List() ([]Token, error) {
	tokens, err := s.load()
	return slices.Clone(tokens), err
}

// Find returns the token of one of the kinds with a secret, or ErrUnknownToken. With
// ErrExpiredToken it also returns the token.
func (s *Store) Find(secret string, now time.Time, kinds ...Kind) (Token, error) {
	tokens, err := s.load()
	if err != nil {
		return Token{}, err
	}
	found, shown := -1, []byte(digest(secret))
	// all of them, so that the time does not reveal which one was nearly right
	for i := range tokens {
		if subtle.ConstantTimeCompare(shown, []byte(tokens[i].Digest)) == 1 {
			found = i
		}
	}
	switch {
	case found < 0, !slices.Contains(kinds, tokens[found].Kind):
		return Token{}, ErrUnknownToken
	case tokens[found].Expired(now):
		return tokens[found], ErrExpiredToken
	}
	return tokens[found], nil
}

// Redeem exchanges a login link for a token of a browser, which lives as long as asked. A link
// works once.
func (s *Store) Redeem(ctx context.Context, secret string, now time.Time,
	life time.Duration) (cookie string, err error) {
	random := make([]byte, 32)
	rand.Read(random)
	cookie = base64.RawURLEncoding.EncodeToString(random)
	return cookie, s.change(ctx, func(tokens []Token) ([]Token, error) {
		shown := digest(secret)
		i := slices.IndexFunc(tokens, func(t Token) bool {
			return t.Kind == KindLink && subtle.ConstantTimeCompare([]byte(shown),
				[]byte(t.Digest)) == 1
		})
		if i < 0 || tokens[i].Expired(now) {
			return nil, ErrUnknownToken
		}
		t := tokens[i]
		t.Kind, t.Created, t.Expires, t.Digest = KindBrowser, now, now.Add(life), digest(cookie)
		tokens[i] = t
		return tokens, nil
	})
}

// change replaces the list of tokens by what f returns, while no other process changes it.
func (s *Store) change(ctx context.Context, f func([]Token) ([]Token, error)) error {
	lock, err := durable.Acquire(ctx, s.file+".lock")
	if err != nil {
		return err
	}
	defer lock.Release()
	tokens, err := s.load()
	if err != nil {
		return err
	}
	if tokens, err = f(slices.Clone(tokens)); err != nil {
		return err
	}
	data, err := json.MarshalIndent(tokens, "", "  ")
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = nil
	return durable.Replace(s.file, append(data, '\n'), 0o600)
}

// load returns the tokens, which the caller must not change. It reads the file only if it was
// replaced.
func (s *Store) load() ([]Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Stat(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		s.read, s.tokens = nil, nil
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if s.read != nil && os.SameFile(s.read, info) && s.read.ModTime().Equal(info.ModTime()) &&
		s.read.Size() == info.Size() {
		return s.tokens, nil
	}
	data, err := durable.ReadRegular(s.file, maxTokenFile)
	if err != nil {
		return nil, err
	}
	var tokens []Token
	if err := json.Unmarshal(data, &tokens); err != nil {
		return nil, signalbox.CodeFailed.Errorf("remove "+s.file+", and create the tokens again",
			"the file of tokens cannot be read: %w", err)
	}
	s.read, s.tokens = info, tokens
	return tokens, nil
}

func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
