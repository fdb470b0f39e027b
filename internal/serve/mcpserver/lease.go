package mcpserver

import (
	"context"
	"fmt"
	"time"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/serve/mcpserver/schema"
)

// leaseSnapshot is a new or renewed lease.
type leaseSnapshot struct {
	head
	Work     string          `json:"work"`
	Phase    signalbox.Phase `json:"phase"`
	Session  string          `json:"session" jsonschema:"pass it in later calls"`
	Lease    *leaseView      `json:"lease"`
	Planned  bool            `json:"planned" jsonschema:"true: emit_signal ends it; false: submit_exit"`
	Exits    bool            `json:"exit_enabled"`
	Repeated bool            `json:"repeated" jsonschema:"it was held already"`
}

func (s *leaseSnapshot) flags() (flags []brief.Flag) {
	if s.Problem != nil {
		return nil
	}
	if s.Repeated {
		flags = append(flags, brief.Flag{Flag: "already_held", Severity: brief.Info,
			Message: "The session already held it: use the secret of the first claim"})
	}
	if !s.Planned && !s.Exits {
		flags = append(flags, exitWarning())
	}
	return flags
}

// claimSnapshot is a lease that was claimed. No other answer has the secret.
type claimSnapshot struct {
	leaseSnapshot
	Secret string `json:"secret" jsonschema:"of a new lease: pass it too"`
}

func (s *leaseSnapshot) fill(a rules.Answer) {
	s.Work, s.Phase, s.Session, s.Lease, s.Repeated = a.Work, a.Phase, a.Session,
		newLeaseView(a.Lease), a.Repeated
}

type claimInput struct {
	Work    string         `json:"work"`
	Role    signalbox.Role `json:"role"`
	Session string         `json:"session"`
	Secret  string         `json:"secret"`
	Actor   string         `json:"actor"`
	TTL     int            `json:"ttl_seconds"`
}

// ttlArgument is an argument of claims and renewals.
func ttlArgument() schema.Property {
	return schema.Integer("ttl_seconds", signalbox.MinLeaseTTL.Seconds(),
		signalbox.MaxLeaseTTL.Seconds(),
		"Duration of the lease from now. Default: usually 900.")
}

func (s *Server) addClaimWork() {
	add(s, definition{
		name: "claim_work", title: "Claim work",
		description: "Takes the lease of a work item, or of the next one for the role if work is not given. Only one session at a time holds a work item. Keep the " +
			"session, epoch and secret of the answer. You cannot review or audit what you developed.",
		input: schema.Object(
			schema.Work("work", "Id, or PLAN/TASK. Default: the next for the role."),
			schema.Choice("role", config.ClientRoles(),
				"Your role. The phase determines which role may claim.").Require(),
			schema.ID("session", "A session id. Default: a new one."),
			schema.Text("secret", secretLimit, "Of an existing session."),
			schema.ID("actor", "Your name."),
			ttlArgument(),
		),
	}, s.claim)
}

