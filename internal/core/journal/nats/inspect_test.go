package nats

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"signalbox/internal/core/journal"
)

// peers returns what the leader a says of other servers, which it heard of some time ago.
func peers(active ...time.Duration) *jetstream.ClusterInfo {
	c := &jetstream.ClusterInfo{Leader: "a"}
	for i, ago := range active {
		c.Replicas = append(c.Replicas, &jetstream.PeerInfo{Name: string(rune('b' + i)),
			Active: ago, Current: true})
	}
	return c
}

func TestInspectReplicas(t *testing.T) {
	info := func(c *jetstream.ClusterInfo) *jetstream.StreamInfo {
		return &jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: len(c.Replicas) + 1},
			Cluster: c}
	}
	behind := peers(time.Second, time.Second)
	behind.Replicas[0].Lag = 7
	offline := peers(time.Second, time.Second)
	offline.Replicas[1].Offline = true
	both := peers(time.Minute, time.Second)
	both.Replicas[1].Lag = 7
	unknown := peers(time.Minute, time.Second)
	unknown.Replicas[0].Name = "Server name unknown at this time (peerID: 9W4VWfWS)"
	const nobody = "a server whose name is not known"
	for name, test := range map[string]struct {
		alone bool
		nodes []string
		info  *jetstream.StreamInfo
		want  []string
	}{
		"current": {false, nil, info(peers(time.Second, time.Second)),
			[]string{"ok 3 replicas of the ledger, leader a", "ok all replicas are current"}},
		"behind": {false, nil, info(behind), []string{"ok 3 replicas of the ledger, leader a",
			"warning behind: b by 7"}},
		"offline": {false, nil, info(offline),
			[]string{"warning 3 replicas of the ledger, leader a, away: c",
				"warning the others are current; c is away"}},
		"silent": {false, nil, info(peers(time.Minute, time.Second)),
			[]string{"warning 3 replicas of the ledger, leader a, away: b",
				"warning the others are current; b is away"}},
		"both away": {false, nil, info(peers(time.Minute, time.Minute)),
			[]string{"warning 3 replicas of the ledger, leader a, away: b, c",
				"warning the others are current; b, c are away"}},
		"away, behind": {false, nil, info(both),
			[]string{"warning 3 replicas of the ledger, leader a, away: b",
				"warning behind: c by 7; b is away"}},
		"no name": {false, nil, info(unknown),
			[]string{"warning 3 replicas of the ledger, leader a, away: " + nobody,
				"warning the others are current; " + nobody + " is away"}},
		"unknown node": {false, []string{"a", "b", "c"}, info(unknown),
			[]string{"warning 3 replicas of the ledger, leader a, away: b",
				"warning the others are current; b is away"}},
		"added nodes": {false, []string{"a", "b", "c", "d", "e"},
			info(peers(time.Second, time.Second)),
			[]string{"warning 3 replicas of the ledger in a cluster of 5 nodes, leader a",
				"ok all replicas are current"}},
		"one": {false, nil, info(peers()),
			[]string{"warning one replica of the ledger: if its disk is lost, so is the ledger"}},
		"one, as told": {true, nil, info(peers()),
			[]string{"ok one replica of the ledger: if its disk is lost, so is the ledger"}},
	} {
		j := newJournal("shop", Options{})
		j.alone, j.nodes = test.alone, test.nodes
		var got []string
		for _, f := range j.inspectReplicas(test.info) {
			got = append(got, string(f.Level)+" "+f.Detail)
			if (f.Fix == "") != (f.Level == journal.OK) {
				t.Errorf("%s: the fix of %+v", name, f)
			}
			if strings.Contains(f.Detail, "in a cluster of") &&
				!strings.Contains(f.Fix, "Grow a cluster") {
				t.Errorf("%s: the fix of %+v does not explain how to grow", name, f)
			}
			if strings.Contains(f.Detail, "away: ") &&
				!strings.Contains(f.Fix, "when half or fewer of them are left") {
				t.Errorf("%s: the fix of %+v does not say when the ledger stops", name, f)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
