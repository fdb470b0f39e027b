package stdio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"signalbox/internal/testkit/must"
)

const maxLine = 1 << 18

// heard has the messages that were read, and the errors that were written meanwhile.
func heard(t *testing.T, in io.Reader) (methods []string, refusals []string, err error) {
	t.Helper()
	var out bytes.Buffer
	c, err := New(in, &out, maxLine).Connect(t.Context())
	must.Succeed(t, err)
	defer c.Close()
	for {
		message, err := c.Read(t.Context())
		if err != nil {
			for line := range strings.Lines(out.String()) {
				refusals = append(refusals, refusal(t, line))
			}
			return methods, refusals, err
		}
		switch m := message.(type) {
		case *jsonrpc.Request:
			methods = append(methods, m.Method)
			if m.IsCall() { // so that Read returns the end of the input
				c.(*connection).mu.Lock()
				delete(c.(*connection).pending, m.ID)
				c.(*connection).mu.Unlock()
			}
		case *jsonrpc.Response:
			methods = append(methods, "response")
		}
	}
}

// refusal is the id and code of an error response.
func refusal(t *testing.T, line string) string {
	t.Helper()
	var message struct {
		Version string `json:"jsonrpc"`
		ID      any    `json:"id"`
		Error   struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal([]byte(line), &message); err != nil || message.Version != "2.0" ||
		message.Error.Message == "" || len(line) > 1000 {
		t.Errorf("no refusal: %v, %s", err, line)
	}
	return fmt.Sprintf("%v %d", message.ID, message.Error.Code)
}

func TestRead(t *testing.T) {
	const call, note = `{"jsonrpc":"2.0","id":1,"method":"a"}`, `{"jsonrpc":"2.0","method":"b"}`
	long := strings.Repeat("x", maxLine)
	for name, tt := range map[string]struct {
		in               string
		methods, refused string
	}{
		"nothing":                {"", "", ""},
		"messages":               {call + "\n" + note + "\n", "a b", ""},
		"no newline at the end":  {note + "\n" + call, "b a", ""},
		"space around":           {"\n \t\r\n  " + call + " \r\n\n", "a", ""},
		"no JSON":                {call + "\n{\n" + note + "\n", "a b", "<nil> -32700"},
		"two on a line":          {call + note + "\n" + note + "\n", "b", "<nil> -32700"},
		"half a line at the end": {call + "\n" + call[:9], "a", "<nil> -32700"},
		"too long": {call + "\n" + long + "yy\n" + note + "\n", "a b",
			"<nil> -32700"},
		"too long, and JSON": {`{"jsonrpc":"2.0","method":"` + long + `"}` + "\n" + note + "\n",
			"b", "<nil> -32700"},
		"too long at the end": {call + "\n" + long + long, "a", "<nil> -32700"},
		"as long as may be": {`{"jsonrpc":"2.0","method":"` + strings.Repeat("m", maxLine-30) +
			`"}` + "\n" + note, strings.Repeat("m", maxLine-30) + " b", ""},
		"no message": {"7\n{}\n\"x\"\nnull\n" + call + "\n", "a",
			"<nil> -32600,<nil> -32600,<nil> -32600,<nil> -32600"},
		"no version": {`{"id":5,"method":"a"}` + "\n" + `{"id":"six","method":"a"}` +
			"\n" + call + "\n", "a", "5 -32600,six -32600"},
		"an id that is none": {`{"jsonrpc":"2.0","id":{"x":1},"method":"a"}` + "\n" + call +
			"\n", "a", "<nil> -32600"},
		"empty batch": {"[]\n" + call + "\n", "a", "<nil> -32600"},
		"batch of nonsense": {"[1,2]\n[" + call + "," + call + "]\n" + note + "\n", "b",
			"<nil> -32600,<nil> -32600"},
		"batch with a note": {"[" + call + "," + note + "]\n" + note + "\n", "b",
			"<nil> -32600"},
		"batches of one id": {"[" + call + "]\n[" + call + "]\n" + note + "\n", "a b",
			"<nil> -32600"},
		"batch": {"[" + call + `,{"jsonrpc":"2.0","id":2,"method":"c"}]` + "\n",
			"a c", ""},
		"deep": {strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "\n" +
			call + "\n", "a", "<nil> -32700"},
		"a response": {`{"jsonrpc":"2.0","id":9,"result":{}}` + "\n" + note + "\n",
			"response b", ""},
	} {
		for _, in := range []io.Reader{strings.NewReader(tt.in),
			iotest.HalfReader(strings.NewReader(tt.in))} {
			methods, refused, err := heard(t, in)
			if got := strings.Join(methods, " "); err != io.EOF || got != tt.methods ||
				strings.Join(refused, ",") != tt.refused {
				t.Errorf("%s: heard %.100q, refused %v, %v; want %.100q, %v", name, got, refused,
					err, tt.methods, tt.refused)
			}
		}
	}
}

// The error for a line that is too long does not call it invalid JSON.
func TestLineTooLong(t *testing.T) {
	var out bytes.Buffer
	in := newLineReader(strings.NewReader(strings.Repeat("x", 100)+"\n"), &syncWriter{out: &out},
		99)
	if text, err := io.ReadAll(in); err != nil || len(text) > 0 ||
		!strings.Contains(out.String(), "too long: 99 bytes") {
		t.Errorf("read %q, %v; answered %s", text, err, out.String())
	}
}

func TestStreamError(t *testing.T) {
	broken := errors.New("the disk is gone")
	methods, _, err := heard(t,
		io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","method":"a"}`+"\n"),
			iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || len(methods) != 1 {
		t.Errorf("heard %v, %v", methods, err)
	}
}

// FuzzRead checks that reading ends and that all answers are JSON.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"{}\n", `{"jsonrpc":"2.0","id":1,"method":"a"}` + "\n[",
		"[[],\n1", "\xff\n{\"id\":-1}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if _, _, err := heard(t, strings.NewReader(in)); err != io.EOF {
			t.Errorf("ended with %v", err)
		}
	})
}

// A client that does not wait for answers cannot have more than maxPending calls at work.
func TestPendingCallsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var in strings.Builder
		for i := range maxPending + 1 {
			fmt.Fprintf(&in, `{"jsonrpc":"2.0","id":%d,"method":"m"}`+"\n", i+1)
		}
		c, err := New(strings.NewReader(in.String()), io.Discard, maxLine).Connect(t.Context())
		must.Succeed(t, err)
		defer c.Close()
		var first *jsonrpc.Request
		for range maxPending {
			message, err := c.Read(t.Context())
			must.Succeed(t, err)
			if first == nil {
				first = message.(*jsonrpc.Request)
			}
		}
		read := false
		go func() {
			if _, err := c.Read(t.Context()); err != nil {
				t.Error(err)
			}
			read = true
		}()
		synctest.Wait()
		if read {
			t.Errorf("call %d was read before another was answered", maxPending+1)
		}
		must.Succeed(t, c.Write(t.Context(),
			&jsonrpc.Response{ID: first.ID, Result: json.RawMessage("{}")}))
		synctest.Wait()
		if !read {
			t.Errorf("call %d was not read after another was answered", maxPending+1)
		}
	})
}
