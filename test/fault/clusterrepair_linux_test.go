package fault

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
	"signalbox/internal/core/journal/nats"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

// forgeLast appends an event with a wrong hash to the ledger of a cluster, as a program with its
// secret can.
func forgeLast(t *testing.T, s *site) {
	t.Helper()
	l := s.openLedger(t)
	defer l.Close()
	head, err := l.Journal.Head(t.Context())
	check(t, err)
	last, err := l.Journal.Read(t.Context(), head-1, 1)
	check(t, err)
	e := signalbox.Event{Seq: head + 1, Time: last[0].Time, Type: rules.TypeWorkOpened,
		Work: "forged", Actor: "eve", Data: []byte(`{"phase":"DRAFT"}`), Prev: last[0].Hash}
	e.Hash = ledger.Sum(&e)
	e.Hash[0] ^= 1
	check(t, l.Journal.(*driver.LocalSnapshot).Log.(journal.Repairer).ReplaceTail(t.Context(),
		last[0].Hash, head, []signalbox.Event{e}))
}

// TestRepairInCluster carries out the runbook for invalid events in a cluster. Nobody can work with
// the ledger, but the processes of the machines run their nodes until it was moved away. What was
// acknowledged is there when it is back, and so is what was removed, in a file.
func TestRepairInCluster(t *testing.T) {
	t.Parallel()
	a := emptySite(t)
	others, hosts := startOthers(t, a)
	a.init(t)
	sites, hosts := append(others, a), append(hosts, a.host(t))
	for i, s := range sites {
		s.must(t, "work", "open", []string{"one", "two", "three"}[i])
	}
	forgeLast(t, a)
	for _, host := range hosts { // some have ended
		endHost(host)
	}
	var logs []*hostLog
	for _, s := range sites {
		logs = append(logs, startHost(t, s, "serve", "--listen", "127.0.0.1:0"))
	}
	for _, log := range logs {
		log.await(t, "only running the node of this machine: the ledger was changed: event 5")
	}

	a.mustFail(t, 1, "events cannot be removed from a ledger in NATS",
		"*signalbox ledger migrate --repair --to sqlite*", "ledger", "repair")
	if kept, _ := filepath.Glob(a.file("removed-*.jsonl")); len(kept) > 0 {
		t.Errorf("%v was written, and nothing was removed", kept)
	}
	a.must(t, "ledger", "migrate", "--repair", "--to", config.JournalSQLite)
	kept, _ := filepath.Glob(a.file("removed-*.jsonl"))
	if len(kept) != 1 {
		t.Fatalf("kept %v, want one file", kept)
	}
	if text, err := os.ReadFile(kept[0]); err != nil || !strings.Contains(string(text), "forged") {
		t.Errorf("%s has %s, error %v", kept[0], text, err)
	}
	a.must(t, "work", "open", "four")

	for _, log := range logs {
		log.interrupt(t)
	}
	secret := nats.NewSecret()
	for _, s := range sites {
		check(t, os.Rename(s.file("cluster"), s.file("cluster-removed")))
		check(t, os.WriteFile(s.file(config.DefaultSecretFile), secret, 0o600))
		s.trustPlace(t)
	}
	var again []*exec.Cmd
	for _, s := range others {
		again = append(again, s.host(t))
	}
	a.must(t, "ledger", "migrate", "--to", config.JournalCluster)
	a.host(t)
	endHost(again[0]) // a majority is enough
	for _, s := range []*site{a, others[1]} {
		s.must(t, "ledger", "verify")
		list := s.must(t, "work", "list")
		for _, work := range []string{"one", "two", "three", "four"} {
			if !strings.Contains(list, work) {
				t.Errorf("%s is missing:\n%s", work, list)
			}
		}
		if strings.Contains(list, "forged") {
			t.Errorf("the work is:\n%s", list)
		}
	}
	l := a.openLedger(t)
	defer l.Close()
	if !recorded(t, l, rules.TypeLedgerRepaired) {
		t.Error("the removal is not recorded")
	}
}

// recorded reports whether a ledger has an event of a type.
func recorded(t *testing.T, l *box.Ledger, name string) bool {
	t.Helper()
	for e, err := range l.Events(t.Context(), 0) {
		check(t, err)
		if e.Type == name {
			return true
		}
	}
	return false
}
