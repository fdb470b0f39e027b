package envelope

import "signalbox"

// oracleEnvelope reads the chunks of signalbox's own conversations. A turn there is one reply of a model, and what other
// programs call a turn is a question, which done ends.
func oracleFormat() *format {
	e := &format{
		schema: newSchema(map[string]fieldID{
			"type": fieldType, "turn": fieldMessageID, "text": fieldText, "name": fieldError,
			"tokens": fieldInput, "cost_usd": fieldCost,
		}, []string{"text"}, `id arguments ok sources signal confidence fields raw_xml level reason turns session question answer model`),
		types:      words("content reasoning tool_call tool_result sources signal system error done"),
		mayBeOwn:   func(d *decoder, _ fieldID) bool { return !d.isNot(fieldType, "content") },
		mayBeError: func(d *decoder, _ fieldID) bool { return !d.isNot(fieldType, "error") },
		continuesMessage: func(d *decoder) bool {
			turn := d.values[fieldMessageID]
			return !turn.set && !d.complete || turn.set && string(turn.value) == string(d.messageID)
		},
		mayWithdraw: true,
		handle:      handleOracle,
	}
	e.isOwn = func(d *decoder) bool {
		if !d.is(fieldType, "content") {
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
	case "content":
		if d.committed {
			d.messageID = append(d.messageID[:0], d.values[fieldMessageID].value...)
		}
	case "reasoning":
		if d.isNot(fieldMessageID, string(d.messageID)) {
			d.endMessage()
		}
	case "system":
		switch {
		case !d.is(fieldError, "reply_restarted") && !d.is(fieldError, "reply_cut"):
		case d.isNot(fieldMessageID, string(d.messageID)): // nothing was heard of that reply
			d.endMessage()
		default:
			d.withdrawMessage()
		}
	case "tool_call", "tool_result", "signal", "sources":
		d.commitMessage() // they come when the reply is whole
		d.out.Pause()
	case "error":
		d.endMessage()
		d.failed = true
		if d.failure = append(d.failure[:0], d.result...); len(d.failure) == 0 && d.values[fieldError].set {
			d.failure = append(d.failure, d.values[fieldError].value...)
		}
		d.reportFailure(d.failure)
		if d.is(fieldError, "rate_limited") {
			d.limited(signalbox.RateLimit{Status: "rejected"})
		}
	case "done":
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
