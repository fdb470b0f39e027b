package envelope

import (
	"signalbox/transcript/agentformat"
)

func opencodeFormat() *format {
	isText := func(d *decoder) bool {
		return !d.isNot(fieldPartType, agentformat.OpencodeText)
	}
	return &format{
		schema: newSchema(map[string]fieldID{
			"type": fieldType, "sessionID": fieldSession, "part.sessionID": fieldPartSession,
			"part.type": fieldPartType, "part.text": fieldText, "part.reason": fieldReason,
			"part.tokens.input": fieldInput, "part.tokens.cache.read": fieldCached,
			"part.tokens.cache.write": fieldCacheWrite, "part.tokens.output": fieldOutput,
			"part.cost": fieldCost, "error.name": fieldError, "error.data.message": fieldError,
			"error.data.statusCode": fieldErrorStatus,
		}, []string{"part.text"}, "timestamp"),
		types: set(agentformat.OpencodeStepStart, agentformat.OpencodeStepFinish,
			agentformat.OpencodeText,
			agentformat.OpencodeToolUse, agentformat.OpencodeReasoning, agentformat.OpencodeError),
		mayBeOwn: func(d *decoder,
			_ fieldID) bool {
			return !d.isNot(fieldType, agentformat.OpencodeText)
		},
		session: sessionInEveryLine,
		speaks: set(agentformat.OpencodeText, agentformat.OpencodeStepFinish,
			agentformat.OpencodeError),
		isOwn: func(
			d *decoder) bool {
			return d.is(fieldType, agentformat.OpencodeText) && isText(d)
		},
		continuesMessage: func(*decoder) bool { return false },
		handle: func(d *decoder) {
			d.endMessage()
			switch string(d.values[fieldType].value) {
			case agentformat.OpencodeStepStart, agentformat.OpencodeToolUse:
				d.report.Ended = false
			case agentformat.OpencodeStepFinish:
				usage := d.tokens()
				usage.CostUSD = d.amount(fieldCost)
				add(&d.usage.turn, usage)
				// Another step may follow within moments, so the turn itself ends with the stream.
				if d.is(fieldReason, agentformat.OpencodeReasonStop) {
					d.reportEnd(false, nil)
				}
			case agentformat.OpencodeError:
				d.reportEnd(true, d.values[fieldError].value)
			}
		},
	}
}
