package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
	"signalbox/internal/core/journal/nats"
	"signalbox/internal/core/journal/postgres"
	"signalbox/internal/core/journal/sqlite"
	"signalbox/internal/testkit/loopback"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/pgserver"
)

// database is the PostgreSQL server of all tests.
var database pgserver.Shared

func TestMain(m *testing.M) {
	status := m.Run()
	if err := database.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// drivers return functions that open handles of a new journal.
var drivers = map[string]func(t *testing.T) func() (journal.Journal, error){
	"sqlite": func(t *testing.T) func() (journal.Journal, error) {
		dir := t.TempDir()
		return func() (journal.Journal,
			error) {
			return sqlite.Open(t.Context(), dir, &sqlite.Options{Create: true})
		}
	},
	"postgres": func(t *testing.T) func() (journal.Journal, error) {
		address, schema := database.Need(t).Address, fmt.Sprintf("box%d", schemas.Add(1))
		return func() (journal.Journal, error) {
			log, err := postgres.Open(t.Context(), address,
				postgres.Options{Schema: schema, Create: true})
			return withSnapshot(t, log), err
		}
	},
	"nats": func(t *testing.T) func() (journal.Journal, error) { return openCluster(t, "a") },
	"cluster": func(t *testing.T) func() (journal.Journal,
		error) {
		return openCluster(t, "a", "b", "c")
	},
}

// withSnapshot returns a log as a machine uses it that has no snapshot yet.
func withSnapshot(t *testing.T, log journal.Log) journal.Journal {
	return &driver.LocalSnapshot{Log: log, Path: filepath.Join(t.TempDir(), "snapshot")}
}

// openCluster returns a function that opens handles of a new journal, each on another node of a
// cluster that runs in this process.
func openCluster(t *testing.T, nodes ...string) func() (journal.Journal, error) {
	cluster := nats.Cluster{Nodes: map[string]string{}, Secret: nats.NewSecret()}
	for _, node := range nodes {
		cluster.Nodes[node] = loopback.Address(t)
	}
	dir := t.TempDir()
	open := func(node string, host bool) (journal.Journal, error) {
		machine := cluster
		machine.Dir, machine.Node, machine.Host = filepath.Join(dir, node), node, host
		log, err := nats.OpenCluster(context.Background(), machine, nats.Options{Create: true})
		return withSnapshot(t, log), err
	}
	var starting sync.WaitGroup
	for _, node := range nodes {
		starting.Go(func() {
			j, err := open(node, true)
			if err != nil {
				t.Errorf("node %s: %v", node, err)
				return
			}
			t.Cleanup(func() { j.Close() })
		})
	}
	starting.Wait()
	next := 0
	return func() (journal.Journal, error) {
		next++
		return open(nodes[next%len(nodes)], false)
	}
}

// schemas counts the journals in PostgreSQL.
var schemas atomic.Int64

// onEachDriver runs a test with journals of each driver.
func onEachDriver(t *testing.T,
	test func(t *testing.T, newJournal func(*testing.T) func() journal.Journal)) {
	for name, driver := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a cluster mostly waits for an election
			test(t, func(t *testing.T) func() journal.Journal {
				open := driver(t)
				return func() journal.Journal {
					j, err := open()
					must.Succeed(t, err)
					t.Cleanup(func() { j.Close() })
					return j
				}
			})
		})
	}
}

// On every database the answers are what the rules say of the whole log, as in TestEnginesAgree.
func TestEnginesAgreeOnEachDriver(t *testing.T) {
	onEachDriver(t, func(t *testing.T, newJournal func(*testing.T) func() journal.Journal) {
		for seed := range uint64(3) {
			enginesAgree(t, newJournal(t), rand.New(rand.NewPCG(seed, 0)).IntN)
			if strings.HasSuffix(t.Name(), "/cluster") {
				break // it takes long to start
			}
		}
	})
}

// On every database many callers get answers that are true, as in TestManyEnginesAtOnce.
func TestManyEnginesOnEachDriver(t *testing.T) {
	onEachDriver(t, func(t *testing.T, newJournal func(*testing.T) func() journal.Journal) {
		var passed atomic.Int64
		crowd{callers: 8, commands: 25,
			now:  func() time.Time { return start.Add(time.Duration(passed.Load())) },
			pass: func() { passed.Add(int64(100 * time.Millisecond)) },
		}.run(t, 1, newJournal(t))
	})
}
