package modelserver

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// shutdownTimeout is how long Serve waits for answers to end after their contexts were cancelled.
const shutdownTimeout = 2 * time.Second

// Serve answers requests on a listener until ctx is done, and then cancels the answers in progress.
// It closes the listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: time.Minute,
		// scripts cut connections on purpose
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	shutdown, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(shutdown); err != nil {
		server.Close()
	}
	<-served
	return nil
}

// logLine is a request as a line of a log. Its names are those that scripts match on.
type logLine struct {
	Number       int             `json:"number"`
	Protocol     string          `json:"protocol"`
	Method       string          `json:"method"`
	Path         string          `json:"path"`
	UserAgent    string          `json:"user_agent,omitempty"`
	Status       int             `json:"status"`
	Outcome      string          `json:"outcome"`
	Conversation string          `json:"conversation,omitempty"`
	Model        string          `json:"model,omitempty"`
	Stream       bool            `json:"stream,omitempty"`
	Tools        []string        `json:"tools,omitempty"`
	Usage        Usage           `json:"usage,omitzero"`
	Body         json.RawMessage `json:"body,omitempty"`
}

// AppendLogLine appends the request to dst as one JSON object and a line break.
func (r *Request) AppendLogLine(dst []byte) ([]byte, error) {
	line := logLine{Number: r.Number, Protocol: r.Protocol, Method: r.Method, Path: r.Path,
		UserAgent: r.Header.Get("User-Agent"),
		Status:    r.Status, Outcome: r.Outcome, Conversation: r.Conversation, Model: r.Model,
		Stream: r.Stream, Usage: r.Usage, Body: r.Body}
	for _, tool := range r.Tools {
		line.Tools = append(line.Tools, tool.Name)
	}
	text, err := json.Marshal(line)
	if err != nil {
		return dst, err
	}
	return append(append(dst, text...), '\n'), nil
}

// Refused reports whether the server refused the request because of a fault of the client, or
// because nothing in the script matches it.
func (r *Request) Refused() bool { return strings.HasPrefix(r.Outcome, refusedPrefix) }
