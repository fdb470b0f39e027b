package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// replyBuilder assembles a reply from its pieces and passes them to on as they come.
type replyBuilder struct {
	on   func(Event)
	turn int // part of the ids of calls that the server gave none

	text, reasoning strings.Builder
	calls           []*callBuilder
	size            int // of text, reasoning and calls, in bytes
	stop            Stop
	refused         bool
	finished        bool // the server sent a reason to stop; only the usage may follow
	usage           Usage
	model           string
}

// callBuilder is a tool call whose arguments may still be incomplete.
type callBuilder struct {
	index     int64
	id, name  string
	arguments strings.Builder
}

func (b *replyBuilder) addText(text string) {
	if text != "" {
		b.size += len(text)
		b.text.WriteString(text)
		b.on(Event{Kind: EventText, Text: text})
	}
}

func (b *replyBuilder) addReasoning(text string) {
	if text != "" {
		b.size += len(text)
		b.reasoning.WriteString(text)
		b.on(Event{Kind: EventReasoning, Text: text})
	}
}

// call returns the newest call with an index, or nil.
func (b *replyBuilder) call(index int64) *callBuilder {
	for _, p := range slices.Backward(b.calls) {
		if p.index == index {
			return p
		}
	}
	return nil
}

func (b *replyBuilder) addCall(index int64, id, name string) *callBuilder {
	b.size += len(id) + len(name)
	p := &callBuilder{index: index, id: id, name: name}
	b.calls = append(b.calls, p)
	return p
}

func (b *replyBuilder) appendArguments(p *callBuilder, text string) {
	b.size += len(text)
	p.arguments.WriteString(text)
}

// end notes that the stream is complete, whether or not the server sent a reason to stop.
func (b *replyBuilder) end() {
	if b.stop == "" {
		b.stop = StopEnd
	}
}

func (b *replyBuilder) reply() *Reply {
	r := &Reply{Text: b.text.String(), Reasoning: b.reasoning.String(), Stop: b.stop, Usage: b.usage, Model: b.model}
	slices.SortStableFunc(b.calls, func(x, y *callBuilder) int { return cmp.Compare(x.index, y.index) })
	taken := map[string]bool{}
	for i, p := range b.calls {
		// Some servers send no ids, or the same for all calls.
		id := p.id
		if id == "" || taken[id] {
			id = fmt.Sprintf("call_%d_%d", b.turn, i)
		}
		taken[id] = true
		r.Calls = append(r.Calls, Call{ID: id, Name: p.name, Arguments: cmp.Or(p.arguments.String(), "{}")})
	}
	switch {
	case b.refused:
		r.Stop = StopRefusal
	case len(r.Calls) == 0 && r.Stop == StopCalls:
		r.Stop = StopEnd
	case len(r.Calls) > 0 && r.Stop == StopEnd:
		r.Stop = StopCalls // some servers always send "stop"
	}
	return r
}
