package modelserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// object is a JSON object of an answer.
type object map[string]any

// marshal is json.Marshal without the escapes for HTML, as the real servers encode.
func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		// unreachable: objects have only values that can be encoded
		panic(fmt.Sprintf("modelserver: an answer does not marshal: %v", err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body := marshal(v)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client has disconnected
}

// setRequestID sets the headers in which OpenAI's and Anthropic's clients look for the id of the
// request.
func setRequestID(w http.ResponseWriter, req *Request) string {
	id := fmt.Sprintf("req_%06d", req.Number)
	w.Header().Set("X-Request-Id", id)
	w.Header().Set("Request-Id", id)
	return id
}

// stream collects the events of a piece, which are sent together.
type stream struct{ buf bytes.Buffer }

// event adds a server-sent event. The name may be empty.
func (s *stream) event(name string, v any) {
	if name != "" {
		fmt.Fprintf(&s.buf, "event: %s\n", name)
	}
	s.raw("data: " + string(marshal(v)) + "\n\n")
}

func (s *stream) raw(text string) { s.buf.WriteString(text) }

// sender sends one answer.
type sender struct {
	server   *Server
	protocol protocol
	w        http.ResponseWriter
	r        *http.Request
	req      *Request
	claim    *claim

	out  stream
	sent int // bytes of the body
}

// run sends the answer and reports whether it was sent completely. A cut panics with
// http.ErrAbortHandler, which makes the HTTP server close the connection.
func (p *sender) run() bool {
	a := newAnswer(p.claim.turn, p.req, p.server.opts.Now().Unix())
	p.server.mu.Lock()
	p.req.Usage = a.usage
	p.server.mu.Unlock()
	if !p.wait(time.Duration(p.claim.turn.Delay)) {
		return false
	}
	if f := p.claim.fault; f != nil && f.AfterPieces == 0 && f.AfterBytes == 0 {
		switch f.Kind {
		case FaultCut:
			panic(http.ErrAbortHandler)
		case FaultHang:
			<-p.r.Context().Done()
			return false
		}
	}
	setRequestID(p.w, p.req)
	if p.req.Stream {
		p.recordOutcome()
		return p.sendStream(a)
	}
	return p.sendWhole(a)
}

// recordOutcome records the outcome before the answer is sent, so that a client that has the answer
// finds it in the record.
func (p *sender) recordOutcome() { p.server.finish(p.req, p.claim.String(), http.StatusOK) }

// wait waits and reports whether the client is still connected.
func (p *sender) wait(d time.Duration) bool {
	return d <= 0 || p.server.opts.Sleep(p.r.Context(), d) == nil
}

func (p *sender) sendStream(a *answer) bool {
	p.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	p.w.Header().Set("Cache-Control", "no-cache")
	enc := p.protocol.encoder(a, &p.out)
	enc.begin()
	if !p.flush() {
		return false
	}
	pieces := a.pieces()
	f := p.claim.fault
	for i, pc := range pieces {
		if p.r.Context().Err() != nil {
			return false
		}
		if f != nil && f.AfterBytes == 0 && f.AfterPieces == i {
			return p.applyFault(enc, f)
		}
		if i > 0 && !p.wait(time.Duration(p.claim.turn.Every)) {
			return false
		}
		if err := enc.piece(pc); err != nil {
			enc.fail(p.turnError(err))
			p.flush()
			return false
		}
		if !p.flush() {
			return false
		}
	}
	if f != nil {
		return p.applyFault(enc, f)
	}
	enc.end()
	// regardless of the context: clients disconnect as soon as they have the last event
	return p.flush()
}

// applyFault applies a fault in the middle of an answer.
func (p *sender) applyFault(enc encoder, f *Fault) bool {
	switch f.Kind {
	case FaultMalformed:
		p.out.raw("data: {\"this is\": not JSON\n\n")
		p.flush()
	case FaultError:
		enc.fail(f.refusal(p.server.script.name))
		p.flush()
	case FaultHang:
		<-p.r.Context().Done()
	default:
		panic(http.ErrAbortHandler)
	}
	return false
}

func (p *sender) turnError(err error) *refusal {
	return &refusal{status: http.StatusInternalServerError, final: true,
		message: fmt.Sprintf("%s: %s: %v", p.server.script.name, p.claim.turn.where, err)}
}

// flush sends the collected events, with Drip if the turn has it, and cuts the connection at
// Fault.AfterBytes.
func (p *sender) flush() bool {
	data := bytes.Clone(p.out.buf.Bytes())
	p.out.buf.Reset()
	size, every := len(data), time.Duration(0)
	if d := p.claim.turn.Drip; d != nil {
		size, every = d.Bytes, time.Duration(d.Every)
	}
	cutAt := -1
	if f := p.claim.fault; f != nil && f.AfterBytes > 0 {
		cutAt = f.AfterBytes
	}
	for len(data) > 0 {
		n := min(size, len(data))
		if p.sent > 0 && !p.wait(every) {
			return false
		}
		if cutAt >= 0 && p.sent+n >= cutAt {
			p.write(data[:cutAt-p.sent])
			panic(http.ErrAbortHandler)
		}
		if !p.write(data[:n]) {
			return false
		}
		data = data[n:]
	}
	return true
}

func (p *sender) write(data []byte) bool {
	n, err := p.w.Write(data)
	p.sent += n
	if err != nil {
		return false
	}
	return http.NewResponseController(p.w).Flush() == nil
}

// sendWhole sends an answer that is not streamed, after the time that its pieces would have taken.
func (p *sender) sendWhole(a *answer) bool {
	if n := len(a.pieces()); n > 1 &&
		!p.wait(time.Duration(p.claim.turn.Every)*time.Duration(n-1)) {
		return false
	}
	whole, err := p.protocol.whole(a)
	f := p.claim.fault
	if err != nil || f != nil && f.Kind == FaultError {
		refused := p.turnError(err)
		if err == nil {
			refused = f.refusal(p.server.script.name)
		}
		p.server.refuse(p.w, p.protocol, p.req, refused, p.claim.String())
		return false
	}
	p.recordOutcome()
	body := marshal(whole)
	p.w.Header().Set("Content-Type", "application/json")
	if f != nil && f.Kind == FaultMalformed {
		body = body[:len(body)/2]
	}
	p.w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	if f != nil && f.AfterPieces > 0 && f.Kind != FaultMalformed {
		p.out.raw(string(body[:len(body)/2]))
		p.flush()
		return p.applyFault(nil, f)
	}
	if f != nil && f.AfterBytes >= len(body) {
		p.out.raw(string(body[:len(body)-1]))
		p.flush()
		return p.applyFault(nil, f)
	}
	p.out.raw(string(body))
	return p.flush() && f == nil
}
