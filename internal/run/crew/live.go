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

// publish passes the last line that the agent wrote to Options.Live. From a stream of objects it
// passes only complete ones, and several, because not every object is about what the agent does.
// Options.Tools gets the tool calls in all of them. The caller holds mu.
func (l *listener) publish(p []byte) {
	opts := &l.run.crew.opts
	if opts.Live == nil && opts.Tools == nil {
		return
	}
	var texts []string
	if l.format == signalbox.FormatPlain || l.format == signalbox.FormatAuto && l.first != '{' {
		texts = append(texts, text.LastLine(string(p[max(0, len(p)-tailSize):])))
	} else if opts.Tools == nil {
		texts = l.objects(p, maxLine)
	} else {
		texts = l.objects(p, maxToolLine)
		l.publishTools(texts)
	}
	if opts.Live == nil {
		return
	}
	for _, text := range texts[max(0, len(texts)-maxPublished):] {
		if text != "" && len(text) <= maxLine {
			l.run.live(hideKey(text, l.key))
		}
	}
}

// publishTools passes the tool calls and results in some objects to Options.Tools.
func (l *listener) publishTools(objects []string) {
	for _, object := range objects {
		entries, _ := agentformat.ParseEntries([]byte(object))
		for _, e := range entries {
			if e.Kind == agentformat.EntryToolCall || e.Kind == agentformat.EntryToolResult {
				l.run.crew.opts.Tools(agent.ToolUse{Work: l.run.work, Session: l.run.id,
					Tool: e.Tool, Call: e.Call,
					Result: e.Kind == agentformat.EntryToolResult, Failed: e.Failed, Took: e.Took})
			}
		}
	}
}

// objects returns the complete lines that look like objects and are not longer than limit. The
// caller holds mu.
func (l *listener) objects(p []byte, limit int) (texts []string) {
	for piece := range bytes.Lines(p) {
		if len(l.line) <= limit { // a longer line is dropped
			l.line = append(l.line, piece...)
		}
		if !bytes.HasSuffix(piece, []byte("\n")) {
			continue
		}
		if line := bytes.TrimSpace(l.line); len(line) <= limit &&
			bytes.HasPrefix(line, []byte("{")) {
			texts = append(texts, string(line))
		}
		l.line = l.line[:0]
	}
	return texts
}
