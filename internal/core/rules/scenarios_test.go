package rules

import (
	"strings"
	"time"

	"signalbox"
)

// scenarios are what the recorded histories were made of. Once recorded, a scenario serves only to
// show how; a change here changes no file.
var scenarios = append([]scenario{
	{"full-life", "Work goes from DRAFT to COMPLETED, each phase by a session of the role that may claim it.", fullLife},
	{"blocked-and-unblocked",
		"Work is blocked in two phases, once by an error; each time it returns to where it was.",
		blockedAndUnblocked},
	{"expiry-and-stale-exit",
		"A session dies, its lease expires, another takes over; then the first one speaks and moves nothing.", expiryAndStaleExit},
	{"refusals", "What does not count is recorded once for each session, reason and thing said, and again at ten times the count.", refusals},
	{"several-sessions",
		"Sessions claim whatever is next; one of them holds two leases and names the one it means.",
		severalSessions},
	{"redaction", "Two blobs are redacted, one of them asked for twice.", redaction},
	{"renewals", "A lease is renewed, also to the longest life there is, and never shortened; nanoseconds count.", renewals},
	{"release-by-operator",
		"An operator takes the lease of a session that hangs; a holder gives its own back.",
		releaseByOperator},
	{"repeated-signals",
		"The same exit signal again is answered as at first, also after others moved the work on.",
		repeatedSignals},
	{"clock-behind", "A writer whose clock is behind the log writes at the time of the last event.",
		clockBehind},
	{"texts", "Titles, notes and reasons with characters that JSON escapes, and some that it does not.", texts},
	{"many-leases-expire",
		"Leases of several works run out together and are recorded by the command that meets them.",
		manyLeasesExpire},
	{"turn-signals", "Two runs of trees log turn signals; one says its last again, one begins late, and a gap is refused.", turnsHeard},
	{"rules-upgraded", "A log of older rules is written to again: its lease still counts, and newer rules apply from there on.", rulesUpgraded},
	{"secrets", "MCP clients claim with secrets; one without the secret is refused, and the developer cannot review.", leasesWithSecrets},
	{"long-notes", "Notes of exit signals that are so long that they are stored as blobs, of work opened by hand and of a planned task.", longNotes},
	{"checks-by-hand", "A crew checks work that was opened by hand: it fails, names a branch that is gone, edits a protected file, passes; then the disk is full.", checksByHand},
	{"ledger-moved", "The ledger is moved to a database, where a session continues with its lease, and later back to a file.", ledgerMoved},
	{"loss-accepted", "The database lost events; one machine had applied them, continues without them, and opens the work again.", lossAccepted},
}, deliveryScenarios...)

type scenario struct {
	name, about string
	play        func(*box)
}

func (b *box) pass(d time.Duration) { b.now = b.now.Add(d) }

func fullLife(b *box) {
	b.do(OpenWork{Work: "task-1", Title: "Parse dates", Phase: signalbox.PhaseDraft, Actor: "op"})
	for i, phase := range inOrder[:6] {
		session := "S-" + string(rune('1'+i))
		b.pass(time.Minute)
		b.claim("task-1", session)
		b.pass(5 * time.Minute)
		signal := withNotes(exit(phase, signalbox.ExitCompleted), "done with "+
			strings.ToLower(string(phase)))
		if phase == signalbox.PhaseImplementation {
			url := "https://example.org/box/pull/7"
			signal.PRURL = &url
		}
		if phase == signalbox.PhaseReview {
			ref := "evidence/task-1/review.yaml"
			signal.EvidenceBundleRef = &ref
		}
		b.do(Exit{Session: session, Signal: signal, Blob: signalbox.Hash{byte(i + 1)},
			Offset: int64(100 * i)})
	}
}

