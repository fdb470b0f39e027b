package mcpserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// TestOwnSession tests the server of an agent.
func TestOwnSession(t *testing.T) {
	dir := newBox(t)
	mine, other := planned(t, dir, "s-1"), order(t, dir, rules.OpenWork{Work: "w", Actor: "ann"},
		rules.Claim{Work: "w", Role: signalbox.RoleDeveloper, Session: "s-2", Actor: "bob",
			Lease: "l-2"})
	c := newCaller(t, newServer(t, dir, &Options{Session: "s-1"}))
	c.fails("open_work", "not_allowed", args{"work": "x"})
	c.fails("claim_work", "not_allowed", args{"role": "developer"})
	c.fails("renew_lease", "not_allowed",
		args{"work": "w", "session": "s-2", "epoch": other.Lease.Epoch})
	c.fails("submit_exit", "not_allowed",
		args{"session": "s-2", "phase_completed": "IMPLEMENTATION", "exit_reason": "completed"})
	c.fails("emit_signal", "not_allowed", args{"session": "s-2", "signal": "checkpoint"})
	c.fails("ask_human", "not_allowed", args{"session": "s-2", "question": "which?"})
	c.fails("renew_lease", "stale_lease", args{"work": "w", "epoch": other.Lease.Epoch})

	if a := c.ok("get_status", nil); a.string("session") != "s-1" ||
		!strings.Contains(a.string("verdict"), "You hold T1") {
		t.Errorf("status: %s", a.text)
	}
	if a := c.ok("get_work", args{"work": "T1"}); !strings.Contains(a.string("verdict"),
		"You hold T1") {
		t.Errorf("work: %s", a.text)
	}
	c.ok("list_work", nil)
	c.ok("renew_lease", args{"work": "T1", "epoch": mine.Lease.Epoch})
	c.ok("renew_lease", args{"work": "T1", "session": "s-1", "epoch": mine.Lease.Epoch})
	c.ok("emit_signal", args{"signal": "ready_for_review"})
	if a := c.ok("get_status", nil); !strings.Contains(a.string("verdict"), "holds no work") {
		t.Errorf("status: %s", a.text)
	}
}

// The server of an agent in a crew rejects signals that end a turn.
func TestCrewReadsTheEndOfTurn(t *testing.T) {
	dir := newBox(t)
	planned(t, dir, "s-1")
	c := newCaller(t, newServer(t, dir, &Options{Session: "s-1", Crew: true}))
	if a := c.fails("emit_signal", "say_it_at_the_end",
		args{"signal": "ready_for_review", "work": "T1"}); !strings.Contains(a.text,
		"READY_FOR_REVIEW: T1") {
		t.Errorf("does not say what to write: %s", a.text)
	}
	c.fails("ask_human", "say_it_at_the_end", args{"question": "which?"})
	c.fails("submit_exit", "say_it_at_the_end", args{"phase_completed": "IMPLEMENTATION",
		"exit_reason": "completed"})
	c.ok("emit_signal", args{"signal": "checkpoint", "percent": 10})
	if a := c.ok("get_work", args{"work": "T1"}); a.string("phase") != "IMPLEMENTATION" ||
		a.Snapshot["lease"] == nil {
		t.Errorf("T1 moved: %s", a.text)
	}
}

func TestSessionMustBeAnID(t *testing.T) {
	if _, err := New(func() (string, error) { return "", nil },
		&Options{Session: "../x"}); err == nil {
		t.Error("accepted a session that is not an id")
	}
	if _, err := New(nil, nil); err == nil {
		t.Error("took no way to find a box")
	}
}

