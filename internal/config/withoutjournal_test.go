package config

import (
	"testing"

	"signalbox/internal/testkit/must"
)

// A configuration becomes one for a ledger in a file, and everything else in it stays.
func TestWithoutJournal(t *testing.T) {
	const cluster = "cluster:\n  node: a\n  # three\n\n  nodes:\n    a: 10.0.0.1:7420\n"
	for name, text := range map[string]string{
		"postgres":      "slots: 3\njournal: postgres://db/shop # shared\n",
		"nats":          "\"journal\": 'nats://a:4222/shop'\nslots: 3\n",
		"cluster":       "slots: 3\n" + cluster,
		"cluster first": cluster + "slots: 3\n",
		"one line":      "cluster: {node: a, nodes: {a: '10.0.0.1:7420'}}\nslots: 3\n",
		"sqlite":        "slots: 3\njournal: sqlite\n",
		"not set":       "slots: 3\n",
		"no newline":    "slots: 3\njournal: postgres://db/shop",
	} {
		t.Run(name, func(t *testing.T) {
			local, err := WithoutJournal([]byte(text))
			must.Succeed(t, err)
			if c := mustParse(t, string(local)); c.Journal != JournalSQLite || c.Cluster.isSet() ||
				c.Slots != 3 {
				t.Errorf("journal %q, cluster %+v, slots %d in:\n%s", c.Journal, c.Cluster, c.Slots,
					local)
			}
		})
	}
	if local, err := WithoutJournal([]byte("{journal: 'postgres://db/shop'}\n")); err == nil {
		t.Errorf("flow style: %s", local)
	}
}
