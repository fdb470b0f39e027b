package api

import (
	"encoding/json"
	"net/http"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/exitsignal"
	"signalbox/internal/serve/access"
	"signalbox/transcript"
)

type openInput struct {
	Work  string          `json:"work" jsonschema:"the id of the new work item"`
	Title string          `json:"title,omitempty"`
	Phase signalbox.Phase `json:"phase,omitempty" jsonschema:"the first phase; the default is IMPLEMENTATION"`
	Ref   string          `json:"ref,omitempty" jsonschema:"the branch, tag or commit that has the work"`
}

// moved is the answer of operations that move work or end a lease.
type moved struct {
	Work  string          `json:"work"`
	Phase signalbox.Phase `json:"phase"`
	Seq   uint64          `json:"seq"`
}

func movedFrom(a rules.Answer,
	err error) (moved, error) {
	return moved{a.Work, a.Phase, a.Seq}, err
}

type claimInput struct {
	Work       string         `json:"work,omitempty" jsonschema:"the work item; leave it out to claim the next one for the role"`
	Role       signalbox.Role `json:"role"`
	Session    string         `json:"session,omitempty" jsonschema:"the session; the default is a new one"`
	TTLSeconds float64        `json:"ttl_seconds,omitempty" jsonschema:"the duration of the lease; the default is lease.ttl of the configuration"`
}

// claimed is a lease that was taken or renewed.
type claimed struct {
	Work    string          `json:"work"`
	Phase   signalbox.Phase `json:"phase"`
	Lease   claimedLease    `json:"lease"`
	Session string          `json:"session"`
	// Secret works as a token for the operations of this session. It is absent unless the lease is
	// new.
	Secret string `json:"secret,omitempty"`
}

type claimedLease struct {
	ID      string    `json:"id"`
	Epoch   uint64    `json:"epoch"`
	Expires time.Time `json:"expires"`
}

func claimedFrom(a rules.Answer) claimed {
	return claimed{Work: a.Work, Phase: a.Phase, Lease: claimedLease{a.Lease.ID, a.Lease.Epoch,
		a.Lease.Expires}, Session: a.Session}
}

type renewInput struct {
	Session    string  `path:"session" json:"-" jsonschema:"the session that holds the lease"`
	Work       string  `json:"work"`
	Epoch      uint64  `json:"epoch"`
	TTLSeconds float64 `json:"ttl_seconds,omitempty"`
}

type releaseInput struct {
	Session string `path:"session" json:"-" jsonschema:"the session that holds the lease"`
	Work    string `json:"work"`
	Epoch   uint64 `json:"epoch"`
	Reason  string `json:"reason,omitempty"`
}

type exitInput struct {
	Session string          `path:"session" json:"-" jsonschema:"the session that submits the signal"`
	Epoch   uint64          `json:"epoch,omitempty" jsonschema:"the epoch of the lease; the default is the only live lease of the session"`
	Ref     string          `json:"ref,omitempty" jsonschema:"the branch, tag or commit that has the work"`
	Signal  json.RawMessage `json:"signal" jsonschema:"the exit signal, a JSON object"`
}

// exited is the answer to an exit signal.
type exited struct {
	Work           string               `json:"work"`
	PhaseCompleted signalbox.Phase      `json:"phase_completed"`
	ExitReason     signalbox.ExitReason `json:"exit_reason"`
	NextPhase      *signalbox.Phase     `json:"next_phase"`
	Seq            uint64               `json:"seq"`
}

type revokeInput struct {
	Task   string `path:"task" json:"-" jsonschema:"the work item"`
	Epoch  uint64 `json:"epoch,omitempty" jsonschema:"revoke only this lease, not a later one"`
	Reason string `json:"reason"`
}

type unblockInput struct {
	Task string `path:"task" json:"-" jsonschema:"the work item"`
	Note string `json:"note" jsonschema:"what has changed"`
}

