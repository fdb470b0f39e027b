package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
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
			must.Succeed(t, os.WriteFile(filepath.Join(b.dir, "signalbox.yaml"), []byte(tt.config),
				0o600))
			b.must("work", "open", "t1")
			b.must(append([]string{"work", "claim", "t1", "--role=developer"}, tt.flags...)...)
			var shown rules.WorkView
			must.Succeed(t, json.Unmarshal([]byte(b.must("work", "show", "t1", "--json")),
				&shown))
			if got := shown.Lease.Expires.Sub(shown.Sessions[0].From); got != tt.want {
				t.Errorf("the lease lasts %s, want %s", got, tt.want)
			}
		})
	}
}
