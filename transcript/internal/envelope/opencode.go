package envelope

import (
	"signalbox/transcript/agentformat"
)

func opencodeFormat() *format {
	isOwn := func(d *decoder) bool {
		return d.is(fieldType, agentformat.OpencodeText) && (len(d.session) == 0 || !d.isNot(fieldSession, string(d.session)))
	}
	return &format{
		schema: newSchema(map[string]fieldID{
			"type": fieldType, "sessionID": fieldSession, "part.text": fieldText, "part.reason": fieldReason,
			"part.tokens.input": fieldInput, "part.tokens.cache.read": fieldCached, "part.tokens.output": fieldOutput,
			"part.cost": fieldCost, "error.name": fieldError, "error.data.message": fieldError,
		}, []string{"part.text"}, "timestamp"),
		types: set(agentformat.OpencodeStepStart, agentformat.OpencodeStepFinish, agentformat.OpencodeText,
			agentformat.OpencodeToolUse, agentformat.OpencodeReasoning, agentformat.OpencodeError),
		mayBeOwn:         func(d *decoder, _ fieldID) bool { return !d.isNot(fieldType, agentformat.OpencodeText) },
		isOwn:            isOwn,
		continuesMessage: func(*decoder) bool { return false },
		handle: func(d *decoder) {
			if v := d.values[fieldSession]; len(d.session) == 0 && v.set {
				d.session = append(d.session, v.value...)
			}
			d.endMessage()
			if len(d.session) > 0 && d.isNot(fieldSession, string(d.session)) {
				return
			}
			switch string(d.values[fieldType].value) {
			case agentformat.OpencodeStepStart:
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
