package modelserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"time"
)

// Script is what the server answers.
type Script struct {
	// Name is the file it came from, for messages. Zero: "script".
	Name string `json:"name,omitempty"`
	// APIKey is the key that requests must carry. Zero: any key will do, or none.
	APIKey string `json:"api_key,omitempty"`
	// Models are listed, and requests for others are refused. Zero: "rehearsal" is listed, and none is refused.
	Models []string `json:"models,omitempty"`
	// KeyHeader names the header that tells conversations apart. Zero, or a request without it: a conversation is
	// known by what the user said before the first answer.
	KeyHeader string `json:"key_header,omitempty"`
	// Conversations are tried in order; the first that fits a conversation's first request answers all of it.
	Conversations []Conversation `json:"conversations"`
	// Otherwise answers, any number of times, what nothing else answers. Zero: that is refused.
	Otherwise *Turn `json:"otherwise,omitempty"`
}

// Conversation is a list of answers.
type Conversation struct {
	// Name is for messages. Zero: its number, from 1.
	Name string `json:"name,omitempty"`
	// Match is what the first request must look like. Zero: anything.
	Match *Match `json:"match,omitempty"`
	// Times is how many conversations it answers. Zero: any number.
	Times int `json:"times,omitempty"`
	// Turns are tried in order; the first that fits and is not used up answers.
	Turns []Turn `json:"turns"`
}

// Match is a rule about a request. All the fields that are set must hold. Patterns are regular expressions, found
// anywhere unless anchored.
type Match struct {
	// User is a pattern for the last thing the user said.
	User string `json:"user,omitempty"`
	// System is a pattern for the system prompt.
	System string `json:"system,omitempty"`
	// Tool is a pattern for the name of an offered tool.
	Tool string `json:"tool,omitempty"`
	// Result is a pattern for a tool's result that came after the last answer.
	Result string `json:"result,omitempty"`
	// Model is a pattern for the model's name.
	Model string `json:"model,omitempty"`
	// Turn is how many answers the request's history holds, plus one. Unlike the position in the script it depends on
	// the request only, so a client that was killed and asks again gets the same answer. Calls
	// between which a client puts results count as several answers. Zero: any.
	Turn int `json:"turn,omitempty"`
}

// Turn is one answer.
type Turn struct {
	// Match is when it fits. Zero: always.
	Match *Match `json:"match,omitempty"`
	// Times is after how many answers it is used up. Zero: 1 without Match, never with it.
	Times int `json:"times,omitempty"`
	// Parts are what the model says, thinks and calls, in this order.
	Parts []Part `json:"parts,omitempty"`
	// Delay is the time before the first byte, Every the time between pieces.
	Delay Duration `json:"delay,omitzero"`
	Every Duration `json:"every,omitzero"`
	// Drip makes the body arrive a few bytes at a time, whatever they mean. Zero: by pieces.
	Drip *Drip `json:"drip,omitempty"`
	// Usage is the count of tokens. Zero: a quarter of the bytes.
	Usage *Usage `json:"usage,omitempty"`
	// Finish is why the answer ends: stop, length, tool_calls or content_filter. Zero: tool_calls if there are calls, else
	// stop.
	Finish string `json:"finish,omitempty"`
	// Faults happen first, in order, each as often as it says; the turn is used up by answers without a fault only.
	Faults []Fault `json:"faults,omitempty"`
}

// Part is a part of an answer: one of Text, Pieces, Reasoning and Call. Without any it is an empty text. Neighbours of one
// kind are joined.
type Part struct {
	Text string `json:"text,omitempty"`
	// Pieces is text that is sent in these pieces.
	Pieces    []string `json:"pieces,omitempty"`
	Reasoning string   `json:"reasoning,omitempty"`
	Call      *Call    `json:"call,omitempty"`
	// Cut is where the text, reasoning or arguments are cut into pieces. Zero: nowhere.
	Cut Cut `json:"cut,omitzero"`
}

// Call is a call of a tool.
type Call struct {
	// ID is made up from the request's number if it is empty.
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	// Arguments are an object, or a string that is sent as it is, for arguments that are broken. Zero: {}.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// Cut is where text is cut: "every byte" or {"at": [n…]}, in bytes. A cut inside a character moves to its end, since JSON
// cannot carry half of one; for that there is Drip.
type Cut struct {
	EveryByte bool
	At        []int
}

// UnmarshalJSON reads either form.
func (c *Cut) UnmarshalJSON(data []byte) error {
	*c = Cut{}
	var word string
	if json.Unmarshal(data, &word) == nil {
		if word != "every byte" {
			return fmt.Errorf(`cut: %q is not known; write "every byte" or {"at": [3, 8]}`, word)
		}
		c.EveryByte = true
		return nil
	}
	var at struct {
		At []int `json:"at"`
	}
	if err := strict(data, &at); err != nil {
		return fmt.Errorf(`cut: %w; write "every byte" or {"at": [3, 8]}`, err)
	}
	c.At = at.At
	return nil
}

// MarshalJSON is the reverse of UnmarshalJSON.
func (c Cut) MarshalJSON() ([]byte, error) {
	if c.EveryByte {
		return []byte(`"every byte"`), nil
	}
	return json.Marshal(map[string][]int{"at": c.At})
}

// Duration is written like "50ms".
type Duration time.Duration

// UnmarshalText reads it.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err == nil && v < 0 {
		err = fmt.Errorf("duration %q is negative", text)
	}
	*d = Duration(v)
	return err
}

// MarshalText is the reverse of UnmarshalText.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Drip is how a body drips: Bytes at a time, with Every between.
type Drip struct {
	Bytes int      `json:"bytes"`
	Every Duration `json:"every"`
}

