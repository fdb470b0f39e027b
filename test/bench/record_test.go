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
	"signalbox/internal/testkit/must"
	"signalbox/ledger"
)

// TestMain makes the test binary act as the program, so that tests can start children.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childMode {
		exit(runTask(os.Args[2:]))
	}
	snapshots, err := makeSnapshotFolder("")
	if err != nil {
		exit(err)
	}
	status := m.Run()
	if err := os.RemoveAll(snapshots); err != nil {
		exit(err)
	}
	os.Exit(status)
}

func TestWorkloadIsValid(t *testing.T) {
	const n = 5000
	w := newWorkload()
	events := w.write(n, w.next)
	if len(events) > n || len(events) <= n-maxEventsPerCommand {
		t.Errorf("%d events, want %d or slightly fewer", len(events), n)
	}
	var tail, checked ledger.Tail
	tail.Seal(events)
	state := &rules.State{}
	types := map[string]int{}
	for i := range events {
		must.Succeed(t, errors.Join(ledger.Validate(&events[i]), checked.Extend(&events[i]),
			state.Apply(&events[i])))
		types[events[i].Type]++
	}
	for _, want := range []string{rules.TypeWorkOpened, rules.TypeLeaseGranted,
		rules.TypeLeaseRenewed, rules.TypeSignalHeard, rules.TypeAgentSessionCompleted,
		rules.TypePhaseChanged, rules.TypeLeaseReleased, rules.TypeWorkUnblocked} {
		if types[want] == 0 {
			t.Errorf("no %s", want)
		}
	}
	if perWork := len(events) / w.opened; perWork < 25 || perWork > 35 {
		t.Errorf("%d events for a work item", perWork)
	}
	again := sealedEvents(len(events))
	if last := again[len(again)-1]; last.Hash != tail.Hash { // the hash covers all earlier events
		t.Errorf("a second workload ended with %+v, want hash %v", last, tail.Hash)
	}
}

func TestWorkloadEndsWithBacklog(t *testing.T) {
	w := newWorkload()
	var log []signalbox.Event
	err := w.writeTo(func(events []signalbox.Event) error {
		log = append(log, events...)
		return nil
	}, 3000)
	must.Succeed(t, err)
	if len(log) < 2990 || len(log) > 4000 || len(log) != int(w.state.Seq()) {
		t.Errorf("%d events, want about 3000 and %d", len(log), w.state.Seq())
	}
	claimable := 0
	for w := range w.state.Works() {
		if w.Phase == signalbox.PhaseImplementation && w.Lease == nil {
			claimable++
		}
	}
	if claimable < backlog-maxEventsPerCommand {
		t.Errorf("%d work items for developers, want %d", claimable, backlog)
	}
}

func TestPreimageMatchesHash(t *testing.T) {
	for _, e := range sealedEvents(200) {
		if got := signalbox.Hash(sha256.Sum256(appendPreimage(nil, &e))); got != e.Hash {
			t.Fatalf("event %d, a %s: the preimage has hash %v, want %v", e.Seq, e.Type, got,
				e.Hash)
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
	must.Succeed(t, race("test", 2, a, b, c))
	if want := []string{"a", "b", "c", "b", "c", "a"}; !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
	if len(a.seconds) != 2 || len(b.seconds) != 2 || len(c.seconds) != 2 {
		t.Error("not every run was timed once")
	}
	failed := errors.New("failed")
	if err := race("test", 1, &racer{run: func() error { return failed }}); !errors.Is(err,
		failed) {
		t.Errorf("a failed run gave %v", err)
	}
}

func TestTimesIsMedianOfRatios(t *testing.T) {
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
		{hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100}, {hundred[:1], 99, 100},
		{hundred[:3], 50, 99}, {hundred, 0, 1},
	} {
		if got := percentile(tt.samples, tt.hundredths); got != tt.want {
			t.Errorf("percentile %d of %d samples = %d, want %d", tt.hundredths, len(tt.samples),
				got, tt.want)
		}
	}
}

// TestStoresAreEquivalent checks that a journal reads what each store appended.
func TestStoresAreEquivalent(t *testing.T) {
	events := sealedEvents(31)
	for name, open := range map[string]func(string) (store, func() error,
		error){"bare": openBareStore, "journal": openJournalStore} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			add, stop, err := open(dir)
			must.Succeed(t, err)
			must.Succeed(t, errors.Join(add(events[:1]), add(events[1:30]), add(events[30:]),
				stop()))
			j, err := openJournal(dir)
			must.Succeed(t, err)
			got, err := j.Read(t.Context(), 0, 100)
			must.Succeed(t, errors.Join(err, j.Close()))
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

// TestBareIsAsDurable checks that the comparison is fair.
func TestBareIsAsDurable(t *testing.T) {
	dir := t.TempDir()
	_, stop, err := openBareStore(dir)
	must.Succeed(t, err)
	must.Succeed(t, stop())
	db, err := sql.Open("sqlite", filepath.Join(dir, ledgerFile)+bareOptions)
	must.Succeed(t, err)
	defer db.Close()
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2",
		"fullfsync": "1"} {
		var got string
		if err := db.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, want %q (%v)", pragma, got, want, err)
		}
	}
}

