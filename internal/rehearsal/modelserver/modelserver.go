// Package modelserver is a scripted model server: an http.Handler that answers from a Script in the
// wire protocols of OpenAI (chat completions and responses), Anthropic (messages) and Google
// (generateContent), streamed or not, closely enough for the official clients and the programs
// built on them.
//
//	POST /v1/chat/completions                        GET /v1/models, /v1/models/{model}
//	POST /v1/responses
//	POST /v1/messages                                POST /v1/messages/count_tokens
//	POST /v1beta/models/{model}:generateContent      GET /v1beta/models, /v1beta/models/{model}
//	POST /v1beta/models/{model}:streamGenerateContent, always as with alt=sse
//	POST /v1beta/models/{model}:countTokens
//
// GET /v1/models answers in Anthropic's form if the request has the header Anthropic-Version.
//
// A request is parsed into a neutral form. Requests that the real server would refuse are refused
// with the same status and form of error: wrong key, unknown model, missing field, unknown role,
// tool result without a call, call without a result. Then a turn is chosen. A conversation is
// identified by a header or by the user's messages before the first answer. It is assigned to the
// first conversation of the script that matches its first request. Within it, the first turn that
// matches and is not used up answers. A request that nothing matches is refused with status 400 and
// the reason for every turn; there is no default answer. A turn's faults come before its answer. A
// turn counts as used when its answer was written completely, not after a fault or when the client
// disconnects. The server notices a disconnect late: only a rule with Match.Turn distinguishes a
// client that repeats a request immediately from one that continues.
//
// A turn is rendered into pieces once, and each protocol encodes the pieces, so the content is the
// same whether streamed or not. Ids are derived from the number of the request, so the same
// requests in the same order get the same bytes, except for times.
//
// Every request is recorded, without keys and cookies. The Server keeps a bounded number of
// requests and of conversations in memory. It starts no goroutines except in Serve, and waits only
// in Options.Sleep and, for a hang, for the end of the request's context. It is safe for concurrent
// use. Responses are not stored: a request with previous_response_id is refused.
package modelserver

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// maxBody bounds the length of a request, as the real servers do.
	maxBody = 32 << 20
	// maxConversations bounds the number of conversations.
	maxConversations = 100_000
)

// Options configure a Server.
type Options struct {
	// Answered is called with each request when its outcome is known, by several goroutines at
	// once. Nil means that it is not called.
	Answered func(Request)
	// Now returns the time for time stamps. Nil means time.Now.
	Now func() time.Time
	// Sleep waits for a duration or returns the context's error when that ends first. Nil means a
	// real timer.
	Sleep func(context.Context, time.Duration) error
	// Keep is the number of requests to keep in the record. Zero means 10,000.
	Keep int
}

// Server answers from its script.
type Server struct {
	script *compiled
	opts   Options
	mux    *http.ServeMux

	mu            sync.Mutex // guards the fields below
	number        int
	record        []*Request
	conversations map[string]*position
	assigned      []int // number of conversations assigned to each conversation of the script
	otherwise     position
}

// New validates the script and returns a server. Neither the script nor the options may be modified
// afterwards.
func New(script *Script, opts *Options) (*Server, error) {
	c, err := compile(script)
	if err != nil {
		return nil, err
	}
	s := &Server{script: c, conversations: map[string]*position{}, assigned: make([]int, len(c.conversations)), otherwise: newPosition(-1, 1)}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Answered == nil {
		s.opts.Answered = func(Request) {}
	}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	if s.opts.Sleep == nil {
		s.opts.Sleep = sleep
	}
	if s.opts.Keep <= 0 {
		s.opts.Keep = 10_000
	}
	s.route()
	return s, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (s *Server) route() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("POST /v1/chat/completions", s.generate(chat{}))
	s.mux.HandleFunc("POST /v1/responses", s.generate(responses{}))
	s.mux.HandleFunc("POST /v1/messages", s.generate(messages{}))
	s.mux.HandleFunc("POST /v1/messages/count_tokens", s.count(messages{counting: true}, "input_tokens"))
	s.mux.HandleFunc("GET /v1/models", s.listModels)
	s.mux.HandleFunc("GET /v1/models/{model}", s.listModels)
	s.mux.HandleFunc("GET /v1beta/models", s.listModels)
	s.mux.HandleFunc("GET /v1beta/models/{model}", s.listModels)
	s.mux.HandleFunc("POST /v1beta/models/{call}", func(w http.ResponseWriter, r *http.Request) {
		model, method, _ := strings.Cut(r.PathValue("call"), ":")
		switch method {
		case "generateContent":
			s.generate(gemini{model: model})(w, r)
		case "streamGenerateContent":
			s.generate(gemini{model: model, stream: true})(w, r)
		case "countTokens":
			s.count(gemini{model: model, counting: true}, "totalTokens")(w, r)
		default:
			s.notFound(w, r)
		}
	})
	s.mux.HandleFunc("/", s.notFound)
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Requests returns the recorded requests, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, len(s.record))
	for i, r := range s.record {
		out[i] = *r
	}
	return out
}

