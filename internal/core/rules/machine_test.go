package rules

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/property"
)

// machine is a box beside the model of it.
type machine struct {
	*box
	t     *rapid.T
	model *model
	steps []step // for rebuilding the model
}

type step struct {
	now     time.Time
	command Command
}

// crew are the sessions, with the role of each.
var crew = map[string]signalbox.Role{
	"ba": signalbox.RoleBusinessAnalyst, "dev1": signalbox.RoleDeveloper,
	"dev2": signalbox.RoleDeveloper, "ci": signalbox.RoleCI,
	"cr1": signalbox.RoleCritic, "cr2": signalbox.RoleCritic, "au": signalbox.RoleAuditor,
}

var (
	crewIDs = []string{"ba", "dev1", "dev2", "ci", "cr1", "cr2", "au"}
	workIDs = []string{"w1", "w2", "w3", "w4"}
)

// TestRulesFollowTheModel gives random commands of several actors at random times, one by one and
// in batches that are kept or taken back, and compares everything with the model after each.
func TestRulesFollowTheModel(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		m := &machine{box: newBox(t), t: t, model: newModel()}
		for _, work := range workIDs[:3] {
			m.carryOut(OpenWork{Work: work, Actor: "op",
				Phase: draw(m, "phase", inOrder[:len(inOrder)-1]...)})
		}
		t.Repeat(map[string]func(*rapid.T){
			"claim":   func(*rapid.T) { m.carryOut(m.drawClaim()) },
			"exit":    func(*rapid.T) { m.carryOut(m.drawExit()) },
			"forward": func(*rapid.T) { m.forward() },
			"lease":   func(*rapid.T) { m.carryOut(m.drawLease()) },
			"other":   func(*rapid.T) { m.carryOut(m.drawOther()) },
			"again":   func(*rapid.T) { m.carryOut(draw(m, "again", m.steps...).command) },
			"time":    func(*rapid.T) { m.passTime() },
			"batch":   func(*rapid.T) { m.batch() },
			"restart": func(*rapid.T) { m.restart() },
		})
		m.refold()
	})
}

func draw[T any](m *machine, what string, from ...T) T {
	return rapid.SampledFrom(from).Draw(m.t, what)
}

func (m *machine) carryOut(c Command) {
	m.steps = append(m.steps, step{m.now, c})
	want := m.model.step(m.now, c)
	got := verdictOf(m.try(c))
	if diff := cmp.Diff(want, got); diff != "" {
		m.t.Fatalf("%#v at %s (-model +rules):\n%s", c, m.now, diff)
	}
	works := map[string]*modelWork{}
	for w := range m.s.Works() {
		works[w.ID] = &modelWork{Phase: string(w.Phase), From: string(w.BlockedFrom),
			Notes: w.Notes}
		if w.Lease != nil {
			shown := works[w.ID]
			shown.Holder, shown.Lease, shown.Epoch, shown.Expires = w.Lease.Session, w.Lease.ID,
				w.Lease.Epoch, w.Lease.Expires
		}
	}
	if diff := cmp.Diff(m.model.works, works); diff != "" {
		m.t.Fatalf("work after %#v at %s (-model +rules):\n%s", c, m.now, diff)
	}
}

func (m *machine) drawCommand() Command {
	switch draw(m, "kind", "claim", "exit", "lease", "other") {
	case "claim":
		return m.drawClaim()
	case "exit":
		return m.drawExit()
	case "lease":
		return m.drawLease()
	}
	return m.drawOther()
}

func (m *machine) drawTTL() time.Duration {
	return draw(m, "ttl", time.Second, time.Minute, 15*time.Minute, 24*time.Hour)
}

// drawWork draws work that is there, mostly.
func (m *machine) drawWork() string {
	if draw(m, "any", 0, 0, 0, 0, 1) == 1 {
		return draw(m, "work", append(workIDs, "none")...)
	}
	return draw(m, "work", m.model.order...)
}