func blockedAndUnblocked(b *box) {
	b.open("task-1", signalbox.PhaseImplementation)
	b.claim("task-1", "S-1")
	b.pass(time.Minute)
	b.do(Exit{Session: "S-1",
		Signal: withNotes(exit(signalbox.PhaseImplementation, signalbox.ExitBlocked),
			"waiting for credentials")})
	b.pass(time.Hour)
	b.do(Unblock{Work: "task-1", Note: "they are in the vault", Actor: "op"})
	b.claim("task-1", "S-2")
	b.do(Exit{Session: "S-2", Signal: exit(signalbox.PhaseImplementation, signalbox.ExitCompleted)})
	b.claim("task-1", "S-3")
	b.do(Exit{Session: "S-3", Signal: withNotes(exit(signalbox.PhaseCIPending, signalbox.ExitError),
		"the runner is gone")})
	b.do(Unblock{Work: "task-1", Note: "a new runner", Actor: "op"})
	b.claim("task-1", "S-4")
	b.do(Exit{Session: "S-4",
		Signal: withNotes(exit(signalbox.PhaseCIPending, signalbox.ExitBlocked),
			"no room on the disk")})
}

func expiryAndStaleExit(b *box) {
	b.open("task-1", signalbox.PhaseReview)
	b.claim("task-1", "S-1")
	b.pass(signalbox.DefaultLeaseTTL)
	b.claim("task-1", "S-2")
	b.pass(time.Second)
	b.try(Exit{Session: "S-1", Epoch: 3,
		Signal: exit(signalbox.PhaseReview, signalbox.ExitCompleted)})
	b.try(Renew{Work: "task-1", Session: "S-1", Epoch: 3})
	b.do(Exit{Session: "S-2", Epoch: 5,
		Signal: exit(signalbox.PhaseReview, signalbox.ExitCompleted)})
}

func refusals(b *box) {
	b.open("task-1", signalbox.PhaseImplementation)
	b.claim("task-1", "S-1")
	for times := range 120 {
		b.try(Exit{Session: "S-1", Signal: exit(signalbox.PhaseReview, signalbox.ExitCompleted),
			Times: times + 1, Blob: signalbox.Hash{7}})
	}
	b.try(Exit{Session: "S-1", Fault: "unexpected end of JSON input"})
	b.try(Exit{Session: "S-1", Epoch: 99, Signal: exit(signalbox.PhaseImplementation,
		signalbox.ExitCompleted)})
	b.open("task-2", signalbox.PhaseImplementation)
	b.claim("task-2", "S-2")
	b.try(Release{Work: "task-1", Session: "S-2", Epoch: 3})
}

func severalSessions(b *box) {
	for _, id := range []string{"task-1", "task-2", "task-3"} {
		b.open(id, signalbox.PhaseReadyForReview)
	}
	next := func(session string) uint64 {
		return b.do(Claim{Role: signalbox.RoleCritic, Session: session, Actor: "a-" + session,
			Lease: "L-" + session}).Lease.Epoch
	}
	first, second := next("S-1"), next("S-2")
	third := next("S-1")
	b.pass(time.Minute)
	// which?
	b.try(Exit{Session: "S-1", Signal: exit(signalbox.PhaseReadyForReview,
		signalbox.ExitCompleted)})
	b.do(Exit{Session: "S-1", Epoch: third, Signal: exit(signalbox.PhaseReadyForReview,
		signalbox.ExitCompleted)})
	b.do(Exit{Session: "S-2", Epoch: second, Signal: exit(signalbox.PhaseReadyForReview,
		signalbox.ExitError)})
	next("S-3") // task-3, which is in REVIEW now
	b.do(Exit{Session: "S-1", Epoch: first, Signal: exit(signalbox.PhaseReadyForReview,
		signalbox.ExitCompleted)})
}

func redaction(b *box) {
	b.do(RedactBlob{Blob: signalbox.Hash{1}, Reason: "a key was in it", Actor: "op"})
	b.pass(time.Hour)
	b.do(RedactBlob{Blob: signalbox.Hash{2}, Reason: "a name was in it", Actor: "op-2"})
	b.do(RedactBlob{Blob: signalbox.Hash{1}, Reason: "again", Actor: "op-2"})
}

func renewals(b *box) {
	b.now = t0.Add(123456789)
	b.open("task-1", signalbox.PhaseDraft)
	c := b.claimOf("task-1", "S-1")
	c.TTL = time.Second
	epoch := b.do(c).Lease.Epoch
	for _, ttl := range []time.Duration{time.Second, signalbox.MaxLeaseTTL, time.Minute,
		signalbox.MaxLeaseTTL} {
		b.pass(time.Second - 1)
		b.do(Renew{Work: "task-1", Session: "S-1", Epoch: epoch, TTL: ttl})
	}
}

