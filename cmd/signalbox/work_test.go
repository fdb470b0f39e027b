package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/crew"
)

// The duration of a lease is the configured one, or that of the flag.
func TestLeaseDuration(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		flags        []string
		want         time.Duration
	}{
		{"by default", "", nil, signalbox.DefaultLeaseTTL},
		{"by configuration", "lease: {ttl: 1h}\n", nil, time.Hour},
		{"by flag", "lease: {ttl: 1h}\n", []string{"--ttl=90s"}, 90 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newTestBox(t)
			if err := os.WriteFile(filepath.Join(b.dir, "signalbox.yaml"), []byte(tt.config), 0o600); err != nil {
				t.Fatal(err)
			}
			b.must("work", "open", "t1")
			b.must(append([]string{"work", "claim", "t1", "--role=developer"}, tt.flags...)...)
			var shown rules.WorkView
			if err := json.Unmarshal([]byte(b.must("work", "show", "t1", "--json")), &shown); err != nil {
				t.Fatal(err)
			}
			if got := shown.Lease.Expires.Sub(shown.Sessions[0].From); got != tt.want {
				t.Errorf("the lease lasts %s, want %s", got, tt.want)
			}
		})
	}
}

// A lease that has expired is shown as such, even before its end is recorded.
func TestExpiredLeaseIsShown(t *testing.T) {
	expires := time.Date(2026, 2, 28, 12, 0, 0, 0, time.UTC)
	w := &rules.Work{ID: "t1", Phase: signalbox.PhaseImplementation, Lease: &signalbox.Lease{Session: "dev", Actor: "ann", Role: signalbox.RoleDeveloper, Epoch: 3, Expires: expires},
		Present: &rules.Tenure{Session: "dev", Epoch: 3}, Past: []rules.Tenure{{Session: "first", Epoch: 2, Ended: rules.EndedReleased}}}
	show := func(at time.Time) (rules.WorkView, string) {
		var out strings.Builder
		p := &cli.Program{Out: bufio.NewWriter(&out)}
		view := w.View(at)
		if err := printWorkItem(p, crew.WorkDetails{WorkView: view}); err != nil {
			t.Fatal(err)
		}
		p.Out.Flush()
		return view, out.String()
	}
	view, text := show(expires.Add(-1))
	if view.Lease == nil || view.Expired != nil || view.Sessions[1].Ended != nil || !strings.Contains(text, "\nheld by       developer dev (ann), epoch 3, until ") {
		t.Errorf("just before it expires: %+v\n%s", view, text)
	}
	view, text = show(expires)
	if view.Lease != nil || view.Expired != w.Lease || *view.Sessions[0].Ended != rules.EndedReleased || view.Sessions[1].Ended == nil || *view.Sessions[1].Ended != rules.EndedExpired || !view.Sessions[1].To.Equal(expires) {
		t.Errorf("when it expires: %+v", view)
	}
	if strings.Contains(text, "\nheld by") || !strings.Contains(text, "\nwas held by   developer dev (ann), epoch 3, expired at ") || !strings.Contains(text, " expired\n") {
		t.Errorf("when it expires:\n%s", text)
	}
}
