package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/rehearsal/modelserver"
)

type rehearseModelCommand struct {
	Script string `arg:"" help:"What the model answers, in YAML or JSON."`
	Listen given  `default:"127.0.0.1:0" placeholder:"ADDR" help:"Where to listen; without a host it is the loopback, and port 0 is any that is free. Default: 127.0.0.1:0."`
	Expose bool   `help:"Listen on an address that other machines can reach, if --listen names one."`
	Log    given  `placeholder:"FILE" help:"Append each request to this file when it was answered, as a line of JSON with all that was asked. Keys are left out."`
	JSON   bool   `name:"json" help:"Print the addresses as one line of JSON."`
}

func (rehearseModelCommand) Help() string {
	return `A model server without a model. It answers as the script says, in the protocols of OpenAI (chat completions and responses), Anthropic (messages) and Google (generateContent), streamed or not; real agent programs and clients work against it. The script also says what goes wrong: refusals, rate limits, cut connections, broken streams, silence. docs/rehearsal.md has the language.

As soon as it listens, it prints the base URL of each protocol on standard output; whoever started it can wait for that. Each request is a line on standard error. What nothing in the script fits is refused with the reasons. Ctrl-C ends it, with status 0.

Examples:

    signalbox rehearse model examples/model/hello.yaml
    signalbox rehearse model model.yaml --listen 127.0.0.1:8080 --log asked.jsonl
    signalbox rehearse model model.yaml --json >address.json`
}

func (c *rehearseModelCommand) Run(p *program) error {
	ctx, stop := untilInterrupted()
	defer stop()
	text, err := p.readAll(&c.Script, maxScript)
	if err != nil {
		return err
	}
	script, err := parseModelScript(c.Script, text)
	if err != nil {
		return err
	}
	log, closeLog, err := c.openLog()
	if err != nil {
		return err
	}
	requests := &modelRequests{p: p, log: log}
	server, err := modelserver.New(script, &modelserver.Options{Log: slog.New(requests), Keep: keepRequests})
	if err != nil {
		return errors.Join(err, closeLog())
	}
	requests.server = server
	return errors.Join(c.serve(ctx, p, server), requests.failed(), closeLog())
}

// keepRequests is enough for those that are under way, which the log still has to find.
const keepRequests = 1000

func parseModelScript(name string, source []byte) (*modelserver.Script, error) {
	script, err := modelserver.ParseScript(name, source)
	if err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeFailed, Err: err, Hint: "docs/rehearsal-reference.md describes every field of a script"}
	}
	return script, nil
}

// checkedConversation is a conversation in the answer of check.
type checkedConversation struct {
	Line         int    `json:"line"`
	Conversation string `json:"conversation"`
	Turns        int    `json:"turns"`
}

