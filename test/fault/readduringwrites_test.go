package fault

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"signalbox/internal/core/box"
	"signalbox/internal/testkit/must"
)

// TestReadDuringWrites opens, verifies and proves the ledger repeatedly while other processes
// append and sign. An intact ledger must never be reported as truncated or changed.
func TestReadDuringWrites(t *testing.T) {
	s := newSite(t)
	s.must(t, "work", "open", "task-1")
	// Reading takes longer the more there is. So each round lets every writer write at most so
	// much, or the test would never end.
	const linesOfARound = 100
	var writers []*child
	var rounds []chan struct{}
	for i := range 2 {
		writers = append(writers, startChild(t, "load", s.box, s.keyFile, fmt.Sprintf("w%d", i),
			"1"))
	}
	for _, w := range writers {
		w.receive(t)
		lines := make(chan struct{}, linesOfARound)
		rounds = append(rounds, lines)
		go func() { // a writer whose output no one reads waits
			for range lines {
				w.lines.Scan()
			}
			for w.lines.Scan() {
			}
		}()
	}
	beginRound := func() {
		for _, lines := range rounds {
			for len(lines) < cap(lines) {
				lines <- struct{}{}
			}
		}
	}
	for _, tt := range []struct {
		name  string
		times int
		do    func(ctx context.Context, s *site) error
	}{
		{"open", sized(15, 120), openOnce},
		{"verify", sized(8, 60), verifyOnce},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range tt.times {
				beginRound()
				must.Succeed(t, tt.do(t.Context(), s))
			}
		})
	}
	t.Run("commands", func(t *testing.T) {
		for range sized(2, 8) {
			beginRound()
			s.verifyCommand(t, 0)
			s.must(t, "ledger", "prove", "2")
			r := s.run(t, "work", "claim", "task-1", "--role", "critic")
			if r.status != 1 || !strings.Contains(r.stderr, "critic cannot claim") {
				t.Errorf("claim: exit status %d\n%s", r.status, r.stderr)
			}
		}
	})
	for i, w := range writers {
		close(rounds[i])
		w.stdin.Close()
		if err := w.cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", w.name, err, &w.stderr)
		}
	}
	s.mustVerify(t)
}

func openOnce(ctx context.Context, s *site) error {
	b, err := box.Open(ctx, s.box, s.options())
	if err != nil {
		return err
	}
	return b.Close()
}

func verifyOnce(ctx context.Context, s *site) error {
	l, err := box.OpenLedger(ctx, s.box, s.options())
	if err != nil {
		return err
	}
	defer l.Close()
	report, err := l.Verify(ctx, box.VerifyOptions{})
	if err == nil && !report.OK {
		err = fmt.Errorf("not verified from event %d on: %s", report.FirstBad, report.Reason)
	}
	return err
}