// TestRaceForOneLease has several servers on one box, with several callers each, that claim the
// same work.
func TestRaceForOneLease(t *testing.T) {
	dir := newBox(t)
	order(t, dir, rules.OpenWork{Work: "w", Actor: "ann"})
	var group sync.WaitGroup
	var mu sync.Mutex
	got := map[string]int{}
	for range 2 {
		s := newServer(t, dir, nil)
		for i := range 8 {
			c := newCaller(t, s)
			group.Go(func() {
				result, err := c.session.CallTool(t.Context(),
					&mcp.CallToolParams{Name: "claim_work",
						Arguments: args{"work": "w", "role": "developer"}})
				if err != nil {
					t.Error(i, err)
					return
				}
				a, err := readAnswer(result)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if a.failed {
					got[a.Flags[0].Flag]++
				} else {
					got["won"]++
				}
			})
		}
	}
	group.Wait()
	if got["won"] != 1 || got["held_by_another"] != 15 {
		t.Errorf("got %v", got)
	}
}

// TestConcurrentCalls mixes reads and writes on one connection.
func TestConcurrentCalls(t *testing.T) {
	dir := newBox(t)
	s := newServer(t, dir, nil)
	c := newCaller(t, s)
	var group sync.WaitGroup
	for i := range 24 {
		group.Go(func() {
			for _, call := range []struct {
				tool string
				in   args
			}{
				{"open_work", args{"work": fmt.Sprintf("w%d", i)}}, {"list_work", nil},
				{"claim_work", args{"role": "developer", "session": fmt.Sprintf("s%d", i)}},
				{"get_status", nil},
				{"scan_transcript", args{"text": "READY_FOR_REVIEW: T1\nSummary: x\n"}},
				{"verify_ledger", nil},
			} {
				result, err := c.session.CallTool(t.Context(),
					&mcp.CallToolParams{Name: call.tool, Arguments: call.in})
				if err != nil {
					t.Errorf("%s: %v", call.tool, err)
				} else if result.IsError {
					t.Errorf("%s: %+v", call.tool, result.Content[0])
				}
			}
		})
	}
	group.Wait()
	if a := c.ok("get_status", nil); a.number("held") != 24 {
		t.Errorf("status: %s", a.text)
	}
}

// A call that is running when the server is closed is answered completely or not at all.
func TestCloseDuringCalls(t *testing.T) {
	dir := newBox(t)
	s := newServer(t, dir, nil)
	c := newCaller(t, s)
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			result, err := c.session.CallTool(t.Context(),
				&mcp.CallToolParams{Name: "open_work",
					Arguments: args{"work": fmt.Sprintf("w%d", i)}})
			if err == nil && result.IsError {
				if a, err := readAnswer(result); err != nil || !a.has("stopping") &&
					!a.has("cancelled") {
					t.Errorf("got %+v, %v", a, err)
				}
			}
		})
	}
	must.Succeed(t, s.Close())
	group.Wait()
	if err := s.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	withBox(t, dir, func(*box.Box) {}) // opening it replays the ledger
}

func TestExpiredLease(t *testing.T) {
	dir := newBox(t)
	later := time.Now()
	c := newCaller(t, newServer(t, dir, &Options{Now: func() time.Time { return later }}))
	order(t, dir, rules.OpenWork{Work: "w", Actor: "ann"},
		rules.Claim{Work: "w", Role: signalbox.RoleDeveloper, Session: "s", Actor: "bob",
			Lease: "l", TTL: time.Second})
	if a := c.ok("get_work", args{"work": "w"}); a.Snapshot["lease"] == nil {
		t.Errorf("held: %s", a.text)
	}
	later = later.Add(time.Hour)
	a := c.ok("get_work", args{"work": "w"})
	if a.Snapshot["lease"] != nil || a.string("claimable_by") != "developer" ||
		!strings.Contains(fmt.Sprint(a.Snapshot["last_sessions"]), "ended:expired") {
		t.Errorf("ran out: %s", a.text)
	}
}

// A call without an epoch uses the only live lease of its session: leases that have expired do not
// count.
func TestOnlyLiveLease(t *testing.T) {
	dir := newBox(t)
	now := time.Now()
	c := newCaller(t, newServer(t, dir, &Options{Now: func() time.Time { return now }}))
	for work, ttl := range map[string]time.Duration{"w1": time.Minute, "w2": time.Hour} {
		order(t, dir, rules.OpenWork{Work: work, Actor: "ann"},
			rules.Claim{Work: work, Role: signalbox.RoleDeveloper, Session: "s", Actor: "bob",
				Lease: "l-" + work, TTL: ttl})
	}
	checkpoint := args{"session": "s", "signal": "checkpoint"}
	c.fails("emit_signal", "epoch_needed", checkpoint)
	now = now.Add(2 * time.Minute)
	if a := c.fails("emit_signal", "not_planned", checkpoint); !strings.Contains(a.text, "w2") {
		t.Errorf("not about the live lease: %s", a.text)
	}
}

