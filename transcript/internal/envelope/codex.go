package envelope

import (
	"signalbox/transcript/agentformat"
)

func codexFormat() *format {
	isMessage := func(d *decoder) bool {
		return d.is(fieldType, agentformat.CodexItemCompleted) &&
			d.is(fieldPartType, agentformat.CodexAgentMessage)
	}
	return &format{
		schema: newSchema(map[string]fieldID{
			"type": fieldType, "thread_id": fieldSession, "item.type": fieldPartType,
			"item.text": fieldText, "error.message": fieldError, "message": fieldError,
			"usage.input_tokens": fieldInput, "usage.cached_input_tokens": fieldCached,
			"usage.output_tokens": fieldOutput,
		}, []string{"item.text"}, ""),
		types: set(agentformat.CodexThreadStarted, agentformat.CodexTurnStarted,
			agentformat.CodexTurnCompleted,
			agentformat.CodexTurnFailed, agentformat.CodexItemStarted, agentformat.CodexItemUpdated,
			agentformat.CodexItemCompleted, agentformat.CodexError),
		parts: set(agentformat.CodexAgentMessage, agentformat.CodexReasoning,
			agentformat.CodexCommand,
			agentformat.CodexFileChange, agentformat.CodexMCPToolCall, agentformat.CodexCollabCall,
			agentformat.CodexWebSearch, "todo_list", agentformat.CodexError),
		session:   sessionAnnounced,
		announces: func(d *decoder) bool { return d.is(fieldType, agentformat.CodexThreadStarted) },
		speaks: set(agentformat.CodexItemCompleted, agentformat.CodexTurnCompleted,
			agentformat.CodexTurnFailed),
		mayBeOwn: func(d *decoder, _ fieldID) bool {
			return !d.isNot(fieldType, agentformat.CodexItemCompleted) &&
				!d.isNot(fieldPartType, agentformat.CodexAgentMessage)
		},
		isOwn:            isMessage,
		continuesMessage: func(*decoder) bool { return false },
		handle: func(d *decoder) {
			if d.values[fieldPartType].set &&
				!d.format.parts[string(d.values[fieldPartType].value)] {
				d.drifted("item type", d.values[fieldPartType].value)
			}
			d.endMessage()
			switch string(d.values[fieldType].value) {
			case agentformat.CodexTurnStarted, agentformat.CodexItemStarted,
				agentformat.CodexItemUpdated, agentformat.CodexItemCompleted:
				d.report.Ended, d.report.Retrying = false, ""
			case agentformat.CodexError:
				d.report.Retrying = d.message(d.values[fieldError].value)
			case agentformat.CodexTurnCompleted:
				d.usage.countTotal(d.tokens())
				d.endTurn(false, nil)
			case agentformat.CodexTurnFailed:
				d.endTurn(true, d.values[fieldError].value)
			}
		},
	}
}