// checkModel lists the conversations of a model's script, in the order in which they are tried.
func (c *rehearseCheckCommand) checkModel(p *program) error {
	text, err := p.readAll(&c.Script, maxScript)
	if err != nil {
		return err
	}
	script, err := parseModelScript(c.Script, text)
	if err != nil {
		return err
	}
	line := func(place string) int {
		line, _ := modelserver.Position(text, place)
		return line
	}
	var rows []checkedConversation
	for i, conversation := range script.Conversations {
		place := fmt.Sprintf("conversations[%d]", i)
		rows = append(rows, checkedConversation{line(place), cmp.Or(conversation.Name, place), len(conversation.Turns)})
	}
	if script.Otherwise != nil {
		rows = append(rows, checkedConversation{line("otherwise"), "otherwise", 1})
	}
	for _, row := range rows {
		if c.JSON {
			err = p.printJSON(row, "")
		} else {
			_, err = fmt.Fprintf(p.out, "%d\t%s\t%d turns\n", row.Line, printable(row.Conversation), row.Turns)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openLog opens the file of --log; it is nil without one.
func (c *rehearseModelCommand) openLog() (*os.File, func() error, error) {
	if c.Log == "" {
		return nil, func() error { return nil }, nil
	}
	f, err := os.OpenFile(string(c.Log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("cannot write to %s: %w", c.Log, cause(err)), Hint: "name a file that you may write"}
	}
	return f, f.Close, nil
}

// modelAddresses are the base URLs of a model server, in the form in which each protocol's clients take them.
type modelAddresses struct {
	OpenAI    string `json:"openai"`
	Anthropic string `json:"anthropic"`
	Gemini    string `json:"gemini"`
}

func (c *rehearseModelCommand) serve(ctx context.Context, p *program, handler http.Handler) error {
	l, err := c.listen(ctx, p)
	if err != nil {
		return err
	}
	base := "http://" + l.Addr().String()
	addresses := modelAddresses{OpenAI: base + "/v1", Anthropic: base, Gemini: base}
	if c.JSON {
		err = p.printJSON(addresses, "")
	} else {
		_, err = fmt.Fprintf(p.out, "openai     %s\nanthropic  %s\ngemini     %s\n", addresses.OpenAI, addresses.Anthropic, addresses.Gemini)
	}
	if err == nil {
		err = p.out.Flush() // somebody waits for it
	}
	if err != nil && !errors.Is(err, errReaderWentAway) { // who read the addresses has what it wanted
		return errors.Join(err, l.Close())
	}
	// An answer that hangs, or takes its time, ends with the server.
	server := &http.Server{Handler: handler, BaseContext: func(net.Listener) context.Context { return ctx }, ReadHeaderTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)} // the script cuts connections on purpose
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		server.Close() // what is still connected asked for nothing
	}
	<-served
	return nil
}

// shutdownTime is ample for answers that were told to end.
const shutdownTime = 2 * time.Second

// listen refuses what others could reach, unless it was asked for.
func (c *rehearseModelCommand) listen(ctx context.Context, p *program) (net.Listener, error) {
	host, port, err := net.SplitHostPort(string(c.Listen))
	if err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("%s is no address: %w", c.Listen, err), Hint: "write host and port, such as 127.0.0.1:8080"}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	ip := net.ParseIP(host)
	loopback := host == "localhost" || ip != nil && ip.IsLoopback()
	if !loopback && !c.Expose {
		return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("%s is not the loopback: other machines could reach it", host),
			Hint: "listen on 127.0.0.1, or add --expose if that is meant"}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("cannot listen on %s: %w", c.Listen, cause(err)), Hint: "choose another port; port 0 is any that is free"}
	}
	if !loopback {
		p.warnf("%s is not the loopback: others can reach it, and nothing is encrypted", host)
	}
	return l, nil
}

// modelRequests hears of each request when it was answered: it says so on standard error, and writes it to the log.
type modelRequests struct {
	p      *program
	server *modelserver.Server // set before the first request

	mu  sync.Mutex // guards p's standard error, log and err
	log *os.File
	err error
}

func (m *modelRequests) Enabled(context.Context, slog.Level) bool { return true }
func (m *modelRequests) WithAttrs([]slog.Attr) slog.Handler       { return m }
func (m *modelRequests) WithGroup(string) slog.Handler            { return m }

func (m *modelRequests) Handle(_ context.Context, r slog.Record) error {
	told := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool {
		told[a.Key] = a.Value
		return true
	})
	outcome := told["outcome"].String()
	m.mu.Lock()
	defer m.mu.Unlock()
	say := m.p.notef
	if strings.HasPrefix(outcome, "refused") {
		say = m.p.warnf
	}
	say("request %d: %s %s %d, %s", told["number"].Int64(), told["protocol"], told["path"], told["status"].Int64(), outcome)
	if m.log == nil {
		return nil
	}
	requests := m.server.Requests()
	i := slices.IndexFunc(requests, func(r modelserver.Request) bool { return int64(r.Number) == told["number"].Int64() })
	if i < 0 {
		return nil
	}
	line, err := json.Marshal(logged(requests[i]))
	if err == nil {
		_, err = m.log.Write(append(line, '\n'))
	}
	if m.err == nil {
		m.err = err
	}
	return err
}

// loggedRequest is a line of the log. Its names are those that scripts match on.
type loggedRequest struct {
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
	Body         json.RawMessage `json:"body,omitempty"`
}

func logged(r modelserver.Request) loggedRequest {
	line := loggedRequest{Number: r.Number, Protocol: r.Protocol, Method: r.Method, Path: r.Path, UserAgent: r.Header.Get("User-Agent"),
		Status: r.Status, Outcome: r.Outcome, Conversation: r.Conversation, Model: r.Model, Stream: r.Stream, Body: r.Body}
	for _, tool := range r.Tools {
		line.Tools = append(line.Tools, tool.Name)
	}
	return line
}

// failed is the first error of the log.
func (m *modelRequests) failed() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		return nil
	}
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("cannot write the log: %w", cause(m.err)), Hint: "make room, and run it again"}
}
