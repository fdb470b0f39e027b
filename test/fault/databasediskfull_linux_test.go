package fault

import (
	"strings"
	"testing"
	"time"

	"signalbox/internal/testkit/pgserver"
)

// TestDatabaseDiskFull fills the disk of the database while processes work. Their commands fail and
// change nothing. With space again they work on.
func TestDatabaseDiskFull(t *testing.T) {
	t.Parallel()
	pgserver.Need(t)
	server, err := pgserver.Start()
	check(t, err)
	t.Cleanup(func() { server.Stop() })
	disk := server.SmallDisk(t, "64m")
	l := startLoad(t, server.Address, newRand(t))
	for range sized(1, 20) {
		check(t, disk.Fill())
		failed := l.failures()
		for end := time.Now().Add(patience); l.failures() < failed+3; time.Sleep(
			10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("no command fails on a full disk")
			}
		}
		check(t, disk.Free())
		l.awaitAnswers(t, "the disk was full", l.clients...)
	}
	l.end(t)
}

// failures returns how many commands failed.
func (l *databaseLoad) failures() (n int) {
	for _, c := range l.clients {
		c.mu.Lock()
		for _, line := range c.printed {
			if strings.Contains(line, `"failed":true`) {
				n++
			}
		}
		c.mu.Unlock()
	}
	return n
}
