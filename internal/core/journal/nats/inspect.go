package nats

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

var (
	_ journal.Inspector = (*Journal)(nil)
	_ journal.Clock     = (*Journal)(nil)
	_ journal.Clocks    = (*Journal)(nil)
)

// Inspect reports about the servers: their version, the replicas and how far they are behind,
// whether they sync what they store, and the rights of the user.
func (j *Journal) Inspect(ctx context.Context) ([]journal.Finding, error) {
	var findings []journal.Finding
	err := j.Do(ctx, func(ctx context.Context) (err error) {
		findings, err = j.inspect(ctx)
		return err
	}, "inspect the journal")
	return findings, err
}

func (j *Journal) inspect(ctx context.Context) ([]journal.Finding, error) {
	findings := []journal.Finding{{Name: "server", Level: journal.OK,
		Detail: fmt.Sprintf("nats-server %s at %s", j.conn.ConnectedServerVersion(),
			j.conn.ConnectedAddr())}}
	var info *jetstream.StreamInfo
	err := j.retry(ctx, func() (err error) {
		if info, err = j.streamInfo(ctx, j.name); err == nil && info.Cluster != nil &&
			info.Cluster.Leader == "" {
			err = errNoLeader
		}
		return err
	})
	if err != nil {
		return findings, err
	}
	findings = append(findings, j.inspectReplicas(info)...)
	if j.embedded {
		copies, err := j.Copies(ctx)
		if err != nil {
			return findings, err
		}
		findings = append(findings, inspectCopies(copies, time.Now()))
	}
	findings = append(findings, j.inspectSync())
	var a answer
	if err := j.retry(ctx, func() (err error) {
		a, err = j.ask(ctx, question{Stream: j.name})
		return err
	}); err != nil {
		return findings, err
	}
	if !a.proven {
		leader := journal.Finding{Name: "leader", Level: journal.Warning,
			Detail: "the user may not ask which server leads, so it is not known whether one that answers is current",
			Fix: "permit " + raftSubject +
				": docs/reference/configuration.md, A log that seems to be shorter"}
		if j.embedded {
			leader.Detail = "nodes run an older version of signalbox, so it is not known whether one that answers is current"
			leader.Fix = "install this version of signalbox on all machines of the cluster"
		}
		findings = append(findings, leader)
	}
	rights, err := j.inspectRights(ctx)
	if err != nil {
		return findings, err
	}
	return append(findings, rights), nil
}

// staleContact is how long the leader may not hear from a server before it is reported as away. It
// hears from each of them every second.
const staleContact = 10 * time.Second

func (j *Journal) inspectReplicas(info *jetstream.StreamInfo) []journal.Finding {
	replicas := journal.Finding{Name: "replicas", Level: journal.OK,
		Detail: fmt.Sprintf("%d replicas of the ledger", info.Config.Replicas)}
	if info.Config.Replicas == 1 {
		replicas.Detail = "one replica of the ledger: if its disk is lost, so is the ledger"
		if !j.alone {
			replicas.Level, replicas.Fix = journal.Warning,
				fmt.Sprintf("in a cluster of three servers, run: nats stream edit %s --replicas 3, and the same for %s", j.name, j.files())
		}
	}
	if nodes := len(j.nodes); info.Config.Replicas < nodes {
		replicas.Level, replicas.Detail = journal.Warning,
			fmt.Sprintf("%d replicas of the ledger in a cluster of %d nodes", info.Config.Replicas,
				nodes)
		replicas.Fix = "move the ledger out of the cluster and into it again: docs/how-to/machines.md, Grow a cluster"
	}
	if info.Cluster == nil || len(info.Cluster.Replicas) == 0 {
		return []journal.Finding{replicas}
	}
	replicas.Detail += ", leader " + info.Cluster.Leader
	lag := journal.Finding{Name: "lag", Level: journal.OK, Detail: "all replicas are current"}
	var behind, away []string
	for i, name := range j.replicaNames(info.Cluster) {
		switch r := info.Cluster.Replicas[i]; {
		case r.Offline || r.Active > staleContact:
			away = append(away, name)
		case !r.Current || r.Lag > 0:
			behind = append(behind, fmt.Sprintf("%s by %d", name, r.Lag))
		}
	}
	slices.Sort(away)
	list, are := strings.Join(away, ", "), "are"
	if len(away) == 1 {
		are = "is"
	}
	switch { // how far a server that is away is behind is not known
	case len(behind) > 0:
		lag.Level, lag.Detail, lag.Fix = journal.Warning, "behind: "+strings.Join(behind, ", "),
			"wait until they have caught up before you stop another server"
		if len(away) > 0 {
			lag.Detail += fmt.Sprintf("; %s %s away", list, are)
		}
	case len(away) > 0:
		lag.Level, lag.Detail, lag.Fix = journal.Warning,
			fmt.Sprintf("the others are current; %s %s away", list, are),
			"do not stop another server until all replicas are current"
	}
	if len(away) > 0 {
		replicas.Level, replicas.Fix = journal.Warning,
			"start the servers that are away: the ledger stops when half or fewer of them are left"
		if j.embedded {
			replicas.Fix = "start signalbox run, worker or serve on the machines that are away: the ledger stops when half or fewer of them are left"
		}
		replicas.Detail += ", away: " + list
	}
	return []journal.Finding{replicas, lag}
}

