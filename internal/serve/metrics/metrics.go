// Package metrics describes a box in the text format of Prometheus. All counters come from the state
// of the ledger, so a server that was restarted reports the same.
//
// It writes the format itself: the client library of Prometheus would add 2.8 MB and six modules to
// the program for some twenty numbers.
package metrics

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
)

// ContentType is the content type of what Write writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// metric is a name with its samples.
type metric struct {
	name, kind, help string
	samples          []sample
}

// sample is a value for some labels, which are pairs of a name and a value.
type sample struct {
	labels []string
	value  float64
}

const (
	gauge   = "gauge"
	counter = "counter"
)

// Write describes a box at a time, with the copies of its ledger.
func Write(w io.Writer, s *rules.State, copies []journal.Copy, now time.Time) error {
	st := inspect.NewStatus(s, now)
	var b strings.Builder
	for _, m := range []metric{
		single("signalbox_events_total", counter, "Events on the ledger.", float64(st.Events)),
		byLabel("signalbox_standing", gauge, "1 for the standing of the run.", "standing",
			map[string]float64{string(st.Standing): 1}),
		byLabel("signalbox_work", gauge, "Work items by phase.", "phase", phases(s)),
		byLabel("signalbox_tasks", gauge, "Tasks of the current plan by condition.", "condition",
			conditions(st.Counts)),
		byLabel("signalbox_requests", gauge, "What waits for the human, by kind.", "kind",
			requests(st)),
		byLabel("signalbox_agents_running", gauge, "Agents at work, by role.", "role",
			running(s, now)),
		sessions(s),
		single("signalbox_cost_dollars_total", counter, "What agents have cost.",
			float64(st.Spending.CostMicros)/1e6),
		single("signalbox_tokens_total", counter, "Tokens that agents have used.",
			float64(st.Spending.Tokens)),
		byLabel("signalbox_unknown_turns_total", counter,
			"Turns whose tokens or cost are not known, and missing above.", "what",
			map[string]float64{"tokens": float64(st.Spending.UnknownTokens),
				"cost": float64(st.Spending.UnknownCost)}),
		single("signalbox_agent_seconds_total", counter, "How long agents have worked.",
			st.Spending.Seconds),
		budgets("signalbox_budget_used_ratio", st.Spending.Budgets),
		limits(st, now),
		byLabel("signalbox_copy_good", gauge, "1 for each node whose copy of the ledger is good.",
			"node", ofCopies(copies, func(c journal.Copy) float64 {
				if c.Problem == "" && !c.Verified.IsZero() {
					return 1
				}
				return 0
			})),
		byLabel("signalbox_copy_verified_events", gauge,
			"Events that each node has verified in its own copy of the ledger.", "node",
			ofCopies(copies, func(c journal.Copy) float64 { return float64(c.Events) })),
	} {
		m.write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ofCopies returns a value for each node.
func ofCopies(copies []journal.Copy, value func(journal.Copy) float64) map[string]float64 {
	values := map[string]float64{}
	for _, c := range copies {
		values[c.Node] = value(c)
	}
	return values
}

func single(name, kind, help string, value float64) metric {
	return metric{name, kind, help, []sample{{nil, value}}}
}

func byLabel(name, kind, help, label string, values map[string]float64) metric {
	m := metric{name: name, kind: kind, help: help}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		m.samples = append(m.samples, sample{[]string{label, key}, values[key]})
	}
	return m
}

func (m *metric) write(b *strings.Builder) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
	for _, s := range m.samples {
		b.WriteString(m.name)
		for i := 0; i < len(s.labels); i += 2 {
			b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
			fmt.Fprintf(b, "%s=\"%s\"", s.labels[i],
				escaper.Replace(strings.ToValidUTF8(s.labels[i+1], "\ufffd")))
		}
		if len(s.labels) > 0 {
			b.WriteByte('}')
		}
		b.WriteString(" " + strconv.FormatFloat(s.value, 'g', -1, 64) + "\n")
	}
}

// escaper escapes the value of a label.
var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func phases(s *rules.State) map[string]float64 {
	counts := map[string]float64{}
	for w := range s.Works() {
		counts[string(w.Phase)]++
	}
	return counts
}

func conditions(c inspect.Counts) map[string]float64 {
	return map[string]float64{"completed": float64(c.Completed), "cancelled": float64(c.Cancelled),
		"working": float64(c.Working), "asking": float64(c.Asking),
		"ready": float64(c.Ready), "waiting": float64(c.Waiting), "paused": float64(c.Paused)}
}

func requests(st *inspect.Status) map[string]float64 {
	counts := map[string]float64{string(inspect.RequestQuestion): 0,
		string(inspect.RequestApproval): 0, string(inspect.RequestBudget): 0,
		string(inspect.RequestFault): 0}
	for _, r := range st.Requests {
		counts[string(r.Kind)]++
	}
	return counts
}

func running(s *rules.State, now time.Time) map[string]float64 {
	counts := map[string]float64{}
	for w := range s.Works() {
		if lease := w.LiveLease(now); lease != nil && inspect.RunsAgent(lease.Role) {
			counts[string(lease.Role)]++
		}
	}
	return counts
}

// sessions counts the sessions that have ended.
func sessions(s *rules.State) metric {
	counts := map[string]float64{}
	for w := range s.Works() {
		for _, t := range w.Tenures() {
			if !t.To.IsZero() {
				counts[string(t.Role)]++
			}
		}
	}
	return byLabel("signalbox_sessions_total", counter, "Sessions that have ended, by role.",
		"role", counts)
}

func budgets(name string, uses []inspect.BudgetUse) metric {
	m := metric{name: name, kind: gauge,
		help: "How much of a budget is used since it was last extended; 1 is all of it."}
	for _, b := range uses {
		for what, ratio := range map[string]float64{
			"cost":   over(float64(b.Used.CostMicros), float64(b.Limit.CostMicros)),
			"tokens": over(float64(b.Used.Tokens), float64(b.Limit.Tokens)),
			"time":   over(b.Used.Seconds, b.Limit.Seconds)} {
			if ratio >= 0 {
				m.samples = append(m.samples,
					sample{[]string{"of", string(b.Of), "role", string(b.Role), "what", what},
						ratio})
			}
		}
	}
	slices.SortFunc(m.samples, func(a, b sample) int { return slices.Compare(a.labels, b.labels) })
	return m
}

// over returns a ratio, -1 if there is no limit.
func over(used, limit float64) float64 {
	if limit <= 0 {
		return -1
	}
	return used / limit
}

func limits(st *inspect.Status, now time.Time) metric {
	m := metric{name: "signalbox_rate_limit_seconds", kind: gauge,
		help: "How long an agent, or a role, cannot start because of a rate limit."}
	for _, l := range st.RateLimits {
		m.samples = append(m.samples, sample{[]string{"who", l.Who()}, l.Until.Sub(now).Seconds()})
	}
	return m
}
