package envelope

import (
	"signalbox"
	"signalbox/transcript/agentformat"
)

// oracleEnvelope reads the chunks of signalbox's own conversations. A turn there is one reply of a model, and what other
// programs call a turn is a question, which done ends.
func oracleFormat() *format {
	e := &format{
		schema: newSchema(map[string]fieldID{
			"type": fieldType, "turn": fieldMessageID, "text": fieldText, "name": fieldError,
			"tokens": fieldInput, "cost_usd": fieldCost,
		}, []string{"text"}, `id arguments ok sources signal confidence fields raw_xml level reason turns session question answer model`),
		types: set(agentformat.OracleContent, agentformat.OracleReasoning, agentformat.OracleToolCall,
			agentformat.OracleToolResult, agentformat.OracleSources, agentformat.OracleSignal,
			agentformat.OracleSystem, agentformat.OracleError, agentformat.OracleDone),
		mayBeOwn:   func(d *decoder, _ fieldID) bool { return !d.isNot(fieldType, agentformat.OracleContent) },
		mayBeError: func(d *decoder, _ fieldID) bool { return !d.isNot(fieldType, agentformat.OracleError) },
		continuesMessage: func(d *decoder) bool {
			turn := d.values[fieldMessageID]
			return !turn.set && !d.complete || turn.set && string(turn.value) == string(d.messageID)
		},
		mayWithdraw: true,
		handle:      handleOracle,
	}
	e.isOwn = func(d *decoder) bool {
		if !d.is(fieldType, agentformat.OracleContent) {
			return false
		}
		if d.restoreLine != nil && d.joined && !e.continuesMessage(d) {
			// It was too long to wait for its turn, and was joined to another's: no line may go over that border.
			d.drifted("order of fields", []byte("text, turn"))
			return false
		}
		return true
	}
	return e
}

func handleOracle(d *decoder) {
	typ := string(d.values[fieldType].value)
	if d.format.types[typ] {
		d.report.Ended = false // another question has begun
	}
	switch typ {
	case agentformat.OracleContent:
		if d.committed {
			d.messageID = append(d.messageID[:0], d.values[fieldMessageID].value...)
		}
	case agentformat.OracleReasoning:
		if d.isNot(fieldMessageID, string(d.messageID)) {
			d.endMessage()
		}
	case agentformat.OracleSystem:
		switch {
		case !d.is(fieldError, agentformat.OracleReplyRestarted) && !d.is(fieldError, agentformat.OracleReplyCut):
		case d.isNot(fieldMessageID, string(d.messageID)): // nothing was heard of that reply
			d.endMessage()
		default:
			d.withdrawMessage()
		}
	case agentformat.OracleToolCall, agentformat.OracleToolResult, agentformat.OracleSignal, agentformat.OracleSources:
		d.commitMessage() // they come when the reply is whole
		d.out.Pause()
	case agentformat.OracleError:
		d.endMessage()
		d.failed = true
		if d.failure = append(d.failure[:0], d.result...); len(d.failure) == 0 && d.values[fieldError].set {
			d.failure = append(d.failure, d.values[fieldError].value...)
		}
		d.reportFailure(d.failure)
		if d.is(fieldError, "rate_limited") {
			d.limited(signalbox.RateLimit{Status: "rejected"})
		}
	case agentformat.OracleDone:
		d.usage.turn = signalbox.Usage{InputTokens: d.count(fieldInput), CostUSD: max(0, d.amount(fieldCost))}
		d.endTurn(d.failed, d.failure)
		d.failed, d.failure = false, d.failure[:0]
	}
}

// snapshotMessage sees to it that what is said in a message can be taken back, as long as the reply may begin again. Blank
// text is passed on without a mark, which costs more than the text.
func (d *decoder) snapshotMessage() {
	switch {
	case d.restoreLine != nil && (d.restoreMessage == nil || !d.joined):
		d.restoreMessage, d.remarksSince = d.restoreLine, d.remarksSince[:0]
	case d.restoreMessage == nil && d.notBlank:
		d.restoreMessage, d.remarksSince = d.out.Snapshot(), d.remarksSince[:0]
	}
}

// settle makes final what was said in the message so far.
func (d *decoder) commitMessage() {
	if d.restoreMessage != nil {
		d.restoreMessage = nil
		d.out.Commit()
	}
}

// void takes back what was said in the message and was not made final; what follows is another message.
func (d *decoder) withdrawMessage() {
	if d.restoreMessage != nil {
		d.restoreMessage()
		for _, r := range d.remarksSince {
			d.out.Remark(r.reason, r.raw, r.detail)
		}
	}
	d.endMessage()
}
