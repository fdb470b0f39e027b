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

// maxMessage is the maximum size of a message from a server. It bounds memory, not what a model
// sees.
const maxMessage = 16 << 20

var errTooLong = fmt.Errorf("it sent a message of more than %s", byteCount(maxMessage))

// inherited lists the environment variables that a server's program gets from this process. A star
// at the end matches any suffix.
var inherited = [...]string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE",
	"LC_*", "TZ", "TMPDIR", "XDG_*",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"NODE_EXTRA_CA_CERTS"}

// environment returns the environment of a server's program.
func environment(parent []string, added map[string]string) (env []string) {
	for _, entry := range parent {
		name, _, _ := strings.Cut(entry, "=")
		for _, pattern := range inherited {
			// Proxy variables may also be in lower case.
			if prefix, wildcard := strings.CutSuffix(pattern, "*"); wildcard &&
				strings.HasPrefix(name, prefix) || strings.EqualFold(name, pattern) {
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

// program is a server that is a child process. It is also the connection to it, with one message
// per line.
type program struct {
	process       *process.Process
	session       string // in the environment of the program and of everything it starts
	lines         *bufio.Reader
	out           *io.PipeReader // the source of lines
	stderr        tailWriter
	done          chan struct{} // closed when exit is set
	exit          process.Exit
	stopRequested atomic.Bool // before it exited

	queue []jsonrpc.Message // the rest of a batch; used only by Read

	mu    sync.Mutex // guards noise
	noise string     // the last line on standard output that was not a message
}

// run starts the program of a server.
func (s *Server) run(grace time.Duration) (*program, error) {
	read, write := io.Pipe()
	p := &program{lines: bufio.NewReaderSize(read, 64<<10), out: read, done: make(chan struct{}),
		stderr: tailWriter{next: s.Stderr}}
	// Each start has its own session, so that stopping the remains of one does not stop the next.
	p.session = process.NestedSession("mcp-" + s.Name + "-" + rand.Text())
	env := append(environment(process.Environ(), s.Env), process.SessionVariable+"="+p.session)
	started, err := process.Start(process.Spec{Argv: s.Command, Dir: s.Dir, Env: env,
		Interactive: true,
		Stdout:      write, Stderr: &p.stderr, Grace: grace}, nil)
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

// Connect implements [mcp.Transport].
func (p *program) Connect(context.Context) (mcp.Connection, error) { return p, nil }

// SessionID implements [mcp.Connection].
func (p *program) SessionID() string { return "" }

// Read returns the next message. Other lines are skipped: many programs print diagnostics to
// standard output.
func (p *program) Read(context.Context) (jsonrpc.Message, error) {
	for {
		if len(p.queue) > 0 {
			next := p.queue[0]
			p.queue = p.queue[1:]
			return next, nil
		}
		line, err := p.readLine()
		if messages, ok := decode(line); ok {
			p.queue = messages
		} else if len(line) > 0 {
			p.mu.Lock()
			p.noise = oneLine(string(line[:min(len(line), maxQuoted)]), maxQuoted)
			p.mu.Unlock()
		}
		if err != nil && len(p.queue) == 0 {
			return nil, err
		}
	}
}

// readLine reads a line, without its line ending.
func (p *program) readLine() (line []byte, err error) {
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

// decode decodes a message, or a batch of messages, which older servers may send.
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

// Write queues a message. It does not block if the program does not read.
func (p *program) Write(_ context.Context, message jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	return p.process.WriteLine(string(text))
}

// Close closes standard input, which asks the program to exit, and stops reading from it. It does
// not wait.
func (p *program) Close() error {
	select {
	case <-p.done:
	default:
		p.stopRequested.Store(true)
	}
	p.process.CloseInput()
	return p.out.Close()
}

// stop closes standard input and waits. After grace it terminates the program and everything it
// started, and after another grace it kills them.
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

// printed returns what the program printed that may explain a failure, as the continuation of an
// error message.
func (p *program) printed() (message string) {
	p.mu.Lock()
	noise := p.noise
	p.mu.Unlock()
	if stderr := p.stderr.last(); stderr != "" {
		message += "; it last printed: " + stderr
	}
	if noise != "" {
		message += "; on its standard output, which is only for messages, it printed: " + noise
	}
	return message
}

// maxQuoted is how many bytes of a server's output an error quotes.
const maxQuoted = 600

// tailWriter forwards what is written to it, and keeps the end.
type tailWriter struct {
	next io.Writer

	mu  sync.Mutex // guards end
	end []byte
}

func (t *tailWriter) Write(text []byte) (int, error) {
	t.mu.Lock()
	t.end = append(t.end, text[max(0, len(text)-maxQuoted):]...)
	t.end = t.end[max(0, len(t.end)-maxQuoted):]
	t.mu.Unlock()
	if t.next != nil {
		_, _ = t.next.Write(text) // an error must not stop the program
	}
	return len(text), nil
}

func (t *tailWriter) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return oneLine(string(t.end), maxQuoted)
}
