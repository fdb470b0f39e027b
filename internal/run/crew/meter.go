package crew

import (
	"cmp"
	"math"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
)

// meter measures what a turn uses, while the program runs and at its end. Only the supervisor's
// goroutine uses it.
type meter struct {
	run      *agentRun
	listener *listener
	prompt   int           // bytes
	model    string        // the configured one
	thread   *rules.Thread // the last thread of the task, whose usage a resumed thread includes
	env      []string      // of the program
	// contained is what the program may do; nil means everything.
	contained *contain.Program
	began     time.Time
	files     *agent.SessionFiles // of a program that reports its usage only at the end

	reported rules.Spent // to the rules
	looked   time.Time   // when the usage was last measured
}

// bytesPerToken estimates the tokens of programs that do not report them in time.
const bytesPerToken = 4

// measured is what a turn has used.
type measured struct {
	spent rules.Spent
	// input and output are the tokens in spent.
	input, output int64
	estimated     bool
	// model is reportedModel, what the program says, or else what is configured.
	model, reportedModel string
	thread               *rules.Thread
}

// reportsLate reports whether a program of a format reports its usage only at the end of a turn.
func reportsLate(format signalbox.Format) bool {
	return format == signalbox.FormatCodex || format == signalbox.FormatGemini ||
		format == signalbox.FormatOracle
}

// measure returns what the turn has used so far. What the stream does not say is looked up, and
// estimated if the program has opened a session, or if limit limits it.
func (m *meter) measure(limit rules.Budget) measured {
	m.looked = time.Now()
	l := m.listener
	l.mu.Lock()
	stream, bytes := l.stream, l.bytes
	thread, model := l.scanner.Origin()
	stream.Format = l.formatNow()
	l.mu.Unlock()
	u, limited := stream.Usage, limit.Tokens > 0 || limit.CostMicros > 0
	took := time.Since(m.began).Round(time.Millisecond)
	result := measured{reportedModel: model, spent: rules.Spent{Time: took}}
	reported := u.InputTokens+u.OutputTokens > 0
	known := !reportsLate(stream.Format) || stream.Ended && reported
	var files agent.SessionUsage
	found := false
	if !known || stream.Format == signalbox.FormatCodex {
		if files, found = m.sessionFiles(stream.Format).Read(thread); files.Model != "" {
			result.reportedModel = files.Model
		}
	}
	result.model = cmp.Or(result.reportedModel, m.model)
	switch {
	case known && stream.Format == signalbox.FormatCodex:
		result.thread = threadOf(thread, u)
		u = sinceResume(u, thread, m.thread, files.Before)
	case known:
	case found:
		u = files.Usage
		if stream.Format == signalbox.FormatCodex { // the session reports the sum if it is resumed
			result.thread = threadOf(thread, sumOf(files.Before, u))
		}
	case limited || thread != "":
		u = signalbox.Usage{InputTokens: max(u.InputTokens, int64(m.prompt/bytesPerToken)),
			CachedInputTokens: u.CachedInputTokens,
			OutputTokens:      max(u.OutputTokens, bytes/bytesPerToken), CostUSD: u.CostUSD}
		result.estimated = true
		if stream.Format == signalbox.FormatCodex {
			result.thread = threadOf(thread, sumOf(usageOf(m.thread, thread), u))
		}
	}
	// A program that reports its usage and has failed before a model answered has used nothing.
	unknown := !reported && !found && !result.estimated && !stream.Ended
	input := max(0, u.InputTokens)
	if stream.Format == signalbox.FormatClaude || stream.Format == signalbox.FormatOpencode {
		input += max(0, u.CachedInputTokens) + max(0, u.CacheWriteTokens)
	}
	output := max(0, u.OutputTokens)
	result.input, result.output = input, output
	result.spent.Tokens = input + output
	result.spent.CostMicros = reportedCost(u.CostUSD)
	if complete := stream.Ended || stream.Format == signalbox.FormatOpencode; !complete ||
		result.spent.CostMicros == 0 {
		price, ok := m.price(stream.Format, result.model, limit.CostMicros > 0)
		if ok {
			result.spent.CostMicros = max(result.spent.CostMicros,
				price.CostMicros(input, max(0, u.CachedInputTokens), output))
		} else if result.spent.CostMicros == 0 && input+output > 0 {
			result.spent.UnknownCost = 1
		}
	}
	if unknown {
		result.spent.UnknownTokens, result.spent.UnknownCost = 1, 1
	}
	return result
}

// sessionFiles returns the files of the program's session.
func (m *meter) sessionFiles(format signalbox.Format) *agent.SessionFiles {
	if m.files == nil || m.files.Format != format {
		dir := agent.StateDir(format, m.env)
		_, private := m.contained.InHome(dir)
		m.files = &agent.SessionFiles{Format: format, Dir: dir, Private: private, Since: m.began}
	}
	return m.files
}

