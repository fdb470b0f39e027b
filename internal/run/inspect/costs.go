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
	leases              map[uint64]*leaseCost
	roles, agents, days map[string]*CostRow
}

// leaseCost is a session whose lease has not ended, by its epoch.
type leaseCost struct {
	role    signalbox.Role
	agent   string
	running Usage // what the turn has reported so far
}

// Read returns what agents have used in all events up to a sequence.
func (r *CostReader) Read(ctx context.Context, j Journal, upTo uint64) (Costs, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leases == nil {
		r.leases, r.roles, r.agents, r.days = map[uint64]*leaseCost{}, map[string]*CostRow{},
			map[string]*CostRow{}, map[string]*CostRow{}
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
			r.add(&events[i])
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

// add adds what an event says. The rules add up the same events in the same way.
func (r *CostReader) add(e *signalbox.Event) {
	switch e.Type {
	case rules.TypeLeaseGranted:
		r.leases[e.Seq] = &leaseCost{role: read[rules.LeaseGranted](e).Role}
	case rules.TypeLeaseReleased:
		delete(r.leases, read[rules.LeaseReleased](e).Epoch)
	case rules.TypeLeaseExpired:
		delete(r.leases, read[rules.LeaseExpired](e).Epoch)
	case rules.TypeAgentStarted:
		b := read[rules.AgentStarted](e)
		if lease := r.leases[b.Epoch]; lease != nil {
			lease.agent, lease.running = b.Agent, Usage{}
			r.count(lease, e.Time, Usage{}, 1)
		}
	case rules.TypeAgentSpent:
		b := read[rules.AgentSpent](e)
		r.spend(b.Epoch, e.Time, b.Spent, b.Estimated)
	case rules.TypeAgentTurnEnded:
		b := read[rules.AgentTurnEnded](e)
		r.spend(b.Epoch, e.Time, b.Spent, b.Estimated)
		if lease := r.leases[b.Epoch]; lease != nil {
			lease.running = Usage{}
		}
	}
}

// spend adds what a turn has used since its last report.
func (r *CostReader) spend(epoch uint64, at time.Time, spent rules.Spent, estimated bool) {
	lease := r.leases[epoch]
	if lease == nil {
		return
	}
	if spent.EstimatedTokens = 0; estimated {
		spent.EstimatedTokens = spent.Tokens
	}
	more, was := usageOf(spent), lease.running
	lease.running = more
	more.add(Usage{-was.Tokens, -was.EstimatedTokens, -was.CostMicros, -was.Seconds})
	r.count(lease, at, more, 0)
}

func (r *CostReader) count(lease *leaseCost, at time.Time, more Usage, turns int) {
	for _, c := range []struct {
		rows map[string]*CostRow
		name string
	}{{r.roles, string(lease.role)}, {r.agents, cmp.Or(lease.agent, "unknown")}, {r.days, at.UTC().Format(time.DateOnly)}} {
		if c.rows[c.name] == nil {
			c.rows[c.name] = &CostRow{Name: c.name}
		}
		c.rows[c.name].Turns += turns
		c.rows[c.name].add(more)
	}
}
