package envelope

import (
	"fmt"
	"slices"
	"strings"

	"signalbox"
	"signalbox/transcript/agentformat"
)

// shape identifies an event of a format. Formats share the names of types, so members are needed to
// tell them apart.
type shape struct {
	format  signalbox.Format
	typ     string // a type, or the start of one that ends with '.'
	members []string
}

func (s *shape) matches(typ string, has func(member string) bool) bool {
	if typ != s.typ && !(strings.HasSuffix(s.typ, ".") && strings.HasPrefix(typ, s.typ)) {
		return false
	}
	return !slices.ContainsFunc(s.members, func(member string) bool { return !has(member) })
}

// shapes has the shapes of each format together. Of two formats that a line matches, the first is
// preferred.
var shapes = func() (list []shape) {
	add := func(format signalbox.Format, typ, members string) {
		list = append(list, shape{format, typ, strings.Fields(members)})
	}
	for _, typ := range []string{agentformat.OpencodeStepStart, agentformat.OpencodeStepFinish,
		agentformat.OpencodeText,
		agentformat.OpencodeToolUse, agentformat.OpencodeReasoning, agentformat.OpencodeError} {
		add(signalbox.FormatOpencode, typ, "sessionID part")
	}
	add(signalbox.FormatOpencode, agentformat.OpencodeError, "sessionID error")

	add(signalbox.FormatCodex, agentformat.CodexThreadStarted, "thread_id")
	add(signalbox.FormatCodex, agentformat.CodexTurnStarted, "")
	add(signalbox.FormatCodex, agentformat.CodexTurnCompleted, "usage")
	add(signalbox.FormatCodex, agentformat.CodexTurnFailed, "error")
	add(signalbox.FormatCodex, "item.", "item")

	add(signalbox.FormatGemini, agentformat.GeminiInit, "session_id model")
	add(signalbox.FormatGemini, agentformat.GeminiMessage, "role content")
	add(signalbox.FormatGemini, agentformat.GeminiToolUse, "tool_name tool_id")
	add(signalbox.FormatGemini, agentformat.GeminiToolResult, "tool_id status")
	add(signalbox.FormatGemini, agentformat.GeminiResult, "status stats")

	add(signalbox.FormatClaude, agentformat.ClaudeSystem, "subtype")
	add(signalbox.FormatClaude, agentformat.ClaudeAssistant, "message")
	add(signalbox.FormatClaude, agentformat.ClaudeUser, "message")
	add(signalbox.FormatClaude, agentformat.ClaudeResult, "is_error")
	add(signalbox.FormatClaude, agentformat.ClaudeStreamEvent, "event")
	add(signalbox.FormatClaude, agentformat.ClaudeRateLimit, "rate_limit_info")

	add(signalbox.FormatOracle, agentformat.OracleContent, "turn text")
	add(signalbox.FormatOracle, agentformat.OracleReasoning, "turn text")
	add(signalbox.FormatOracle, agentformat.OracleToolCall, "turn id name arguments")
	add(signalbox.FormatOracle, agentformat.OracleToolResult, "turn id name ok text")
	add(signalbox.FormatOracle, agentformat.OracleSources, "sources")
	add(signalbox.FormatOracle, agentformat.OracleSignal, "turn signal confidence raw_xml")
	add(signalbox.FormatOracle, agentformat.OracleSystem, "name text")
	add(signalbox.FormatOracle, agentformat.OracleError, "name text")
	add(signalbox.FormatOracle, agentformat.OracleDone, "reason turns tokens cost_usd")
	return list
}()

// identifying has the members of all shapes.
var identifying = func() map[string]bool {
	members := map[string]bool{}
	for _, s := range shapes {
		for _, member := range s.members {
			members[member] = true
		}
	}
	return members
}()

// otherFormat returns the other format that the line is an event of, "" if there is none. The
// decoder knows only the members that its own format lacks; others are assumed to be present. So a
// line counts as foreign only if its type or one of its members is not of the decoder's own format.
func (d *decoder) otherFormat() signalbox.Format {
	typ := string(d.values[fieldType].value)
	ownType := d.format.types[typ]
	if ownType && len(d.unknown) == 0 {
		return ""
	}
	for _, s := range shapes {
		foreign := !ownType
		if s.format != d.name && s.matches(typ, func(member string) bool {
			if slices.Contains(d.unknown, member) {
				foreign = true
				return true
			}
			return d.format.schema.child(rootNode, []byte(member)) != 0
		}) && foreign {
			return s.format
		}
	}
	return ""
}

// mix reports that the stream, whose format was detected, contains something else.
func (d *decoder) mix(what string) {
	if d.detected && d.report.Mixed == "" {
		d.report.Mixed = mixedDetail(d.name, d.number, what)
	}
}

func mixedDetail(format signalbox.Format, line int, what string) string {
	return fmt.Sprintf("the output was detected as %s, but its line %d is %s; name the format to be certain", format, line, what)
}