// price returns the price of a model. If cost is limited, a model without a known price has the
// highest price.
func (m *meter) price(format signalbox.Format, model string, limited bool) (config.Price, bool) {
	c := m.run.crew.box.Config
	if format == signalbox.FormatOracle { // the model is a key of the configuration
		name, _, err := c.OracleModel(m.model)
		if p := c.ModelPrice(name); err == nil && p != nil {
			return *p, true
		}
		return config.Price{}, false
	}
	if p, ok := c.PriceOf(model); ok {
		return p, true
	}
	if limited {
		return config.HighestPrice(format)
	}
	return config.Price{}, false
}

func reportedCost(usd float64) int64 {
	if usd > 0 && usd < 1e9 {
		return int64(math.Round(usd * 1e6))
	}
	return 0
}

func threadOf(id string, u signalbox.Usage) *rules.Thread {
	if id == "" {
		return nil
	}
	return &rules.Thread{ID: id, Input: u.InputTokens, Cached: u.CachedInputTokens,
		Output: u.OutputTokens}
}

// usageOf returns what a thread had used before the turn, as far as the ledger knows.
func usageOf(last *rules.Thread, id string) signalbox.Usage {
	if last == nil || last.ID != id || id == "" {
		return signalbox.Usage{}
	}
	return signalbox.Usage{InputTokens: last.Input, CachedInputTokens: last.Cached,
		OutputTokens: last.Output}
}

func sumOf(u, v signalbox.Usage) signalbox.Usage {
	return signalbox.Usage{InputTokens: u.InputTokens + v.InputTokens,
		CachedInputTokens: u.CachedInputTokens + v.CachedInputTokens,
		OutputTokens:      u.OutputTokens + v.OutputTokens}
}

// sinceResume subtracts what a thread of codex had used before the turn, because it reports what it
// has used in all turns. The ledger knows it if the thread is that of the task's last turn, and the
// file of the session if it is another one.
func sinceResume(u signalbox.Usage, id string, last *rules.Thread,
	before signalbox.Usage) signalbox.Usage {
	if last != nil && last.ID == id && id != "" {
		before = usageOf(last, id)
	}
	if u.InputTokens < before.InputTokens || u.OutputTokens < before.OutputTokens {
		return u
	}
	u.InputTokens, u.OutputTokens = u.InputTokens-before.InputTokens,
		u.OutputTokens-before.OutputTokens
	u.CachedInputTokens = max(0, u.CachedInputTokens-before.CachedInputTokens)
	return u
}

// report tells the rules what the turn has used, if that is enough to matter. It returns the cap
// that the turn has reached, and how long the turn may continue before it must report again; zero
// means any time.
func (m *meter) report() (reached rules.Cap, next time.Duration) {
	left, due := m.run.allowance()
	now := m.measure(left)
	isDue := func(used, before, after int64) bool { return after > 0 && used-before >= after }
	if isDue(now.spent.Tokens, m.reported.Tokens, due.Tokens) ||
		isDue(now.spent.CostMicros, m.reported.CostMicros, due.CostMicros) ||
		isDue(int64(now.spent.Time), int64(m.reported.Time), int64(due.Time)) ||
		now.spent.Tokens != m.reported.Tokens &&
			isDue(int64(now.spent.Time), int64(m.reported.Time), int64(longestReport)) {
		reached = m.submit(now)
		_, due = m.run.allowance()
	}
	if due.Time == 0 {
		return reached, longestReport
	}
	return reached, max(due.Time-(now.spent.Time-m.reported.Time), shortestReport)
}

// submit records what the turn has used so far, and returns the cap that it has reached.
func (m *meter) submit(now measured) rules.Cap {
	s := m.run
	answer, err := s.try(rules.ReportUsage{Session: s.id, Epoch: s.epoch, Spent: now.spent,
		Estimated: now.estimated})
	if err != nil && !isRefusal(err) { // after a refusal the session is ended anyway
		s.crew.log.Warn("cannot record what an agent uses", "work", s.work, "error", err)
	}
	if err == nil {
		m.reported = now.spent
	}
	return answer.Cap
}

const (
	// lookEvery is how often the usage of a program that does not report it in its stream is looked
	// up.
	lookEvery = 3 * time.Second
	// shortestReport is the shortest time between two reports of time alone.
	shortestReport = time.Second
	// longestReport is the time between reports without a limit, so that little is lost if this
	// process is killed.
	longestReport = time.Minute
)

// needsLook reports whether the usage must be looked up, because the stream does not report it in
// time.
func (m *meter) needsLook() bool {
	m.listener.mu.Lock()
	defer m.listener.mu.Unlock()
	format := m.listener.formatNow()
	return reportsLate(format)
}