// inspectCopies reports what the nodes say about their own copies.
func inspectCopies(copies []journal.Copy, now time.Time) journal.Finding {
	found := journal.Finding{Name: "copies", Level: journal.OK}
	var details, bad, unknown []string
	for i, c := range copies {
		switch {
		case c.Problem != "":
			bad = append(bad, c.Node)
			details = append(details, fmt.Sprintf("%s: %s", c.Node, c.Problem))
			continue
		case c.Verified.IsZero():
			unknown = append(unknown, c.Node)
			details = append(details, c.Node+" does not answer")
			continue
		}
		details = append(details, fmt.Sprintf("%s has verified %d events, all of them %s ago", c.Node,
			c.Events, now.Sub(c.Verified).Round(time.Second)))
		for _, other := range copies[:i] {
			if other.Events == c.Events && other.Hash != c.Hash && other.Problem == "" {
				bad = append(bad, c.Node)
				details = append(details, fmt.Sprintf("%s and %s have different events %d",
					other.Node, c.Node, c.Events))
			}
		}
	}
	found.Detail = strings.Join(details, "; ")
	switch {
	case len(bad) > 0:
		found.Level, found.Fix = journal.Problem,
			"do not stop another machine: a node replaces a damaged copy by itself when it reaches one that has verified its own; docs/explanation/scaling.md, A damaged copy"
	case len(unknown) > 0:
		found.Level, found.Fix = journal.Warning,
			"start signalbox run, worker or serve on the machines that do not answer, of this version or a newer one"
	}
	return found
}

// unknownName is the prefix of the name of a server that the leader has not heard from since it
// started.
const unknownName = "Server name unknown"

// replicaNames returns the names of the replicas other than the leader. In a cluster of signalbox
// processes, those that the leader does not know are the ones in the settings that it does not
// name.
func (j *Journal) replicaNames(c *jetstream.ClusterInfo) []string {
	unnamed := slices.DeleteFunc(slices.Clone(j.nodes), func(node string) bool {
		return node == c.Leader ||
			slices.ContainsFunc(c.Replicas,
				func(r *jetstream.PeerInfo) bool { return r.Name == node })
	})
	names := make([]string, len(c.Replicas))
	for i, r := range c.Replicas {
		switch {
		case !strings.HasPrefix(r.Name, unknownName):
			names[i] = r.Name
		case len(unnamed) > 0:
			names[i], unnamed = unnamed[0], unnamed[1:]
		default:
			names[i] = "a server whose name is not known"
		}
	}
	return names
}

func (j *Journal) inspectSync() journal.Finding {
	if j.embedded {
		return journal.Finding{Name: "fsync", Level: journal.OK,
			Detail: "the nodes sync every append before they acknowledge it"}
	}
	return journal.Finding{Name: "fsync", Level: journal.Warning,
		Detail: "unknown: NATS servers do not report whether they sync every write; by default they sync every 2 minutes",
		Fix:    "check that the configuration of every server has jetstream { sync_interval: always }"}
}

// inspectRights sends an event after one that does not exist. The server refuses it for that
// reason, or because the user may not append.
func (j *Journal) inspectRights(ctx context.Context) (journal.Finding, error) {
	m := natsgo.NewMsg(j.eventSubject())
	m.Header.Set(jetstream.ExpectedStreamHeader, j.name)
	m.Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(math.MaxInt64, 10))
	err := j.retry(ctx, func() error {
		answer, err := j.request(ctx, m)
		if err == nil {
			err = decodeAnswer(answer, nil)
		}
		return err
	})
	switch {
	case isWrongSequence(err):
		return journal.Finding{Name: "rights", Level: journal.OK,
			Detail: "the user may append events"}, nil
	case isDenied(err):
		return journal.Finding{Name: "rights", Level: journal.Problem,
			Detail: "the user may not append events",
			Fix:    "give the user the permissions that docs/reference/configuration.md lists"}, nil
	case err == nil:
		return journal.Finding{},
			driver.Damaged(fmt.Errorf(
				"the server stored an event without looking at the expected sequence number"))
	}
	return journal.Finding{}, err
}

// Time returns the median of the clocks of the servers that answer.
func (j *Journal) Time(ctx context.Context) (now time.Time, err error) {
	err = j.Do(ctx, func(ctx context.Context) error {
		_, err := j.readHead(ctx)
		if err == nil {
			var ok bool
			if now, ok = median(j.clocks.recent()); !ok {
				err = errAttemptTimeout
			}
		}
		return err
	}, "read the clock of the server")
	return now, err
}