func countBlobs(t *testing.T, dir string) (count int) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, "blobs"),
		func(_ string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				count++
			}
			return err
		})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return count
}

// A signal that is not recorded leaves no blob, so that an agent that repeats it does not fill the
// disk.
func TestUnrecordedSignalsLeaveNoBlobs(t *testing.T) {
	dir := newBox(t)
	planned(t, dir, "s-1")
	order(t, dir, rules.OpenWork{Work: "w", Actor: "ann"},
		rules.Claim{Work: "w", Role: signalbox.RoleDeveloper, Session: "s-2", Actor: "bob",
			Lease: "l-2"})
	c := newCaller(t, newServer(t, dir, nil))
	blobs := func() int { return countBlobs(t, dir) }
	signal := func(notes string) {
		c.call("emit_signal", args{"session": "s-1", "signal": "ready_for_review",
			"summary": notes})
	}
	exit := func(notes string) {
		c.call("submit_exit", args{"session": "s-2", "phase_completed": "IMPLEMENTATION",
			"exit_reason": "completed", "notes": notes})
	}
	for name, send := range map[string]func(
		notes string){"emit_signal": signal, "submit_exit": exit} {
		before := blobs()
		send("first")
		stored := blobs()
		if stored == before {
			t.Errorf("%s: the blob of a recorded signal is not stored", name)
		}
		for i := range 20 {
			send(fmt.Sprint("again ", i))
		}
		repeated := blobs()
		for i := range 20 {
			send(fmt.Sprint("and again ", i))
		}
		if last := blobs(); last != repeated {
			t.Errorf("%s: %d blobs after one call, %d after 21, %d after 41", name, stored,
				repeated, last)
		}
	}
	c.fails("submit_exit", "unknown_session",
		args{"session": "s-unknown", "phase_completed": "IMPLEMENTATION",
			"exit_reason": "completed", "notes": "unknown"})
}

// Nothing is stored for a caller without the secret of the session.
func TestWrongSecretLeavesNoBlobs(t *testing.T) {
	dir := newBox(t)
	planned(t, dir, "s-1")
	order(t, dir, rules.OpenWork{Work: "w", Actor: "ann"},
		rules.Claim{Work: "w", Role: signalbox.RoleDeveloper, Session: "s-2", Actor: "bob",
			Lease: "l-2"})
	c := newCaller(t, newServer(t, dir, nil))
	before := countBlobs(t, dir)
	c.fails("emit_signal", "wrong_secret", args{"session": "s-1", "secret": "wrong",
		"signal": "expanded_spec", "summary": "x",
		"sub_tasks": []args{{"id": "T9", "acceptance_criteria": []string{"y"}}}})
	c.fails("emit_signal", "wrong_secret", args{"session": "s-1", "secret": "wrong",
		"signal": "ready_for_review", "summary": "x"})
	c.fails("submit_exit", "wrong_secret", args{"session": "s-2", "secret": "wrong",
		"phase_completed": "IMPLEMENTATION", "exit_reason": "blocked",
		"notes": strings.Repeat("long ", 1000)})
	if after := countBlobs(t, dir); after != before {
		t.Errorf("%d blobs were stored", after-before)
	}
}

