package inspect

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// Costs is what agents have used, by who worked and when. Each list adds up to Spending.Usage.
type Costs struct {
	// Roles and Agents have the most expensive first, and Days the last first.
	Roles  []CostRow `json:"roles"`
	Agents []CostRow `json:"agents"`
	Days   []CostRow `json:"days"`
}

// CostRow is what one role or agent has used, or what was used on one day (in UTC, as 2026-05-01).
type CostRow struct {
	Name string `json:"name"`
	// Turns is how often an agent was started.
	Turns int `json:"turns"`
	Usage
}

// CostReader reads what agents have used from a ledger. It remembers what it has read, so that
// reading again is fast. It is safe for concurrent use. The zero value has read nothing.
type CostReader struct {
	mu                  sync.Mutex
	seq                 uint64
	meter               Meter
	roles, agents, days map[string]*CostRow
}

// Meter follows what sessions use, event by event. The zero value has seen nothing.
type Meter struct {
	sessions map[uint64]*MeteredSession // by their epochs, while their leases live
}

// MeteredSession is a session that can use something.
type MeteredSession struct {
	Work  string
	Role  signalbox.Role
	Epoch uint64
	// Agent is the last one that was started, "" before that.
	Agent string
	// Model is the one that the last turn named at its end.
	Model   string
	running Usage // what the turn has reported so far
}

// Read returns what agents have used in all events up to a sequence.
func (r *CostReader) Read(ctx context.Context, j Journal, upTo uint64) (Costs, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.roles == nil {
		r.roles, r.agents, r.days = map[string]*CostRow{}, map[string]*CostRow{},
			map[string]*CostRow{}
	}
	for r.seq < upTo {
		events, err := j.Read(ctx, r.seq, int(min(upTo-r.seq, sessionRead)))
		if err != nil {
			return Costs{}, err
		}
		if len(events) == 0 {
			break
		}
		for i := range events {
			if s, more, turns := r.meter.Add(&events[i]); turns > 0 || more != (Usage{}) {
				r.count(s, events[i].Time, more, turns)
			}
		}
		r.seq = events[len(events)-1].Seq
	}
	byCost := func(a, b CostRow) int {
		return cmp.Or(cmp.Compare(b.CostMicros, a.CostMicros), cmp.Compare(b.Tokens, a.Tokens),
			cmp.Compare(a.Name, b.Name))
	}
	return Costs{Roles: sorted(r.roles, byCost), Agents: sorted(r.agents, byCost),
		Days: sorted(r.days, func(a, b CostRow) int { return cmp.Compare(b.Name, a.Name) })}, nil
}

func sorted(rows map[string]*CostRow, order func(a, b CostRow) int) []CostRow {
	list := make([]CostRow, 0, len(rows))
	for _, row := range rows {
		list = append(list, *row)
	}
	slices.SortFunc(list, order)
	return list
}

// Live returns how many sessions hold work.
func (m *Meter) Live() int { return len(m.sessions) }

// Add returns the session of an event about its lease, the start of a turn, or what a turn has used
// since its last report; nil for other events. The rules add up the same events in the same way.
func (m *Meter) Add(e *signalbox.Event) (s *MeteredSession, more Usage, turns int) {
	switch e.Type {
	case rules.TypeLeaseGranted:
		if m.sessions == nil {
			m.sessions = map[uint64]*MeteredSession{}
		}
		b := read[struct {
			Role signalbox.Role `json:"role"`
		}](e)
		s = &MeteredSession{Work: e.Work, Role: b.Role, Epoch: e.Seq}
		m.sessions[e.Seq] = s
	case rules.TypeLeaseReleased, rules.TypeLeaseExpired:
		epoch := read[rules.LeaseReleased](e).Epoch
		s = m.sessions[epoch]
		delete(m.sessions, epoch)
	case rules.TypeAgentStarted:
		b := read[rules.AgentStarted](e)
		if s = m.sessions[b.Epoch]; s != nil {
			s.Agent, s.running, turns = b.Agent, Usage{}, 1
		}
	case rules.TypeAgentSpent:
		b := read[rules.AgentSpent](e)
		if s = m.sessions[b.Epoch]; s != nil {
			more = s.spend(b.Spent, b.Estimated)
		}
	case rules.TypeAgentTurnEnded:
		b := read[meteredEnd](e)
		if s = m.sessions[b.Epoch]; s != nil {
			more = s.spend(b.Spent, b.Estimated)
			s.running, s.Model = Usage{}, b.Model
		}
	}
	return s, more, turns
}

// meteredEnd is what a Meter needs of AgentTurnEnded. Decoding the rest takes most of the time.
type meteredEnd struct {
	Epoch     uint64      `json:"epoch"`
	Spent     rules.Spent `json:"spent"`
	Estimated bool        `json:"estimated"`
	Model     string      `json:"model"`
}

// spend returns what a turn has used since its last report.
func (s *MeteredSession) spend(spent rules.Spent, estimated bool) Usage {
	if spent.EstimatedTokens = 0; estimated {
		spent.EstimatedTokens = spent.Tokens
	}
	more, was := usageOf(spent), s.running
	s.running = more
	more.Add(Usage{-was.Tokens, -was.EstimatedTokens, -was.CostMicros, -was.Seconds,
		-was.UnknownTokens, -was.UnknownCost})
	return more
}

func (r *CostReader) count(s *MeteredSession, at time.Time, more Usage, turns int) {
	for _, c := range []struct {
		rows map[string]*CostRow
		name string
	}{{r.roles, string(s.Role)}, {r.agents, cmp.Or(s.Agent, "unknown")}, {r.days, at.UTC().Format(time.DateOnly)}} {
		if c.rows[c.name] == nil {
			c.rows[c.name] = &CostRow{Name: c.name}
		}
		c.rows[c.name].Turns += turns
		c.rows[c.name].Add(more)
	}
}