// addWork adds the exit protocol.
func (a *API) addWork() {
	const group = "work"
	add(a, operation{method: http.MethodPost, path: "/work", name: "openWork", group: group,
		scope: access.Operate, summary: "Adds a work item."},
		func(c call, in openInput) (moved, error) {
			return movedFrom(a.box.Engine.Do(c.ctx, rules.OpenWork{Work: in.Work, Title: in.Title,
				Phase: in.Phase, Ref: in.Ref, Actor: c.actor()}))
		})
	add(a, operation{method: http.MethodPost, path: "/claims", name: "claimWork", group: group,
		scope:   access.Operate,
		summary: "Takes the lease of a work item, or of the next one for a role. The answer has a secret, which is a token for the operations of this session."}, a.claim)
	add(a, operation{method: http.MethodPost, path: "/sessions/{session}/renew", name: "renewLease",
		group: group, ofSession: true, summary: "Extends the lease of a session."},
		func(c call, in renewInput) (claimed, error) {
			w, err := a.find(c, in.Work)
			if err != nil {
				return claimed{}, err
			}
			answer, err := a.box.Engine.Do(c.ctx, rules.Renew{Work: w.ID, Session: in.Session,
				Epoch: in.Epoch, TTL: a.ttl(in.TTLSeconds), Caller: c.holder()})
			if err != nil {
				return claimed{}, err
			}
			return claimedFrom(answer), nil
		})
	add(a, operation{method: http.MethodPost, path: "/sessions/{session}/release",
		name: "releaseLease", group: group, ofSession: true,
		summary: "Returns a lease without moving the work."},
		func(c call, in releaseInput) (moved, error) {
			w, err := a.find(c, in.Work)
			if err != nil {
				return moved{}, err
			}
			return movedFrom(a.box.Engine.Do(c.ctx, rules.Release{Work: w.ID, Session: in.Session,
				Epoch: in.Epoch, Reason: in.Reason, Caller: c.holder()}))
		})
	add(a, operation{method: http.MethodPost, path: "/sessions/{session}/exit", name: "submitExit",
		group: group, ofSession: true,
		summary: "Submits an exit signal under the lease of a session. If it is accepted, the work moves to its next phase and the lease ends."}, a.exit)
	add(a, operation{method: http.MethodPost, path: "/work/{task}/revoke", name: "revokeLease",
		group: group, scope: access.Operate,
		summary: "Ends the lease of whoever holds a work item."},
		func(c call, in revokeInput) (moved, error) {
			w, err := a.find(c, in.Task)
			if err != nil {
				return moved{}, err
			}
			return movedFrom(a.box.Engine.Do(c.ctx, rules.Release{Work: w.ID, Epoch: in.Epoch,
				Reason: in.Reason, Actor: c.actor()}))
		})
	add(a, operation{method: http.MethodPost, path: "/work/{task}/unblock", name: "unblockWork",
		group: group, scope: access.Operate,
		summary: "Returns blocked work to its previous phase."},
		func(c call, in unblockInput) (moved, error) {
			w, err := a.find(c, in.Task)
			if err != nil {
				return moved{}, err
			}
			return movedFrom(a.box.Engine.Do(c.ctx, rules.Unblock{Work: w.ID, Note: in.Note,
				Actor: c.actor()}))
		})
}

// ttl returns the duration of a lease that a caller asks for, or the configured one.
func (a *API) ttl(seconds float64) time.Duration {
	if seconds == 0 {
		return a.box.Config.Lease.TTL
	}
	return time.Duration(seconds * float64(time.Second))
}

func (a *API) claim(c call, in claimInput) (claimed, error) {
	id := ""
	if in.Work != "" {
		w, err := a.find(c, in.Work)
		if err != nil {
			return claimed{}, err
		}
		id = w.ID
	}
	if in.Session == "" {
		in.Session = box.NewID("s")
	}
	secret := box.NewSecret()
	claim := rules.Claim{Work: id, Role: in.Role, Session: in.Session, Actor: c.actor(), Lease: box.NewID("l"), TTL: a.ttl(in.TTLSeconds), Secret: rules.HashSecret(secret)}
	answer, err := a.box.Engine.Do(c.ctx, claim)
	if err != nil {
		return claimed{}, err
	}
	got := claimedFrom(answer)
	if answer.Lease.ID == claim.Lease {
		got.Secret = secret
	}
	return got, nil
}

func (a *API) exit(c call, in exitInput) (exited, error) {
	if !transcript.ExitEnabled(a.opts.ExitFlag) {
		return exited{}, exitsDisabled()
	}
	answer, err := exitsignal.Submit(c.ctx, a.box, exitsignal.Submission{Session: in.Session,
		Epoch: in.Epoch, Data: in.Signal, Ref: in.Ref, Caller: c.holder()})
	if err != nil {
		return exited{}, err
	}
	done := answer.Completed
	return exited{done.WorkID, done.PhaseCompleted, done.ExitReason, done.NextPhase, answer.Seq},
		nil
}

// checkSession denies the operations of a session to callers who do not hold it. Sessions of a run
// are never theirs: an agent of a run reports how its work ends to the run, which believes it only
// when its turn has ended. The agent has the secret of its lease in its environment, and so have
// the programs that it starts.
func (a *API) checkSession(session string, caller access.Caller) error {
	if caller.Scope == access.Operate {
		return nil
	}
	secret, found := rules.HashSecret(caller.LeaseSecret), false
	a.box.Engine.View(func(s *rules.State) {
		for w := range s.Works() {
			if w.Task != nil {
				continue
			}
			for _, t := range w.Tenures() {
				found = found || t.Session == session && !t.Crew &&
					(caller.LeaseSecret == "" || t.Secret == secret)
			}
		}
	})
	if !found {
		return &access.DeniedError{Status: http.StatusUnauthorized,
			Message: "the token is not that of this session, or the session belongs to a run"}
	}
	return nil
}

// holder returns who must prove that a lease is theirs, nil for a caller whose token allows using
// it.
func (c *call) holder() *rules.Caller {
	if c.caller.LeaseSecret == "" {
		return nil
	}
	return &rules.Caller{Secret: rules.HashSecret(c.caller.LeaseSecret)}
}

func exitsDisabled() error {
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: transcript.ErrExitDisabled,
		Hint: "set " + signalbox.ExitFlag + "=true in the environment of the server and restart it"}
}
