package progress

import (
	"regexp"
	"strings"

	"signalbox/transcript/agentformat"
)

// activity is what an agent is doing, judging by its output.
type activity struct {
	text    string
	streams bool // it writes JSON lines, so other lines are fragments of them
	open    bool // the text is a message that may continue
	turn    int  // of the oracle
}

// next returns the activity after a line of output. Lines other than the agent's own words and tool calls change nothing:
// records about the stream, repeated prompts, and lines that were cut and cannot be parsed.
func (a activity) next(line string) activity {
	if !strings.HasPrefix(line, "{") {
		if text := strings.TrimSpace(line); text != "" && !a.streams && !jsonFragment.MatchString(text) {
			a.text = clipped(text)
		}
		return a
	}
	activity, ok := agentformat.ParseActivity([]byte(line))
	if !ok {
		return a
	}
	a.streams = true
	switch {
	case activity.Withdrawn:
		a.open = false
	case activity.Partial:
		before := ""
		if a.open && a.turn == activity.Turn {
			before = a.text
		}
		a.text, a.open, a.turn = lastWords(before+activity.Text), true, activity.Turn
	case activity.Text != "":
		a.text, a.open = clipped(activity.Text), false
	}
	return a
}

// lastActivity returns the last activity in some output of JSON lines. Other output is returned unchanged.
func lastActivity(output string) string {
	if !strings.HasPrefix(strings.TrimSpace(output), "{") {
		return output
	}
	var h activity
	for line := range strings.Lines(output) {
		h = h.next(strings.TrimSpace(line))
	}
	return h.text
}

// jsonFragment matches a key with its value in the rest of an object whose beginning is missing.
var jsonFragment = regexp.MustCompile(`":\s*(["{\[\d-]|true|false|null)|"\}*[\]}]*\}$`)

// maxActivity is how much of a line is kept: more than any screen is wide.
const maxActivity = 1000

func clipped(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxActivity)], "") }

// lastWords returns the last line of a message that arrives in pieces, with the white space where the next piece continues.
func lastWords(text string) string {
	if at := strings.LastIndexByte(strings.TrimRight(text, "\r\n"), '\n'); at >= 0 {
		text = text[at+1:]
	}
	return strings.ToValidUTF8(text[max(0, len(text)-maxActivity):], "")
}
