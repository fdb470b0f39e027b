package modelserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Script determines the answers of a server.
type Script struct {
	// Name is the name of the file, for messages. Empty means "script".
	Name string `json:"name,omitempty"`
	// APIKey is the key that requests must have. Empty means that any key, or none, is accepted.
	APIKey string `json:"api_key,omitempty"`
	// Models are the models of the server; requests for others are refused. Empty means that
	// "rehearsal" is listed and all are accepted.
	Models []string `json:"models,omitempty"`
	// KeyHeader is the header that identifies conversations. Without it a conversation is
	// identified by the user's messages before the first answer.
	KeyHeader string `json:"key_header,omitempty"`
	// Conversations are tried in order. The first that matches the first request of a conversation
	// answers all its requests.
	Conversations []Conversation `json:"conversations"`
	// Otherwise answers requests that nothing else answers, any number of times. Nil means that
	// they are refused.
	Otherwise *Turn `json:"otherwise,omitempty"`
}

// Conversation is a list of answers.
type Conversation struct {
	// Name is for messages. Empty means its number, from 1.
	Name string `json:"name,omitempty"`
	// Match is the rule for the first request. Nil matches any request.
	Match *Match `json:"match,omitempty"`
	// Times is how many conversations it answers. Zero means any number.
	Times int `json:"times,omitempty"`
	// Turns are tried in order. The first that matches and is not used up answers.
	Turns []Turn `json:"turns"`
}

// Match is a rule for requests. All fields that are set must match. Patterns are regular
// expressions and are not anchored.
type Match struct {
	// User is a pattern for the last message of the user.
	User string `json:"user,omitempty"`
	// System is a pattern for the system prompt.
	System string `json:"system,omitempty"`
	// Tool is a pattern for the name of an offered tool.
	Tool string `json:"tool,omitempty"`
	// Result is a pattern for a tool result after the last answer.
	Result string `json:"result,omitempty"`
	// Model is a pattern for the model's name.
	Model string `json:"model,omitempty"`
	// Turn is the number of answers in the request's history, plus one. Unlike the position in the
	// script it depends only on the request, so a client that was killed and repeats a request gets
	// the same answer. Calls with results between them count as several answers. Zero matches any.
	Turn int `json:"turn,omitempty"`
}

// Turn is one answer.
type Turn struct {
	// Match is the rule for requests. Nil matches any request.
	Match *Match `json:"match,omitempty"`
	// Times is the number of answers after which the turn is used up. Zero means 1 without Match,
	// and never with it.
	Times int `json:"times,omitempty"`
	// Parts are the text, reasoning and calls of the answer, in order.
	Parts []Part `json:"parts,omitempty"`
	// Delay is the time before the first byte, Every the time between pieces.
	Delay Duration `json:"delay,omitzero"`
	Every Duration `json:"every,omitzero"`
	// Drip sends the body a few bytes at a time, regardless of events. Nil means piece by piece.
	Drip *Drip `json:"drip,omitempty"`
	// Usage is the token count. Nil means a quarter of the bytes.
	Usage *Usage `json:"usage,omitempty"`
	// Finish is the reason why the answer ends: stop, length, tool_calls or content_filter. Empty
	// means tool_calls if there are calls, else stop.
	Finish string `json:"finish,omitempty"`
	// Faults occur first, in order, each Times times. Only answers without a fault use up the turn.
	Faults []Fault `json:"faults,omitempty"`
}

// Part is a part of an answer: one of Text, Pieces, Reasoning and Call, or an empty text if none is
// set. Adjacent parts of the same kind are joined.
type Part struct {
	Text string `json:"text,omitempty"`
	// Pieces is text that is sent in these pieces.
	Pieces    []string `json:"pieces,omitempty"`
	Reasoning string   `json:"reasoning,omitempty"`
	Call      *Call    `json:"call,omitempty"`
	// Cut determines how the text, reasoning or arguments are cut into pieces. The zero value does
	// not cut.
	Cut Cut `json:"cut,omitzero"`
}

