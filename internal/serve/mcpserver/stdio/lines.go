package stdio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// voice is the output, to which the connection and the reader of lines write whole messages.
type voice struct {
	mu  sync.Mutex // held for one message
	out io.Writer
}

// Write writes one message.
func (v *voice) Write(message []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.out.Write(message)
}

// Close leaves the stream open.
func (*voice) Close() error { return nil }

// refuse answers what is no message. A nil id is that of something whose id nobody can tell.
func (v *voice) refuse(code int64, id json.RawMessage, why string) error {
	type fault struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	}
	text, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   fault           `json:"error"`
	}{"2.0", id, fault{code, brief(why)}})
	if err != nil {
		return err
	}
	_, err = v.Write(append(text, '\n'))
	return err
}

// brief keeps what was sent from coming back in full.
func brief(text string) string {
	if runes := []rune(strings.ToValidUTF8(text, "")); len(runes) > 200 {
		return string(runes[:200]) + "…"
	}
	return text
}

// streamError means that the input cannot be read any further.
type streamError struct{ err error }

func (e *streamError) Error() string { return e.err.Error() }
func (e *streamError) Unwrap() error { return e.err }

// lines reads the lines that are messages, and refuses the others.
type lines struct {
	in   *bufio.Reader
	out  *voice
	most int
	left []byte // of the last line
}

func newLines(in io.Reader, out *voice, most int) *lines {
	return &lines{in: bufio.NewReaderSize(in, 1<<16), out: out, most: most}
}

// Read is an io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.left) == 0 {
		line, whole, err := l.next()
		if len(line) > 0 {
			if refused := l.take(line, whole); refused != nil {
				return 0, &streamError{refused}
			}
		}
		switch {
		case len(l.left) > 0: // an error of the stream comes again
		case err == io.EOF:
			return 0, io.EOF
		case err != nil:
			return 0, &streamError{err}
		}
	}
	n := copy(p, l.left)
	l.left = l.left[n:]
	return n, nil
}

// next reads a line, without the white space around it. Of one that is too long it tells only the beginning, and that it is not whole.
func (l *lines) next() (line []byte, whole bool, err error) {
	whole = true
	for {
		part, err := l.in.ReadSlice('\n')
		if whole = whole && len(line)+len(part) <= l.most; whole {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if !whole {
			return append(line, '.'), false, err // there was something, also if its first part was too long
		}
		return bytes.TrimSpace(line), whole, err
	}
}

// take keeps a line that is a message or several, or refuses it.
func (l *lines) take(line []byte, whole bool) error {
	if !whole {
		return l.out.refuse(jsonrpc.CodeParseError, nil, fmt.Sprintf("the line is too long: %d bytes is the limit", l.most))
	}
	if !json.Valid(line) {
		return l.out.refuse(jsonrpc.CodeParseError, nil, "the line is not JSON: write one message on each line")
	}
	err := checkBatch(line)
	if line[0] != '[' {
		_, err = jsonrpc.DecodeMessage(line)
	}
	if err != nil {
		return l.out.refuse(jsonrpc.CodeInvalidRequest, idOf(line), err.Error())
	}
	l.left = append(line, '\n')
	return nil
}

// checkBatch refuses a batch that the SDK would stumble over: it answers none that has anything but calls.
func checkBatch(line []byte) error {
	var batch []json.RawMessage
	if err := json.Unmarshal(line, &batch); err != nil || len(batch) == 0 {
		return errors.New("the batch has no messages")
	}
	seen := map[jsonrpc.ID]bool{}
	for _, text := range batch {
		message, err := jsonrpc.DecodeMessage(text)
		if err != nil {
			return err
		}
		request, ok := message.(*jsonrpc.Request)
		if !ok || !request.IsCall() || seen[request.ID] {
			return errors.New("a batch has nothing but calls, each with an id of its own: write one message on each line")
		}
		seen[request.ID] = true
	}
	return nil
}

// idOf is the id of a message, nil if it has none that one could answer.
func idOf(line []byte) json.RawMessage {
	var message struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(line, &message) != nil || len(message.ID) == 0 || !strings.ContainsRune(`"-0123456789`, rune(message.ID[0])) {
		return nil
	}
	return message.ID
}
