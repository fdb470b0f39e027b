package postgres

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
)

// Every role sees how far the clock of each machine is off whose process follows the log, and only
// as long as it does.
func TestClocks(t *testing.T) {
	schema, worker, reader := newSchema(), newRole(t), newRole(t)
	owner := openJournal(t, schema)
	defer owner.Close()
	must.Succeed(t, owner.Grant(t.Context(), worker, Work))
	must.Succeed(t, owner.Grant(t.Context(), reader, Read))
	follow := func(user, schema string, ahead time.Duration) (end func()) {
		t.Helper()
		j, err := Open(t.Context(), as(t, user), Options{Schema: schema, patience: time.Minute,
			clock: func() time.Time { return time.Now().Add(ahead) }})
		must.Succeed(t, err)
		watchUntil(t.Context(), j, 1)
		return func() { must.Succeed(t, j.Close()) }
	}
	other := newSchema()
	openJournal(t, other).Close()
	defer follow("signalbox", other, 48*time.Hour)()

	host, err := os.Hostname()
	must.Succeed(t, err)
	asReader, err := Open(t.Context(), as(t, reader), Options{Schema: schema})
	must.Succeed(t, err)
	defer asReader.Close()
	await := func(when string, want ...journal.MachineClock) {
		t.Helper()
		var got []journal.MachineClock
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			if got, err = asReader.Clocks(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i := range got {
				got[i].Ahead = got[i].Ahead.Round(time.Minute)
			}
			if slices.Equal(got, want) {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Fatalf("%s: (-want +got):\n%s", when, cmp.Diff(want, got))
	}
	await("no machine follows")
	endFirst := follow("signalbox", schema, 0)
	await("one follows", journal.MachineClock{Machine: host})
	endSecond := follow(worker, schema, -time.Hour)
	await("another clock is behind", journal.MachineClock{Machine: host, Ahead: -time.Hour})
	endSecond()
	await("it has ended", journal.MachineClock{Machine: host})
	endFirst()
	await("both have ended")
}

// Anybody who may connect can give a connection any name.
func TestClocksOfForeignNames(t *testing.T) {
	j := &Journal{lock: lockOf("box")}
	own := func(text string) *string {
		text = j.channel() + " " + text
		return &text
	}
	foreign := "signalbox"
	got := j.clocksIn([]*string{nil, &foreign, own(""), own("soon alpha"), own("1e300s alpha"),
		own("1s beta"), own("-2s beta"), own("1.5s"), own("0s al\x1bpha of shop")})
	want := []journal.MachineClock{{Ahead: 1500 * time.Millisecond}, {Machine: `al\x1bpha of shop`},
		{Machine: "beta", Ahead: -2 * time.Second}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