func releaseByOperator(b *box) {
	b.open("task-1", signalbox.PhaseImplementation)
	epoch := b.claim("task-1", "S-1")
	b.pass(time.Minute)
	b.do(Release{Work: "task-1", Actor: "op", Reason: "it hangs"})
	b.try(Exit{Session: "S-1", Epoch: epoch, Signal: exit(signalbox.PhaseImplementation,
		signalbox.ExitCompleted)})
	epoch = b.claim("task-1", "S-2")
	b.do(Release{Work: "task-1", Session: "S-2", Epoch: epoch, Reason: "out of tokens"})
	b.do(Release{Work: "task-1", Session: "S-2", Epoch: epoch})
}

func repeatedSignals(b *box) {
	b.open("task-1", signalbox.PhaseImplementation)
	epoch := b.claim("task-1", "S-1")
	done := Exit{Session: "S-1", Epoch: epoch,
		Signal: withNotes(exit(signalbox.PhaseImplementation, signalbox.ExitCompleted), "done")}
	b.do(done)
	b.do(done)
	b.claim("task-1", "S-2")
	b.do(done)
	b.do(Exit{Session: "S-2", Signal: exit(signalbox.PhaseCIPending, signalbox.ExitCompleted)})
	b.do(done)
	done.Signal = withNotes(done.Signal, "done, once more")
	b.try(done)
}

func clockBehind(b *box) {
	b.pass(time.Hour)
	b.open("task-1", signalbox.PhaseImplementation)
	b.pass(-2 * time.Hour)
	b.claim("task-1", "S-1")
	b.pass(time.Hour + 10*time.Minute)
	b.do(Exit{Session: "S-1", Signal: exit(signalbox.PhaseImplementation, signalbox.ExitCompleted)})
}

func texts(b *box) {
	for i, title := range []string{`"quotes" and \backslashes\`, "two\nlines,\ta tab",
		"<b>&amp;</b>", "ä € 😀 \u2028 \u2029 \ufeff", ""} {
		b.do(OpenWork{Work: "task-" + string(rune('1'+i)), Title: title,
			Phase: signalbox.PhaseDraft, Actor: "op"})
	}
	b.claim("task-1", "S-1")
	b.do(Exit{Session: "S-1", Signal: withNotes(exit(signalbox.PhaseDraft, signalbox.ExitBlocked),
		"\x1b[31m \x00 \x7f \u0085 bytes of an agent")})
	b.do(Unblock{Work: "task-1", Note: "it was only <colour> & \"noise\"", Actor: "op"})
	b.claim("task-1", "S-1")
	b.do(Release{Work: "task-1", Actor: "op", Reason: "a\nreason"})
	b.claim("task-2", "S-1")
	b.do(Exit{Session: "S-1", Signal: withNotes(exit(signalbox.PhaseDraft, signalbox.ExitError),
		"kept: \x1b \u2028 <&> \"\\ 😀")})
}

func manyLeasesExpire(b *box) {
	for i, phase := range inOrder[:6] {
		work := "task-" + string(rune('1'+i))
		b.open(work, phase)
		c := b.claimOf(work, "S-"+string(rune('1'+i)))
		c.TTL = time.Duration(6-i) * time.Minute
		b.do(c)
	}
	b.pass(3 * time.Minute)
	b.do(Expire{})
	b.pass(time.Hour)
	b.do(Claim{Role: signalbox.RoleCritic, Session: "S-7", Actor: "a-S-7", Lease: "L-7"})
}

func longNotes(b *box) {
	long := func(session string, epoch uint64) {
		c := Exit{Session: session, Epoch: epoch,
			Signal: withNotes(exit(signalbox.PhaseImplementation, signalbox.ExitBlocked),
				strings.Repeat("\u20ac", maxNotes/3+1))}
		_, c.Notes = LongNotes(&c.Signal)
		b.do(c)
	}
	b.open("task-1", signalbox.PhaseImplementation)
	long("S-1", b.claim("task-1", "S-1"))
	b.pass(time.Minute)
	b.do(Unblock{Work: "task-1", Note: "continue", Actor: "op"})
	planned(b, policy(), todo("t1"))
	a := b.dispatch(signalbox.RoleDeveloper)
	long(a.Session, a.Lease.Epoch)
	b.answer("t1", AskedBlocked, "read them, continue")
}
