package envelope

import (
	"bytes"

	"signalbox"
)

// usageCounter sums the usage that a stream reports.
type usageCounter struct {
	ended signalbox.Usage // of turns that have ended
	turn  signalbox.Usage // of the current turn

	// The usage of the last messages, because several lines may report the same message.
	messages [rememberedMessages]messageUsage
	oldest   int
}

type messageUsage struct {
	id    []byte
	usage signalbox.Usage
}

// rememberedMessages is how many messages back a line may report the usage of a message again.
const rememberedMessages = 16

// total returns the usage of all turns.
func (c *usageCounter) total() signalbox.Usage {
	sum := c.ended
	add(&sum, c.turn)
	return sum
}

// countMessage adds the usage of a message, or replaces it if the message was counted before.
func (c *usageCounter) countMessage(id []byte, usage signalbox.Usage) {
	if usage == (signalbox.Usage{}) {
		return
	}
	for i := range c.messages {
		if m := &c.messages[i]; len(id) > 0 && bytes.Equal(m.id, id) {
			add(&c.turn, signalbox.Usage{InputTokens: -m.usage.InputTokens,
				CachedInputTokens: -m.usage.CachedInputTokens,
				CacheWriteTokens:  -m.usage.CacheWriteTokens,
				OutputTokens:      -m.usage.OutputTokens})
			add(&c.turn, usage)
			m.usage = usage
			return
		}
	}
	add(&c.turn, usage)
	m := &c.messages[c.oldest]
	m.id, m.usage = append(m.id[:0], id...), usage
	c.oldest = (c.oldest + 1) % rememberedMessages
}

// countTotal sets the usage of the turn from that of all turns of the session so far. Usage that is
// less than that of the earlier turns is that of the turn alone.
func (c *usageCounter) countTotal(total signalbox.Usage) {
	c.turn = total
	if e := c.ended; total.InputTokens >= e.InputTokens &&
		total.CachedInputTokens >= e.CachedInputTokens && total.OutputTokens >= e.OutputTokens {
		add(&c.turn, signalbox.Usage{InputTokens: -e.InputTokens,
			CachedInputTokens: -e.CachedInputTokens, OutputTokens: -e.OutputTokens})
	}
}

func (c *usageCounter) endTurn() {
	c.ended, c.turn = c.total(), signalbox.Usage{}
	for i := range c.messages {
		c.messages[i].id = c.messages[i].id[:0]
	}
}

func add(u *signalbox.Usage, v signalbox.Usage) {
	u.InputTokens += v.InputTokens
	u.CachedInputTokens += v.CachedInputTokens
	u.CacheWriteTokens += v.CacheWriteTokens
	u.OutputTokens += v.OutputTokens
	u.CostUSD += v.CostUSD
}
