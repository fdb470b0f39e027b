package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/config"
)

// newClient returns a client that follows no redirects: they would take the message, its signature and the token elsewhere.
func newClient() *http.Client {
	return &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// post sends a request, and returns an error unless the status is 2xx. The error does not contain the address, which may be secret.
func post(ctx context.Context, client *http.Client, address string, header http.Header, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return permanentf("the address is not valid")
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
	switch code := resp.StatusCode; {
	case code/100 == 2:
		return nil
	case code/100 == 5 || code == http.StatusRequestTimeout || code == http.StatusTooEarly || code == http.StatusTooManyRequests:
		return fmt.Errorf("the server answered %s", line(resp.Status, 100))
	case code/100 == 3:
		return permanentf("the server answered %s; redirects are not followed", line(resp.Status, 100))
	}
	return permanentf("the server answered %s", line(resp.Status, 100))
}

// webhook posts messages as JSON, signed as Standard Webhooks describes.
type webhook struct {
	config config.NotifyWebhook
	client *http.Client
	getenv func(string) string
}

func (w webhook) send(ctx context.Context, m *Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set("Webhook-Id", m.ID)
	header.Set("Webhook-Timestamp", timestamp)
	key, err := w.key()
	if err != nil {
		return err
	}
	if key != nil {
		header.Set("Webhook-Signature", sign(key, m.ID, timestamp, body))
	}
	return post(ctx, w.client, w.config.URL, header, body)
}

// sign returns the signature of a message.
func sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// maxSecret is more than a secret needs.
const maxSecret = 4096

// key returns the key that signs requests, nil if none is configured. A secret that is configured but missing is an error: the receiver
// would refuse the request.
func (w webhook) key() ([]byte, error) {
	c, secret := w.config, ""
	if c.SecretEnv == "" && c.SecretFile == "" {
		return nil, nil
	}
	if c.SecretEnv != "" {
		secret = strings.TrimSpace(w.getenv(c.SecretEnv))
	}
	if secret == "" && c.SecretFile != "" {
		f, err := os.Open(c.SecretFile)
		if err != nil {
			return nil, permanentf("cannot read the secret: %w", err)
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxSecret))
		if err != nil {
			return nil, permanentf("cannot read the secret: %w", err)
		}
		secret = strings.TrimSpace(string(text))
	}
	switch encoded, standard := strings.CutPrefix(secret, "whsec_"); {
	case secret == "" && c.SecretFile != "":
		return nil, permanentf("the file %s with the secret is empty", c.SecretFile)
	case secret == "":
		return nil, permanentf("the environment variable %s with the secret is not set", c.SecretEnv)
	case standard:
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(key) == 0 {
			return nil, permanentf("the secret is not base64 after whsec_")
		}
		return key, nil
	}
	return []byte(secret), nil
}

// ntfy publishes messages on a topic of an ntfy server.
type ntfy struct {
	config config.NotifyNtfy
	client *http.Client
	getenv func(string) string
}

// maxNtfy is how many characters of the text are sent: a server turns more than 4096 bytes into an attachment.
const maxNtfy = 900

func (n ntfy) send(ctx context.Context, m *Message) error {
	header := http.Header{}
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Title", encodeHeader(m.heading()))
	priority, tag := "high", "question"
	switch m.Event {
	case config.NotifyApproval:
		tag = "ballot_box_with_check"
	case config.NotifyStuck:
		tag = "warning"
	case config.NotifyBudget:
		tag = "moneybag"
	case config.NotifyDone:
		priority, tag = "default", "tada"
	case eventTest:
		priority, tag = "default", "wave"
	}
	header.Set("Priority", priority)
	header.Set("Tags", "signalbox,"+tag)
	header.Set("X-Sequence-ID", m.ID) // servers from version 2.16 replace a message that is sent again
	if n.config.Click != "" {
		header.Set("Click", n.config.Click)
	}
	if n.config.TokenEnv != "" {
		token := strings.TrimSpace(n.getenv(n.config.TokenEnv))
		if token == "" {
			return permanentf("the environment variable %s with the token is not set", n.config.TokenEnv)
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return permanentf("the environment variable %s does not have a token", n.config.TokenEnv)
		}
		header.Set("Authorization", "Bearer "+token)
	}
	return post(ctx, n.client, strings.TrimRight(n.config.URL, "/")+"/"+n.config.Topic, header, []byte(m.body(maxNtfy)))
}

// encodeHeader returns a line of text as the value of a header, encoded as RFC 2047 describes if it is not plain ASCII. Text that looks
// encoded already is broken up, because the server would decode it.
func encodeHeader(s string) string {
	return mime.BEncoding.Encode("utf-8", strings.ReplaceAll(s, "=?", "= ?"))
}
