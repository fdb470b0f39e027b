package envelope

import (
	"signalbox"
	"signalbox/transcript/agentformat"
)

// oracleFormat is the format of signalbox's own conversations. A turn there is one reply of a
// model. What other programs call a turn is a question, and the event done ends it.
func oracleFormat() *format {
	e := &format{
		schema: newSchema(map[string]fieldID{
			"type": fieldType, "turn": fieldMessageID, "text": fieldText, "name": fieldError,
			"tokens": fieldInput, "cost_usd": fieldCost,
		}, []string{"text"},
			`id arguments ok sources signal confidence fields raw_xml level reason detail turns session question answer model`),
		types: set(agentformat.OracleContent, agentformat.OracleReasoning,
			agentformat.OracleToolCall,
			agentformat.OracleToolResult, agentformat.OracleSources, agentformat.OracleSignal,
			agentformat.OracleSystem, agentformat.OracleError, agentformat.OracleDone),
		mayBeOwn: func(d *decoder,
			_ fieldID) bool {
			return !d.isNot(fieldType, agentformat.OracleContent)
		},
		mayBeError: func(d *decoder,
			_ fieldID) bool {
			return !d.isNot(fieldType, agentformat.OracleError)
		},
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
			// The text was too long to hold back until its turn was known, and was joined to
			// another turn's. A line must not extend across turns.
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
		d.report.Ended = false // another question has started
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
		case !d.is(fieldError, agentformat.OracleReplyRestarted) &&
			!d.is(fieldError, agentformat.OracleReplyCut):
		case d.isNot(fieldMessageID, string(d.messageID)): // the reply had no text
			d.endMessage()
		default:
			d.withdrawMessage()
		}
	case agentformat.OracleToolCall, agentformat.OracleToolResult, agentformat.OracleSignal,
		agentformat.OracleSources:
		d.commitMessage() // these events follow a complete reply
		d.out.Pause()
	case agentformat.OracleError:
		d.endMessage()
		d.failed = true
		if d.failure = append(d.failure[:0], d.result...); len(d.failure) == 0 &&
			d.values[fieldError].set {
			d.failure = append(d.failure, d.values[fieldError].value...)
		}
		d.reportFailure(d.failure)
		if d.is(fieldError, "rate_limited") {
			d.reportLimit(signalbox.RateLimit{Status: "rejected"})
		}
	case agentformat.OracleDone:
		d.usage.turn = signalbox.Usage{InputTokens: d.count(fieldInput),
			CostUSD: max(0, d.amount(fieldCost))}
		d.endTurn(d.failed, d.failure)
		d.failed, d.failure = false, d.failure[:0]
	}
}

// snapshotMessage takes a snapshot so that the message can be withdrawn as long as the reply may
// restart. Blank text needs none.
func (d *decoder) snapshotMessage() {
	switch {
	case d.restoreLine != nil && (d.restoreMessage == nil || !d.joined):
		d.restoreMessage, d.remarksSince = d.restoreLine, d.remarksSince[:0]
	case d.restoreMessage == nil && d.notBlank:
		d.restoreMessage, d.remarksSince = d.out.Snapshot(), d.remarksSince[:0]
	}
}

// commitMessage makes the text of the message so far final.
func (d *decoder) commitMessage() {
	if d.restoreMessage != nil {
		d.restoreMessage = nil
		d.out.Commit()
	}
}

// withdrawMessage withdraws the text of the message that is not final, and ends the message.
// Remarks made since stay.
func (d *decoder) withdrawMessage() {
	if d.restoreMessage != nil {
		d.restoreMessage()
		for _, r := range d.remarksSince {
			d.out.Remark(r.reason, r.raw, r.detail)
		}
	}
	d.endMessage()
}
