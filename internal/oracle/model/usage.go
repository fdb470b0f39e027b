package model

// maxTokens is more than a request can have. A larger count is a mistake, and sums of such counts
// could overflow.
const maxTokens = 1_000_000_000

// sum adds token counts of a server. It returns -1 if any count is impossible, so that the others
// do not hide it.
func sum(counts ...int64) (all int64) {
	for _, n := range counts {
		if n < 0 || n > maxTokens {
			return -1
		}
		all += n
	}
	return all
}

// plausible reports whether the counts of a server are possible. A prompt is never empty.
func (u *Usage) plausible() bool {
	return u.Known && u.Input > 0 && sum(u.Input, u.Output, u.Cached, u.Reasoning) > 0
}

// estimate counts four bytes as a token, so that budgets also work with servers that report no
// usage.
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
	return Usage{Input: int64(in+3) / 4, Output: int64(out+3) / 4,
		Reasoning: int64(len(r.Reasoning)+3) / 4}
}

func size(calls []Call) (all int) {
	for _, c := range calls {
		all += len(c.Name) + len(c.Arguments)
	}
	return all
}

// Estimate returns an estimate of the usage of a reply whose usage was not received, without its
// cost.
func Estimate(r Request, text string) Usage {
	return estimate(&history{system: r.System, messages: r.Messages, tools: r.Tools},
		&Reply{Text: text})
}
