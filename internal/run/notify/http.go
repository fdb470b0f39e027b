package notify

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"signalbox/internal/config"
	"signalbox/internal/run/outbound"
)

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
	header, err := outbound.Secret{Env: w.config.SecretEnv,
		File: w.config.SecretFile}.Header(w.getenv, m.ID, body)
	if err != nil {
		return err
	}
	header.Set("Content-Type", "application/json")
	return outbound.Post(ctx, w.client, w.config.URL, header, body)
}

// ntfy publishes messages on a topic of an ntfy server.
type ntfy struct {
	config config.NotifyNtfy
	client *http.Client
	getenv func(string) string
}

// maxNtfy is how many characters of the text are sent: a server turns more than 4096 bytes into an
// attachment.
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
	// servers from version 2.16 replace a message that is sent again
	header.Set("X-Sequence-ID", m.ID)
	if n.config.Click != "" {
		header.Set("Click", n.config.Click)
	}
	if n.config.TokenEnv != "" {
		token := strings.TrimSpace(n.getenv(n.config.TokenEnv))
		if token == "" {
			return outbound.Permanentf("the environment variable %s with the token is not set",
				n.config.TokenEnv)
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return outbound.Permanentf("the environment variable %s does not have a token",
				n.config.TokenEnv)
		}
		header.Set("Authorization", "Bearer "+token)
	}
	return outbound.Post(ctx, n.client, strings.TrimRight(n.config.URL, "/")+"/"+n.config.Topic,
		header, []byte(m.body(maxNtfy)))
}

// encodeHeader returns a line of text as the value of a header, encoded as RFC 2047 describes if it
// is not plain ASCII. Text that looks encoded already is broken up, because the server would decode
// it.
func encodeHeader(s string) string {
	return mime.BEncoding.Encode("utf-8", strings.ReplaceAll(s, "=?", "= ?"))
}
