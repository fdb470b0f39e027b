package contain

import (
	"os"
	"strings"
	"testing"
	"time"

	"signalbox/internal/config"
	"signalbox/internal/testkit/must"
)

func TestExceeds(t *testing.T) {
	m := newMachine(t, "")
	m.write("tree/a", "12345")
	m.write("tree/b/c", "67890")
	m.write("tree/box/ledger", "1234567890")
	for limit, want := range map[int64]bool{9: true, 10: false, 11: false} {
		if got := Exceeds(m.path("tree"), limit, m.path("tree/box")); got != want {
			t.Errorf("limit %d: %v", limit, got)
		}
	}
	if Exceeds(m.path("missing"), 0) {
		t.Error("a missing folder is too large")
	}
}

// The home folder and the temporary files of a program count, too. A home folder that is too large
// does not stop the next program.
func TestWatchSize(t *testing.T) {
	const tree, home, temp = "project/.signalbox/trees/T1/x",
		"project/.signalbox/state/T1/developer-a/x", "project/.signalbox/tmp/w-1.1/x"
	for name, tt := range map[string]struct {
		files    map[string]int // sizes
		settings string
		exceeded bool
		emptied  bool
	}{
		"small": {map[string]int{tree: 300_000, home: 300_000, temp: 300_000}, "", false,
			false},
		"home":      {map[string]int{home: 1_001_000}, "", true, true},
		"together":  {map[string]int{tree: 600_000, home: 600_000}, "", true, true},
		"temporary": {map[string]int{temp: 1_001_000, home: 1}, "", true, false},
		"tree":      {map[string]int{tree: 1_001_000, home: 1}, "", true, false},
		"all": {map[string]int{tree: 400_000, home: 400_000, temp: 400_000}, "", true,
			false},
		"other tasks": {map[string]int{"project/.signalbox/state/T2/developer-a/x": 5_000_000,
			home: 1}, "", false, false},
		"no sandbox": {map[string]int{temp: 1_001_000, home: 1}, "sandbox: off\n", true, false},
		"without limit": {map[string]int{tree: 5_000_000, home: 1}, "limits: {tree: 0}\n", false,
			false},
	} {
		t.Run(name, func(t *testing.T) {
			settings := tt.settings
			if !strings.Contains(settings, "limits") {
				settings += "limits: {tree: 1MB}\n"
			}
			m := newMachine(t, settings)
			p := m.agent(config.Agent{})
			for file, size := range tt.files {
				m.write(file, strings.Repeat("x", size))
			}
			if got := p.Limit > 0 && p.exceeds(p.dir, p.home, p.temp); got != tt.exceeded {
				t.Errorf("exceeded: %v", got)
			}
			if tt.exceeded {
				<-p.WatchSize(t.Context(), time.Microsecond) // or the test never ends
			} else if got := p.WatchSize(t.Context(), time.Microsecond); p.Limit == 0 &&
				got != nil {
				t.Error("it is watched without a limit")
			}
			must.Succeed(t, p.EmptyHome())
			if _, err := os.Lstat(m.path(home)); (err != nil) != tt.emptied {
				t.Errorf("the home folder was emptied: %v", err)
			}
		})
	}
}