// drawClaim draws a claim by somebody who may, mostly.
func (m *machine) drawClaim() Command {
	work := draw(m, "next", m.drawWork(), "")
	able := crewIDs
	if w := m.model.works[work]; w != nil && draw(m, "able", true, true, false) {
		able = slices.DeleteFunc(slices.Clone(crewIDs),
			func(id string) bool { return crew[id] != mayClaim[signalbox.Phase(w.Phase)] })
	}
	session := draw(m, "session", append(able, "dev1")...)
	c := Claim{Work: work, Role: crew[session], Session: session, Actor: "a-" + session,
		Lease: draw(m, "lease id", "L1", "L2", "L3", "L4"), TTL: m.drawTTL()}
	switch draw(m, "as", "itself", "itself", "itself", "itself", "itself", "another role",
		"another actor") {
	case "another role":
		c.Role = crew[draw(m, "role of", crewIDs...)]
	case "another actor":
		c.Actor = "somebody"
	}
	return c
}

// drawEpoch draws one that is or was a session's, or none at all.
func (m *machine) drawEpoch(work, session string) uint64 {
	switch draw(m, "epoch", "live", "live", "live", "old", "none", "to come") {
	case "live":
		if w := m.model.works[work]; w != nil {
			return w.Epoch
		}
	case "old":
		if s := m.model.sessions[session]; s != nil {
			return draw(m, "old epoch", s.leases...)
		}
	case "to come":
		return m.s.Seq() + 3
	}
	return 0
}

// drawHolder draws the session that holds a work item, or any.
func (m *machine) drawHolder(work string) string {
	if w := m.model.works[work]; w != nil && w.Holder != "" &&
		draw(m, "who", "holder", "holder", "holder", "any") == "holder" {
		return w.Holder
	}
	known := []string{"missing"}
	for _, id := range crewIDs {
		if m.model.sessions[id] != nil {
			known = append(known, id)
		}
	}
	return draw(m, "session", known...)
}

func (m *machine) drawExit() Command {
	work, phase := m.drawWork(), signalbox.PhaseImplementation
	if w := m.model.works[work]; w != nil {
		phase = signalbox.Phase(w.Phase)
	}
	session := m.drawHolder(work)
	if draw(m, "phase", "its", "its", "any") == "any" {
		phase = draw(m, "phase", signalbox.Phases()...)
	}
	c := Exit{Session: session, Epoch: m.drawEpoch(work, session),
		Signal: exit(phase, draw(m, "reason", "completed", "completed", signalbox.ExitBlocked,
			signalbox.ExitError)),
		Fault: draw(m, "fault", "", "", "", "", "invalid JSON"),
		Times: draw(m, "times", 0, 1, 9, 10, 100)}
	if notes := draw(m, "notes", "", "why", "another why"); notes != "" {
		c.Signal.Notes = &notes
	}
	return c
}

func (m *machine) drawLease() Command {
	work := m.drawWork()
	session := m.drawHolder(work)
	switch draw(m, "lease", "renew", "renew", "release", "take away") {
	case "renew":
		return Renew{Work: work, Session: session, Epoch: m.drawEpoch(work, session),
			TTL: m.drawTTL()}
	case "release":
		return Release{Work: work, Session: session, Epoch: m.drawEpoch(work, session), Reason: "r"}
	}
	return Release{Work: work, Actor: "op", Reason: "r",
		Epoch: draw(m, "of", 0, m.drawEpoch(work, session))}
}

func (m *machine) drawOther() Command {
	switch draw(m, "other", "open", "unblock", "unblock", "expire", "redact", "turn") {
	case "open":
		return OpenWork{Work: draw(m, "work", workIDs...), Actor: "op",
			Phase: draw(m, "phase", inOrder[:len(inOrder)-1]...)}
	case "unblock":
		return Unblock{Work: m.drawWork(), Note: "n", Actor: "op"}
	case "turn":
		return turnOf(draw(m, "run", "run-1", "run-2"), draw[uint64](m, "turn", 1, 2, 3, 4))
	case "redact":
		return RedactBlob{Blob: signalbox.Hash{draw[byte](m, "blob", 1, 2)}, Reason: "r",
			Actor: "op"}
	}
	return Expire{}
}

