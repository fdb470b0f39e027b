package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/box"
	"signalbox/internal/rules"
)

// leaseSnapshot is a lease that was taken or extended.
type leaseSnapshot struct {
	head
	Work     string          `json:"work"`
	Phase    signalbox.Phase `json:"phase"`
	Session  string          `json:"session" jsonschema:"the session that holds it: name it from now on"`
	Lease    *shownLease     `json:"lease" jsonschema:"the lease; of a refused call that of who holds the work"`
	Repeated bool            `json:"repeated" jsonschema:"whether the session held it already"`
}

func (s *leaseSnapshot) flags() []brief.Flag {
	if s.Problem == nil && s.Repeated {
		return []brief.Flag{{Flag: "already_held", Severity: brief.Info, Message: "The session held it already"}}
	}
	return nil
}

func (s *leaseSnapshot) fill(a rules.Answer) {
	s.Work, s.Phase, s.Session, s.Lease, s.Repeated = a.Work, a.Phase, a.Session, leaseFrom(a.Lease), a.Repeated
}

type claimInput struct {
	Work    string         `json:"work"`
	Role    signalbox.Role `json:"role"`
	Session string         `json:"session"`
	Actor   string         `json:"actor"`
	TTL     int            `json:"ttl_seconds"`
}

// lifetime is an argument of claims and renewals.
func lifetime() property {
	return number("ttl_seconds", signalbox.MinLeaseTTL.Seconds(), signalbox.MaxLeaseTTL.Seconds(),
		"How long the lease lives from now; else what the box's configuration says, usually 900.")
}

func (s *Server) addClaimWork() {
	add(s, definition{
		name: "claim_work", title: "Claim work",
		description: "Takes the lease of a work item, or without one of whatever is next for the role. One session at a time holds work. Keep the session and the " +
			"epoch that it answers with; claiming again what the same session holds answers with the same lease. Only an operator's server may.",
		input: object(
			id("work", "The work item; leave it out for whatever is next."),
			choice("role", claimRoles(), "What you claim it as. Which role may depends on the phase.").must(),
			id("session", "The session; one is made if none is given."),
			id("actor", "Who it is; else who started the server."),
			lifetime(),
		),
	}, s.claim)
}

func (s *Server) claim(ctx context.Context, in claimInput) (claimed leaseSnapshot, _ *attachment, err error) {
	if err := s.operatorOnly("claim work"); err != nil {
		return claimed, nil, err
	}
	claim := rules.Claim{Work: in.Work, Role: in.Role, Session: in.Session, Actor: s.actor(in.Actor), Lease: box.NewID("l"), TTL: time.Duration(in.TTL) * time.Second}
	if claim.Session == "" {
		claim.Session = box.NewID("s")
	}
	err = s.act(ctx, func(b *box.Box) error {
		if claim.TTL == 0 {
			claim.TTL = b.Config.Lease.TTL
		}
		answer, err := b.Engine.Do(ctx, claim)
		claimed.fill(answer)
		if err != nil && !errors.Is(err, rules.ErrNothingToClaim) {
			b.Engine.View(func(state *rules.State) { err = missing(state, err, in.Work, "") })
		}
		if is(err, signalbox.CodeConflict) {
			err = &problem{"held_by_another", err, "claim other work, or wait until it is free"}
		}
		return err
	})
	if err != nil {
		claimed.Session = ""
		return claimed, nil, err
	}
	claimed.Verdict = fmt.Sprintf("Session %s holds %s in %s under epoch %d until %s: work on it, renew in time, then hand in how it ended",
		claimed.Session, claimed.Work, claimed.Phase, claimed.Lease.Epoch, claimed.Lease.Expires.Format(time.RFC3339))
	return claimed, nil, nil
}

type renewInput struct {
	Work    string `json:"work"`
	Session string `json:"session"`
	Epoch   uint64 `json:"epoch"`
	TTL     int    `json:"ttl_seconds"`
}

// sessionArgument is that of calls which act for a session.
func sessionArgument() property {
	return id("session", "The session that claim_work answered with. A server inside an agent's process has its own: leave it out there.")
}

func (s *Server) addRenewLease() {
	add(s, definition{
		name: "renew_lease", title: "Renew a lease",
		description: "Extends the lease of a session that holds work. It never shortens it. A lease that is over cannot be renewed: then stop the work.",
		input: object(
			id("work", "The work item.").must(),
			sessionArgument(),
			sequence("epoch", "The epoch of the lease.").must(),
			lifetime(),
		),
	}, func(ctx context.Context, in renewInput) (renewed leaseSnapshot, _ *attachment, err error) {
		session, err := s.session(in.Session)
		if err != nil {
			return renewed, nil, err
		}
		err = s.act(ctx, func(b *box.Box) error {
			renew := rules.Renew{Work: in.Work, Session: session, Epoch: in.Epoch, TTL: time.Duration(in.TTL) * time.Second}
			if renew.TTL == 0 {
				renew.TTL = b.Config.Lease.TTL
			}
			answer, err := b.Engine.Do(ctx, renew)
			renewed.fill(answer)
			b.Engine.View(func(state *rules.State) { err = missing(state, err, in.Work, session) })
			return err
		})
		if err == nil {
			renewed.Verdict = fmt.Sprintf("Session %s holds %s until %s: go on", session, in.Work, renewed.Lease.Expires.Format(time.RFC3339))
		}
		return renewed, nil, err
	})
}
