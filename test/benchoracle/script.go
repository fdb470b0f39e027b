package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"signalbox/internal/oracle/model"
	"signalbox/internal/rehearsal/modelserver"
)

const (
	// turnsEach is how many turns the model takes for a question, and pieces what each of its replies has, about as many as
	// it has words. The signal is in as many more.
	turnsEach = 4
	pieces    = 50
	// variants are conversations that differ in all that is said, so that a reply that got lost would be seen.
	variants = 20
	// marker begins the first piece of a reply, and nothing else.
	marker = "Begin"
	// readName is the file that the tool reads.
	readName = "notes.txt"
)

// providers are the wire protocols, in the order of the rows.
var providers = [...]model.Provider{model.OpenAI, model.Anthropic}

// pace is how fast a model answers.
type pace struct {
	pieces int
	// delay is before the first piece, and each variant waits spread longer than the one before; every is between pieces.
	delay, spread, every time.Duration
}

// topic is what a variant's question is about, with or without tools.
func topic(variant int, tools bool) string {
	if tools {
		return fmt.Sprintf("function tool%02d", variant)
	}
	return fmt.Sprintf("function text%02d", variant)
}

// question is one that belongs to the class of code, and whose number no other has: the server tells conversations apart by it.
func question(variant, number int, tools bool) string {
	return fmt.Sprintf("What does the %s do? It is question %d.", topic(variant, tools), number)
}

// said is the content of a turn of a variant.
func said(variant, turn, n int) []string {
	words := []string{fmt.Sprintf("%s %02d.%d ", marker, variant, turn)}
	for i := 1; i < n; i++ {
		words = append(words, fmt.Sprintf("word%02d.%d.%d ", variant, turn, i))
	}
	return words
}

// answered is the text of a turn as it is to be shown.
func answered(variant, turn, n int) string {
	return strings.TrimSpace(strings.Join(said(variant, turn, n), ""))
}

// signal is how a turn ends.
func signal(turn, turns int) []string {
	if turn == turns {
		return []string{"\n\n<signal type=\"", "context_sufficient", "\"><sources_found>", "1</sources_found>", "</signal>"}
	}
	// Reasons differ: the same one three times would mean that the model is stuck.
	return []string{"\n\n<signal type=\"", "need_turn", fmt.Sprintf("\"><reason>part %d", turn+1), " is to come</reason>",
		"<confidence>0.8</confidence>", "</signal>"}
}

// answer is a turn of the script.
func answer(variant, turn, turns int, tools bool, p pace) modelserver.Turn {
	t := modelserver.Turn{Every: modelserver.Duration(p.every), Delay: modelserver.Duration(p.delay + time.Duration(variant)*p.spread)}
	t.Parts = []modelserver.Part{{Pieces: append(said(variant, turn, p.pieces), signal(turn, turns)...)}}
	if tools && turn < turns {
		t.Parts = append(t.Parts, modelserver.Part{Call: &modelserver.Call{ID: fmt.Sprintf("call_%d", turn), Name: "read_file",
			Arguments: json.RawMessage(fmt.Sprintf(`{"path":%q,"from":%d,"to":%d}`, readName, turn, turn+20))}})
	}
	return t
}

// newScript has a conversation for each variant, with and without tools. Each turn is known by its place in the history, so
// that one who has to ask again is answered again.
func newScript(turns int, p pace) *modelserver.Script {
	s := &modelserver.Script{Name: "bench"}
	for _, tools := range []bool{false, true} {
		for v := range variants {
			c := modelserver.Conversation{Match: &modelserver.Match{User: topic(v, tools)}}
			for turn := 1; turn <= turns; turn++ {
				t := answer(v, turn, turns, tools, p)
				t.Match = &modelserver.Match{Turn: turn}
				c.Turns = append(c.Turns, t)
			}
			s.Conversations = append(s.Conversations, c)
		}
	}
	return s
}

// longTopic is what a conversation of many questions is about.
const longTopic = "long function"

// addLong adds a conversation of so many questions.
func addLong(s *modelserver.Script, questions int, p pace) {
	c := modelserver.Conversation{Match: &modelserver.Match{User: longTopic}}
	for range questions {
		for turn := 1; turn <= turnsEach; turn++ {
			c.Turns = append(c.Turns, answer(0, turn, turnsEach, false, p))
		}
	}
	s.Conversations = append(s.Conversations, c)
}
