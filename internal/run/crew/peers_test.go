package crew

import (
	"testing"
	"time"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/testkit/must"
)

// peer is another crew of this machine that holds a lease and has an agent at work.
type peer struct {
	*stage
	owner *agent.Owner
	agent *process.Process
	held  string // the work that it holds
	epoch uint64
}

func (s *stage) startPeer() *peer {
	s.t.Helper()
	return s.startPeerWith(s.box)
}

// startPeerWith is startPeer for a peer that has opened the box itself.
func (s *stage) startPeerWith(b *box.Box) *peer {
	s.t.Helper()
	p := &peer{stage: s}
	var err error
	if p.owner, err = agent.Join((&Crew{box: s.box}).file("crews")); err != nil {
		s.t.Fatal(err)
	}
	session := p.owner.ID() + ".1"
	answer, err := b.Engine.Do(s.t.Context(), rules.Dispatch{Roles: rules.DispatchRoles(),
		Session: session, Actor: "peer", Lease: box.NewID("l"), TTL: time.Hour, ByHand: 1})
	must.Succeed(s.t, err)
	p.held, p.epoch = answer.Work, answer.Lease.Epoch
	spec := process.Spec{Argv: []string{"sleep", "1000"},
		Env: append(process.Environ(), process.SessionVariable+"="+session)}
	if p.agent, err = process.Start(spec,
		func(id process.ID) error { return p.owner.Add(session, id) }); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		p.agent.Stop(0)
		p.agent.Wait()
	})
	return p
}

// die leaves the register as a killed process does: the lock is released, and the agent still runs.
// From then on a running crew may end it.
func (p *peer) die() {
	p.t.Helper()
	must.Succeed(p.t, p.owner.Leave())
}

// wantAlive checks that the agent runs.
func (p *peer) wantAlive() {
	p.t.Helper()
	if !p.agent.ID().Alive() {
		p.t.Fatal("the agent has ended with its crew")
	}
}

func (p *peer) wantReaped() {
	p.t.Helper()
	if p.agent.ID().Alive() {
		p.t.Error("the agent of the killed crew is still running")
	}
}

// A crew that starts after a kill ends the orphans and releases their work.
func TestNewReapsOrphans(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	p := s.startPeer()
	p.die()
	p.wantAlive()
	c, err := New(t.Context(), s.box, s.project, nil)
	must.Succeed(t, err)
	defer c.Close()
	p.wantReaped()
	if w := s.work(p.held); w.Lease != nil {
		t.Errorf("%s is still held: %+v", p.held, w.Lease)
	}
}

// A lease of a killed crew is released also if the crew that does it has not noticed yet that it
// was granted. Nobody else would do it.
func TestReapedLeaseIsReleased(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	c, err := New(t.Context(), s.box, s.project, nil)
	must.Succeed(t, err)
	defer c.Close()
	p := s.startPeerWith(s.open())
	p.die()
	must.Succeed(t, c.reapOrphans(t.Context()))
	p.wantReaped()
	must.Succeed(t, s.box.Engine.Refresh(t.Context()))
	if w := s.work(p.held); w.Lease != nil {
		t.Errorf("%s is still held: %+v", p.held, w.Lease)
	}
}

// A crew that starts while another one is at work does not disturb it.
func TestNewLeavesPeersAlone(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	p := s.startPeer()
	c, err := New(t.Context(), s.box, s.project, nil)
	must.Succeed(t, err)
	defer c.Close()
	if !p.agent.ID().Alive() || s.work(p.held).Lease == nil {
		t.Error("the other crew lost its agent or its lease")
	}
	must.Succeed(t, p.owner.Leave())
}

// A running crew takes over from one that is killed, long before the lease expires.
func TestPeerIsKilled(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	p := s.startPeer()
	r := s.begin()
	p.die()
	if o := r.end(); o.Standing != rules.StandingComplete {
		t.Errorf("the run ends %s: %v", o.Standing, o.Reasons)
	}
	p.wantReaped()
}

// A session whose predecessor was another crew's reaps the orphans of that crew, even if the lease
// was already released.
func TestSuccessorReapsOrphans(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	c, err := New(t.Context(), s.box, s.project, nil)
	must.Succeed(t, err)
	defer c.Close()
	p := s.startPeer()
	p.die()
	p.wantAlive()
	s.do(rules.Release{Work: p.held, Session: p.owner.ID() + ".1", Epoch: p.epoch,
		Reason: "expired"})
	if o, err := c.Run(t.Context()); err != nil || o.Standing != rules.StandingComplete {
		t.Errorf("the run ends %s: %v", o.Standing, err)
	}
	p.wantReaped()
}
