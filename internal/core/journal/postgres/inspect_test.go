package postgres

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/pgserver"
)

// find returns the finding with a name; its zero value if there is none.
func find(findings []journal.Finding, name string) journal.Finding {
	for _, f := range findings {
		if f.Name == name {
			return f
		}
	}
	return journal.Finding{}
}

func wantFinding(t *testing.T, j *Journal, name string, level journal.Level, detail string) {
	t.Helper()
	findings, err := j.Inspect(t.Context())
	must.Succeed(t, err)
	f := find(findings, name)
	if f.Level != level || !strings.Contains(f.Detail, detail) || level != journal.OK &&
		level != "" && f.Fix == "" {
		t.Errorf("%s: %+v, want %s: %s", name, f, level, detail)
	}
}

func TestInspect(t *testing.T) {
	server := startServer(t,
		pgserver.Options{Settings: []string{"full_page_writes = off", "synchronous_commit = off"}})
	var output bytes.Buffer
	log := slog.New(slog.NewTextHandler(&output, nil))
	j := openBox(t, server.Address, Options{Logger: log})
	// Whoever creates a ledger on a server that may lose it is warned. The journal turns
	// synchronous_commit on.
	if got := output.String(); !strings.Contains(got, "fsync is off") ||
		!strings.Contains(got, "full_page_writes is off") ||
		strings.Contains(got, "synchronous_commit") {
		t.Errorf("creating it logged %s", got)
	}
	output.Reset()
	openBox(t, server.Address, Options{Logger: log})
	if output.Len() > 0 {
		t.Errorf("opening it again logged %s", output.String())
	}
	wantFinding(t, j, "server", journal.OK, "database postgres, schema box, user signalbox")
	wantFinding(t, j, "fsync", journal.Problem, "fsync is off")
	wantFinding(t, j, "full_page_writes", journal.Warning, "full_page_writes is off")
	wantFinding(t, j, "replicas", journal.OK, "none")
	wantFinding(t, j, "rights", journal.OK, "signalbox owns the ledger")
	wantFinding(t, j, "size", journal.OK, "MB")
	wantFinding(t, j, "connections", "", "")
	wantFinding(t, j, "encryption", "", "")
	if now, err := j.Time(t.Context()); err != nil || time.Since(now).Abs() > time.Hour {
		t.Errorf("the clock of the server: %v, %v", now, err)
	}

	standby, err := server.Standby()
	must.Succeed(t, err)
	defer standby.Stop()
	wantFinding(t, j, "replicas", journal.OK, "(sync)")
	_, err = server.Query("CREATE ROLE worker LOGIN; CREATE ROLE reader LOGIN")
	must.Succeed(t, err)
	must.Succeed(t, j.Grant(t.Context(), "worker", Work))
	must.Succeed(t, j.Grant(t.Context(), "reader", Read))
	worker := openBox(t, strings.Replace(server.Address, "user=signalbox", "user=worker", 1),
		Options{})
	wantFinding(t, worker, "rights", journal.OK, "worker may append events")
	wantFinding(t, worker, "replicas", journal.OK, "pg_monitor")
	reader := openBox(t, strings.Replace(server.Address, "user=signalbox", "user=reader", 1),
		Options{})
	wantFinding(t, reader, "rights", journal.Warning, "reader may only read")

	must.Succeed(t, server.Configure("synchronous_standby_names = ''", "fsync = on",
		"full_page_writes = on"))
	must.Succeed(t, server.Reload())
	for { // the server reads its configuration some time later
		findings, err := j.Inspect(t.Context())
		must.Succeed(t, err)
		if find(findings, "durability").Level == journal.OK &&
			find(findings, "replicas").Level == journal.Warning {
			break
		}
	}
	wantFinding(t, j, "durability", journal.OK, "fsync")
	wantFinding(t, j, "replicas", journal.Warning, "none is synchronous")
}

// An old primary that is started again after a failover accepts writes beside the new one.
func TestTwoPrimaries(t *testing.T) {
	server := startServer(t, pgserver.Options{})
	standby, err := server.Standby()
	must.Succeed(t, err)
	defer standby.Stop()
	address := both(t, server, standby)
	j := openBox(t, address, Options{})
	wantFinding(t, j, "primary", journal.OK, ", standby: ")
	must.Succeed(t, standby.Promote())
	wantFinding(t, j, "primary", journal.Problem, " accept writes")
	must.Succeed(t, standby.Kill())
	wantFinding(t, j, "primary", journal.Warning, ", away: ")
	same := openBox(t, both(t, server, server), Options{})
	wantFinding(t, same, "primary", "", "")
}

func TestJudgeReplicas(t *testing.T) {
	text := func(s string) *string { return &s }
	number := func(n int64) *int64 { return &n }
	far := replica{text("b"), text("streaming"), text("sync"), number(maxLag + 1)}
	for name, test := range map[string]struct {
		replicas []replica
		wanted   string
		finding  string
		level    journal.Level
	}{
		"no replica":             {nil, "", "replicas", journal.OK},
		"the replica is missing": {nil, "*", "replicas", journal.Problem},
		"another is connected": {[]replica{{text("b"), text("streaming"), text("async"),
			number(0)}}, "a", "replicas", journal.Problem},
		"it only catches up": {[]replica{{text("b"), text("catchup"), text("sync"),
			number(0)}}, "b", "replicas", journal.Problem},
		"synchronous": {[]replica{{text("b"), text("streaming"), text("quorum"),
			number(0)}}, "b", "replicas", journal.OK},
		"not synchronous": {[]replica{{text("b"), text("streaming"), text("async"),
			number(0)}}, "", "replicas", journal.Warning},
		"hidden":                  {[]replica{{}}, "*", "replicas", journal.OK},
		"far behind":              {[]replica{far}, "*", "lag", journal.Warning},
		"synchronous, far behind": {[]replica{far}, "*", "replicas", journal.OK},
	} {
		if f := find(judgeReplicas(test.replicas, test.wanted),
			test.finding); f.Level != test.level {
			t.Errorf("%s: %+v, want %s", name, f, test.level)
		}
	}
}
