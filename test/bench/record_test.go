package main

import (
	"crypto/sha256"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

// TestMain lets tests start children: the test binary then stands for the program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == recordMode {
		exit(runTask(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func TestAuthorWritesLives(t *testing.T) {
	const n = 5000
	a := newAuthor()
	events := a.write(n, a.next)
	if len(events) > n || len(events) <= n-mostOfOne {
		t.Errorf("%d events, want %d but for the last command", len(events), n)
	}
	var tail, checked ledger.Tail
	tail.Seal(events)
	state := &rules.State{}
	types := map[string]int{}
	for i := range events {
		if err := errors.Join(ledger.Validate(&events[i]), checked.Extend(&events[i]), state.Apply(&events[i])); err != nil {
			t.Fatal(err)
		}
		types[events[i].Type]++
	}
	for _, want := range []string{"WorkOpened", "LeaseGranted", "LeaseRenewed", "SignalHeard", "AgentSessionCompleted",
		"PhaseChanged", "LeaseReleased", "WorkUnblocked"} {
		if types[want] == 0 {
			t.Errorf("no %s", want)
		}
	}
	if perWork := len(events) / a.opened; perWork < 25 || perWork > 35 {
		t.Errorf("%d events for a work item", perWork)
	}
	again := sealedEvents(len(events))
	if last := again[len(again)-1]; last.Hash != tail.Hash { // which vouches for all before it
		t.Errorf("another author ended with %+v, want hash %v", last, tail.Hash)
	}
}

func TestAuthorLeavesABacklog(t *testing.T) {
	a := newAuthor()
	var log []signalbox.Event
	err := a.writeTo(func(events []signalbox.Event) error {
		log = append(log, events...)
		return nil
	}, 3000)
	if err != nil {
		t.Fatal(err)
	}
	if len(log) < 2990 || len(log) > 4000 || len(log) != int(a.state.Seq()) {
		t.Errorf("%d events, want about 3000 and %d", len(log), a.state.Seq())
	}
	claimable := 0
	for w := range a.state.Works() {
		if w.Phase == signalbox.PhaseImplementation && w.Lease == nil {
			claimable++
		}
	}
	if claimable < backlog-mostOfOne {
		t.Errorf("%d work items for developers, want %d", claimable, backlog)
	}
}

func TestPreimageIsWhatIsHashed(t *testing.T) {
	for _, e := range sealedEvents(200) {
		if got := signalbox.Hash(sha256.Sum256(appendPreimage(nil, &e))); got != e.Hash {
			t.Fatalf("event %d, a %s: the preimage has hash %v, want %v", e.Seq, e.Type, got, e.Hash)
		}
	}
}

func TestVerifySliceFindsChanges(t *testing.T) {
	events := sealedEvents(2000)
	if err := verifySlice(events, 2); err != nil {
		t.Error(err)
	}
	events[1234].Actor += "x"
	if err := verifySlice(events, 1); err == nil || !strings.Contains(err.Error(), "event 1235") {
		t.Errorf("a changed event gave %v", err)
	}
}

func TestRaceTakesTurns(t *testing.T) {
	var order []string
	runner := func(name string) *racer {
		return &racer{name: name, amount: 1, run: func() error {
			order = append(order, name)
			return nil
		}}
	}
	a, b, c := runner("a"), runner("b"), runner("c")
	if err := race("test", 2, a, b, c); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "c", "b", "c", "a"}; !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
	if len(a.seconds) != 2 || len(b.seconds) != 2 || len(c.seconds) != 2 {
		t.Error("not every run was timed once")
	}
	failed := errors.New("failed")
	if err := race("test", 1, &racer{run: func() error { return failed }}); !errors.Is(err, failed) {
		t.Errorf("a failed run gave %v", err)
	}
}

func TestTimesIsTheMedianOfRatios(t *testing.T) {
	r := &racer{amount: 20, seconds: []float64{1, 2, 10}}
	peer := &racer{amount: 10, seconds: []float64{1, 4, 5}}
	if got := r.times(peer); got != 2 { // 2, 4 and 1 times as fast
		t.Errorf("%g times as fast, want 2", got)
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	for _, tt := range []struct {
		samples    []time.Duration
		hundredths int
		want       time.Duration
	}{
		{hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100}, {hundred[:1], 99, 100}, {hundred[:3], 50, 99}, {hundred, 0, 1},
	} {
		if got := percentile(tt.samples, tt.hundredths); got != tt.want {
			t.Errorf("percentile %d of %d samples = %d, want %d", tt.hundredths, len(tt.samples), got, tt.want)
		}
	}
}

// TestStoresStoreTheSame adds through SQLite alone what a journal must read, and the other way round.
func TestStoresStoreTheSame(t *testing.T) {
	events := sealedEvents(31)
	for name, open := range map[string]func(string) (store, func() error, error){"bare": openBareStore, "journal": openJournalStore} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			add, stop, err := open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(add(events[:1]), add(events[1:30]), add(events[30:]), stop()); err != nil {
				t.Fatal(err)
			}
			j, err := openJournal(dir)
			if err != nil {
				t.Fatal(err)
			}
			got, err := j.Read(t.Context(), 0, 100)
			if err := errors.Join(err, j.Close()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(events, got); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if err := checkLog(dir, 31); err != nil {
				t.Error(err)
			}
			if err := checkLog(dir, 32); err == nil {
				t.Error("a missing event was not noticed")
			}
		})
	}
}

// TestBareIsAsDurable keeps the contest fair.
func TestBareIsAsDurable(t *testing.T) {
	dir := t.TempDir()
	_, stop, err := openBareStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, ledgerFile)+bareOptions)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "fullfsync": "1"} {
		var got string
		if err := db.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, want %q (%v)", pragma, got, want, err)
		}
	}
}