// Call is a tool call.
type Call struct {
	// ID is derived from the number of the request if it is empty.
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	// Arguments is an object, or a string that is sent verbatim, for invalid arguments. Empty means
	// {}.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// Cut determines where text is cut: "every byte" or {"at": [n…]}, in bytes. A cut inside a
// character moves to its end, because JSON strings consist of whole characters. Drip can split
// characters.
type Cut struct {
	EveryByte bool
	At        []int
}

// MarshalJSON encodes the form that UnmarshalYAML decodes.
func (c Cut) MarshalJSON() ([]byte, error) {
	if c.EveryByte {
		return []byte(`"every byte"`), nil
	}
	return json.Marshal(map[string][]int{"at": c.At})
}

// Duration is encoded like "50ms".
type Duration time.Duration

// MarshalText encodes the form that UnmarshalYAML decodes.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Drip sends a body Bytes at a time, with a pause of Every.
type Drip struct {
	Bytes int      `json:"bytes"`
	Every Duration `json:"every"`
}

// Usage is a token count.
type Usage struct {
	Input     int `json:"input,omitempty"`
	Output    int `json:"output,omitempty"`
	Cached    int `json:"cached,omitempty"`
	Reasoning int `json:"reasoning,omitempty"`
}

// FaultKind is the kind of a Fault.
type FaultKind string

// The kinds of faults. All but FaultStatus occur at a place in the answer. After a fault the answer
// is never complete.
const (
	// FaultStatus answers with Status instead.
	FaultStatus FaultKind = "status"
	// FaultCut closes the connection.
	FaultCut FaultKind = "cut"
	// FaultMalformed sends an event that is not JSON and ends the stream.
	FaultMalformed FaultKind = "malformed"
	// FaultError sends the protocol's error event and ends the stream.
	FaultError FaultKind = "error"
	// FaultHang sends nothing more until the client disconnects.
	FaultHang FaultKind = "hang"
)

// Fault is a simulated failure. An answer that is not streamed counts as one piece; half of it
// is sent if AfterPieces is not zero.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Status is the HTTP status, or for FaultError its equivalent. Zero means 500; FaultStatus
	// requires a value.
	Status int `json:"status,omitempty"`
	// RetryAfter is sent as the header Retry-After, in seconds, rounded up. Zero means that it is
	// not sent.
	RetryAfter Duration `json:"retry_after,omitzero"`
	// Message is the error message. Empty means one that refers to the script.
	Message string `json:"message,omitempty"`
	// AfterPieces is the number of pieces that are sent before. Zero means that a cut or a hang
	// precedes the status line.
	AfterPieces int `json:"after_pieces,omitempty"`
	// AfterBytes, for FaultCut, counts bytes of the body instead. The cut always precedes the
	// events that end a stream.
	AfterBytes int `json:"after_bytes,omitempty"`
	// Times is how often the fault occurs. Zero means once, a negative number always.
	Times int `json:"times,omitempty"`
}

// compiled is a validated Script.
type compiled struct {
	name          string
	script        Script
	conversations []compiledConversation
	otherwise     *compiledTurn
}

type compiledConversation struct {
	name  string
	where string // for messages: its name in quotes, else such as "conversations[0]"
	match *compiledMatch
	times int
	turns []compiledTurn
}

type compiledTurn struct {
	*Turn
	// for messages, such as "conversations[0].turns[2]", or with the name of the conversation
	where string
	match *compiledMatch
	parts []part
	times int // 0 means never used up
}

type compiledMatch struct {
	user, system, tool, result, model *regexp.Regexp
	turn                              int
}

