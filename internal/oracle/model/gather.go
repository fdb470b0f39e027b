package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// gather puts a reply together from its pieces, and hands them on.
type gather struct {
	on   func(Event)
	turn int // for the ids of calls that have none

	text, reasoning strings.Builder
	calls           []*pending
	size            int // of all that was gathered
	stop            Stop
	refused         bool
	finished        bool // the server said why it stopped: the rest is about the reply
	usage           Usage
	model           string
}

// pending is a call that is not yet whole.
type pending struct {
	index     int64
	id, name  string
	arguments strings.Builder
}

func (g *gather) say(text string) {
	if text != "" {
		g.size += len(text)
		g.text.WriteString(text)
		g.on(Event{Kind: EventText, Text: text})
	}
}

func (g *gather) think(text string) {
	if text != "" {
		g.size += len(text)
		g.reasoning.WriteString(text)
		g.on(Event{Kind: EventReasoning, Text: text})
	}
}

// call is the newest call with an index, nil if there is none.
func (g *gather) call(index int64) *pending {
	for _, p := range slices.Backward(g.calls) {
		if p.index == index {
			return p
		}
	}
	return nil
}

func (g *gather) newCall(index int64, id, name string) *pending {
	g.size += len(id) + len(name)
	p := &pending{index: index, id: id, name: name}
	g.calls = append(g.calls, p)
	return p
}

// argue adds to the arguments of a call.
func (g *gather) argue(p *pending, text string) {
	g.size += len(text)
	p.arguments.WriteString(text)
}

func (g *gather) reply() *Reply {
	r := &Reply{Text: g.text.String(), Reasoning: g.reasoning.String(), Stop: g.stop, Usage: g.usage, Model: g.model}
	slices.SortStableFunc(g.calls, func(a, b *pending) int { return cmp.Compare(a.index, b.index) })
	taken := map[string]bool{}
	for i, p := range g.calls {
		// Some servers give no ids, or all calls the same.
		id := p.id
		if id == "" || taken[id] {
			id = fmt.Sprintf("call_%d_%d", g.turn, i)
		}
		taken[id] = true
		r.Calls = append(r.Calls, Call{ID: id, Name: p.name, Arguments: cmp.Or(p.arguments.String(), "{}")})
	}
	switch {
	case g.refused:
		r.Stop = StopRefusal
	case len(r.Calls) == 0 && r.Stop == StopCalls:
		r.Stop = StopEnd
	case len(r.Calls) > 0 && r.Stop == StopEnd:
		r.Stop = StopCalls // servers exist that say "stop" whatever happened
	}
	return r
}