func TestEngineStoreAppendsOneEventPerCommand(t *testing.T) {
	dir := t.TempDir()
	add, stop, err := openEngineStore(dir)
	must.Succeed(t, err)
	must.Succeed(t, errors.Join(add(make([]signalbox.Event, 1)),
		add(make([]signalbox.Event, 2*callers)),
		stop()))
	if err := checkLog(dir, 1+1+2*callers); err != nil {
		t.Error(err)
	}
}

func TestHandOver(t *testing.T) {
	for _, across := range []bool{false, true} {
		var w stopwatch
		var syncs []time.Duration
		if err := handOver(t.TempDir(), across, 3, &w, func() error { return nil },
			&syncs); err != nil {
			t.Errorf("across processes %v: %v", across, err)
		}
		if len(w.took) != 3 || len(w.called) != 3 || len(w.overslept) != 3 || len(syncs) != 3 ||
			slices.Min(w.took) <= 0 {
			t.Errorf("across processes %v: took %v, syncs %v, overslept %v", across, w.took, syncs,
				w.overslept)
		}
	}
}

func TestSampleChecksReport(t *testing.T) {
	receive := func() (report, error) { return report{What: "task-2", At: 1500}, nil }
	do := func() (time.Time, error) { return time.Unix(0, 1000), nil }
	var w stopwatch
	if err := w.sample(receive, "task-2", do); err != nil || w.took[0] != 500 {
		t.Errorf("took %v, error %v; want 500ns", w.took, err)
	}
	if err := w.sample(receive, "task-1", do); err == nil {
		t.Error("a report about other work was accepted")
	}
}

// TestChildrenSeeTheWholeLog runs every case of a long log on a short one, and checks that a
// missing event is noticed.
func TestChildrenSeeTheWholeLog(t *testing.T) {
	dir := t.TempDir()
	add, stop, err := openJournalStore(dir)
	must.Succeed(t, err)
	w := newWorkload()
	must.Succeed(t, errors.Join(w.writeTo(add, 1200), stop()))
	snapshot, err := makeSnapshot(dir)
	must.Succeed(t, err)
	events := w.state.Seq()
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

func TestWatchTaskReportsEachEvent(t *testing.T) {
	dir := t.TempDir()
	add, stop, err := openJournalStore(dir)
	must.Succeed(t, err)
	c, err := startChild("watch", dir, 3)
	must.Succeed(t, err)
	events := sealedEvents(3)
	for i, want := range []string{"1", "2", "3"} {
		must.Succeed(t, add(events[i:i+1]))
		got, err := c.receive()
		if err != nil || got.What != want || got.At == 0 {
			t.Fatalf("received %+v, error %v; want event %s", got, err, want)
		}
	}
	if err := errors.Join(c.Wait(), stop()); err != nil {
		t.Error(err)
	}
}
