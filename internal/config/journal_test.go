package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

func TestReadJournal(t *testing.T) {
	const address = "postgres://signalbox@db.example.com/shop?schema=one"
	for _, tt := range []struct {
		name, text, want, fault string
	}{
		{"template", Template, JournalSQLite, ""},
		{"not set", "slots: 3\n", JournalSQLite, ""},
		{"null", "journal:\n", JournalSQLite, ""},
		{"sqlite", "journal: sqlite\n", JournalSQLite, ""},
		{"address", "journal: " + address + "\n", address, ""},
		{"in quotes", "'journal': \"" + address + "\"\n", address, ""},
		{"flow style", "{journal: '" + address + "'}\n", address, ""},
		{"other settings are wrong", "slots: none\njournal: " + address + "\ncolour: red\n",
			address, ""},
		{"not YAML, and not set", "slots: [\n", JournalSQLite, ""},
		{"not YAML, with a comment", "# journal: sqlite\nslots: [\n", JournalSQLite, ""},
		{"not YAML, with a value", "slots: [ journal\n", JournalSQLite, ""},
		{"not YAML", "journal: " + address + "\nslots: [\n", "", "line 2"},
		{"twice", "journal: " + address + "\njournal: sqlite\n", "", "set twice"},
		{"unknown word", "journal: mysql\n", "", "address"},
		{"unknown scheme", "journal: mysql://db/shop\n", "", "neither sqlite"},
		{"password", "journal: postgres://ann:secret@db/shop\n", "", "password"},
		{"password as a parameter", "journal: postgres://db/shop?password=secret\n", "",
			"password"},
		{"password of a key", "journal: postgres://db/shop?sslkey=k&sslpassword=secret\n", "",
			"password"},
		{"password in capitals", "journal: postgres://db/shop?PassWord=secret\n", "", "password"},
		{"service file", "journal: postgres:///?service=s&servicefile=f\n", "", "service file"},
		{"not an address", "journal: 'postgres://db:port:port/'\n", "", "not valid"},
		{"nats", "journal: nats://a:4222,b:4222/shop?replicas=3\n",
			"nats://a:4222,b:4222/shop?replicas=3", ""},
		{"nats without a server", "journal: nats:///shop\n", "", "no server"},
		{"nats with a login", "journal: nats://ann:secret@a/shop\n", "", "contains a password"},
		{"nats with a user", "journal: nats://ann@a/shop\n", "nats://ann@a/shop", ""},
		{"cluster", "cluster: {node: a, nodes: {a: 'x:1'}}\nslots: none\n", JournalCluster, ""},
		{"cluster and a file", "journal: sqlite\ncluster: {node: a, nodes: {a: 'x:1'}}\n",
			JournalSQLite, ""},
		{"cluster and an address",
			"journal: nats://a/shop\ncluster: {node: a, nodes: {a: 'x:1'}}\n", "nats://a/shop", ""},
		{"cluster and cluster", "journal: cluster\ncluster: {node: a, nodes: {a: 'x:1'}}\n",
			JournalCluster, ""},
		{"cluster and an empty journal", "journal:\ncluster: {node: a, nodes: {a: 'x:1'}}\n",
			JournalCluster, ""},
		{"no cluster", "journal: cluster\n", "", "the setting cluster is missing"},
		{"address of a cluster",
			"journal: cluster://a:7420\ncluster: {node: a, nodes: {a: 'x:1'}}\n", "",
			"has no address here"},
		{"not YAML, with a cluster", "cluster:\n  node: a\nslots: [\n", "", "line 3"},
		{"the word cluster", "agents: {cluster: {preset: claude}}\n", JournalSQLite, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			must.Succeed(t, os.WriteFile(filepath.Join(dir, FileName), []byte(tt.text),
				0o600))
			got, err := ReadJournal(dir)
			switch {
			case tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault) ||
				strings.Contains(err.Error(), "secret")):
				t.Errorf("error %v, want %q", err, tt.fault)
			case tt.fault == "" && (err != nil || got != tt.want):
				t.Errorf("%q, error %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestSetJournal(t *testing.T) {
	const address = "postgres://signalbox@db.example.com/shop?schema=one"
	for name, text := range map[string]string{
		"template":  Template,
		"empty":     "",
		"other":     "slots: 3\n",
		"set":       "slots: 3\njournal: sqlite # here\nagent: claude\n",
		"in quotes": "\"journal\" : 'sqlite'\n",
	} {
		t.Run(name, func(t *testing.T) {
			changed, err := SetJournal([]byte(text), address)
			must.Succeed(t, err)
			before, after := mustParse(t, text), mustParse(t, string(changed))
			if after.Journal != address || after.Slots != before.Slots {
				t.Errorf("journal %q, slots %d in:\n%s", after.Journal, after.Slots, changed)
			}
			back, err := SetJournal(changed, JournalSQLite)
			if c := mustParse(t, string(back)); err != nil || c.Journal != JournalSQLite {
				t.Errorf("back: journal %q, error %v", c.Journal, err)
			}
		})
	}
	for name, text := range map[string]string{"flow style": "{journal: sqlite}\n",
		"not valid": "slots: none\n"} {
		if changed, err := SetJournal([]byte(text), address); err == nil {
			t.Errorf("%s: no error, but %s", name, changed)
		}
	}
}

func TestPostgresAddress(t *testing.T) {
	for journal, want := range map[string][2]string{
		"postgres://ann@db/shop": {"postgres://ann@db/shop",
			DefaultSchema},
		"postgresql://ann@db/shop?schema=one":               {"postgresql://ann@db/shop", "one"},
		"postgres://a,b:6000/shop?schema=one&sslmode=allow": {"postgres://a,b:6000/shop?sslmode=allow", "one"},
	} {
		address, schema, err := PostgresAddress(journal)
		if err != nil || address != want[0] || schema != want[1] {
			t.Errorf("%s: %q, %q, error %v", journal, address, schema, err)
		}
	}
}

// A repository must not decide where the ledger of its users is.
func TestTeamCannotSetJournal(t *testing.T) {
	for _, text := range []string{"journal: postgres://db/shop\n", "journal: sqlite\n",
		"cluster: {node: a, nodes: {a: 'x:1'}}\n", "cluster: {secret_file: x}\n"} {
		_, _, err := ParseTeam("signalbox.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), "not valid in a team's configuration") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

func TestCluster(t *testing.T) {
	for text, want := range map[string]string{
		"{node: a, nodes: {a: 'x:7', b: 'x:9', c: '[::1]:7'}}": "",
		"{node: a, nodes: {a: 'x:7'}, secret_file: /etc/s}":    "",
		"{node: a}":                                        "0 nodes",
		"{nodes: {a: 'x:7'}}":                              `no node is called ""`,
		"{node: b, nodes: {a: 'x:7'}}":                     `no node is called "b"`,
		"{node: a, nodes: {a: 'x:7', b: 'y:7'}}":           "a cluster of 2 nodes survives no more failures than one of 1",
		"{node: a, nodes: {a: x}}":                         `"x" is not an address`,
		"{node: a, nodes: {a: ':7'}}":                      "is not an address",
		"{node: a, nodes: {a: 'x:65535'}}":                 "is not an address",
		"{node: a.b, nodes: {a.b: 'x:7'}}":                 "is not the name of a node",
		"{node: a, nodes: {a: 'x:7'}, secret_file: ''}":    "empty",
		"{node: a, nodes: {a: 'x:7', b: 'x:8', c: 'y:1'}}": "port 8 is also used by a",
	} {
		_, err := Parse([]byte("cluster: " + text + "\n"))
		if want == "" && err != nil || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, FileName),
		[]byte("cluster: {node: a, nodes: {a: 'x:7'}}\n"), 0o600))
	c, err := ReadCluster(dir)
	if err != nil || c.SecretFile != filepath.Join(dir, DefaultSecretFile) ||
		c.Nodes["a"] != "x:7" {
		t.Errorf("%+v, %v", c, err)
	}
}

// Machines share a ledger in a database that they reach, or in a cluster that they are. A cluster
// of one node has no other machine.
func TestManyMachines(t *testing.T) {
	for settings, want := range map[string]bool{
		"":                  false,
		"journal: sqlite\n": false,
		"journal: postgres://signalbox@db.example.com/shop\n":                                       true,
		"journal: nats://nats.example.com:4222/shop\n":                                              true,
		"cluster: {node: a, nodes: {a: '10.0.0.1:7420'}}\n":                                         false,
		"cluster: {node: a, nodes: {a: '10.0.0.1:7420', b: '10.0.0.2:7420', c: '10.0.0.3:7420'}}\n": true,
	} {
		dir := t.TempDir()
		must.Succeed(t, os.WriteFile(filepath.Join(dir, FileName), []byte(settings), 0o600))
		c, err := Load(dir)
		must.Succeed(t, err)
		if got := c.ManyMachines(); got != want {
			t.Errorf("%q: %v, want %v", settings, got, want)
		}
	}
}

func TestSetJournalUser(t *testing.T) {
	for journal, want := range map[string]string{
		"postgres://ann@db.example.com/shop?schema=shop":          "postgres://work%40er@db.example.com/shop?schema=shop",
		"postgres://db.example.com:5432":                          "postgres://work%40er@db.example.com:5432",
		"postgres:///shop?host=%2Ftmp&user=ann":                   "postgres://work%40er@/shop?host=%2Ftmp",
		"postgres://ann@a.example.com,b.example.com/shop?user=bo": "postgres://work%40er@a.example.com,b.example.com/shop",
		"nats://ann@a:4222,b:4222/shop?ca=ca.pem":                 "nats://work%40er@a:4222,b:4222/shop?ca=ca.pem",
		"nats://a:4222/shop?credentials=shop.creds":               "",
		JournalSQLite:  "",
		JournalCluster: "",
	} {
		if got, err := SetJournalUser(journal, "work@er"); got != want ||
			(err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", journal, got, err, want)
		}
	}
}

func TestWithUserOf(t *testing.T) {
	const moved = "postgres://ann@db.example.com/shop?schema=shop"
	for _, tt := range []struct{ journal, own, want string }{
		{moved, "postgres://work%40er@old.example.com/old?sslmode=require",
			"postgres://work%40er@db.example.com/shop?schema=shop"},
		{moved, "postgresql:///old?host=%2Ftmp&user=worker",
			"postgres://db.example.com/shop?schema=shop&user=worker"},
		{moved, "postgres://old.example.com/old", "postgres://db.example.com/shop?schema=shop"},
		{moved, "nats://worker@a:4222/old", "postgres://db.example.com/shop?schema=shop"},
		{moved, JournalCluster, "postgres://db.example.com/shop?schema=shop"},
		{"postgres:///shop?host=%2Ftmp&user=ann", "postgres://worker@db/old",
			"postgres://worker@/shop?host=%2Ftmp"},
		{"postgres://ann@db", "postgres://worker:secret@db/old", "postgres://worker@db"},
		{"nats://a:4222,b:4222/shop?credentials=ann.creds",
			"nats://a:4222/old?credentials=worker.creds",
			"nats://a:4222,b:4222/shop?credentials=worker.creds"},
		{"nats://ann@a:4222/shop?ca=ca.pem", "tls://worker@a:4222/old",
			"nats://worker@a:4222/shop?ca=ca.pem"},
		{"postgres://db/shop?%75ser=ann", "postgres://worker@db/old", "postgres://worker@db/shop"},
		{JournalCluster, moved, JournalCluster},
	} {
		if got := WithUserOf(tt.journal, tt.own); got != tt.want {
			t.Errorf("%s with the user of %s: %s, want %s", tt.journal, tt.own, got, tt.want)
		}
	}
}
