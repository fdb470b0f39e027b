package crew

import (
	"crypto/rand"
	"strings"

	"signalbox/internal/run/turnprompt"

	"signalbox"
)

// A key shows that a signal is from the agent, and not from a file or a program whose output the
// agent repeats. Each turn has its own, so that a key in an earlier turn's output is worthless. The
// agent learns it from its prompt only. It is never recorded: the stored prompt has
// turnprompt.KeyPlaceholder instead, because everyone who can read the box could otherwise read the
// key while the agent runs. The stored output contains it, but is stored when the turn is over.

// keyLength is 80 bits in base32: too many to guess, and few enough for a model to copy.
const keyLength = 16

// newKey returns the key for a turn, or "" if signals need none.
func (c *Crew) newKey() string {
	if !c.keyed() {
		return ""
	}
	return strings.ToLower(rand.Text()[:keyLength])
}

func (c *Crew) keyed() bool { return c.opts.Keyed || c.box.Config.Keyed }

// hideKey replaces the key in a text by a placeholder.
func hideKey(text, key string) string {
	if key == "" {
		return text
	}
	return strings.ReplaceAll(text, key, turnprompt.KeyPlaceholder)
}

// showKey is the opposite of hideKey for a line to send, in what only the agent reads. Another turn
// may have said it, with its own key.
func showKey(text, key string) string {
	if key == "" {
		return text
	}
	return strings.ReplaceAll(text, "key:"+turnprompt.KeyPlaceholder, "key:"+key)
}

// hideKeyInSignal returns a signal without the key.
func hideKeyInSignal(sig signalbox.Signal, key string) signalbox.Signal {
	if key == "" {
		return sig
	}
	for _, text := range []*string{&sig.TaskID, &sig.Title, &sig.Raw, &sig.Detail} {
		*text = hideKey(*text, key)
	}
	if sig.Body != nil {
		sig.Body, _ = hideKeyInValue(sig.Body, key).(map[string]any)
	}
	return sig
}

// hideKeyInValue returns a value of a signal's body without the key.
func hideKeyInValue(value any, key string) any {
	switch v := value.(type) {
	case string:
		return hideKey(v, key)
	case []string:
		hidden := make([]string, len(v))
		for i, text := range v {
			hidden[i] = hideKey(text, key)
		}
		return hidden
	case map[string]any:
		hidden := make(map[string]any, len(v))
		for label, field := range v {
			hidden[hideKey(label, key)] = hideKeyInValue(field, key)
		}
		return hidden
	case []map[string]any:
		hidden := make([]map[string]any, len(v))
		for i, row := range v {
			hidden[i], _ = hideKeyInValue(row, key).(map[string]any)
		}
		return hidden
	}
	return value
}
