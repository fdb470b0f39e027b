package envelope

import (
	"bytes"
	"encoding/json"
	"strings"

	"signalbox"
	"signalbox/transcript/agentformat"
	"signalbox/transcript/internal/lines"
)

// plain passes all text on.
type plain struct{ out Sink }

func (p *plain) Push(b []byte) { p.out.Push(b) }
func (p *plain) Close()        { p.out.EndTurn() }
func (p *plain) Report() signalbox.StreamReport {
	return signalbox.StreamReport{Format: signalbox.FormatPlain}
}

// auto holds the stream back until it recognizes the format.
type auto struct {
	out     Sink
	chosen  Source // nil until the format is recognized
	held    []byte
	skipped int              // bytes of a byte order mark before held
	checked int              // the lines of held up to here have been checked
	scanned int              // held up to here has been scanned for line ends
	lines   int              // checked lines that are not blank
	last    signalbox.Format // the format of the last checked line, "" if none
}

// auto decides for plain text after so many bytes or lines.
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
		n := bytes.IndexByte(a.held[a.scanned:], '\n')
		if n < 0 {
			a.scanned = len(a.held)
			break
		}
		end := a.scanned + n
		if end > autoBytes {
			break
		}
		line := a.held[a.checked:end]
		a.checked, a.scanned = end+1, end+1
		if !lines.Blank(line) {
			a.checkLine(line)
		}
	}
	if a.chosen == nil && len(a.held) > autoBytes {
		a.choose(signalbox.FormatPlain)
	}
}

// checkLine chooses a format if the line allows it: in the first line one event is enough, later two in a row are needed.
func (a *auto) checkLine(line []byte) {
	a.lines++
	format := recognize(line)
	switch {
	case format != "" && (a.lines == 1 || format == a.last):
		a.choose(format)
	case a.lines == autoLines:
		a.choose(signalbox.FormatPlain)
	}
	a.last = format
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
		if rest := a.held[a.checked:]; !lines.Blank(rest) {
			a.checkLine(rest)
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

// recognize returns the format that the line is an event of, "" if it is none. Formats share the names of types, so each is
// identified by its members.
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
	case has("sessionID") && formats[signalbox.FormatOpencode].types[typ] && (has("part") || typ == agentformat.OpencodeError && has("error")):
		return signalbox.FormatOpencode
	case typ == agentformat.CodexThreadStarted && has("thread_id"), typ == agentformat.CodexTurnStarted, typ == agentformat.CodexTurnCompleted && has("usage"),
		typ == agentformat.CodexTurnFailed && has("error"), strings.HasPrefix(typ, "item.") && has("item"):
		return signalbox.FormatCodex
	case typ == agentformat.GeminiInit && has("session_id", "model"), typ == agentformat.GeminiMessage && has("role", "content"),
		typ == agentformat.GeminiToolUse && has("tool_name", "tool_id"), typ == agentformat.GeminiToolResult && has("tool_id", "status"),
		typ == agentformat.GeminiResult && has("status", "stats"):
		return signalbox.FormatGemini
	case typ == agentformat.ClaudeSystem && has("subtype"), (typ == agentformat.ClaudeAssistant || typ == agentformat.ClaudeUser) && has("message"),
		typ == agentformat.ClaudeResult && has("is_error"), typ == agentformat.ClaudeStreamEvent && has("event"),
		typ == agentformat.ClaudeRateLimit && has("rate_limit_info"):
		return signalbox.FormatClaude
	case (typ == agentformat.OracleContent || typ == agentformat.OracleReasoning) && has("turn", "text"), typ == agentformat.OracleToolCall && has("turn", "id", "name", "arguments"),
		typ == agentformat.OracleToolResult && has("turn", "id", "name", "ok", "text"), typ == agentformat.OracleSources && has("sources"),
		typ == agentformat.OracleSignal && has("turn", "signal", "confidence", "raw_xml"), (typ == agentformat.OracleSystem || typ == agentformat.OracleError) && has("name", "text"),
		typ == agentformat.OracleDone && has("reason", "turns", "tokens", "cost_usd"):
		return signalbox.FormatOracle
	}
	return ""
}
