package inspect

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"signalbox/internal/lazy"
	"signalbox/internal/run/agent"
	"signalbox/transcript/agentformat"
)

// Activity is what an agent is doing, judging by its output: its last words or tool call.
type Activity struct {
	Text    string
	streams bool // it writes JSON lines, so other lines are fragments of them
	open    bool // the text is a message that may continue
	turn    int  // of the oracle
}

// Next returns the activity after a line of output. Lines other than the agent's own words and tool
// calls change nothing: records about the stream, repeated prompts, and lines that were cut and
// cannot be parsed.
func (a Activity) Next(line string) Activity {
	if !strings.HasPrefix(line, "{") {
		if text := strings.TrimSpace(line); text != "" && !a.streams &&
			!jsonFragment().MatchString(text) {
			a.Text = ClipActivity(text)
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
			before = a.Text
		}
		a.Text, a.open, a.turn = lastWords(before+activity.Text), true, activity.Turn
	case activity.Text != "":
		a.Text, a.open = ClipActivity(activity.Text), false
	}
	return a
}

// LastActivity returns the last activity in some output of JSON lines. Other output is returned
// unchanged.
func LastActivity(output string) string {
	if !strings.HasPrefix(strings.TrimSpace(output), "{") {
		return output
	}
	var h Activity
	for line := range strings.Lines(output) {
		h = h.Next(strings.TrimSpace(line))
	}
	return h.Text
}

// jsonFragment matches a key with its value in the rest of an object whose beginning is missing.
var jsonFragment = lazy.Regexp(`":\s*(["{\[\d-]|true|false|null)|"\}*[\]}]*\}$`)

// maxActivity is how much of a line is kept: more than any screen is wide.
const maxActivity = 1000

// ClipActivity cuts a line to what is kept of it.
func ClipActivity(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxActivity)], "")
}

// lastWords returns the last line of a message that arrives in pieces, with the white space where
// the next piece continues.
func lastWords(text string) string {
	if at := strings.LastIndexByte(strings.TrimRight(text, "\r\n"), '\n'); at >= 0 {
		text = text[at+1:]
	}
	return strings.ToValidUTF8(text[max(0, len(text)-maxActivity):], "")
}

// maxLive is how much of the output of a running agent is read to find out what it is doing.
const maxLive = 64 << 10

// ReadActivity returns what the agent of a session is doing now, "" if that is not known: it has
// written nothing yet, runs on another machine, or its signals have a key. boxDir is the folder of
// the box.
func ReadActivity(boxDir, session string) (string, error) {
	file, err := os.Open(agent.LiveTranscript(boxDir, session))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return "", err
	}
	from := max(info.Size()-maxLive, 0)
	output, err := io.ReadAll(io.NewSectionReader(file, from, maxLive))
	if err != nil {
		return "", err
	}
	var a Activity
	for line := range strings.Lines(string(output)) {
		if from > 0 { // it is only the end of a line
			from = 0
			continue
		}
		a = a.Next(strings.TrimSpace(line))
	}
	return a.Text, nil
}
