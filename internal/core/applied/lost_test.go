package applied

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// memoryLog is a log in memory.
type memoryLog []signalbox.Event

func (l memoryLog) Read(_ context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	rest := l[min(int(after), len(l)):]
	return rest[:min(limit, 100, len(rest))], nil // fewer than asked for, as journals may
}

func (l memoryLog) Head(context.Context) (uint64, error) { return uint64(len(l)), nil }

// branch returns the first events of a log followed by others.
func branch(events []signalbox.Event, keep, others int) memoryLog {
	log := slices.Clone(events[:keep])
	for _, e := range history("other", others) {
		e.Seq += uint64(keep)
		log = append(log, e)
	}
	return log
}

func TestCompare(t *testing.T) {
	all := history("a", 1000)
	last := rememberAll(all)[1000-Size:]
	for _, tt := range []struct {
		name       string
		log        memoryLog
		remembered []Event
		want       string // "" if nothing is lost
		known      int
	}{
		{"the same", memoryLog(all), last, "", 0},
		{"a longer log", memoryLog(all), rememberAll(all[:700]), "", 0},
		{"nothing remembered", memoryLog(all), nil, "", 0},
		{"nothing at all", nil, nil, "", 0},
		{"one missing", memoryLog(all[:999]), last,
			"event 1000 is missing: this machine has applied it, but the ledger ends at event 999",
			1},
		{"some missing", memoryLog(all[:991]), last,
			"events 992 to 1000 are missing: this machine has applied them, but the ledger ends at event 991", 9},
		{"more missing than remembered", memoryLog(all[:100]), last,
			"events 101 to 1000 are missing: this machine has applied them, but the ledger ends at event 100", Size},
		{"empty", nil, last,
			"events 1 to 1000 are missing: this machine has applied them, but the ledger ends at event 0", Size},
		{"others, fewer", branch(all, 990, 5), last,
			"events 991 to 1000 are missing: this machine has applied them, but the ledger has other events instead and ends at event 995", 10},
		{"others, as many", branch(all, 999, 1), last,
			"event 1000 is missing: this machine has applied it, but the ledger has other events instead", 1},
		{"others, more", branch(all, 998, 100), last,
			"events 999 to 1000 are missing: this machine has applied them, but the ledger has other events instead", 2},
		{"others, from long ago", branch(all, 3, 2000), last,
			"events 745 to 1000, and perhaps earlier ones, are missing: this machine has applied them, but the ledger has other events instead", Size},
		{"another log", memoryLog(history("b", 10)), rememberAll(all[:10]),
			"events 1 to 10 are missing: this machine has applied them, but the ledger has other events instead", 10},
		{"a gap in the memory", memoryLog(all[:5]), []Event{remember(&all[1]), remember(&all[9])},
			"events 6 to 10 are missing: this machine has applied them, but the ledger ends at event 5", 1},
		{"left over from damage", memoryLog(history("b", 1000)),
			append([]Event{remember(&all[1])}, last[200:]...),
			"events 945 to 1000, and perhaps earlier ones, are missing: this machine has applied them, but the ledger has other events instead", 56},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lost, err := Compare(context.Background(), tt.log, tt.remembered)
			must.Succeed(t, err)
			if tt.want == "" {
				if lost != nil {
					t.Errorf("found %v", lost)
				}
				return
			}
			if lost == nil {
				t.Fatal("nothing found")
			}
			if diff := cmp.Diff(tt.want, lost.Error()); diff != "" || len(lost.Known) != tt.known {
				t.Errorf("%d known, want %d (-want +got):\n%s", len(lost.Known), tt.known, diff)
			}
			if classed := lost.AsError(); signalbox.CodeOf(classed) != signalbox.CodeUnverified ||
				!strings.Contains(signalbox.HintOf(classed), "ledger accept-loss") {
				t.Errorf("error %#v", classed)
			}
		})
	}
}

// TestCompareFindsEveryLoss compares logs that were cut off and continued anywhere.
func TestCompareFindsEveryLoss(t *testing.T) {
	all := history("a", 600)
	property.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, len(all)).Draw(t, "remembered")
		remembered := rememberAll(all[max(0, n-Size):n])
		keep := rapid.IntRange(0, len(all)).Draw(t, "kept")
		log := branch(all, keep, rapid.IntRange(0, 20).Draw(t, "others"))
		lost, err := Compare(context.Background(), log, remembered)
		must.Succeed(t, err)
		if keep >= n {
			if lost != nil {
				t.Fatalf("found %v", lost)
			}
			return
		}
		if lost == nil || lost.Last != uint64(n) || lost.First != uint64(keep+1) &&
			keep >= n-Size || lost.Known[len(lost.Known)-1] != remembered[len(remembered)-1] {
			t.Fatalf("kept %d of %d, found %+v", keep, n, lost)
		}
	})
}

// behind is a log whose reads lag behind its head.
type behind struct{ memoryLog }

func (b behind) Head(context.Context) (uint64, error) { return 100, nil }

func TestCompareWithALogThatCannotBeRead(t *testing.T) {
	all := history("a", 100)
	if lost, err := Compare(context.Background(), behind{memoryLog(all[:99])},
		rememberAll(all)); lost != nil || err == nil {
		t.Errorf("a copy that is behind: %v, %v", lost, err)
	}
	if lost, err := Compare(context.Background(), failing{}, rememberAll(all)); lost != nil ||
		!errors.Is(err, errUnreachable) {
		t.Errorf("a log that cannot be reached: %v, %v", lost, err)
	}
}

var errUnreachable = errors.New("unreachable")

type failing struct{ memoryLog }

func (failing) Read(context.Context, uint64, int) ([]signalbox.Event, error) {
	return nil, errUnreachable
}

func TestLines(t *testing.T) {
	all := rememberAll(history("w", 30))
	for n, want := range map[int]string{0: "", 1: "1", 10: "1 2 3 4 5 6 7 8 9 10",
		11: "1 2 3 4 5 … 8 9 10 11", 30: "1 2 3 4 5 … 27 28 29 30"} {
		var starts []string
		for _, line := range (&Lost{Known: all[:n]}).Lines() {
			start, _, _ := strings.Cut(line, " ")
			starts = append(starts, start)
		}
		if got := strings.Join(starts, " "); got != want {
			t.Errorf("%d events: lines %q, want %q", n, got, want)
		}
	}
	if got, want := (&Lost{Known: all[:11]}).Lines()[5], "… and 2 more"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
	if got := all[0].String(); !strings.HasPrefix(got, "1  2026-03-01T12:00:00Z  WorkOpened  w  "+
		all[0].Hash.String()[:16]) {
		t.Errorf("line %q", got)
	}
}
