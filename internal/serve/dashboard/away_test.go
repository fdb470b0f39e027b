package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"signalbox"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
)

// leaving is a journal that can become unavailable.
type leaving struct {
	journal.Journal
	away atomic.Bool
}

func (l *leaving) check() error {
	if l.away.Load() {
		return fmt.Errorf("%w: connection refused", journal.ErrUnavailable)
	}
	return nil
}

func (l *leaving) Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	return l.Journal.Read(ctx, after, limit)
}

func (l *leaving) Head(ctx context.Context) (uint64, error) {
	if err := l.check(); err != nil {
		return 0, err
	}
	return l.Journal.Head(ctx)
}

// While the ledger cannot be reached, pages show the last known state and say so, also if several
// machines share the ledger and an agent is at work. A page that needs more than the state says
// that instead.
func TestPagesWhileTheLedgerIsAway(t *testing.T) {
	s := newStage(t)
	s.start(signalbox.RoleDeveloper, "T3")
	j := &leaving{Journal: s.box.Journal}
	e, err := engine.Open(t.Context(), j, nil)
	must.Succeed(t, err)
	t.Cleanup(func() { e.Close() })
	s.box.Journal, s.box.Engine = j, e
	s.box.Config.Journal = "postgres://signalbox@db.example.com/signalbox"
	const note = "The ledger has been unreachable since "
	if page := s.mustGet(t, "/board"); strings.Contains(page, note) {
		t.Error("the note is there although the ledger can be reached")
	}
	j.away.Store(true)
	for path, task := range map[string]string{"/": "T1", "/board": "T1", "/run": "T1",
		"/crew": "T3"} {
		if page := s.mustGet(t, path); !strings.Contains(page, note) ||
			!strings.Contains(page, task) {
			t.Errorf("%s does not show the last known state, or does not say so:\n%s", path, page)
		}
	}
	if status, _, page := s.get(s.viewer(), "/ledger"); status != http.StatusServiceUnavailable ||
		!strings.Contains(page, "not available") {
		t.Errorf("/ledger: status %d\n%s", status, page)
	}
	j.away.Store(false)
	if page := s.mustGet(t, "/board"); strings.Contains(page, note) {
		t.Error("the note is still there")
	}
}
