package model

// mostTokens is more than a request can have. Beyond it a count is a mistake, and sums of counts would overflow.
const mostTokens = 1_000_000_000

// sum adds what a server counted, and is negative if one of the counts cannot be: others must not hide it.
func sum(counts ...int64) (all int64) {
	for _, n := range counts {
		if n < 0 || n > mostTokens {
			return -1
		}
		all += n
	}
	return all
}

// believable reports whether a server told what a reply cost. A prompt is never empty.
func (u *Usage) believable() bool {
	return u.Known && u.Input > 0 && sum(u.Input, u.Output, u.Cached, u.Reasoning) > 0
}

// estimate counts four bytes a token, for a budget must hold also where a server tells nothing.
func estimate(h *history, r *Reply) Usage {
	in := len(h.system)
	for _, m := range h.messages {
		in += len(m.Text) + size(m.Calls)
		for _, result := range m.Results {
			in += len(result.Text)
		}
	}
	for _, t := range h.tools {
		in += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	out := len(r.Text) + len(r.Reasoning) + size(r.Calls)
	return Usage{Input: int64(in+3) / 4, Output: int64(out+3) / 4, Reasoning: int64(len(r.Reasoning)+3) / 4}
}

func size(calls []Call) (all int) {
	for _, c := range calls {
		all += len(c.Name) + len(c.Arguments)
	}
	return all
}

// Estimate is what a reply of that text costs if its client could not be told, without a price.
func Estimate(r Request, text string) Usage {
	return estimate(&history{system: r.System, messages: r.Messages, tools: r.Tools}, &Reply{Text: text})
}
