package sqlite

import (
	"testing"

	"signalbox/internal/core/journal/driver"
	"signalbox/internal/testkit/must"
)

// COMMIT must sync the write-ahead log before it returns: otherwise a power failure loses
// acknowledged events. No test can cut the power, so this one checks the setting on the connections
// in use, and after one of them was replaced.
func TestEveryConnectionSyncs(t *testing.T) {
	j := open(t, t.TempDir(), nil)
	must.Succeed(t, j.Append(t.Context(), 0, eventsAfter(0, 1, 10)))
	if _, err := j.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	check := func(p pool, name string) {
		t.Helper()
		err := j.with(t.Context(), p, func(c *conn) error {
			// 2 is FULL
			for pragma, want := range map[string]any{"synchronous": int64(2), "fullfsync": int64(1),
				"journal_mode": "wal"} {
				got, err := c.lookup("PRAGMA " + pragma)
				if err != nil {
					return err
				}
				if got != want {
					t.Errorf("%s: %s is %v, want %v", name, pragma, got, want)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	check(j.writer, "writer")
	for range readers {
		check(j.readers, "reader")
	}
	// closes the connection
	_ = j.with(t.Context(), j.writer, func(*conn) error { return driver.Damaged(errSkip) })
	check(j.writer, "new writer")
}
