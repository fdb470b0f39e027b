// Package modelserver is a scripted model server: an http.Handler that answers as a Script says, in the wire protocols of
// OpenAI (chat completions and responses), Anthropic (messages) and Google (generateContent), streamed and not streamed,
// closely enough that their own clients, and the programs built on them, work against it.
//
//	POST /v1/chat/completions                        GET /v1/models, /v1/models/{model}
//	POST /v1/responses
//	POST /v1/messages                                POST /v1/messages/count_tokens
//	POST /v1beta/models/{model}:generateContent      GET /v1beta/models, /v1beta/models/{model}
//	POST /v1beta/models/{model}:streamGenerateContent, always as with alt=sse
//	POST /v1beta/models/{model}:countTokens
//
// GET /v1/models is answered in Anthropic's form if the request has the header Anthropic-Version.
//
// A request is parsed into a neutral form, and refused as the real server would refuse it, with its status and its form of
// error: for a wrong key, a model that is not listed, a missing field, an unknown role, a tool's result without its call and a
// call without its result. Then a turn is chosen. A conversation, known by a header or by what the user said before the first
// answer, takes the first of the script's conversations that fits its first request and keeps it; within it the first
// turn that fits and is not used up answers. A request that nothing fits is refused with status 400 and the reason of
// every turn, and nothing is ever answered by default. A turn's faults come before its answer. A turn counts as used when its
// answer was written to its end: a faulty answer, and one that the client left, leave it where it was. The server learns late that a client left: one that asks again at once is told
// apart from one that goes on only by a rule with Match.Turn.
//
// The turn is rendered into pieces once, and each protocol encodes the pieces: streamed or not, the content is the same. Ids are
// made from the request's number, so the same requests in the same order get the same bytes, but for the time.
//
// Every request is recorded, without keys and cookies. The Server keeps the newest of them, and the position of
// every conversation, in memory, both bounded. It starts no goroutine, waits only through Options.Sleep and, for a hang,
// for the request's context, and may be used by any number of goroutines. Responses are not stored: a request with
// previous_response_id is refused, as by a server that was told not to store.
package modelserver

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// maxBody is how long a request may be; what the real servers take at most.
	maxBody = 32 << 20
	// maxConversations is how many positions are kept.
	maxConversations = 100_000
)

// Options are what a Server may be given.
type Options struct {
	// Log gets one line for each request. Zero: nobody.
	Log *slog.Logger
	// Now is the clock of the time stamps. Zero: time.Now.
	Now func() time.Time
	// Sleep waits, or returns the context's error when that is done first. Zero: it really waits.
	Sleep func(context.Context, time.Duration) error
	// Keep is how many requests are kept in the record. Zero: 10,000.
	Keep int
}

// Server answers as its script says.
type Server struct {
	script *compiled
	opts   Options
	mux    *http.ServeMux

	mu            sync.Mutex // guards what follows
	number        int
	record        []*Request
	conversations map[string]*position
	taken         []int // by conversation of the script: how many positions are in it
	otherwise     position
}

// New checks the script and makes a server. Neither the script nor the options may change afterwards.
func New(script *Script, opts *Options) (*Server, error) {
	c, err := compile(script)
	if err != nil {
		return nil, err
	}
	s := &Server{script: c, conversations: map[string]*position{}, taken: make([]int, len(c.conversations)), otherwise: newPosition(-1, 1)}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Log == nil {
		s.opts.Log = slog.New(slog.DiscardHandler)
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
	s.mux.HandleFunc("POST /v1/messages/count_tokens", s.count(messages{counting: true}))
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
			s.count(gemini{model: model, counting: true})(w, r)
		default:
			s.nowhere(w, r)
		}
	})
	s.mux.HandleFunc("/", s.nowhere)
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Requests is what was asked so far, oldest first.
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
	// parse reads a request's body into req, or says why the real server would refuse it.
	parse(body []byte, req *Request) *refusal
	// key is the key that the request carries.
	key(r *http.Request) string
	// wrongKey is how a wrong key is refused.
	wrongKey() *refusal
	// failure is the body of an error.
	failure(f *refusal, id string) any
	// whole is the body of an answer that is not streamed.
	whole(a *answer) (any, error)
	// encoder writes an answer's stream.
	encoder(a *answer, out *stream) encoder
	// count is the body of an answer to a request that counts tokens.
	count(tokens int) any
}

// encoder turns the pieces of an answer into events. It is told the beginning once, each piece in order, and the end or a failure.
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
			s.settle(claim, done)
			s.finish(req, claim.String(), http.StatusOK) // unless the answer, or the error in its place, was noted
		}()
		if f := claim.fault; f != nil && f.Kind == FaultStatus {
			s.refuse(w, p, req, f.refusal(s.script.name), claim.String())
			return
		}
		pl := &play{server: s, protocol: p, w: w, r: r, req: req, claim: claim}
		done = pl.run()
	}
}

func (s *Server) count(p protocol) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req, refused := s.accept(p, r)
		if refused != nil {
			s.refuse(w, p, req, refused, "")
			return
		}
		s.finish(req, "tokens counted", http.StatusOK)
		writeJSON(w, http.StatusOK, p.count(tokens(req.size())))
	}
}

// accept records a request and parses it.
func (s *Server) accept(p protocol, r *http.Request) (*Request, *refusal) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	req := s.note(p.name(), r, body)
	if err != nil {
		return req, &refusal{status: http.StatusBadRequest, message: "the request could not be read: " + err.Error()}
	}
	if len(body) > maxBody {
		return req, &refusal{status: http.StatusRequestEntityTooLarge, message: fmt.Sprintf("the request has more than %d bytes", maxBody)}
	}
	if !s.keyFits(p.key(r)) {
		return req, p.wrongKey()
	}
	parsed := *req // parsed outside the record, which others may be reading
	refused := p.parse(body, &parsed)
	s.mu.Lock()
	*req = parsed
	s.mu.Unlock()
	if refused == nil && !s.script.hasModel(req.Model) {
		refused = unknownModel(p.name(), req.Model)
	}
	return req, refused
}

// refuse sends an error. An empty outcome says that it is the client's.
func (s *Server) refuse(w http.ResponseWriter, p protocol, req *Request, f *refusal, outcome string) {
	s.finish(req, cmp.Or(outcome, "refused: "+f.message), f.status)
	id := setRequestID(w, req)
	if f.retryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(int64((f.retryAfter+time.Second-1)/time.Second)))
	}
	if f.final {
		w.Header().Set("X-Should-Retry", "false")
	}
	writeJSON(w, f.status, p.failure(f, id))
}

func (s *Server) nowhere(w http.ResponseWriter, r *http.Request) {
	p := protocolOf(r)
	req := s.note(p.name(), r, nil)
	s.refuse(w, p, req, &refusal{status: http.StatusNotFound, final: true,
		message: fmt.Sprintf("%s: there is nothing at %s %s", s.script.name, r.Method, r.URL.Path)}, "")
}
