package rules

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"slices"

	"signalbox"
)

// Caller is someone who must prove that a lease is theirs: a client of the MCP server, or an
// agent's process. Operators and crews write the box themselves and need no proof.
type Caller struct {
	// Identity is the configured name of an MCP client. It is "" for an agent's process, which
	// claims nothing.
	Identity string
	// Secret is the hash of the secret that the caller sent; zero means that it sent none.
	Secret signalbox.Hash
}

// HashSecret returns what the ledger records of a secret. The hash of "" is zero, which no secret
// has.
func HashSecret(secret string) signalbox.Hash {
	if secret == "" {
		return signalbox.Hash{}
	}
	return sha256.Sum256([]byte(secret))
}

// sameHash reports whether two hashes of secrets are equal. A zero hash equals none.
func sameHash(a, b signalbox.Hash) bool {
	return a != signalbox.Hash{} && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

func (c *Caller) identity() string {
	if c == nil {
		return ""
	}
	return c.Identity
}

// check refuses claims in roles that are signalbox itself, and claims of a caller without an
// identity.
func (c *Caller) check(role signalbox.Role) error {
	switch {
	case c == nil:
		return nil
	case !isAgent(role):
		return refusef(signalbox.CodeFailed,
			"claim as another role; signalbox run carries out the checks and merges",
			"role '%s' is signalbox itself, so that no agent decides that its own work passed",
			role)
	}
	return checkIDs("identity", c.Identity)
}

// proves reports whether a caller may use the lease of a tenure. A lease that was granted under
// rules without secrets belongs to everyone who knows its session and epoch.
func (s *State) proves(c *Caller, t *Tenure) bool {
	if (t.Secret == signalbox.Hash{}) {
		return s.rules < secretsVersion || t.Epoch < s.upgraded
	}
	return sameHash(t.Secret, c.Secret) && (c.Identity == "" || t.Identity == "" ||
		c.Identity == t.Identity)
}

// provesAny reports whether a caller may use one of the leases.
func (s *State) provesAny(c *Caller, leases []LeaseRef) bool {
	return slices.ContainsFunc(leases, func(held LeaseRef) bool {
		w, known := s.Work(held.Work)
		return known && slices.ContainsFunc(w.Tenures(),
			func(t Tenure) bool { return t.Epoch == held.Epoch && s.proves(c, &t) })
	})
}

// checkCaller refuses a command of a caller who does not have the secret of the lease that it
// names. If the session never had that lease, the secret of any of its leases shows that the caller
// is the session.
func (d *decider) checkCaller(c *Caller, session *Session, r refusal) error {
	if c == nil {
		return nil
	}
	leases := session.Held
	if named := session.lease(r.epoch); named.Work != "" {
		leases = []LeaseRef{named}
	}
	if d.s.provesAny(c, leases) {
		return nil
	}
	r.reason, r.actor = signalbox.ReasonWrongSecret, cmp.Or(c.Identity, "unknown")
	r.blob = signalbox.Hash{} // nothing is stored for a caller who proves nothing
	r.detail = fmt.Sprintf("wrong secret: session '%s' needs the secret that its claim returned",
		session.ID)
	d.answer.Session = session.ID
	return d.refuse(session, leases[0].Work, r, signalbox.CodeFailed,
		"send the secret that the claim returned; an agent's process has it in SIGNALBOX_SECRET")
}

// checkSession refuses a claim for a session that is not the caller's.
func (c Claim) checkSession(d *decider) error {
	session, known := d.s.Session(c.Session)
	if c.Caller == nil || !known || d.s.provesAny(c.Caller, session.Held) ||
		d.s.provesAny(&Caller{Secret: c.Secret}, session.Held) {
		return nil
	}
	return refusef(signalbox.CodeFailed,
		"leave out the session to start a new one, or send its secret",
		"wrong secret: session '%s' already exists", c.Session)
}

// reviewsItself reports whether the claim would let a caller review or audit work that it has
// developed.
func (c Claim) reviewsItself(w *Work) bool {
	if c.SelfReview || c.Caller.identity() == "" || c.Role != signalbox.RoleCritic &&
		c.Role != signalbox.RoleAuditor {
		return false
	}
	return w.DevelopedBy(c.Caller.Identity)
}

// DevelopedBy reports whether a caller ever held the work as a developer, whether or not it handed
// something in.
func (w *Work) DevelopedBy(identity string) bool {
	return slices.ContainsFunc(w.Tenures(),
		func(t Tenure) bool { return t.Role == signalbox.RoleDeveloper && t.Identity == identity })
}
