package crew

import (
	"bytes"

	"signalbox"
	"signalbox/internal/run/agent"
	"signalbox/internal/text"
	"signalbox/transcript/agentformat"
)

// maxLine bounds a line of a stream of objects that Options.Live gets, and maxToolLine one that is
// searched for tool calls and their results, which may be long.
const (
	maxLine     = 64 << 10
	maxToolLine = 4 << 20
)

// maxPublished is how many objects of one write are published. More would only be overtaken on the
// screen.
const maxPublished = 16

// publisher passes what an agent writes to Options.Live and Options.Tools. The listener's mu guards
// it.
type publisher struct {
	run    *agentRun
	format signalbox.Format
	key    string
	first  byte   // the first byte of the output that is not white space
	line   []byte // the incomplete last line of a stream of objects
}

// publish passes the last line that the agent wrote to Options.Live. From a stream of objects it
// passes only complete ones, and several, because not every object is about what the agent does.
// Options.Tools gets the tool calls in all of them.
func (pub *publisher) publish(p []byte) {
	opts := &pub.run.crew.opts
	if opts.Live == nil && opts.Tools == nil {
		return
	}
	if start := bytes.TrimSpace(p); pub.first == 0 && len(start) > 0 {
		pub.first = start[0]
	}
	var texts []string
	if pub.format == signalbox.FormatPlain || pub.format == signalbox.FormatAuto && pub.first != '{' {
		texts = append(texts, text.LastLine(string(p[max(0, len(p)-tailSize):])))
	} else if opts.Tools == nil {
		texts = pub.objects(p, maxLine)
	} else {
		texts = pub.objects(p, maxToolLine)
		pub.publishTools(texts)
	}
	if opts.Live == nil {
		return
	}
	for _, text := range texts[max(0, len(texts)-maxPublished):] {
		if text != "" && len(text) <= maxLine {
			pub.run.live(hideKey(text, pub.key))
		}
	}
}

// publishTools passes the tool calls and results in some objects to Options.Tools.
func (pub *publisher) publishTools(objects []string) {
	for _, object := range objects {
		entries, _ := agentformat.ParseEntries([]byte(object))
		for _, e := range entries {
			if e.Kind == agentformat.EntryToolCall || e.Kind == agentformat.EntryToolResult {
				pub.run.crew.opts.Tools(agent.ToolUse{Work: pub.run.work, Session: pub.run.id,
					Tool: e.Tool, Call: e.Call,
					Result: e.Kind == agentformat.EntryToolResult, Failed: e.Failed, Took: e.Took})
			}
		}
	}
}

// objects returns the complete lines that look like objects and are not longer than limit.
func (pub *publisher) objects(p []byte, limit int) (texts []string) {
	for piece := range bytes.Lines(p) {
		if len(pub.line) <= limit { // a longer line is dropped
			pub.line = append(pub.line, piece...)
		}
		if !bytes.HasSuffix(piece, []byte("\n")) {
			continue
		}
		if line := bytes.TrimSpace(pub.line); len(line) <= limit &&
			bytes.HasPrefix(line, []byte("{")) {
			texts = append(texts, string(line))
		}
		pub.line = pub.line[:0]
	}
	return texts
}