// forward brings a work item one phase further if it can, so that work gets to its end.
func (m *machine) forward() {
	work := draw(m, "work", m.model.order...)
	phase := signalbox.Phase(m.model.works[work].Phase)
	for _, session := range crewIDs {
		if crew[session] == phase.ClaimableBy() && m.model.works[work].Holder == "" {
			m.carryOut(Claim{Work: work, Role: crew[session], Session: session, Actor: "a-" +
				session, Lease: "L", TTL: time.Minute})
			m.carryOut(Exit{Session: session, Epoch: m.model.works[work].Epoch,
				Signal: exit(phase, signalbox.ExitCompleted)})
			return
		}
	}
}

// passTime moves the clock: a little, a lot, backwards, or to the very instant of the next expiry.
func (m *machine) passTime() {
	if at, any := m.s.NextExpiry(); any && draw(m, "until", "expiry", "later") == "expiry" {
		m.now = at.Add(draw[time.Duration](m, "by", -1, 0, 1))
		return
	}
	m.now = m.now.Add(draw(m, "by", 1, time.Second, time.Minute, time.Hour, -time.Hour))
}

// batch decides several commands, each on what the ones before it lead to, and keeps all or none.
func (m *machine) batch() {
	before, index, log, steps := m.s.Snapshot(), m.s.indexes(), len(m.log), len(m.steps)
	m.s.Begin()
	for range rapid.IntRange(0, 5).Draw(m.t, "commands") {
		m.carryOut(m.drawCommand())
	}
	if rapid.Bool().Draw(m.t, "keep") {
		after, afterIndex := m.s.Snapshot(), m.s.indexes()
		m.s.Commit()
		if !bytes.Equal(after, m.s.Snapshot()) || !afterIndex.equal(m.s.indexes()) {
			m.t.Fatalf("Commit changed the state")
		}
		return
	}
	m.s.Rollback()
	if !bytes.Equal(before, m.s.Snapshot()) || !index.equal(m.s.indexes()) {
		m.t.Fatalf("after Rollback the state is not what it was:\n%+v\n%+v", index, m.s.indexes())
	}
	m.log, m.steps = slices.Clip(m.log[:log]), m.steps[:steps]
	m.model = newModel()
	for _, s := range m.steps {
		m.model.step(s.now, s.command)
	}
}

// restart continues from a snapshot.
func (m *machine) restart() {
	read, err := FromSnapshot(m.s.Snapshot())
	if err != nil {
		m.t.Fatalf("%v", err)
	}
	m.wantSame("a snapshot", read)
	m.s = read
}

// refold folds the log from its start, and from a snapshot at any point of it.
func (m *machine) refold() {
	whole, resumed := &State{}, &State{}
	at := rapid.IntRange(0, len(m.log)).Draw(m.t, "snapshot at")
	for i := range m.log {
		if i == at {
			read, err := FromSnapshot(resumed.Snapshot())
			if err != nil {
				m.t.Fatalf("%v", err)
			}
			resumed = read
		}
		for _, s := range []*State{whole, resumed} {
			if err := s.Apply(&m.log[i]); err != nil {
				m.t.Fatalf("%v", err)
			}
		}
	}
	m.wantSame("a fold from the start", whole)
	m.wantSame(fmt.Sprintf("a fold from a snapshot at %d", at), resumed)
}

func (m *machine) wantSame(what string, s *State) {
	if !bytes.Equal(m.s.Snapshot(), s.Snapshot()) || !m.s.indexes().equal(s.indexes()) {
		m.t.Fatalf("%s gives another state", what)
	}
}
