package envelope

import (
	"signalbox/transcript/agentformat"
)

func geminiFormat() *format {
	isOwn := func(d *decoder) bool {
		return d.is(fieldType, agentformat.GeminiMessage) &&
			d.is(fieldRole, agentformat.GeminiAssistant)
	}
	return &format{
		schema: newSchema(map[string]fieldID{
			"type": fieldType, "session_id": fieldSession, "role": fieldRole, "content": fieldText,
			"delta": fieldDelta, "status": fieldStatus,
			"error.message": fieldError, "stats.input_tokens": fieldInput,
			"stats.cached":        fieldCached,
			"stats.output_tokens": fieldOutput, "stats.total_tokens": fieldTotal,
			"model": fieldModel,
		}, []string{"content"}, "timestamp tool_name tool_id parameters output severity message"),
		types: set(agentformat.GeminiInit, agentformat.GeminiMessage, agentformat.GeminiToolUse,
			agentformat.GeminiToolResult, agentformat.GeminiError, agentformat.GeminiResult),
		session:   sessionAnnounced,
		announces: func(d *decoder) bool { return d.is(fieldType, agentformat.GeminiInit) },
		speaks:    set(agentformat.GeminiMessage, agentformat.GeminiResult),
		mayBeOwn: func(d *decoder, _ fieldID) bool {
			return !d.isNot(fieldType, agentformat.GeminiMessage) &&
				!d.isNot(fieldRole, agentformat.GeminiAssistant)
		},
		isOwn: isOwn,
		continuesMessage: func(
			d *decoder) bool {
			return d.is(fieldDelta, "true") || !d.values[fieldDelta].set && !d.complete
		},
		handle: func(d *decoder) {
			if isOwn(d) {
				return
			}
			d.endMessage()
			switch string(d.values[fieldType].value) {
			case agentformat.GeminiToolUse, agentformat.GeminiToolResult:
				d.report.Ended = false
			case agentformat.GeminiResult:
				d.usage.turn = d.tokens()
				// What the model thought is only in the total.
				d.usage.turn.OutputTokens = max(d.usage.turn.OutputTokens,
					d.count(fieldTotal)-d.usage.turn.InputTokens)
				d.endTurn(!d.is(fieldStatus, agentformat.GeminiStatusSuccess),
					d.values[fieldError].value)
			}
		},
	}
}