func compile(s *Script) (*compiled, error) {
	c := &compiled{name: s.Name, script: *s}
	if c.name == "" {
		c.name = "script"
	}
	fail := func(path string, err error) error {
		located := inField(path, err).(*ScriptError)
		located.Name = c.name
		return located
	}
	if len(s.Conversations) == 0 && s.Otherwise == nil {
		return nil, fail("conversations",
			errors.New("the list is empty, and there is no otherwise"))
	}
	for i := range s.Conversations {
		conv := &s.Conversations[i]
		where := fmt.Sprintf("conversations[%d]", i)
		match, err := compileMatch(conv.Match)
		if err != nil {
			return nil, fail(where+".match", err)
		}
		if conv.Times < 0 {
			return nil, fail(where, fieldErrorf("times", "%d is negative", conv.Times))
		}
		cc := compiledConversation{name: conv.Name, where: fmt.Sprintf("%q", conv.Name), match: match, times: conv.Times}
		if cc.name == "" {
			cc.name, cc.where = fmt.Sprint(i+1), where
		}
		for j := range conv.Turns {
			turnWhere := fmt.Sprintf("%s.turns[%d]", where, j)
			t, err := compileTurn(&conv.Turns[j], fmt.Sprintf("%s.turns[%d]", cc.where, j))
			if err != nil {
				return nil, fail(turnWhere, err)
			}
			cc.turns = append(cc.turns, t)
		}
		c.conversations = append(c.conversations, cc)
	}
	if s.Otherwise != nil {
		t, err := compileTurn(s.Otherwise, "otherwise")
		if err == nil && (t.match != nil || s.Otherwise.Times != 0) {
			err = errors.New("it answers every request: remove match and times")
		}
		if err != nil {
			return nil, fail("otherwise", err)
		}
		t.times = 0
		c.otherwise = &t
	}
	return c, nil
}

func compileMatch(m *Match) (*compiledMatch, error) {
	if m == nil {
		return nil, nil
	}
	c := &compiledMatch{turn: m.Turn}
	if m.Turn < 0 {
		return nil, fieldErrorf("turn", "%d is negative", m.Turn)
	}
	for _, f := range []struct {
		name, pattern string
		to            **regexp.Regexp
	}{
		{"user", m.User, &c.user}, {"system", m.System, &c.system}, {"tool", m.Tool, &c.tool},
		{"result", m.Result, &c.result}, {"model", m.Model, &c.model},
	} {
		if f.pattern == "" {
			continue
		}
		re, err := regexp.Compile(f.pattern)
		if err != nil {
			return nil, inField(f.name, err)
		}
		*f.to = re
	}
	if *c == (compiledMatch{}) {
		return nil, errors.New("it is empty: remove it")
	}
	return c, nil
}

func compileTurn(t *Turn, where string) (compiledTurn, error) {
	none := compiledTurn{}
	match, err := compileMatch(t.Match)
	if err != nil {
		return none, inField("match", err)
	}
	switch t.Finish {
	case "", finishStop, finishLength, finishCalls, finishFilter:
	default:
		return none, fieldErrorf("finish", "%q is not stop, length, tool_calls or content_filter",
			t.Finish)
	}
	if t.Times < 0 {
		return none, fieldErrorf("times", "%d is negative", t.Times)
	}
	if t.Drip != nil && t.Drip.Bytes < 1 {
		return none, fieldErrorf("drip.bytes", "%d is less than 1", t.Drip.Bytes)
	}
	for i, f := range t.Faults {
		if err := f.check(); err != nil {
			return none, inField(fmt.Sprintf("faults[%d]", i), err)
		}
	}
	parts, err := render(t.Parts)
	if err != nil {
		return none, err
	}
	c := compiledTurn{Turn: t, where: where, match: match, parts: parts, times: t.Times}
	if c.times == 0 && match == nil {
		c.times = 1
	}
	return c, nil
}

func (f Fault) check() error {
	switch f.Kind {
	case FaultStatus:
		if f.Status < 400 || f.Status > 599 {
			return fieldErrorf("status", "%d is not between 400 and 599", f.Status)
		}
		if f.AfterPieces != 0 || f.AfterBytes != 0 {
			return fmt.Errorf("a status precedes the answer: for an error in the middle of a stream write kind: error")
		}
	case FaultCut, FaultMalformed, FaultError, FaultHang:
		if f.Status != 0 && (f.Kind != FaultError || f.Status < 400 || f.Status > 599) {
			return fieldErrorf("status", "%d does not fit a fault of kind %s", f.Status, f.Kind)
		}
	default:
		return fieldErrorf("kind", "%q is not status, cut, malformed, error or hang", f.Kind)
	}
	if f.AfterPieces < 0 || f.AfterBytes < 0 {
		return fmt.Errorf("after_pieces and after_bytes must not be negative")
	}
	if f.AfterBytes > 0 && (f.Kind != FaultCut || f.AfterPieces > 0) {
		return fmt.Errorf("after_bytes is only for kind: cut, without after_pieces")
	}
	return nil
}
