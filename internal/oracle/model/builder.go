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
	// the newest call with each index; nil if that was one too many
	byIndex  map[int64]*callBuilder
	dropped  int // calls after the first MaxCalls
	size     int // of text, reasoning and calls, in bytes
	stop     Stop
	refused  bool
	finished bool // the server sent a reason to stop; only the usage may follow
	usage    Usage
	model    string
}

// callBuilder is a tool call whose arguments may still be incomplete.
type callBuilder struct {
	index           int64
	id              string
	name, arguments strings.Builder
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

// addCall adds a call. It returns nil if there are too many.
func (b *replyBuilder) addCall(index int64, id, name string) *callBuilder {
	if len(b.calls) == MaxCalls {
		if id != "" || name != "" { // otherwise it is a fragment of a call that was dropped before
			b.dropped++
		}
		if _, known := b.byIndex[index]; known {
			b.byIndex[index] = nil // the fragments that follow belong to the dropped call
		}
		return nil
	}
	b.size += len(id)
	p := &callBuilder{index: index, id: id}
	b.appendName(p, name)
	b.calls = append(b.calls, p)
	if b.byIndex == nil {
		b.byIndex = map[int64]*callBuilder{}
	}
	b.byIndex[index] = p
	return p
}

func (b *replyBuilder) appendName(p *callBuilder, text string) {
	b.size += len(text)
	p.name.WriteString(text)
}

// appendArguments appends to the arguments of a call, if it was not dropped.
func (b *replyBuilder) appendArguments(p *callBuilder, text string) {
	b.size += len(text)
	if p != nil {
		p.arguments.WriteString(text)
	}
}

// end notes that the stream is complete, whether or not the server sent a reason to stop.
func (b *replyBuilder) end() {
	if b.stop == "" {
		b.stop = StopEnd
	}
}

func (b *replyBuilder) reply() *Reply {
	r := &Reply{Text: b.text.String(), Reasoning: b.reasoning.String(), Stop: b.stop,
		Dropped: b.dropped, Usage: b.usage, Model: b.model}
	slices.SortStableFunc(b.calls,
		func(x, y *callBuilder) int { return cmp.Compare(x.index, y.index) })
	taken := map[string]bool{}
	for i, p := range b.calls {
		// Some servers send no ids, or the same for all calls.
		id := p.id
		if id == "" || taken[id] {
			id = fmt.Sprintf("call_%d_%d", b.turn, i)
		}
		taken[id] = true
		r.Calls = append(r.Calls,
			Call{ID: id, Name: p.name.String(), Arguments: cmp.Or(p.arguments.String(), "{}")})
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
