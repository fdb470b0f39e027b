package envelope

import "signalbox"

// oracleEnvelope reads the chunks of signalbox's own conversations. A turn there is one reply of a model, and what other
// programs call a turn is a question, which done ends.
func oracleEnvelope() *envelope {
	e := &envelope{
		schema: newSchema(map[string]fieldID{
			"type": fieldType, "turn": fieldMessageID, "text": fieldText, "name": fieldError,
			"tokens": fieldInput, "cost_usd": fieldCost,
		}, []string{"text"}, `id arguments ok sources signal confidence fields raw_xml level reason turns session question answer model`),
		types:  words("content reasoning tool_call tool_result sources signal system error done"),
		wants:  func(d *decoder, _ fieldID) bool { return !d.not(fieldType, "content") },
		quotes: func(d *decoder, _ fieldID) bool { return !d.not(fieldType, "error") },
		continues: func(d *decoder) bool {
			turn := d.values[fieldMessageID]
			return !turn.set && !d.whole || turn.set && string(turn.value) == string(d.messageID)
		},
		voids: true,
		event: oracleEvent,
	}
	e.own = func(d *decoder) bool {
		if !d.is(fieldType, "content") {
			return false
		}
		if d.unmark != nil && d.wentOn && !e.continues(d) {
			// It was too long to wait for its turn, and was joined to another's: no line may go over that border.
			d.drifted("order of fields", []byte("text, turn"))
			return false
		}
		return true
	}
	return e
}

func oracleEvent(d *decoder) {
	typ := string(d.values[fieldType].value)
	if d.env.types[typ] {
		d.rep.Ended = false // another question has begun
	}
	switch typ {
	case "content":
		if d.committed {
			d.messageID = append(d.messageID[:0], d.values[fieldMessageID].value...)
		}
	case "reasoning":
		if d.not(fieldMessageID, string(d.messageID)) {
			d.endMessage()
		}
	case "system":
		switch {
		case !d.is(fieldError, "reply_restarted") && !d.is(fieldError, "reply_cut"):
		case d.not(fieldMessageID, string(d.messageID)): // nothing was heard of that reply
			d.endMessage()
		default:
			d.void()
		}
	case "tool_call", "tool_result", "signal", "sources":
		d.settle() // they come when the reply is whole
		d.out.EndSpeech()
	case "error":
		d.endMessage()
		d.failed = true
		if d.failure = append(d.failure[:0], d.result...); len(d.failure) == 0 && d.values[fieldError].set {
			d.failure = append(d.failure, d.values[fieldError].value...)
		}
		d.fail(d.failure)
		if d.is(fieldError, "rate_limited") {
			d.limited(signalbox.RateLimit{Status: "rejected"})
		}
	case "done":
		d.turn = signalbox.Usage{InputTokens: d.number(fieldInput), CostUSD: max(0, d.amount(fieldCost))}
		d.endTurn(d.failed, d.failure)
		d.failed, d.failure = false, d.failure[:0]
	}
}

// markMessage sees to it that what is said in a message can be taken back, as long as the reply may begin again. Blank
// text is passed on without a mark, which costs more than the text.
func (d *decoder) markMessage() {
	switch {
	case d.unmark != nil && (d.unmarkMessage == nil || !d.wentOn):
		d.unmarkMessage, d.since = d.unmark, d.since[:0]
	case d.unmarkMessage == nil && d.said:
		d.unmarkMessage, d.since = d.out.Mark(), d.since[:0]
	}
}

// settle makes final what was said in the message so far.
func (d *decoder) settle() {
	if d.unmarkMessage != nil {
		d.unmarkMessage = nil
		d.out.Settle()
	}
}

// void takes back what was said in the message and was not made final; what follows is another message.
func (d *decoder) void() {
	if d.unmarkMessage != nil {
		d.unmarkMessage()
		for _, r := range d.since {
			d.out.Remark(r.reason, r.raw, r.detail)
		}
	}
	d.endMessage()
}
