package nats

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal/driver"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// BenchmarkCrowd measures engines that append one event after the other to one log on three nodes,
// each node a process of its own.
func BenchmarkCrowd(b *testing.B) {
	c := newCluster(b, 3)
	c.startAll(b)
	for _, crowd := range []int{1, 2, 8} {
		b.Run(fmt.Sprint(crowd), func(b *testing.B) {
			name := fmt.Sprintf("crowd-%d-%d", crowd, b.N)
			engines := make([]*engine.Engine, crowd)
			for i := range engines {
				j := c.open(b, []string{"a", "b", "c"}[i%3], name)
				defer j.Close()
				e, err := engine.Open(b.Context(), &driver.LocalSnapshot{Log: j,
					Path: filepath.Join(b.TempDir(), "snapshot")}, nil)
				must.Succeed(b, err)
				defer e.Close()
				if i == 0 {
					_, err := e.Do(b.Context(), rules.OpenBox{Box: "box-1", Actor: "ann"})
					must.Succeed(b, err)
				}
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				go func() { _ = e.Follow(ctx) }()
				engines[i] = e
			}
			var mu sync.Mutex
			var took []time.Duration
			var all sync.WaitGroup
			b.ResetTimer()
			for i, e := range engines {
				all.Go(func() {
					for n := range max(b.N/crowd, 1) {
						start := time.Now()
						_, err := e.Do(b.Context(), rules.OpenWork{Work: fmt.Sprintf("w-%d-%d", i, n),
							Title: "a title", Actor: "ann"})
						if err != nil {
							b.Error(err)
						}
						mu.Lock()
						took = append(took, time.Since(start))
						mu.Unlock()
					}
				})
			}
			all.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