func TestEngineStoreMakesAnEventEach(t *testing.T) {
	dir := t.TempDir()
	add, stop, err := openEngineStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(add(make([]signalbox.Event, 1)), add(make([]signalbox.Event, 2*callers)), stop()); err != nil {
		t.Fatal(err)
	}
	if err := checkLog(dir, 1+1+2*callers); err != nil {
		t.Error(err)
	}
}

func TestHandOver(t *testing.T) {
	for _, across := range []bool{false, true} {
		var w stopwatch
		var syncs []time.Duration
		if err := handOver(t.TempDir(), across, 3, &w, &syncs); err != nil {
			t.Errorf("across processes %v: %v", across, err)
		}
		if len(w.took) != 3 || len(w.overslept) != 3 || len(syncs) != 3 || slices.Min(w.took) <= 0 {
			t.Errorf("across processes %v: took %v, syncs %v, overslept %v", across, w.took, syncs, w.overslept)
		}
	}
}

func TestSampleWantsWhatCameOfIt(t *testing.T) {
	hear := func() (said, error) { return said{What: "task-2", At: 1500}, nil }
	do := func() (time.Time, error) { return time.Unix(0, 1000), nil }
	var w stopwatch
	if err := w.sample(hear, "task-2", do); err != nil || w.took[0] != 500 {
		t.Errorf("took %v, error %v; want 500ns", w.took, err)
	}
	if err := w.sample(hear, "task-1", do); err == nil {
		t.Error("something else was taken for what was waited for")
	}
}

// TestChildrenSeeTheWholeLog runs every task of a long log on a short one, and notices one that lost an event.
func TestChildrenSeeTheWholeLog(t *testing.T) {
	dir := t.TempDir()
	add, stop, err := openJournalStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	a := newAuthor()
	if err := errors.Join(a.writeTo(add, 1200), stop()); err != nil {
		t.Fatal(err)
	}
	snapshot, err := makeSnapshot(dir)
	if err != nil {
		t.Fatal(err)
	}
	events := a.state.Seq()
	for _, c := range []*longCase{
		{name: "start", task: "start"},
		{name: "start from a snapshot", task: "start", snapshot: snapshot},
		{name: "verify", task: "verify", number: 2},
		{name: "claim", task: "claim", number: 1, snapshot: snapshot},
	} {
		before := events
		if events, err = c.run(dir, before); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if grew := events > before; grew != (c.task == "claim") {
			t.Errorf("%s: %d events, then %d", c.name, before, events)
		}
		if len(c.seconds) != 1 || len(c.cores) != 1 {
			t.Errorf("%s was not timed", c.name)
		}
	}
	if _, err := (&longCase{task: "verify", number: 1}).run(dir, events+1); err == nil {
		t.Error("a missing event was not noticed")
	}
}

func TestWatchTaskTellsOfEachEvent(t *testing.T) {
	dir := t.TempDir()
	add, stop, err := openJournalStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := startChild("watch", dir, 3)
	if err != nil {
		t.Fatal(err)
	}
	events := sealedEvents(3)
	for i, want := range []string{"1", "2", "3"} {
		if err := add(events[i : i+1]); err != nil {
			t.Fatal(err)
		}
		told, err := c.hear()
		if err != nil || told.What != want || told.At == 0 {
			t.Fatalf("told %+v, error %v; want event %s", told, err, want)
		}
	}
	if err := errors.Join(c.Wait(), stop()); err != nil {
		t.Error(err)
	}
}
