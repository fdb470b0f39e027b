package rehearsals

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/rehearsal/modelserver"
)

type rehearseModelCommand struct {
	Script string       `arg:"" help:"The script of the model, in YAML or JSON."`
	Listen cli.NonEmpty `default:"127.0.0.1:0" placeholder:"ADDR" help:"Listen on this address. Without a host it is 127.0.0.1; port 0 means any free port. Default: 127.0.0.1:0."`
	Expose bool         `help:"Allow --listen to name an address that other machines can reach."`
	Log    cli.NonEmpty `placeholder:"FILE" help:"Append each answered request to this file as a line of JSON, without keys."`
	JSON   bool         `name:"json" help:"Print the addresses as one line of JSON."`
}

func (rehearseModelCommand) Help() string {
	return `Serves a scripted model over HTTP, in the protocols of OpenAI (chat completions and responses), Anthropic (messages) and Google (generateContent), streamed or not. Real agent programs and clients work with it. The script can also simulate faults: refusals, rate limits, cut connections, broken streams, silence. docs/how-to/rehearsal.md explains scripts.

When it listens, it prints the base URL of each protocol on standard output, so that the program that started it can wait for them. Each request is a line on standard error. A request that nothing in the script matches is refused with the reasons. Ctrl-C stops the server; the exit status is then 0.

Examples:

    signalbox rehearse model examples/model/hello.yaml
    signalbox rehearse model model.yaml --listen 127.0.0.1:8080 --log requests.jsonl
    signalbox rehearse model model.yaml --json >address.json`
}

func (c *rehearseModelCommand) Run(p *cli.Program) error {
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	script, _, err := readModelScript(p, &c.Script)
	if err != nil {
		return err
	}
	requests := &requestLog{p: p}
	if c.Log != "" {
		if requests.file, err = os.OpenFile(string(c.Log), os.O_CREATE|os.O_APPEND|os.O_WRONLY,
			0o600); err != nil {
			return signalbox.CodeFailed.Errorf("name a file that you may write",
				"cannot write to %s: %w", c.Log, cli.Cause(err))
		}
		defer requests.file.Close()
	}
	server, err := modelserver.New(script, &modelserver.Options{Answered: requests.add, Keep: 1})
	if err != nil {
		return err
	}
	return errors.Join(c.serve(ctx, p, server), requests.failed())
}

// readModelScript reads and parses the script of a model. It also returns the text of the script.
func readModelScript(p *cli.Program, name *string) (*modelserver.Script, []byte, error) {
	text, err := p.ReadAll(name, maxScript)
	if err != nil {
		return nil, nil, err
	}
	script, err := modelserver.ParseScript(*name, text)
	if err != nil {
		return nil, nil, &signalbox.Error{Code: signalbox.CodeFailed, Err: err,
			Hint: "docs/reference/rehearsal.md describes every field of a script"}
	}
	return script, text, nil
}

// modelAddresses are the base URLs of a model server, in the form that the clients of each protocol
// expect.
type modelAddresses struct {
	OpenAI    string `json:"openai"`
	Anthropic string `json:"anthropic"`
	Gemini    string `json:"gemini"`
}

func (c *rehearseModelCommand) serve(ctx context.Context, p *cli.Program,
	server *modelserver.Server) error {
	l, err := c.listen(ctx, p)
	if err != nil {
		return err
	}
	base := "http://" + l.Addr().String()
	addresses := modelAddresses{OpenAI: base + "/v1", Anthropic: base, Gemini: base}
	if c.JSON {
		err = p.PrintJSON(addresses, "")
	} else {
		_, err = fmt.Fprintf(p.Out, "openai     %s\nanthropic  %s\ngemini     %s\n",
			addresses.OpenAI, addresses.Anthropic, addresses.Gemini)
	}
	if err == nil {
		err = p.Out.Flush() // a program may be waiting for them
	}
	// a reader that has the addresses may close the pipe
	if err != nil && !errors.Is(err, cli.ErrReaderClosed) {
		return errors.Join(err, l.Close())
	}
	return server.Serve(ctx, l)
}

// listen listens on --listen. It refuses an address that other machines can reach, unless --expose
// is set.
func (c *rehearseModelCommand) listen(ctx context.Context, p *cli.Program) (net.Listener, error) {
	host, port, loopback, err := cli.SplitAddress(string(c.Listen))
	if err != nil {
		return nil, err
	}
	if !loopback && !c.Expose {
		return nil, signalbox.CodeUsage.Errorf("listen on 127.0.0.1, or add --expose",
			"other machines could reach %s", host)
	}
	return cli.Listen(ctx, p, string(c.Listen), host, port, loopback)
}

// requestLog prints each request when it was answered, and writes it to the log file.
type requestLog struct {
	p *cli.Program

	mu   sync.Mutex // guards p's standard error, file and err
	file *os.File   // nil without --log
	err  error
}

func (l *requestLog) add(r modelserver.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	printf := l.p.Notef
	if r.Refused() {
		printf = l.p.Warnf
	}
	printf("request %d: %s %s %d, %s", r.Number, r.Protocol, r.Path, r.Status, r.Outcome)
	if l.file == nil || l.err != nil {
		return
	}
	line, err := r.AppendLogLine(nil)
	if err == nil {
		_, err = l.file.Write(line)
	}
	l.err = err
}

// failed returns the first error of writing the log.
func (l *requestLog) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		return nil
	}
	return signalbox.CodeFailed.Errorf("free some disk space and start the server again",
		"cannot write the log: %w", cli.Cause(l.err))
}
