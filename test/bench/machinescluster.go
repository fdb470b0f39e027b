package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/nats"
	"signalbox/internal/testkit/loopback"
	"signalbox/internal/text"
)

// Goals of several workers that append to one box on a cluster.
const (
	goalCrowd       = 1 // times as many events as one worker
	goalCrowdAppend = 100 * time.Millisecond

	clusterScheme = "cluster://"
)

// cluster is the three nodes of a box, which processes of signalbox run themselves. Each is a
// process, as on a machine of its own.
type cluster struct {
	nodes []*child
	// places are where the journal of the box is, for a process on the machine of each node.
	places []string
}

// start starts the nodes. The caller stops them, also after an error.
func (c *cluster) start(dir string) error {
	names, nodes, secret := []string{"a", "b", "c"}, map[string]string{}, nats.NewSecret()
	for _, name := range names {
		address, err := loopback.Find()
		if err != nil {
			return err
		}
		nodes[name] = address
	}
	for i, name := range names {
		place, err := json.Marshal(nats.Cluster{Dir: filepath.Join(dir, name), Node: name,
			Nodes: nodes, Secret: secret})
		if err != nil {
			return err
		}
		c.places = append(c.places, clusterScheme+string(place))
		node, err := startChild("node", c.places[i], i)
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, node)
	}
	for _, node := range c.nodes {
		if _, err := node.receive(); err != nil {
			return err
		}
	}
	return openAndClose(c.places[0])
}

func (c *cluster) stop() {
	for _, node := range c.nodes {
		node.Process.Kill()
		node.Wait() // it was killed
	}
}

// nodeTask runs a node until it is killed. The first one creates the journal.
func nodeTask(place string, number int, send func(report) error) error {
	log, err := openInCluster(context.Background(), place, number == 0,
		func(c *nats.Cluster) { c.Host, c.Await = true, number > 0 })
	if err != nil {
		return err
	}
	defer log.Close()
	if err := send(report{What: place}); err != nil {
		return err
	}
	select {}
}

// openInCluster opens the log at a place of a cluster, with a change of how this process uses it.
func openInCluster(ctx context.Context, place string, create bool,
	change func(*nats.Cluster)) (journal.Log, error) {
	var c nats.Cluster
	if err := json.Unmarshal([]byte(place[len(clusterScheme):]), &c); err != nil {
		return nil, err
	}
	change(&c)
	return nats.OpenCluster(ctx, c, nats.Options{Create: create})
}

// compareCluster measures one worker and several on one box of a cluster.
func compareCluster(s settings) error {
	return s.inFolder("cluster", func(dir string) error {
		c := &cluster{}
		defer c.stop()
		if err := c.start(dir); err != nil {
			return err
		}
		alone, several := &crowd{workers: 1, places: c.places},
			&crowd{workers: slices.Max(s.workers), places: c.places}
		times, err := compareCrowd(alone, several, s.rounds)
		if err != nil {
			return err
		}
		printCluster(alone, several, times)
		all := crowd{places: c.places[:1], took: slices.Concat(alone.took, several.took)}
		return all.check()
	})
}

// compareCrowd runs one worker and several in each round, so that noise affects both alike, and
// returns how many times as many events a second several append.
func compareCrowd(alone, several *crowd, rounds int) (times float64, err error) {
	var ones, others, ratios []float64
	for round := range rounds {
		progress("cluster: round %d of %d", round+1, rounds)
		for _, c := range []*crowd{alone, several} {
			c.rate = 0
			if err := c.run(workSlices, func() (int, error) { return 0, nil }); err != nil {
				return 0, fmt.Errorf("%s: %w", text.Count(c.workers, "worker"), err)
			}
		}
		ones, others = append(ones, alone.rate), append(others, several.rate)
		ratios = append(ratios, several.rate/alone.rate)
	}
	alone.rate, several.rate = median(ones), median(others)
	return median(ratios), nil
}

func printCluster(alone, several *crowd, times float64) {
	var t table
	t.row("one event a command, every worker a process", "events a second", "p50 ms", "p99 ms",
		"× one worker", "goal")
	for _, c := range []*crowd{alone, several} {
		slowest := percentile(c.took, 99)
		cells := []string{text.Count(c.workers, "worker") + " on one box",
			fmt.Sprintf("%.0f", c.rate), formatMilliseconds(percentile(c.took, 50)),
			formatMilliseconds(slowest), "", ""}
		if c == several {
			cells[4] = fmt.Sprintf("%.2f", times)
			cells[5] = formatGoal(fmt.Sprintf("≥ %d ×", goalCrowd), times >= goalCrowd) + ", " +
				formatGoal(fmt.Sprintf("p99 < %v", goalCrowdAppend), slowest < goalCrowdAppend)
		}
		t.row(cells...)
	}
	t.print("Workers on a cluster of three machines that keep the ledger themselves")
}