// Long notes are a blob. Agents can read all of them, until they are redacted.
func TestLongNotes(t *testing.T) {
	dir := newBox(t)
	order(t, dir, rules.OpenWork{Work: "w", Actor: "ann"},
		rules.Claim{Work: "w", Role: signalbox.RoleDeveloper, Session: "s-2", Actor: "bob",
			Lease: "l-2"})
	c := newCaller(t, newServer(t, dir, nil))
	notes := strings.Repeat("long ", 1000) + "end"
	c.ok("submit_exit", args{"session": "s-2", "phase_completed": "IMPLEMENTATION",
		"exit_reason": "blocked", "notes": notes})
	if stored := countBlobs(t, dir); stored != 2 {
		t.Errorf("%d blobs, want those of the signal and its notes", stored)
	}
	shown := func() (work struct {
		Notes string         `json:"notes"`
		Blob  signalbox.Hash `json:"notes_blob"`
	}) {
		t.Helper()
		a := c.ok("get_work", args{"work": "w"})
		if a.FilePath == nil {
			t.Fatalf("no file: %s", a.text)
		}
		data, err := os.ReadFile(*a.FilePath)
		if err == nil {
			err = json.Unmarshal(data, &work)
		}
		must.Succeed(t, err)
		return work
	}
	work := shown()
	if work.Notes != notes {
		t.Errorf("notes %.300q", work.Notes)
	}
	withBox(t, dir, func(b *box.Box) {
		if _, err := b.Redact(t.Context(), rules.RedactBlob{Blob: work.Blob, Reason: "a password",
			Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
	})
	if work := shown(); work.Notes != notes[:200]+"\u2026" {
		t.Errorf("after the redaction: notes %.300q", work.Notes)
	}
}

// TestOnlyOwnWork tests the server of an agent that may see its own work only.
func TestOnlyOwnWork(t *testing.T) {
	dir := newBox(t)
	mine := planned(t, dir, "s-1")
	other := order(t, dir, rules.OpenWork{Work: "w", Title: "a secret title", Actor: "ann"},
		rules.Claim{Work: "w", Role: signalbox.RoleDeveloper, Session: "s-2", Actor: "bob",
			Lease: "l-2"})
	order(t, dir, rules.OpenWork{Work: "free", Title: "a secret title", Actor: "ann"})
	withBox(t, dir, func(b *box.Box) {
		s := newServer(t, dir, &Options{Session: "s-1", Work: "T1", Crew: true, Opened: b})
		c := newCaller(t, s)
		for _, name := range []string{"T2", "w", "free", "unknown", "plan/T2"} {
			if a := c.fails("get_work", "not_allowed", args{"work": name}); strings.Contains(a.text,
				"secret title") || !strings.Contains(a.text, "may only see its own work, 'T1'") {
				t.Errorf("get_work %s: %s", name, a.text)
			}
		}
		if a := c.ok("get_work", args{"work": "T1"}); !strings.Contains(a.string("verdict"),
			"You hold T1") {
			t.Errorf("its own work: %s", a.text)
		}
		for _, filter := range []args{nil, {"held_by": "s-2"}, {"claimable_by": "developer"}} {
			if a := c.ok("list_work", filter); strings.Contains(a.text, `"w"`) ||
				strings.Contains(a.text, "T2") || strings.Contains(a.text, "free\"") ||
				a.Snapshot["total"] != 1.0 {
				t.Errorf("list_work %v: %s", filter, a.text)
			}
		}
		status := c.ok("get_status", nil)
		for key, want := range map[string]any{"work": 1.0, "held": 1.0, "claimable": 0.0,
			"by_hand": 0.0, "tasks": 0.0, "events": 0.0} {
			if status.Snapshot[key] != want {
				t.Errorf("status: %s is %v, want %v", key, status.Snapshot[key], want)
			}
		}
		c.fails("verify_ledger", "not_allowed", nil)
		c.fails("prove_event", "not_allowed", args{"seq": 1})
		c.fails("open_work", "not_allowed", args{"work": "x"})
		c.fails("claim_work", "not_allowed", args{"role": "developer"})
		c.fails("renew_lease", "not_allowed", args{"work": "w", "epoch": other.Lease.Epoch})
		c.fails("check_exit_signals", "no_portfolio", args{"ticker": "X"})
		c.ok("renew_lease", args{"work": "T1", "epoch": mine.Lease.Epoch})
		c.ok("emit_signal", args{"signal": "checkpoint", "percent": 10})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Engine.Refresh(t.Context()); err != nil {
			t.Errorf("the server closed the box: %v", err)
		}
	})
}
