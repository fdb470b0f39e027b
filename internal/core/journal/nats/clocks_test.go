package nats

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/natsserver"
)

// Nobody appends an event that is ahead of the clocks of the servers. The error says whose clock it
// is, and both times.
func TestEventIsAhead(t *testing.T) {
	const hours = 2 * time.Hour
	host, err := os.Hostname()
	must.Succeed(t, err)
	for name, test := range map[string]struct {
		nodes [3]time.Duration // how far their clocks are ahead of the one of this machine
		event time.Duration
		want  string
	}{
		"no deviation":          {event: 0},
		"a little ahead":        {event: 3 * time.Second},
		"one node is ahead":     {nodes: [3]time.Duration{hours, 0, 0}},
		"one node is behind":    {nodes: [3]time.Duration{0, -hours, 0}},
		"the machine is behind": {nodes: [3]time.Duration{hours, hours, hours}},
		"the machine is ahead": {nodes: [3]time.Duration{-hours, -hours, 0},
			want: "the clock of this machine, " + host + ", is ahead"},
		"the ledger is ahead": {event: time.Minute, want: "the time of the ledger is ahead"},
		"like the clock of a node": {nodes: [3]time.Duration{hours, 0, 0}, event: hours,
			want: "the time of the ledger is ahead"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := fakeServer(t, Options{patience: time.Minute}, nil)
			now := time.Now()
			for i, node := range []string{"a", "b"} { // c has not answered yet
				j.clocks.add(node, now.Add(test.nodes[i]), now)
			}
			states := led(0)
			for i := range states {
				states[i].Time = now.Add(test.nodes[i])
			}
			fakeNodes(t, j, states)
			events := testEvents(0, 2)
			events[1].Time = now.Add(test.event)
			err := j.checkTime(t.Context(), events)
			if (err != nil) != (test.want != "") || err != nil &&
				(!errors.Is(err, journal.ErrClockSkew) ||
					!strings.Contains(err.Error(), test.want) ||
					signalbox.HintOf(err) == "") {
				t.Errorf("%v (%s), want %q", err, signalbox.HintOf(err), test.want)
			}
		})
	}
}

// An event that is ahead is not stored, except to repair the clock of a log.
func TestAppendAhead(t *testing.T) {
	j := openJournal(t, natsserver.Start(t, nil))
	defer j.Close()
	must.Succeed(t, j.Append(t.Context(), 0, testEvents(0, 1)))
	ahead := testEvents(1, 1)
	ahead[0].Time = time.Now().Add(time.Hour).UTC()
	err := j.Append(t.Context(), 1, ahead)
	if !errors.Is(err, journal.ErrClockSkew) || !errors.Is(err, journal.ErrNotStored) {
		t.Errorf("an event that is ahead: %v", err)
	}
	must.Succeed(t, j.ReplaceTail(t.Context(), ahead[0].Prev, 1, ahead))
	if err := j.ReplaceTail(t.Context(), ahead[0].Prev, 1, ahead); err == nil {
		t.Error("an event was removed")
	}
	if head, err := j.Head(t.Context()); head != 2 || err != nil {
		t.Errorf("head is %d, %v", head, err)
	}
}

// Clocks are also known from answers that are no longer awaited.
func TestClockOfLateAnswer(t *testing.T) {
	j := fakeServer(t, Options{patience: time.Minute}, nil)
	states := led(7)
	for i := range states {
		states[i].Time = time.Now().Add(time.Duration(i) * time.Hour)
	}
	fakeNodes(t, j, states)
	if _, err := j.Head(t.Context()); err != nil { // two answers are enough
		t.Fatal(err)
	}
	for j.clocks.recent()["c"].there.IsZero() {
		time.Sleep(time.Millisecond)
	}
	clocks, err := j.Clocks(t.Context())
	must.Succeed(t, err)
	for i := range clocks {
		clocks[i].Ahead = clocks[i].Ahead.Round(time.Minute)
	}
	if diff := cmp.Diff([]journal.MachineClock{{Machine: "a", Ahead: -time.Hour}, {Machine: "b"},
		{Machine: "c", Ahead: time.Hour}}, clocks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
