package box

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
	"signalbox/ledger"
)

// history is a box with a bit of everything in it, eight events.
func history(t *testing.T) *kit {
	t.Helper()
	return newFrom(t, "history", func(k *kit) { writeHistory(t, k) })
}

func writeHistory(t *testing.T, k *kit) {
	t.Helper()
	b := k.open(t)
	write(t, b, "t1")
	for _, c := range []rules.Command{
		rules.Claim{Work: "t1", Role: signalbox.RoleDeveloper, Session: "dev", Actor: "ann",
			Lease: "l-1"},
		rules.Exit{Session: "dev", Signal: signalbox.ExitSignal{Protocol: signalbox.ExitProtocol,
			Version:        "1.0.0",
			PhaseCompleted: signalbox.PhaseImplementation, ExitReason: signalbox.ExitBlocked}},
		rules.OpenWork{Work: "t2", Title: "another", Actor: "ann"},
	} {
		if _, err := b.Engine.Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	sign(t, b)
	must.Succeed(t, b.Close())
}

func TestVerify(t *testing.T) {
	k := history(t)
	checkVerified(t, k, 8)
	var steps []uint64
	report := verify(t, k, VerifyOptions{Progress: func(done, all uint64) {
		steps = append(steps, done)
		if all != 8 {
			t.Errorf("of %d events", all)
		}
	}})
	if !report.OK || len(steps) == 0 || steps[len(steps)-1] > 8 {
		t.Errorf("report %+v, progress %d", report, steps)
	}
}

func TestVerifyWithoutACheckpoint(t *testing.T) {
	k := history(t)
	k.remove(t, checkpointName)
	k.forget(t)
	if report := verify(t, k, VerifyOptions{}); !report.OK || report.Checkpoint != nil {
		t.Errorf("report %+v, want one that claims no checkpoint", report)
	}
}

// Another process signs the first checkpoint of this machine while the ledger is verified.
func TestVerifyWhileTheFirstCheckpointIsSigned(t *testing.T) {
	k := history(t)
	k.remove(t, checkpointName)
	k.forget(t)
	b := k.open(t)
	signed := false
	report := verify(t, k, VerifyOptions{Progress: func(uint64, uint64) {
		if !signed {
			sign(t, b)
			signed = true
		}
	}})
	if !report.OK || report.Checkpoint != nil || !signed {
		t.Errorf("report %+v, signed %t", report, signed)
	}
}

// Any change of any field is found, in the first, in the last and in an event between, and so is a
// removed, moved or added one. The first bad event is named.
func TestVerifyDetectsChanges(t *testing.T) {
	k := history(t)
	good := k.read(t, "ledger.db")
	check := func(seq int, statement string) {
		k.tamper(t, statement)
		report := verify(t, k, VerifyOptions{})
		if report.OK || report.FirstBad != uint64(seq) || report.Events != uint64(seq-1) ||
			report.Reason == "" {
			t.Errorf("%s: report %+v", statement, report)
		}
		k.remove(t, "ledger.db-wal")
		k.remove(t, "ledger.db-shm")
		k.put(t, "ledger.db", good)
	}
	for _, seq := range []int{1, 5, 8} {
		for column, value := range map[string]string{
			"time": "time + 1", "type": "type || 'x'", "work": "work || 'x'",
			"session": "session || 'x'", "actor": "'eve'",
			"data": "CAST('{\"title\":\"forged\"}' AS BLOB)", "prev": "zeroblob(31) || x'01'",
			"hash": "zeroblob(32)",
		} {
			check(seq, fmt.Sprintf("UPDATE events SET %s = %s WHERE seq = %d", column, value, seq))
		}
		check(seq, fmt.Sprintf("DELETE FROM events WHERE seq = %d", seq))
	}
	check(4, "UPDATE events SET seq = CASE seq WHEN 4 THEN -5 WHEN 5 THEN -4 ELSE seq END WHERE seq IN (4, 5); UPDATE events SET seq = -seq WHERE seq < 0")
	check(9, "INSERT INTO events SELECT 9, time, type, 't3', session, actor, data, hash, zeroblob(32) FROM events WHERE seq = 8")
	checkVerified(t, k, 8)
}

func TestVerifyInvalidDatabase(t *testing.T) {
	k := history(t)
	k.put(t, "ledger.db", strings.Repeat("noise", 1000))
	_, err := OpenLedger(t.Context(), k.dir, k.opts)
	checkCode(t, err, signalbox.CodeUnverified)
}

func TestVerifyInvalidCheckpoint(t *testing.T) {
	k, other := history(t), otherKit(t)
	for name, opts := range map[string]VerifyOptions{
		"noise":             {Checkpoint: []byte("noise")},
		"another box's":     {Checkpoint: []byte(other.read(t, checkpointName))},
		"another box's key": {PublicKey: other.made.PublicKey},
		"another box's, both": {Checkpoint: []byte(other.read(t, checkpointName)),
			PublicKey: other.made.PublicKey},
	} {
		report := verify(t, k, opts)
		if both := name == "another box's, both"; report.OK || report.Reason == "" ||
			(report.FirstBad == 1) != both {
			t.Errorf("%s: report %+v", name, report)
		}
	}
}

func TestProveEverything(t *testing.T) {
	k := history(t)
	l := k.ledger(t)
	for seq := uint64(1); seq <= 8; seq++ {
		made, err := l.Prove(t.Context(), seq)
		must.Succeed(t, err)
		proof, err := ledger.ParseProof(made.Format())
		must.Succeed(t, err)
		if checkpoint, err := proof.Check(k.made.PublicKey); err != nil || proof.Event.Seq != seq ||
			checkpoint.Size != 8 {
			t.Errorf("proof of event %d: event %d in a ledger of %d, %v", seq, proof.Event.Seq,
				checkpoint.Size, err)
		}
	}
	for _, seq := range []uint64{0, 9, 1 << 63} {
		_, err := l.Prove(t.Context(), seq)
		checkCode(t, err, signalbox.CodeNotFound)
	}
}

func TestProveFails(t *testing.T) {
	k := history(t)
	b := k.open(t)
	write(t, b, "t3")
	_, err := b.Prove(t.Context(), 9) // newer than the checkpoint
	checkCode(t, err, signalbox.CodeNotFound)
	k.remove(t, checkpointName)
	k.forget(t)
	_, err = b.Prove(t.Context(), 1)
	checkCode(t, err, signalbox.CodeNotFound)

	for _, statement := range []string{
		"UPDATE events SET actor = 'eve' WHERE seq = 3",
		"UPDATE events SET hash = zeroblob(32) WHERE seq = 5",
		"DELETE FROM events WHERE seq = 3",
		"DELETE FROM events WHERE seq > 6",
	} {
		k := history(t)
		k.tamper(t, statement)
		_, err := k.ledger(t).Prove(t.Context(), 3)
		checkCode(t, err, signalbox.CodeUnverified)
	}
}

// Blobs are checked when they are read, and what is redacted says so.
func TestBlob(t *testing.T) {
	k := newKit(t)
	b := k.open(t)
	digest, err := b.Engine.PutBlob(t.Context(), strings.NewReader("what an agent wrote"))
	must.Succeed(t, err)
	r, err := b.Blob(t.Context(), digest)
	must.Succeed(t, err)
	r.Close()
	_, err = b.Redact(t.Context(), rules.RedactBlob{Blob: signalbox.Hash{1}, Reason: "never was",
		Actor: "ann"})
	checkCode(t, err, signalbox.CodeNotFound)
	var seqs []uint64
	for _, reason := range []string{"a password", "again"} {
		answer, err := b.Redact(t.Context(), rules.RedactBlob{Blob: digest, Reason: reason,
			Actor: "ann"})
		must.Succeed(t, err)
		seqs = append(seqs, answer.Seq)
	}
	if seqs[0] != 2 || seqs[1] != 2 {
		t.Errorf("redacted by events %d, want 2 both times", seqs)
	}
	_, err = b.Blob(t.Context(), digest)
	checkCode(t, err, signalbox.CodeNotFound)
	if !strings.Contains(err.Error(), "was redacted by ann at ") ||
		!strings.Contains(err.Error(), ": a password") {
		t.Errorf("error %v", err)
	}
	sign(t, b)
	checkVerified(t, k, 2)
}

// A damaged blob can be redacted.
func TestRedactDamagedBlob(t *testing.T) {
	k := newKit(t)
	b := k.open(t)
	digest, err := b.Engine.PutBlob(t.Context(), strings.NewReader("what an agent wrote"))
	must.Succeed(t, err)
	name := filepath.Join(k.dir, "blobs", digest.String()[:2], digest.String()[2:])
	must.Succeed(t, os.WriteFile(name, []byte("something else"), 0o600))
	if _, err := b.Redact(t.Context(), rules.RedactBlob{Blob: digest, Reason: "damaged",
		Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}

// What is not in the fields of an event, or only on their edges, is found too.
func TestVerifyFindsWhatStandsOutside(t *testing.T) {
	for statement, first := range map[string]uint64{
		"INSERT INTO events SELECT 0, time, type, work, session, actor, data, prev, hash FROM events WHERE seq = 1":  1,
		"INSERT INTO events SELECT -5, time, type, work, session, actor, data, prev, hash FROM events WHERE seq = 1": 1,
		"UPDATE events SET hash = CAST(substr(prev, 32) || hash AS BLOB), prev = substr(prev, 1, 31) WHERE seq = 3":  3,
		"UPDATE events SET data = CAST(data AS TEXT) WHERE seq = 4":                                                  4,
		"UPDATE events SET hash = substr(hash, 1, 31) WHERE seq = 8":                                                 8,
		"UPDATE events SET hash = substr(hash, 1, 31) WHERE seq IN (5, 8)":                                           5,
	} {
		k := history(t)
		k.tamper(t, statement)
		if report := verify(t, k, VerifyOptions{}); report.OK || report.FirstBad != first {
			t.Errorf("%s: report %+v, want %d as the first bad event", statement, report, first)
		}
	}
}

// A checkpoint that cannot be opened does not hide which event is bad.
func TestVerifyWithABadCheckpoint(t *testing.T) {
	k := history(t)
	k.put(t, checkpointName, "nothing")
	if report := verify(t, k, VerifyOptions{}); report.OK || report.FirstBad != 0 ||
		report.Events != 8 {
		t.Errorf("report %+v, want eight good events and a bad checkpoint", report)
	}
	k.tamper(t, "UPDATE events SET actor = 'eve' WHERE seq = 3")
	if report := verify(t, k, VerifyOptions{}); report.OK || report.FirstBad != 3 {
		t.Errorf("report %+v, want 3 as the first bad event", report)
	}
}

// A schema that swallows events is found out before anybody is answered.
func TestSwallowedEventIsNotAcknowledged(t *testing.T) {
	k := history(t)
	k.tamper(t, "CREATE TRIGGER swallow BEFORE INSERT ON events BEGIN SELECT RAISE(IGNORE); END")
	b := k.open(t)
	_, err := b.Engine.Do(t.Context(), rules.OpenWork{Work: "gone", Actor: "ann"})
	checkCode(t, err, signalbox.CodeUnverified)
}

// The ledger of a box that was in use is not replaced by an empty one.
func TestInitMissingLedger(t *testing.T) {
	k := history(t)
	for _, name := range []string{"ledger.db", "ledger.db-wal", "ledger.db-shm"} {
		os.Remove(filepath.Join(k.dir, name))
	}
	key := k.read(t, publicKeyName)
	_, err := Init(t.Context(), k.dir, "ann",
		&Options{KeyFile: filepath.Join(t.TempDir(), "other.key")})
	checkCode(t, err, signalbox.CodeUnverified)
	_, err = Open(t.Context(), k.dir, k.opts)
	checkCode(t, err, signalbox.CodeUnverified)
	if k.read(t, publicKeyName) != key {
		t.Error("the public key of the lost ledger is gone")
	}
}

// shrinking is a journal that loses its last event when the snapshot is loaded, which happens
// before the events are replayed.
type shrinking struct {
	journal.Journal
	lost bool
}

func (j *shrinking) LoadSnapshot(ctx context.Context) (journal.Snapshot, error) {
	j.lost = true
	return journal.Snapshot{}, journal.ErrNoSnapshot
}

func (j *shrinking) Head(ctx context.Context) (uint64, error) {
	head, err := j.Journal.Head(ctx)
	if j.lost {
		head--
	}
	return head, err
}

func (j *shrinking) Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	events, err := j.Journal.Read(ctx, after, limit)
	if head, _ := j.Head(ctx); j.lost && uint64(len(events)) > head-min(head, after) {
		events = events[:head-min(head, after)]
	}
	return events, err
}

// A ledger that loses events while it is verified is not intact, although all that is read is.
func TestVerifyWhileEventsAreLost(t *testing.T) {
	k := newKit(t)
	k.writeAndSign(t, "w1", "w2")
	l, err := OpenLedger(t.Context(), k.dir, k.opts)
	must.Succeed(t, err)
	defer l.Close()
	head, err := l.Journal.Head(t.Context())
	must.Succeed(t, err)
	l.Journal = &shrinking{Journal: l.Journal}
	v, err := l.Verify(t.Context(), VerifyOptions{})
	if err != nil || v.OK || v.FirstBad != head ||
		!strings.Contains(v.Reason, "truncated while it was verified") {
		t.Errorf("%+v, %v", v, err)
	}
}

// writeBlob adds work with a blob.
func writeBlob(t *testing.T, b *Box, work, text string) signalbox.Hash {
	t.Helper()
	write(t, b, work)
	blob, err := b.Engine.PutBlob(t.Context(), strings.NewReader(text))
	must.Succeed(t, err)
	session := "dev-" + work
	_, err = b.Engine.Do(t.Context(), rules.Claim{Work: work, Role: signalbox.RoleDeveloper,
		Session: session, Actor: "ann", Lease: "l-" + work})
	must.Succeed(t, err)
	_, err = b.Engine.Do(t.Context(), rules.Exit{Session: session, Blob: blob,
		Signal: signalbox.ExitSignal{Protocol: signalbox.ExitProtocol, Version: "1.0.0",
			PhaseCompleted: signalbox.PhaseImplementation, ExitReason: signalbox.ExitBlocked}})
	must.Succeed(t, err)
	return blob
}

// Verify shows progress after each blob: a few may be larger than all events.
func TestVerifyShowsProgressOfBlobs(t *testing.T) {
	k := newKit(t)
	b := k.open(t)
	for _, work := range []string{"t1", "t2", "t3"} {
		writeBlob(t, b, work, "text of "+work)
	}
	steps := func(opts VerifyOptions) (n int) {
		opts.Progress = func(uint64, uint64) { n++ }
		if report := verify(t, k, opts); !report.OK {
			t.Errorf("report %+v", report)
		}
		return n
	}
	if events, all := steps(VerifyOptions{NoBlobs: true}), steps(VerifyOptions{}); all != events+3 {
		t.Errorf("%d steps, and %d without 3 blobs", all, events)
	}
}

// growing is a journal to which another process appends whenever it is read.
type growing struct {
	journal.Journal
	grow func()
}

func (g growing) Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	g.grow()
	return g.Journal.Read(ctx, after, limit)
}

// Verify reads what the ledger had when it began, and does not follow one that grows as fast as it
// is read.
func TestVerifyOfGrowingLedger(t *testing.T) {
	k := newKit(t)
	b := k.open(t)
	blob := writeBlob(t, b, "t1", "text").String()
	writes := 0
	other := *k
	opts := *k.opts
	other.opts = &opts
	opts.through(func(j journal.Journal) journal.Journal {
		return growing{j, func() {
			if writes++; writes < 1000 {
				_, err := b.Engine.Do(context.Background(), rules.OpenWork{
					Work: fmt.Sprintf("w%d", writes), Actor: "ann"})
				if err != nil {
					t.Error(err)
				}
			}
		}}
	})
	if report := verify(t, &other, VerifyOptions{}); !report.OK || writes >= 1000 {
		t.Errorf("report %+v after %d reads", report, writes)
	}
	must.Succeed(t, os.Remove(filepath.Join(k.dir, "blobs", blob[:2], blob[2:])))
	if report := verify(t, &other, VerifyOptions{}); report.OK || writes >= 1000 {
		t.Errorf("without the blob: report %+v after %d reads", report, writes)
	}
}
