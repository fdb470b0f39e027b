package serve

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRepeatedWarnings logs the same warning many times, and with many attributes.
func TestRepeatedWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(newQuietHandler(slog.NewTextHandler(&out, nil)))
		lines := func() int { n := strings.Count(out.String(), "\n"); out.Reset(); return n }
		for range 100 {
			log.Error("a page failed", "path", "/x")
		}
		if n := lines(); n != 1 {
			t.Errorf("%d of the same", n)
		}
		for i := range 100 {
			log.Error("a page failed", "path", i)
		}
		if n := lines(); n != maxVariants-1 {
			t.Errorf("%d different ones", n)
		}
		log.Warn("another")
		time.Sleep(time.Minute) // of the bubble
		log.Error("a page failed", "path", "/x")
		if n := lines(); n != 2 {
			t.Errorf("%d of two", n)
		}
	})
}