func (s *Server) claim(ctx context.Context, in claimInput) (claimed claimSnapshot, err error) {
	claimed.Exits = s.exitEnabled()
	if err := s.operatorOnly("claim work"); err != nil {
		return claimed, err
	}
	client := clientFrom(ctx)
	actor, err := client.actor(in.Actor)
	if err == nil {
		err = client.checkRole(in.Role)
	}
	if err != nil {
		return claimed, err
	}
	secret := box.NewSecret()
	claim := rules.Claim{Work: in.Work, Role: in.Role, Session: in.Session, Actor: actor, Lease: box.NewID("l"), TTL: time.Duration(in.TTL) * time.Second,
		Secret: rules.HashSecret(secret), Caller: s.caller(ctx, in.Secret)}
	if claim.Session == "" {
		claim.Session = box.NewID("s")
	}
	err = s.withBox(ctx, func(b *box.Box) error {
		if claim.TTL == 0 {
			claim.TTL = b.Config.Lease.TTL
		}
		claim.SelfReview = b.Config.MCP.AllowSelfReview
		if in.Work != "" {
			var w *rules.Work
			var err error
			b.Engine.View(func(state *rules.State) { w, err = s.findWork(state, in.Work) })
			if err != nil {
				return err
			}
			claim.Work = w.ID
		}
		answer, err := b.Engine.Do(ctx, claim)
		claimed.fill(answer)
		claimed.Planned = isPlanned(b, claimed.Work)
		if signalbox.CodeOf(err) == signalbox.CodeConflict {
			err = &problem{"held_by_another", err, "claim other work, or wait until it is released"}
		}
		return err
	})
	if err != nil {
		claimed.Session = ""
		return claimed, err
	}
	if claimed.Lease.ID == claim.Lease {
		claimed.Secret = secret
	}
	s.rememberClaim(ctx, claimed.Session)
	claimed.Verdict = fmt.Sprintf(
		"Session %s holds %s in %s under epoch %d until %s: keep the secret, work on it, %s",
		claimed.Session, claimed.Work, claimed.Phase, claimed.Lease.Epoch,
		claimed.Lease.Expires.Format(time.RFC3339), s.howToEnd(claimed.Planned))
	return claimed, nil
}

// isPlanned reports whether work belongs to a plan.
func isPlanned(b *box.Box, work string) (planned bool) {
	b.Engine.View(func(state *rules.State) {
		w, known := state.Work(work)
		planned = known && w.Task != nil
	})
	return planned
}

type renewInput struct {
	Work    string `json:"work"`
	Session string `json:"session"`
	Secret  string `json:"secret"`
	Epoch   uint64 `json:"epoch"`
	TTL     int    `json:"ttl_seconds"`
}

// sessionArgument is the session argument of tools that act for a session.
func sessionArgument() schema.Property {
	return schema.ID("session", "From claim_work.")
}

// secretLimit is the maximum length of a secret in a call.
const secretLimit = 99

// secretArgument is the secret argument of tools that act for a session.
func secretArgument() schema.Property {
	return schema.Text("secret", secretLimit, "From claim_work.")
}

func (s *Server) addRenewLease() {
	add(s, definition{
		name: "renew_lease", title: "Renew a lease",
		description: "Extends the lease of a session that holds work; it never shortens it. If the lease has ended, stop.",
		input: schema.Object(
			schema.ID("work", "The work item.").Require(),
			sessionArgument(),
			secretArgument(),
			schema.Sequence("epoch", "The epoch of the lease.").Require(),
			ttlArgument(),
		),
	}, func(ctx context.Context,
		in renewInput) (renewed leaseSnapshot, err error) {
		renewed.Exits = s.exitEnabled()
		session, err := s.session(in.Session)
		if err == nil && s.opts.Work != "" && in.Work != s.opts.Work {
			err = s.onlyOwnWork()
		}
		if err != nil {
			return renewed, err
		}
		err = s.withBox(ctx, func(b *box.Box) error {
			if err := s.checkSession(ctx, b, session); err != nil {
				return err
			}
			renew := rules.Renew{Work: in.Work, Session: session, Epoch: in.Epoch, TTL: time.Duration(in.TTL) * time.Second, Caller: s.caller(ctx, in.Secret)}
			if renew.TTL == 0 {
				renew.TTL = b.Config.Lease.TTL
			}
			answer, err := b.Engine.Do(ctx, renew)
			renewed.fill(answer)
			renewed.Planned = isPlanned(b, renewed.Work)
			b.Engine.View(func(state *rules.State) { err = withNotFoundFlag(state, err, in.Work, session) })
			return err
		})
		if err == nil {
			renewed.Verdict = fmt.Sprintf("Session %s holds %s until %s: continue", session,
				in.Work, renewed.Lease.Expires.Format(time.RFC3339))
		}
		return renewed, err
	})
}
