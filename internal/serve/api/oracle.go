package api

import (
	"bytes"
	"net/http"
	"time"

	"signalbox"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/console"
	"signalbox/internal/oracle/session"
	"signalbox/internal/serve/access"
	"signalbox/internal/serve/ask"
	"signalbox/internal/serve/transfer"
)

const (
	// mediaLines is JSON with one value on each line.
	mediaLines = "application/x-ndjson"
	// sessionHeader is the header of an answer of the oracle with its conversation, which comes
	// before the first chunk.
	sessionHeader = "Signalbox-Session"
)

type askInput struct {
	Question string `json:"question,omitempty" jsonschema:"the question; without it, the last answer of the conversation is resumed"`
	Session  string `json:"session,omitempty" jsonschema:"the conversation to continue; the default is a new one"`
}

type conversationInput struct {
	Session string `path:"session" json:"-" jsonschema:"the conversation, such as O-35445e15dda4"`
}

type conversationsInput struct {
	All bool `query:"all" json:"-" jsonschema:"all conversations, and not only the last 20"`
}

// maxConversations is how many conversations are listed, unless all are asked for.
const maxConversations = 20

// stopped is the answer to a request to stop.
type stopped struct {
	Session string `json:"session"`
}

// addOracle adds the oracle. All of it needs the scope operate: asking costs money and runs tools,
// and a conversation has what the tools found, such as a portfolio, which neither a reader nor the
// shell of an agent needs to know.
func (a *API) addOracle() {
	const group = "oracle"
	addRaw(a, operation{method: http.MethodPost, path: "/oracle", name: "askOracle", group: group,
		scope: access.Operate, media: mediaLines,
		summary: "Asks the oracle, and streams the chunks of its answer as they arrive, one JSON object on each line, as signalbox oracle --json prints them. The header " + sessionHeader +
			" names the conversation. The work on the question ends when the client leaves; it can be resumed."},
		a.ask)
	add(a, operation{method: http.MethodGet, path: "/oracle/conversations",
		name: "listConversations", group: group, scope: access.Operate, heavy: true,
		summary: "Returns the last conversations with the oracle, newest first."},
		func(_ call, in conversationsInput) (list[session.Summary], error) {
			o, err := a.oracle()
			if err != nil {
				return list[session.Summary]{}, err
			}
			all, err := o.Conversations()
			if !in.All {
				all = all[:min(len(all), maxConversations)]
			}
			return listOf(all), err
		})
	addRaw(a, operation{method: http.MethodGet, path: "/oracle/conversations/{session}",
		name: "getConversation", group: group, scope: access.Operate, heavy: true,
		media:   mediaLines,
		summary: "Returns a conversation with the oracle: for each question a line with its text, and then its chunks."},
		func(_ call, in conversationInput, w http.ResponseWriter, _ *http.Request) error {
			o, err := a.oracle()
			if err != nil {
				return err
			}
			c, err := o.Read(in.Session)
			if err != nil {
				return err
			}
			var lines bytes.Buffer
			if err := console.TranscriptJSON(&lines, c.Questions); err != nil {
				return err
			}
			w.Header().Set("Content-Type", mediaLines)
			transfer.NewWriter(w).Write(lines.Bytes()) // a client that has left cannot be told
			return nil
		})
	add(a, operation{method: http.MethodPost, path: "/oracle/conversations/{session}/stop",
		name: "stopOracle", group: group, scope: access.Operate,
		summary: "Stops the answer that is being given in a conversation. Its chunks end with an error chunk named cancelled and with done. It can be resumed."},
		func(_ call, in conversationInput) (stopped, error) {
			o, err := a.oracle()
			if err == nil {
				err = o.Stop(in.Session)
			}
			return stopped(in), err
		})
}

func (a *API) oracle() (*ask.Service, error) {
	if a.opts.Oracle == nil {
		return nil, signalbox.CodeFailed.Errorf("", "this server does not answer questions")
	}
	return a.opts.Oracle, nil
}

// ask streams the answer to a question.
func (a *API) ask(c call, in askInput, w http.ResponseWriter, r *http.Request) error {
	o, err := a.oracle()
	if err != nil {
		return err
	}
	out := http.NewResponseController(w)
	began := false
	err = o.Ask(c.ctx, ask.Question{Client: c.actor(), Session: in.Session, Text: in.Question,
		Started: func(session string) {
			began = true
			w.Header().Set("Content-Type", mediaLines)
			w.Header().Set("X-Accel-Buffering", "no")
			w.Header().Set(sessionHeader, session)
			w.WriteHeader(http.StatusOK)
			out.Flush() // the client can stop the answer from now on
		}}, func(one chunk.Chunk) error {
		// the token may have been revoked
		if _, err := a.guard.Check(r, access.Operate, true); err != nil {
			return err
		}
		line, err := chunk.Line(one)
		if err != nil {
			return err
		}
		if _, err := transfer.NewWriter(w).Write(line); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		// until the next chunk: HTTP/2 would end a stream whose deadline passes while the model
		// thinks
		out.SetWriteDeadline(time.Time{})
		return nil
	})
	if began {
		return nil // there is no other way to report an error
	}
	return err
}
