package envelope

import (
	"bytes"
	"encoding/json"
	"strings"

	"signalbox"
	"signalbox/transcript/internal/lines"
)

// plain is the envelope that is none.
type plain struct{ out Sink }

func (p *plain) Push(b []byte) { p.out.Push(b) }
func (p *plain) Close()        { p.out.EndTurn() }
func (p *plain) Report() signalbox.StreamReport {
	return signalbox.StreamReport{Format: signalbox.FormatPlain}
}

// auto holds the stream back until it knows the format.
type auto struct {
	out     Sink
	chosen  Source // nil until it knows
	held    []byte
	skipped int              // bytes of a byte order mark before held
	looked  int              // how much of held has been looked at
	walked  int              // up to where a line end has been looked for
	lines   int              // lines looked at that are not blank
	running signalbox.Format // recognised in the last line
}

// How long auto holds back at most.
const (
	autoBytes = 1 << 20
	autoLines = 256
)

func (a *auto) Push(p []byte) {
	if a.chosen != nil {
		a.chosen.Push(p)
		return
	}
	a.held = append(a.held, p...)
	for a.chosen == nil {
		n := bytes.IndexByte(a.held[a.walked:], '\n')
		if n < 0 {
			a.walked = len(a.held)
			break
		}
		end := a.walked + n
		if end > autoBytes {
			break
		}
		line := a.held[a.looked:end]
		a.looked, a.walked = end+1, end+1
		if !lines.Blank(line) {
			a.look(line)
		}
	}
	if a.chosen == nil && len(a.held) > autoBytes {
		a.choose(signalbox.FormatPlain)
	}
}

// look takes a whole line into account.
func (a *auto) look(line []byte) {
	a.lines++
	format := recognize(line)
	switch {
	case format != "" && (a.lines == 1 || format == a.running):
		a.choose(format)
	case a.lines == autoLines:
		a.choose(signalbox.FormatPlain)
	}
	a.running = format
}

func (a *auto) choose(format signalbox.Format) {
	a.chosen = newSource(format, a.out)
	if format == signalbox.FormatPlain {
		a.out.Skip(a.skipped)
	}
	held := a.held
	a.held = nil
	a.chosen.Push(held)
}

func (a *auto) Close() {
	if a.chosen == nil {
		if rest := a.held[a.looked:]; !lines.Blank(rest) {
			a.look(rest)
		}
	}
	if a.chosen == nil {
		a.choose(signalbox.FormatPlain)
	}
	a.chosen.Close()
}

func (a *auto) Report() signalbox.StreamReport {
	if a.chosen == nil {
		return signalbox.StreamReport{Format: signalbox.FormatAuto}
	}
	return a.chosen.Report()
}

// recognize returns the format of which the line is an event, "" if it is of none.
func recognize(line []byte) signalbox.Format {
	line = bytes.TrimLeft(line, lines.Space)
	var event map[string]json.RawMessage
	if len(line) == 0 || line[0] != '{' || len(line) > autoBytes || json.Unmarshal(line, &event) != nil {
		return ""
	}
	var typ string
	if json.Unmarshal(event["type"], &typ) != nil {
		return ""
	}
	has := func(keys ...string) bool {
		for _, key := range keys {
			if _, ok := event[key]; !ok {
				return false
			}
		}
		return true
	}
	switch {
	case has("sessionID") && formats[signalbox.FormatOpencode].types[typ] && (has("part") || typ == "error" && has("error")):
		return signalbox.FormatOpencode
	case typ == "thread.started" && has("thread_id"), typ == "turn.started", typ == "turn.completed" && has("usage"),
		typ == "turn.failed" && has("error"), strings.HasPrefix(typ, "item.") && has("item"):
		return signalbox.FormatCodex
	case typ == "init" && has("session_id", "model"), typ == "message" && has("role", "content"),
		typ == "tool_use" && has("tool_name", "tool_id"), typ == "tool_result" && has("tool_id", "status"),
		typ == "result" && has("status", "stats"):
		return signalbox.FormatGemini
	case typ == "system" && has("subtype"), (typ == "assistant" || typ == "user") && has("message"),
		typ == "result" && has("is_error"), typ == "stream_event" && has("event"),
		typ == "rate_limit_event" && has("rate_limit_info"):
		return signalbox.FormatClaude
	case (typ == "content" || typ == "reasoning") && has("turn", "text"), typ == "tool_call" && has("turn", "id", "name", "arguments"),
		typ == "tool_result" && has("turn", "id", "name", "ok", "text"), typ == "sources" && has("sources"),
		typ == "signal" && has("turn", "signal", "confidence", "raw_xml"), (typ == "system" || typ == "error") && has("name", "text"),
		typ == "done" && has("reason", "turns", "tokens", "cost_usd"):
		return signalbox.FormatOracle
	}
	return ""
}
