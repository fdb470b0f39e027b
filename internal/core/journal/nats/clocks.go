package nats

import (
	"context"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"signalbox"
	"signalbox/internal/core/journal"
)

// clocks has the clocks of the servers, as their answers show them.
type clocks struct {
	mu       sync.Mutex
	readings map[string]clockReading // by the name of the server; guarded by mu
}

// clockReading is what a clock showed, and when that was by the monotonic clock of this process.
type clockReading struct{ there, here time.Time }

// now returns what the clock shows now.
func (r clockReading) now() time.Time { return r.there.Add(time.Since(r.here)) }

const (
	// slowAnswer is how late an answer may be to show a clock, to half of that.
	slowAnswer = journal.MaxAhead
	// clocksFor is how long the clocks are not looked at again.
	clocksFor = time.Minute
)

// add adds the clock that an answer shows to a question asked at some time.
func (c *clocks) add(server string, there, asked time.Time) {
	took := time.Since(asked)
	if took > slowAnswer || there.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readings == nil {
		c.readings = map[string]clockReading{}
	}
	c.readings[server] = clockReading{there, asked.Add(took / 2)}
}

// recent returns the clocks that were looked at in the last minute.
func (c *clocks) recent() map[string]clockReading {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.readings, func(_ string, r clockReading) bool {
		return time.Since(r.here) > clocksFor
	})
	return maps.Clone(c.readings)
}

// median returns the time of the database: the median of the servers' clocks, of two the earlier.
// It is not ok if no clock is known.
func median(readings map[string]clockReading) (t time.Time, ok bool) {
	times := make([]time.Time, 0, len(readings))
	for _, r := range readings {
		times = append(times, r.now())
	}
	slices.SortFunc(times, time.Time.Compare)
	if len(times) == 0 {
		return t, false
	}
	return times[(len(times)-1)/2], true
}

// checkTime returns an error if an event is too far ahead of the clocks of the servers. Usually
// they are known, and no server is asked.
func (j *Journal) checkTime(ctx context.Context, events []signalbox.Event) error {
	latest := events[0].Time
	for i := range events {
		if t := events[i].Time; t.After(latest) {
			latest = t
		}
	}
	readings := j.clocks.recent()
	now, ok := median(readings)
	// One of two clocks may be the wrong one, so it waits for the others before it refuses.
	for end := time.Now().Add(j.opts.attempt); !ok || latest.Sub(now) > journal.MaxAhead; {
		if _, err := j.streamHead(ctx); err != nil {
			return err
		}
		readings = j.clocks.recent()
		if now, ok = median(readings); !ok {
			return errAttemptTimeout
		}
		if len(readings) >= len(j.nodes) || time.Now().After(end) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPoll):
		}
	}
	if latest.Sub(now) <= journal.MaxAhead {
		return nil
	}
	const layout = "2006-01-02 15:04:05.000 MST"
	here := time.Now()
	if here.Sub(now) <= journal.MaxAhead {
		return signalbox.CodeFailed.Errorf(
			"correct the clocks of the servers if they are wrong; otherwise a machine whose clock was ahead wrote the last event: run signalbox ledger repair --clock",
			"%w: the time of the ledger is ahead: the next event would have the time %s, and the clocks of the servers show %s",
			journal.ErrClockSkew, latest.UTC().Format(layout), now.UTC().Format(layout))
	}
	machine, _ := os.Hostname() // "" if the machine has no name
	return signalbox.CodeFailed.Errorf(
		"correct the clock of the machine or of the servers, and use a time service on all of them",
		"%w: the clock of this machine, %s, is ahead: it shows %s, and the clocks of the servers %s",
		journal.ErrClockSkew, machine, here.UTC().Format(layout), now.UTC().Format(layout))
}

// Clocks compares the clocks that the nodes have shown in the last minute with their median.
func (j *Journal) Clocks(context.Context) (clocks []journal.MachineClock, err error) {
	readings := j.clocks.recent()
	if len(readings) < 2 {
		return nil, nil
	}
	now, _ := median(readings)
	for _, name := range slices.Sorted(maps.Keys(readings)) {
		clocks = append(clocks, journal.MachineClock{Machine: name,
			Ahead: readings[name].now().Sub(now)})
	}
	return clocks, nil
}

// now returns the time of the clock of the node.
func (n *node) now() time.Time {
	if n.clock != nil {
		return n.clock()
	}
	return time.Now()
}

const (
	// clockPause is how often a node compares its clock with those of the others.
	clockPause = 10 * time.Second
	// everyBox is a name that no box has. All nodes answer questions about it, with their clocks.
	everyBox = "_"
)

// watchClock makes the server give up what it leads while its clock deviates from the median of the
// nodes, until closed. With two clocks it is not known which one is wrong.
func (n *node) watchClock(s *server.Server, conn *natsgo.Conn, closed <-chan struct{}) {
	c := &client{conn: conn, opts: Options{attempt: time.Second}}
	for pause := time.Duration(0); ; pause = clockPause {
		select {
		case <-closed:
			return
		case <-time.After(pause):
		}
		_, _ = c.collect(context.Background(), nodeSubject(everyBox), []byte("{}"),
			len(n.cluster.Nodes), decodeNode) // there is no leader: it is for the clocks
		readings := c.clocks.recent()
		now, _ := median(readings)
		if ahead := n.now().Sub(now); len(readings) > 2 && ahead.Abs() > journal.MaxAhead {
			n.log.Warn("the clock of this machine deviates from those of the other nodes: correct it",
				"node", n.cluster.Node, "ahead", ahead.Round(time.Millisecond))
			stepDown(s)
		}
	}
}

// stepDown makes the other nodes lead the streams that a server leads.
func stepDown(s *server.Server) {
	account := s.GlobalAccount().GetName()
	led, err := s.JszAccount(&server.JSzOptions{Account: account, Streams: true,
		StreamLeaderOnly: true})
	if err != nil {
		return
	}
	for _, stream := range led.Streams {
		_ = s.JetStreamStepdownStream(account, stream.Name) // or in a moment
	}
}
