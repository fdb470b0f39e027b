package modelserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// marshal is json.Marshal, but leaves <, > and & as they are, as the real servers do.
func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("modelserver: a wire type does not marshal: %v", err)) // they are all of this package
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body := marshal(v)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is told nothing more if it has gone
}

// setRequestID sets the header in which OpenAI's and Anthropic's clients look for the request's id.
func setRequestID(w http.ResponseWriter, req *Request) string {
	id := fmt.Sprintf("req_%06d", req.Number)
	w.Header().Set("X-Request-Id", id)
	w.Header().Set("Request-Id", id)
	return id
}

// stream gathers the events of a piece, which are then sent at once.
type stream struct{ buf bytes.Buffer }

// event adds a server-sent event; the name may be empty.
func (s *stream) event(name string, v any) {
	if name != "" {
		fmt.Fprintf(&s.buf, "event: %s\n", name)
	}
	s.raw("data: " + string(marshal(v)) + "\n\n")
}

func (s *stream) raw(text string) { s.buf.WriteString(text) }

// play is the sending of one answer.
type play struct {
	server   *Server
	protocol protocol
	w        http.ResponseWriter
	r        *http.Request
	req      *Request
	claim    *claim

	out  stream
	sent int // bytes of the body
}

// run sends the answer and says whether its end was written. A cut panics with http.ErrAbortHandler, which is how a handler
// closes its connection.
func (p *play) run() bool {
	a := newAnswer(p.claim.turn, p.req, p.server.opts.Now().Unix())
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
		p.note()
		return p.streamed(a)
	}
	return p.atOnce(a)
}

// note records what is answered. It comes before the answer, so that who has read that finds it in the record.
func (p *play) note() { p.server.finish(p.req, p.claim.String(), http.StatusOK) }

// wait is false if the client went away first.
func (p *play) wait(d time.Duration) bool {
	return d <= 0 || p.server.opts.Sleep(p.r.Context(), d) == nil
}

func (p *play) streamed(a *answer) bool {
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
			return p.breakOff(enc, f)
		}
		if i > 0 && !p.wait(time.Duration(p.claim.turn.Every)) {
			return false
		}
		if err := enc.piece(pc); err != nil {
			enc.fail(p.cannot(err))
			p.flush()
			return false
		}
		if !p.flush() {
			return false
		}
	}
	if f != nil {
		return p.breakOff(enc, f)
	}
	enc.end()
	return p.flush() // whatever became of the context: clients leave as soon as they have read the last event
}

// breakOff is the fault in the middle of a stream.
func (p *play) breakOff(enc encoder, f *Fault) bool {
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

func (p *play) cannot(err error) *refusal {
	return &refusal{status: http.StatusInternalServerError, final: true,
		message: fmt.Sprintf("%s: %s: %v", p.server.script.name, p.claim.turn.where, err)}
}

// flush sends what was gathered, all at once or dripping, and cuts the connection where a fault by bytes wants it.
func (p *play) flush() bool {
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

func (p *play) write(data []byte) bool {
	n, err := p.w.Write(data)
	p.sent += n
	if err != nil {
		return false
	}
	return http.NewResponseController(p.w).Flush() == nil
}

// atOnce sends an answer that is not streamed, after the time that its pieces would have taken.
func (p *play) atOnce(a *answer) bool {
	if n := len(a.pieces()); n > 1 && !p.wait(time.Duration(p.claim.turn.Every)*time.Duration(n-1)) {
		return false
	}
	whole, err := p.protocol.whole(a)
	f := p.claim.fault
	if err != nil || f != nil && f.Kind == FaultError {
		refused := p.cannot(err)
		if err == nil {
			refused = f.refusal(p.server.script.name)
		}
		p.server.refuse(p.w, p.protocol, p.req, refused, p.claim.String())
		return false
	}
	p.note()
	body := marshal(whole)
	p.w.Header().Set("Content-Type", "application/json")
	if f != nil && f.Kind == FaultMalformed {
		body = body[:len(body)/2]
	}
	p.w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	if f != nil && f.AfterPieces > 0 && f.Kind != FaultMalformed {
		p.out.raw(string(body[:len(body)/2]))
		p.flush()
		return p.breakOff(nil, f)
	}
	if f != nil && f.AfterBytes >= len(body) {
		p.out.raw(string(body[:len(body)-1]))
		p.flush()
		return p.breakOff(nil, f)
	}
	p.out.raw(string(body))
	return p.flush() && f == nil
}
