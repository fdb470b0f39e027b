// Package outbound posts to servers that the user names: signed as Standard Webhooks describes,
// without following redirects, and with errors that contain neither addresses nor secrets.
package outbound

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/text"
)

// NewClient returns a client that follows no redirects: they would take the message, its signature
// and the token elsewhere.
func NewClient() *http.Client {
	return &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone(),
		CheckRedirect: func(*http.Request,
			[]*http.Request) error {
			return http.ErrUseLastResponse
		}}
}

// Post sends a request, and returns an error unless the status is 2xx. The error does not contain
// the address, which may be secret.
func Post(ctx context.Context, client *http.Client, address string, header http.Header,
	body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return Permanentf("the address is not valid")
	}
	req.Header = header
	resp, err := client.Do(req)
	if err != nil {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		if ctx.Err() != nil {
			return errors.New("the server did not answer in time")
		}
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	answer := text.Shorten(text.OneLine(text.Visible(resp.Status)), 100)
	switch code := resp.StatusCode; {
	case code/100 == 2:
		return nil
	case code/100 == 5 || code == http.StatusRequestTimeout || code == http.StatusTooEarly ||
		code == http.StatusTooManyRequests:
		return fmt.Errorf("the server answered %s", answer)
	case code/100 == 3:
		return Permanentf("the server answered %s; redirects are not followed", answer)
	}
	err = Permanentf("the server answered %s", answer)
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity:
		err = fmt.Errorf("%w: %w", ErrContent, err)
	}
	return err
}

// ErrContent means that a server refuses what it was sent, and would perhaps accept something else.
var ErrContent = errors.New("the content is refused")

// Secret names a secret that signs requests: an environment variable, and a file for when it is not
// set. Without either, requests are not signed.
type Secret struct{ Env, File string }

// Header returns the headers of a signed request. A receiver recognises by the id what it has got
// before.
func (s Secret) Header(getenv func(string) string, id string, body []byte) (http.Header, error) {
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	header := http.Header{}
	header.Set("Webhook-Id", id)
	header.Set("Webhook-Timestamp", timestamp)
	key, err := s.key(getenv)
	if err != nil {
		return nil, err
	}
	if key != nil {
		header.Set("Webhook-Signature", sign(key, id, timestamp, body))
	}
	return header, nil
}

// sign returns the signature of a message.
func sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// maxSecret is more than a secret needs.
const maxSecret = 4096

// key returns the key that signs requests, nil if none is configured. A secret that is configured
// but missing is an error: the receiver would refuse the request.
func (s Secret) key(getenv func(string) string) ([]byte, error) {
	secret := ""
	if s.Env == "" && s.File == "" {
		return nil, nil
	}
	if s.Env != "" {
		secret = strings.TrimSpace(getenv(s.Env))
	}
	if secret == "" && s.File != "" {
		f, err := os.Open(s.File)
		if err != nil {
			return nil, Permanentf("cannot read the secret: %w", err)
		}
		defer f.Close()
		content, err := io.ReadAll(io.LimitReader(f, maxSecret))
		if err != nil {
			return nil, Permanentf("cannot read the secret: %w", err)
		}
		secret = strings.TrimSpace(string(content))
	}
	switch encoded, standard := strings.CutPrefix(secret, "whsec_"); {
	case secret == "" && s.File != "":
		return nil, Permanentf("the file %s with the secret is empty", s.File)
	case secret == "":
		return nil, Permanentf("the environment variable %s with the secret is not set", s.Env)
	case standard:
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(key) == 0 {
			return nil, Permanentf("the secret is not base64 after whsec_")
		}
		return key, nil
	}
	return []byte(secret), nil
}

// permanentError is an error that remains until somebody changes something.
type permanentError struct{ error }

// IsPermanent reports whether trying again soon cannot help.
func IsPermanent(err error) bool {
	_, permanent := errors.AsType[permanentError](err)
	return permanent
}

// Permanentf returns an error for which IsPermanent is true.
func Permanentf(format string,
	args ...any) error {
	return permanentError{fmt.Errorf(format, args...)}
}
