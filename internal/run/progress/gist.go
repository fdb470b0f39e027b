package progress

import (
	"regexp"
	"strings"

	"signalbox/transcript/agentformat"
)

// hearing is what an agent is doing, as far as what it wrote tells.
type hearing struct {
	text    string
	streams bool // it writes JSON lines: other lines are parts of them
	open    bool // the text is a message that may go on
	turn    int  // in which the oracle said it
}

// hear takes a line that an agent wrote. What is not the agent's own words or its call of a tool leaves the text as it is:
// records about the stream, prompts that are repeated, and what was cut and cannot be read.
func (h hearing) hear(line string) hearing {
	if !strings.HasPrefix(line, "{") {
		if text := strings.TrimSpace(line); text != "" && !h.streams && !partOfJSON.MatchString(text) {
			h.text = clipped(text)
		}
		return h
	}
	activity, ok := agentformat.ParseActivity([]byte(line))
	if !ok {
		return h
	}
	h.streams = true
	switch {
	case activity.Withdrawn:
		h.open = false
	case activity.Partial:
		before := ""
		if h.open && h.turn == activity.Turn {
			before = h.text
		}
		h.text, h.open, h.turn = lastWords(before+activity.Text), true, activity.Turn
	case activity.Text != "":
		h.text, h.open = clipped(activity.Text), false
	}
	return h
}

// gist is what an agent said in the beginning of its output: of JSON lines the last words, else all of it.
func gist(output string) string {
	if !strings.HasPrefix(strings.TrimSpace(output), "{") {
		return output
	}
	var h hearing
	for line := range strings.Lines(output) {
		h = h.hear(strings.TrimSpace(line))
	}
	return h.text
}

// partOfJSON is in the rest of an object whose beginning is not there: a key and its value.
var partOfJSON = regexp.MustCompile(`":\s*(["{\[\d-]|true|false|null)|"\}*[\]}]*\}$`)

// maxHeard is how much is kept of what an agent wrote: more than any screen is wide.
const maxHeard = 1000

func clipped(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxHeard)], "") }

// lastWords is the end of a message that comes in pieces: its last line, with the white space that the next piece goes on at.
func lastWords(text string) string {
	if at := strings.LastIndexByte(strings.TrimRight(text, "\r\n"), '\n'); at >= 0 {
		text = text[at+1:]
	}
	return strings.ToValidUTF8(text[max(0, len(text)-maxHeard):], "")
}
