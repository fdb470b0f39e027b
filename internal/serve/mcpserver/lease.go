package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/serve/mcpserver/files"
	"signalbox/internal/serve/mcpserver/schema"
)

// leaseSnapshot is a lease that was taken or extended.
type leaseSnapshot struct {
	head
	Work     string          `json:"work"`
	Phase    signalbox.Phase `json:"phase"`
	Session  string          `json:"session" jsonschema:"name it from now on"`
	Lease    *shownLease     `json:"lease"`
	Planned  bool            `json:"planned" jsonschema:"emit_signal ends it, else submit_exit"`
	Exits    bool            `json:"exit_enabled"`
	Repeated bool            `json:"repeated" jsonschema:"held already"`
}

func (s *leaseSnapshot) flags() (flags []brief.Flag) {
	if s.Problem != nil {
		return nil
	}
	if s.Repeated {
		flags = append(flags, brief.Flag{Flag: "already_held", Severity: brief.Info, Message: "The session held it already"})
	}
	if !s.Planned && !s.Exits {
		flags = append(flags, exitWarning())
	}
	return flags
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
func lifetime() schema.Property {
	return schema.Number("ttl_seconds", signalbox.MinLeaseTTL.Seconds(), signalbox.MaxLeaseTTL.Seconds(),
		"How long it lives from now; else as the box is configured, usually 900.")
}

func (s *Server) addClaimWork() {
	add(s, definition{
		name: "claim_work", title: "Claim work",
		description: "Takes the lease of a work item, or without one of whatever is next for the role. One session at a time holds work. Keep the session and the " +
			"epoch that it answers with; claiming again what the session holds gives the same lease. Only an operator's server may.",
		input: schema.Object(
			schema.ID("work", "The work item; leave it out for whatever is next."),
			schema.Choice("role", claimRoles(), "What you claim it as. Which role may depends on the phase.").Must(),
			schema.ID("session", "The session; one is made if none is given."),
			schema.ID("actor", "Who it is; else who started the server."),
			lifetime(),
		),
	}, s.claim)
}

func (s *Server) claim(ctx context.Context, in claimInput) (claimed leaseSnapshot, _ *files.Rest, err error) {
	claimed.Exits = s.exitEnabled()
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
		claimed.Planned = ofPlan(b, claimed.Work)
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
	s.keepClaim(ctx, claimed.Session)
	claimed.Verdict = fmt.Sprintf("Session %s holds %s in %s under epoch %d until %s: work on it, %s",
		claimed.Session, claimed.Work, claimed.Phase, claimed.Lease.Epoch, claimed.Lease.Expires.Format(time.RFC3339), s.howToEnd(claimed.Planned))
	return claimed, nil, nil
}

// ofPlan tells whether work is of a plan.
func ofPlan(b *box.Box, work string) (is bool) {
	b.Engine.View(func(state *rules.State) {
		w, known := state.Work(work)
		is = known && w.Task != nil
	})
	return is
}

type renewInput struct {
	Work    string `json:"work"`
	Session string `json:"session"`
	Epoch   uint64 `json:"epoch"`
	TTL     int    `json:"ttl_seconds"`
}

// sessionArgument is that of calls which act for a session.
func sessionArgument() schema.Property {
	return schema.ID("session", "As claim_work answered. A server inside an agent's process has its own.")
}

func (s *Server) addRenewLease() {
	add(s, definition{
		name: "renew_lease", title: "Renew a lease",
		description: "Extends the lease of a session that holds work. It never shortens it. A lease that is over cannot be renewed: then stop the work.",
		input: schema.Object(
			schema.ID("work", "The work item.").Must(),
			sessionArgument(),
			schema.Sequence("epoch", "Of the lease.").Must(),
			lifetime(),
		),
	}, func(ctx context.Context, in renewInput) (renewed leaseSnapshot, _ *files.Rest, err error) {
		renewed.Exits = s.exitEnabled()
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
			renewed.Planned = ofPlan(b, renewed.Work)
			b.Engine.View(func(state *rules.State) { err = missing(state, err, in.Work, session) })
			return err
		})
		if err == nil {
			renewed.Verdict = fmt.Sprintf("Session %s holds %s until %s: go on", session, in.Work, renewed.Lease.Expires.Format(time.RFC3339))
		}
		return renewed, nil, err
	})
}
