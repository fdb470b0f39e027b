package modelserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Values of Turn.Finish.
const (
	finishStop   = "stop"
	finishLength = "length"
	finishCalls  = "tool_calls"
	finishFilter = "content_filter"
)

type partKind int

const (
	partText partKind = iota
	partReasoning
	partCall
)

// part is a part of an answer, independent of the protocol: text, reasoning or a call, cut into
// pieces.
type part struct {
	kind partKind
	// pieces are the text, or the arguments of the call. There is at least one.
	pieces []string
	// id and name belong to a call.
	id, name string
}

func (p part) whole() string { return strings.Join(p.pieces, "") }

// piece is the part of an answer that is sent at once.
type piece struct {
	part
	// index is the index of the part, nth that of the call among the calls.
	index, nth  int
	text        string
	first, last bool
}

func render(parts []Part) ([]part, error) {
	var out []part
	for i, p := range parts {
		r, err := p.render()
		if err != nil {
			return nil, inField(fmt.Sprintf("parts[%d]", i), err)
		}
		if n := len(out); n > 0 && r.kind != partCall && out[n-1].kind == r.kind {
			out[n-1].pieces = append(out[n-1].pieces, r.pieces...)
			continue
		}
		out = append(out, r)
	}
	return out, nil
}

func (p Part) render() (part, error) {
	set := 0
	for _, is := range []bool{p.Text != "", len(p.Pieces) > 0, p.Reasoning != "", p.Call != nil} {
		if is {
			set++
		}
	}
	if set > 1 { // none means an empty text, as models without an answer send it
		return part{}, fmt.Errorf("%d of text, pieces, reasoning and call are set; set one", set)
	}
	r := part{}
	var text string
	switch {
	case p.Text != "":
		text = p.Text
	case p.Reasoning != "":
		r.kind, text = partReasoning, p.Reasoning
	case p.Call != nil:
		arguments, err := p.Call.text()
		if err != nil {
			return part{}, err
		}
		r.kind, r.id, r.name, text = partCall, p.Call.ID, p.Call.Name, arguments
	}
	if len(p.Pieces) > 0 {
		if p.Cut.EveryByte || p.Cut.At != nil {
			return part{}, fieldErrorf("cut", "pieces are cut already")
		}
		for _, s := range p.Pieces {
			if !utf8.ValidString(s) {
				return part{}, fieldErrorf("pieces", "%q is not UTF-8", s)
			}
		}
		r.pieces = slices.Clone(p.Pieces)
		return r, nil
	}
	if !utf8.ValidString(text) {
		return part{}, fmt.Errorf("%q is not UTF-8", text)
	}
	var err error
	r.pieces, err = p.Cut.apply(text)
	return r, err
}

// text returns the arguments as they are sent.
func (c *Call) text() (string, error) {
	if c.Name == "" {
		return "", fieldErrorf("call", "name is missing")
	}
	raw := bytes.TrimSpace(c.Arguments)
	switch {
	case len(raw) == 0:
		return "{}", nil
	case raw[0] == '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case raw[0] == '{':
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err != nil {
			return "", inField("call.arguments", err)
		}
		return b.String(), nil
	}
	return "", fieldErrorf("call.arguments", "%s is neither an object nor a string", raw)
}

func (c Cut) apply(text string) ([]string, error) {
	if c.EveryByte {
		pieces := strings.Split(text, "")
		if len(pieces) == 0 {
			pieces = []string{""}
		}
		return pieces, nil
	}
	var pieces []string
	from := 0
	for i, at := range c.At {
		if at < 0 || at > len(text) || i > 0 && at <= c.At[i-1] {
			return nil, fieldErrorf("cut.at", "%d is out of order, or outside the %d bytes", at,
				len(text))
		}
		for at < len(text) && !utf8.RuneStart(text[at]) {
			at++
		}
		if at > from {
			pieces = append(pieces, text[from:at])
			from = at
		}
	}
	if from < len(text) || len(pieces) == 0 {
		pieces = append(pieces, text[from:])
	}
	return pieces, nil
}

// answer is a turn rendered for one request.
type answer struct {
	// number is the number of the request, from which ids are derived.
	number  int
	model   string
	created int64
	parts   []part
	finish  string
	usage   Usage
	// usageAsked reports whether a chat stream must end with the usage.
	usageAsked bool
}

func newAnswer(t *compiledTurn, req *Request, created int64) *answer {
	a := &answer{number: req.Number, model: req.Model, created: created, finish: t.Finish,
		usageAsked: req.usageAsked}
	a.parts = slices.Clone(t.parts)
	bytesOut, bytesThought, calls := 0, 0, 0
	for i := range a.parts {
		p := &a.parts[i]
		bytesOut += len(p.whole())
		switch p.kind {
		case partReasoning:
			bytesThought += len(p.whole())
		case partCall:
			calls++
			if p.id == "" {
				p.id = fmt.Sprintf("call_%06d_%d", req.Number, calls)
			}
		}
	}
	if a.finish == "" {
		a.finish = finishStop
		if calls > 0 {
			a.finish = finishCalls
		}
	}
	if t.Usage != nil {
		a.usage = *t.Usage
	} else {
		a.usage = Usage{Input: tokens(req.size()), Output: tokens(bytesOut),
			Reasoning: tokens(bytesThought)}
	}
	return a
}

// tokens estimates the number of tokens in a text.
func tokens(bytes int) int { return (bytes + 3) / 4 }

// id returns an id derived from the number of the request, so that tests can predict it.
func (a *answer) id(prefix string) string { return fmt.Sprintf("%s_%06d", prefix, a.number) }

func (a *answer) pieces() []piece {
	var out []piece
	nth := 0
	for i, p := range a.parts {
		for j, text := range p.pieces {
			out = append(out, piece{part: p, index: i, nth: nth, text: text, first: j == 0,
				last: j == len(p.pieces)-1})
		}
		if p.kind == partCall {
			nth++
		}
	}
	return out
}

// joined returns the text of all parts of a kind.
func (a *answer) joined(kind partKind) string {
	var b strings.Builder
	for _, p := range a.parts {
		if p.kind == kind {
			b.WriteString(p.whole())
		}
	}
	return b.String()
}

// object returns the arguments of a call as a JSON object, for protocols that do not send them as a
// string.
func (p part) object() (json.RawMessage, error) {
	text := p.whole()
	if text == "" {
		return json.RawMessage("{}"), nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil || fields == nil {
		return nil, fmt.Errorf(
			"the arguments of the call of %s are not a JSON object, which this protocol cannot carry", p.name)
	}
	return json.RawMessage(text), nil
}
