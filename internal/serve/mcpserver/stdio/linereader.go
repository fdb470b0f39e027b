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

	"signalbox/internal/text"
)

// syncWriter is the output, to which connection and lineReader write whole messages.
type syncWriter struct {
	mu  sync.Mutex // held while a message is written
	out io.Writer
}

// Write writes a message.
func (w *syncWriter) Write(message []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(message)
}

// Close does nothing: the stream stays open.
func (*syncWriter) Close() error { return nil }

// writeError writes an error response. A nil id is used if the id of the request is unknown.
func (w *syncWriter) writeError(code int64, id json.RawMessage, message string) error {
	type rpcError struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	}
	data, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   rpcError        `json:"error"`
	}{"2.0", id, rpcError{code, text.Shorten(strings.ToValidUTF8(message, ""), maxErrorText)}})
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// maxErrorText limits how much of a bad request an error can echo.
const maxErrorText = 200

// streamError is an error of the input stream.
type streamError struct{ err error }

func (e *streamError) Error() string { return e.err.Error() }
func (e *streamError) Unwrap() error { return e.err }

// lineReader is an io.Reader of the lines that are messages. It answers other lines with an error.
type lineReader struct {
	in    *bufio.Reader
	out   *syncWriter
	limit int    // bytes of a line
	rest  []byte // of the current line
}

func newLineReader(in io.Reader, out *syncWriter, limit int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 1<<16), out: out, limit: limit}
}

// Read implements [io.Reader].
func (l *lineReader) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, whole, err := l.next()
		if len(line) > 0 {
			if err := l.accept(line, whole); err != nil {
				return 0, &streamError{err}
			}
		}
		switch {
		case len(l.rest) > 0: // the stream returns its error again
		case err == io.EOF:
			return 0, io.EOF
		case err != nil:
			return 0, &streamError{err}
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// next reads a line, without surrounding white space. whole is false, and the line incomplete, if
// it is too long.
func (l *lineReader) next() (line []byte, whole bool, err error) {
	whole = true
	for {
		part, err := l.in.ReadSlice('\n')
		if whole = whole && len(line)+len(part) <= l.limit; whole {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if !whole {
			// not empty, even if the first part was already too long
			return append(line, '.'), false, err
		}
		return bytes.TrimSpace(line), whole, err
	}
}

// accept makes a line the current one if it is a message or a batch, and otherwise answers it with
// an error.
func (l *lineReader) accept(line []byte, whole bool) error {
	if !whole {
		return l.out.writeError(jsonrpc.CodeParseError, nil,
			fmt.Sprintf("the line is too long: %d bytes is the limit", l.limit))
	}
	if !json.Valid(line) {
		return l.out.writeError(jsonrpc.CodeParseError, nil,
			"the line is not JSON: write one message per line")
	}
	err := checkBatch(line)
	if line[0] != '[' {
		_, err = jsonrpc.DecodeMessage(line)
	}
	if err != nil {
		return l.out.writeError(jsonrpc.CodeInvalidRequest, idOf(line), err.Error())
	}
	l.rest = append(line, '\n')
	return nil
}

// checkBatch rejects batches that the SDK does not answer: those that contain anything but calls
// with distinct ids.
func checkBatch(line []byte) error {
	var batch []json.RawMessage
	if err := json.Unmarshal(line, &batch); err != nil || len(batch) == 0 {
		return errors.New("the batch has no messages")
	}
	seen := map[jsonrpc.ID]bool{}
	for _, element := range batch {
		message, err := jsonrpc.DecodeMessage(element)
		if err != nil {
			return err
		}
		request, ok := message.(*jsonrpc.Request)
		if !ok || !request.IsCall() || seen[request.ID] {
			return errors.New("a batch must contain only calls with distinct ids: write one message per line instead")
		}
		seen[request.ID] = true
	}
	return nil
}

// idOf returns the id of a message, or nil if it has no valid one.
func idOf(line []byte) json.RawMessage {
	var message struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(line, &message) != nil || len(message.ID) == 0 ||
		!strings.ContainsRune(`"-0123456789`, rune(message.ID[0])) {
		return nil
	}
	return message.ID
}
