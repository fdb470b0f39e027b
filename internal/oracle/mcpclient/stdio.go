package mcpclient

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox/internal/process"
)

// maxMessage is how long a message of a server may be. It bounds memory, not what a model sees.
const maxMessage = 16 << 20

var errTooLong = fmt.Errorf("it sent a message of more than %s bytes", thousands(maxMessage))

// inherited are the variables that a server's program gets from this process. A name with a star stands for all that
// begin so.
var inherited = [...]string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "XDG_*",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"}

// environment is what a server's program sees.
func environment(own []string, added map[string]string) (env []string) {
	for _, entry := range own {
		name, _, _ := strings.Cut(entry, "=")
		for _, pattern := range inherited {
			// Proxies are written in small letters too.
			if start, some := strings.CutSuffix(pattern, "*"); some && strings.HasPrefix(name, start) || strings.EqualFold(name, pattern) {
				env = append(env, entry)
				break
			}
		}
	}
	for name, value := range added {
		env = append(env, name+"="+value)
	}
	return env
}

// program is the connection to a server that is a program: a message on each line.
type program struct {
	process *process.Process
	session string // what all that it starts carries in its environment
	lines   *bufio.Reader
	out     *io.PipeReader // what lines reads
	errors  tail
	done    chan struct{} // closed when exit is set
	exit    process.Exit
	asked   atomic.Bool // it was told to end before it did

	queue []jsonrpc.Message // the rest of a batch; only Read has it

	mu    sync.Mutex // guards noise
	noise string     // the last line that was no message
}

// run starts the program of a server.
func (s *Server) run(grace time.Duration) (*program, error) {
	read, write := io.Pipe()
	p := &program{lines: bufio.NewReaderSize(read, 64<<10), out: read, done: make(chan struct{}), errors: tail{next: s.Stderr}}
	// Each life is a session of its own, so that ending what is left of one does not end the next.
	p.session = process.NestedSession("mcp-" + s.Name + "-" + rand.Text())
	env := append(environment(process.Environ(), s.Env), process.SessionVariable+"="+p.session)
	started, err := process.Start(process.Spec{Argv: s.Command, Dir: s.Dir, Env: env, Interactive: true,
		Stdout: write, Stderr: &p.errors, Grace: grace}, nil)
	if err != nil {
		return nil, err
	}
	p.process = started
	go func() {
		p.exit = started.Wait()
		close(p.done)
		write.Close()
	}()
	return p, nil
}

// Connect makes the program a transport.
func (p *program) Connect(context.Context) (mcp.Connection, error) { return p, nil }

// SessionID is none.
func (p *program) SessionID() string { return "" }

// Read returns the next message. What is none is passed over: many programs print to their standard output what belongs
// elsewhere.
func (p *program) Read(context.Context) (jsonrpc.Message, error) {
	for {
		if len(p.queue) > 0 {
			next := p.queue[0]
			p.queue = p.queue[1:]
			return next, nil
		}
		line, err := p.line()
		if messages, ok := decode(line); ok {
			p.queue = messages
		} else if len(line) > 0 {
			p.mu.Lock()
			p.noise = oneLine(string(line[:min(len(line), maxSaid)]), maxSaid)
			p.mu.Unlock()
		}
		if err != nil && len(p.queue) == 0 {
			return nil, err
		}
	}
}

// line reads a line without its end.
func (p *program) line() (line []byte, err error) {
	for {
		part, err := p.lines.ReadSlice('\n')
		if len(line)+len(part) > maxMessage {
			return nil, errTooLong
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), err
		}
	}
}

// decode reads a message, or the batch of them that older servers may send.
func decode(line []byte) (messages []jsonrpc.Message, ok bool) {
	all := []json.RawMessage{line}
	if len(line) > 0 && line[0] == '[' {
		if json.Unmarshal(line, &all) != nil {
			return nil, false
		}
	}
	for _, one := range all {
		if len(one) == 0 || one[0] != '{' {
			return nil, false
		}
		message, err := jsonrpc.DecodeMessage(one)
		if err != nil {
			return nil, false
		}
		messages = append(messages, message)
	}
	return messages, len(messages) > 0
}

// Write queues a message. It does not wait for a program that does not read.
func (p *program) Write(_ context.Context, message jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	return p.process.WriteLine(string(text))
}

// Close closes the input, which tells the program to end, and hears it no more. It does not wait.
func (p *program) Close() error {
	select {
	case <-p.done:
	default:
		p.asked.Store(true)
	}
	p.process.CloseInput()
	return p.out.Close()
}

// stop ends the program with all that it started: it may end by itself, then TERM, then KILL.
func (p *program) stop(grace time.Duration) {
	p.Close()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.process.Stop(grace)
		<-p.done
	}
}

// said is what the program printed that may explain why it does not work.
func (p *program) said() string {
	p.mu.Lock()
	noise := p.noise
	p.mu.Unlock()
	var parts []string
	if text := p.errors.last(); text != "" {
		parts = append(parts, "it last printed: "+text)
	}
	if noise != "" {
		parts = append(parts, "on its standard output, where only messages may be, it printed: "+noise)
	}
	return strings.Join(parts, "; ")
}

// maxSaid is how much of what a program printed is in an error.
const maxSaid = 600

// tail passes on what is written, and keeps its end.
type tail struct {
	next io.Writer

	mu  sync.Mutex // guards what follows
	end []byte
}

func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	t.end = append(t.end, text[max(0, len(text)-maxSaid):]...)
	t.end = t.end[max(0, len(t.end)-maxSaid):]
	t.mu.Unlock()
	if t.next != nil {
		_, _ = t.next.Write(text) // what fails there is still kept here
	}
	return len(text), nil
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return oneLine(string(t.end), maxSaid)
}