// protocol is one of the wire protocols. Its values are immutable.
type protocol interface {
	name() string
	// parse parses the body of a request into req, or returns the refusal of the real server.
	parse(body []byte, req *Request) *refusal
	// key returns the key in the request.
	key(r *http.Request) string
	// wrongKey returns the refusal of a wrong key.
	wrongKey() *refusal
	// failure returns the body of an error.
	failure(f *refusal, id string) any
	// whole returns the body of an answer that is not streamed.
	whole(a *answer) (any, error)
	// encoder returns an encoder for a streamed answer.
	encoder(a *answer, out *stream) encoder
}

// encoder encodes the pieces of an answer as events. It gets one begin, each piece in order, and
// one end or fail.
type encoder interface {
	begin()
	piece(p piece) error
	end()
	fail(f *refusal)
}

func (s *Server) generate(p protocol) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req, refused := s.accept(p, r)
		if refused != nil {
			s.refuse(w, p, req, refused, "")
			return
		}
		claim, refused := s.choose(req)
		if refused != nil {
			s.refuse(w, p, req, refused, "")
			return
		}
		done := false
		defer func() {
			s.release(claim, done)
			s.finish(req, claim.String(), http.StatusOK) // if nothing else was recorded
		}()
		if f := claim.fault; f != nil && f.Kind == FaultStatus {
			s.refuse(w, p, req, f.refusal(s.script.name), claim.String())
			return
		}
		sender := &sender{server: s, protocol: p, w: w, r: r, req: req, claim: claim}
		done = sender.run()
	}
}

// count answers requests that count tokens, with the number in a field.
func (s *Server) count(p protocol, field string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req, refused := s.accept(p, r)
		if refused != nil {
			s.refuse(w, p, req, refused, "")
			return
		}
		s.finish(req, "tokens counted", http.StatusOK)
		writeJSON(w, http.StatusOK, object{field: tokens(req.size())})
	}
}

// accept records a request and parses it.
func (s *Server) accept(p protocol, r *http.Request) (*Request, *refusal) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	req := s.addRequest(p.name(), r, body)
	if err != nil {
		return req, &refusal{status: http.StatusBadRequest,
			message: "the request could not be read: " + err.Error()}
	}
	if len(body) > maxBody {
		return req, &refusal{status: http.StatusRequestEntityTooLarge,
			message: fmt.Sprintf("the request has more than %d bytes", maxBody)}
	}
	if !s.acceptsKey(p.key(r)) {
		return req, p.wrongKey()
	}
	parsed := *req // a copy, because others may be reading the record
	refused := p.parse(body, &parsed)
	s.mu.Lock()
	*req = parsed
	s.mu.Unlock()
	if refused == nil && !s.script.hasModel(req.Model) {
		refused = unknownModel(p.name(), req.Model)
	}
	return req, refused
}

// refusedPrefix is the beginning of the outcome of a request that was refused.
const refusedPrefix = "refused: "

// refuse sends an error. An empty outcome means that it is the client's fault.
func (s *Server) refuse(w http.ResponseWriter, p protocol, req *Request, f *refusal,
	outcome string) {
	s.finish(req, cmp.Or(outcome, refusedPrefix+f.message), f.status)
	id := setRequestID(w, req)
	if f.retryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(int64((f.retryAfter+time.Second-1)/time.Second)))
	}
	if f.final {
		w.Header().Set("X-Should-Retry", "false")
	}
	writeJSON(w, f.status, p.failure(f, id))
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	p := protocolOf(r)
	req := s.addRequest(p.name(), r, nil)
	s.refuse(w, p, req, &refusal{status: http.StatusNotFound, final: true,
		message: fmt.Sprintf("%s: there is nothing at %s %s", s.script.name, r.Method, r.URL.Path)},
		"")
}