// Usage is a count of tokens.
type Usage struct {
	Input     int `json:"input,omitempty"`
	Output    int `json:"output,omitempty"`
	Cached    int `json:"cached,omitempty"`
	Reasoning int `json:"reasoning,omitempty"`
}

// FaultKind is what goes wrong.
type FaultKind string

// The kinds of faults. All but FaultStatus happen at a place in the answer, and none lets an answer end well.
const (
	// FaultStatus answers with Status and nothing else.
	FaultStatus FaultKind = "status"
	// FaultCut closes the connection.
	FaultCut FaultKind = "cut"
	// FaultMalformed sends an event that is not JSON, and ends the stream.
	FaultMalformed FaultKind = "malformed"
	// FaultError sends the protocol's error event, and ends the stream.
	FaultError FaultKind = "error"
	// FaultHang sends nothing more until the client goes away.
	FaultHang FaultKind = "hang"
)

// Fault is something that goes wrong. An answer that is not streamed counts as one piece, of which a half is sent if the
// fault comes after a piece.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Status is the HTTP status, or for FaultError the one it stands for. Zero: 500, but FaultStatus must say it.
	Status int `json:"status,omitempty"`
	// RetryAfter is sent as the header of this name, in seconds, rounded up. Zero: not sent.
	RetryAfter Duration `json:"retry_after,omitzero"`
	// Message is what the error says. Zero: that the script wants it.
	Message string `json:"message,omitempty"`
	// AfterPieces is how many pieces come first. Zero: a cut or a hang comes before the status line.
	AfterPieces int `json:"after_pieces,omitempty"`
	// AfterBytes, for FaultCut, counts bytes of the body instead. The cut comes before the events that end a stream, at the latest.
	AfterBytes int `json:"after_bytes,omitempty"`
	// Times is how often it happens. Zero: once. Below zero: always.
	Times int `json:"times,omitempty"`
}

// ScriptError is what is wrong with a script that could be read.
type ScriptError struct {
	Name string
	// Where is the place, such as "conversations[0].turns[2]", and Err says what is wrong there.
	Where string
	Err   error
}

func (e *ScriptError) Error() string { return fmt.Sprintf("%s: %s: %v", e.Name, e.Where, e.Err) }

func (e *ScriptError) Unwrap() error { return e.Err }

// ParseScript reads a script in JSON and checks it. A field that does not exist is refused. What is wrong with the rest is
// a *ScriptError.
func ParseScript(name string, data []byte) (*Script, error) {
	s := &Script{Name: name}
	if err := strict(data, s); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if _, err := compile(s); err != nil {
		return nil, err
	}
	return s, nil
}

func strict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("something follows the value, at byte %d", d.InputOffset())
	}
	return nil
}

// compiled is a Script that was checked.
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
	where string // for messages, such as "conversations[0].turns[2]", or with the name of the conversation
	match *compiledMatch
	parts []part
	times int // 0: never used up
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
	fail := func(where string, err error) error { return &ScriptError{c.name, where, err} }
	if len(s.Conversations) == 0 && s.Otherwise == nil {
		return nil, fail("conversations", fmt.Errorf("there are none, and no otherwise"))
	}
	for i := range s.Conversations {
		conv := &s.Conversations[i]
		where := fmt.Sprintf("conversations[%d]", i)
		match, err := compileMatch(conv.Match)
		if err != nil {
			return nil, fail(where+".match", err)
		}
		if conv.Times < 0 {
			return nil, fail(where+".times", fmt.Errorf("%d is negative", conv.Times))
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
			err = fmt.Errorf("it answers everything, always: it has no match and no times")
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
		return nil, fmt.Errorf("turn: %d is negative", m.Turn)
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
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		*f.to = re
	}
	if *c == (compiledMatch{}) {
		return nil, fmt.Errorf("it says nothing; leave it out")
	}
	return c, nil
}

func compileTurn(t *Turn, where string) (compiledTurn, error) {
	none := compiledTurn{}
	match, err := compileMatch(t.Match)
	if err != nil {
		return none, fmt.Errorf("match: %w", err)
	}
	switch t.Finish {
	case "", finishStop, finishLength, finishCalls, finishFilter:
	default:
		return none, fmt.Errorf("finish: %q is not stop, length, tool_calls or content_filter", t.Finish)
	}
	if t.Times < 0 {
		return none, fmt.Errorf("times: %d is negative", t.Times)
	}
	if t.Drip != nil && t.Drip.Bytes < 1 {
		return none, fmt.Errorf("drip: bytes is %d; it drips at least 1 at a time", t.Drip.Bytes)
	}
	for i, f := range t.Faults {
		if err := f.check(); err != nil {
			return none, fmt.Errorf("faults[%d]: %w", i, err)
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
			return fmt.Errorf("status: %d is not between 400 and 599", f.Status)
		}
		if f.AfterPieces != 0 || f.AfterBytes != 0 {
			return fmt.Errorf("a status comes first; for one in the middle of a stream write kind: error")
		}
	case FaultCut, FaultMalformed, FaultError, FaultHang:
		if f.Status != 0 && (f.Kind != FaultError || f.Status < 400 || f.Status > 599) {
			return fmt.Errorf("status: %d does not fit a fault of kind %s", f.Status, f.Kind)
		}
	default:
		return fmt.Errorf("kind: %q is not status, cut, malformed, error or hang", f.Kind)
	}
	if f.AfterPieces < 0 || f.AfterBytes < 0 {
		return fmt.Errorf("it cannot come before the beginning")
	}
	if f.AfterBytes > 0 && (f.Kind != FaultCut || f.AfterPieces > 0) {
		return fmt.Errorf("after_bytes: is for kind: cut, without after_pieces")
	}
	return nil
}
