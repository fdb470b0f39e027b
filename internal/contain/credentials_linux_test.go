package contain

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/process"
	"signalbox/internal/sandbox"
	"signalbox/internal/testkit/must"
)

// run runs a program in its sandbox, and returns what it writes.
func (m *machine) run(p *Program, dir string, argv ...string) string {
	m.t.Helper()
	must.Succeed(m.t, p.Prepare())
	var out bytes.Buffer
	started, err := process.Start(process.Spec{Argv: argv, Dir: dir,
		Env: slices.Concat(p.Base, p.Env), Sandbox: p.Policy, Stdout: &out, Stderr: &out}, nil)
	must.Succeed(m.t, err)
	started.Wait()
	return out.String()
}

// Neither an agent nor a check nor a tool can read the credentials of signalbox, although they are
// in a folder that it may read, as /etc is.
func TestCredentialsAreHidden(t *testing.T) {
	if !process.Support().Namespaces {
		t.Skip("without namespaces nothing can be hidden in a folder, so that nothing is started")
	}
	for name, tt := range map[string]struct {
		settings string // <file> is the path of the file
		environ  string
		prepare  func(m *machine, file string)
		shown    bool
	}{
		"passwords of PostgreSQL": {settings: "journal: 'postgres://db/shop?passfile=<file>'"},
		"key for PostgreSQL":      {settings: "journal: 'postgresql://db/shop?sslmode=verify-full&sslkey=<file>'"},
		"credentials of NATS":     {settings: "journal: 'nats://a,b/shop?credentials=<file>'"},
		"key for NATS":            {settings: "journal: 'tls://a,b/shop?key=<file>'"},
		"secret of a cluster":     {settings: "cluster: {node: a, nodes: {a: '10.0.0.1:7420'}, secret_file: '<file>'}"},
		"secret of a webhook":     {settings: "webhooks: [{url: 'https://example.com', secret_file: '<file>'}]"},
		"secret of notifications": {settings: "notify: {webhook: {url: 'https://example.com', secret_file: '<file>'}}"},
		"PGPASSFILE":              {environ: "PGPASSFILE=<file>"},
		"PGSSLKEY":                {environ: "PGSSLKEY=<file>"},
		"PGSERVICEFILE":           {environ: "PGSERVICEFILE=<file>"},
		"signing key":             {prepare: func(m *machine, file string) { m.KeyFile = file }},
		"passwords in a home": {settings: "sandbox: {read: ['<home>']}",
			prepare: func(m *machine, _ string) { m.link("bin/credentials", "home/.pgpass") }},
		"behind a link": {settings: "journal: 'postgres://db/shop?passfile=<root>/link'",
			prepare: func(m *machine, _ string) { m.link("bin/credentials", "link") }},
		"named for the sandbox":    {settings: "journal: 'postgres://db/shop?passfile=<file>'\nsandbox: {read: ['<file>']}", shown: true},
		"a file of something else": {settings: "journal: 'postgres://db/shop?passfile=/nowhere/pgpass'", shown: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, "")
			file := m.write("bin/credentials", "canary\n")
			replace := strings.NewReplacer("<file>", file, "<home>", m.Home, "<root>",
				m.root).Replace
			c, err := config.Parse([]byte(replace(tt.settings)))
			must.Succeed(t, err)
			m.Config = c
			if tt.environ != "" {
				m.Environ = append(m.Environ, replace(tt.environ))
			}
			if tt.prepare != nil {
				tt.prepare(m, file)
			}
			tree := m.path("project/.signalbox/trees/T1")
			for who, p := range map[string]*Program{
				"agent": m.agent(config.Agent{Command: []string{"sh"}}, "/bin/sh", "-c", "cat"),
				"check": m.Check(Check{Work: "T1", Session: "c", Dir: tree}),
				"tool":  m.Tool(config.Sandbox{}, nil, tree, m.path("project/.signalbox/tmp/t")),
			} {
				if p.Policy.Mode != sandbox.Enforce {
					t.Fatalf("the %s has mode %v", who, p.Policy.Mode)
				}
				if got := allows(p.Policy, file); got != tt.shown {
					t.Errorf("the %s may read the file: %v, want %v; it is hidden: %q", who, got,
						tt.shown, p.Policy.Hidden)
				}
				if tt.prepare == nil && !tt.shown {
					continue // a program reads it if the policy says so
				}
				out := m.run(p, tree, "/bin/sh", "-c",
					`cat "$0" "$1"/.pgpass; echo; cp "$0" copy; cat copy; ls "$2"`, file, m.Home,
					filepath.Dir(file))
				if got := strings.Contains(out, "canary"); got != tt.shown ||
					!strings.Contains(out, "tool") {
					t.Errorf("the %s reads the file: %v, want %v; it is hidden: %q; output: %s",
						who, got, tt.shown, p.Policy.Hidden, out)
				}
			}
		})
	}
}

// No program can read or change the folder with signalbox's keys and with what the user trusts,
// whatever the configuration names, and also if it does not exist yet.
func TestOwnFolderIsHidden(t *testing.T) {
	if !process.Support().Namespaces {
		t.Skip("without namespaces nothing can be hidden in a folder, so that nothing is started")
	}
	for name, tt := range map[string]struct {
		settings string
		missing  bool
		linked   bool // the folder is a link
	}{
		"read the home":          {settings: "sandbox: {read: ['<home>']}"},
		"change the home":        {settings: "sandbox: {write: ['<home>']}"},
		"change a folder in it":  {settings: "sandbox: {write: ['<home>/.config']}"},
		"change a missing one":   {settings: "sandbox: {write: ['<home>']}", missing: true},
		"change a link":          {settings: "sandbox: {write: ['<home>']}", linked: true},
		"the folder is named":    {settings: "sandbox: {write: ['<home>/.config/signalbox']}"},
		"the key is named":       {settings: "sandbox: {read: ['<home>', '<home>/.config/signalbox/keys/x.key']}"},
		"records are named":      {settings: "sandbox: {write: ['<home>/.config/signalbox/trust', '<home>']}"},
		"the variable names one": {settings: "sandbox: {read: ['<home>']}"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, "")
			m.write("home/.config/other", "")
			m.Own = m.path("home/.config/signalbox")
			real := m.Own
			if tt.linked {
				real = m.path("home/real")
			}
			rel, _ := filepath.Rel(m.root, real)
			if !tt.missing {
				m.write(filepath.Join(rel, "keys/x.key"), "canary\n")
				m.write(filepath.Join(rel, "trust/x.json"), "canary\n")
			}
			if tt.linked {
				m.link(rel, "home/.config/signalbox")
			}
			if name == "the variable names one" {
				m.KeyFile = filepath.Join(m.Own, "keys/x.key")
			}
			c, err := config.Parse([]byte(strings.ReplaceAll(tt.settings, "<home>", m.Home)))
			must.Succeed(t, err)
			m.Config = c
			tree := m.path("project/.signalbox/trees/T1")
			for who, p := range map[string]*Program{
				"agent": m.agent(config.Agent{Command: []string{"sh"}}, "/bin/sh", "-c", "cat"),
				"check": m.Check(Check{Work: "T1", Session: "c", Dir: tree}),
				"tool":  m.Tool(config.Sandbox{}, nil, tree, m.path("project/.signalbox/tmp/t")),
			} {
				out := m.run(p, tree, "/bin/sh", "-c",
					`for d in "$0" "$1"; do cat "$d"/*/*; rm -rf "$d/trust"; mkdir -p "$d/trust"; echo forged >"$d/trust/x.json"; echo forged >"$d/trust/forged"; done; echo ended`, m.Own, real)
				if strings.Contains(out, "canary") || !strings.Contains(out, "ended") {
					t.Errorf("the %s reads it; hidden: %q; output: %s", who, p.Policy.Hidden, out)
				}
				if _, err := os.Stat(filepath.Join(real, "trust/forged")); err == nil {
					t.Errorf("the %s creates a record; hidden: %q", who, p.Policy.Hidden)
				}
				if text, err := os.ReadFile(filepath.Join(real, "trust/x.json")); !tt.missing &&
					(err != nil || string(text) != "canary\n") {
					t.Errorf("the %s changes a record: %q, %v; hidden: %q", who, text, err,
						p.Policy.Hidden)
				}
				if tt.missing {
					if found, _ := filepath.Glob(filepath.Join(real, "*")); len(found) > 0 {
						t.Errorf("the %s creates %q", who, found)
					}
				}
			}
		})
	}
}

// The folder that is hidden is the one in which signalbox keeps its key.
func TestOwnFolder(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "settings"))
	made, err := box.Init(t.Context(), filepath.Join(home, "project", box.FolderName), "ann", nil)
	must.Succeed(t, err)
	keys, err := filepath.Glob(filepath.Join(ThisHost().Own, "keys", "*.key"))
	if err != nil || len(keys) != 1 {
		t.Errorf("%q has the keys %q, %v; the box is %+v", ThisHost().Own, keys, err, made)
	}
}

// No program gets the variables with which signalbox logs in to the database of the ledger, even if
// it gets others like them.
func TestCredentialsInVariables(t *testing.T) {
	secrets := []string{"PGPASSWORD=x", "PGPASSFILE=x", "PGSSLKEY=x", "PGSERVICEFILE=x",
		"PGSSLPASSWORD=x", "NATS_PASSWORD=x"}
	for settings, want := range map[string][]string{
		"":                            nil,
		"journal: postgres://db/shop": nil,
		"journal: nats://db/shop":     nil,
		"env_pass: [PG*]":             names(secrets[:5]),
		"env_pass: ['*']":             names(secrets),
		"journal: postgres://db/shop\nenv_pass: [PG*, NATS_*]":    {"NATS_PASSWORD"},
		"journal: nats://db/shop\nenv_pass: [NATS_*, PGPASSWORD]": {"PGPASSWORD"},
		// as the user says
		"journal: postgres://db/shop\nenv_pass: [PG*, PGPASSWORD]": {"PGPASSWORD"},
	} {
		for _, mode := range []sandbox.Mode{sandbox.Enforce, sandbox.Off} {
			m := newMachine(t, settings)
			m.Environ = append(m.Environ, secrets...)
			m.Environ = append(m.Environ, "PGHOST=db")
			own := config.Sandbox{Mode: mode}
			for who, p := range map[string]*Program{
				"agent": m.agent(config.Agent{Command: []string{"x"}, Sandbox: own}),
				"check": m.Check(Check{Config: config.Check{Sandbox: own}, Work: "T1", Session: "c",
					Dir: m.path("project/.signalbox/trees/T1")}),
				"tool": m.Tool(own, nil, m.path("project"), m.path("temp")),
			} {
				got := slices.DeleteFunc(names(slices.Concat(p.Base, p.Env)),
					func(name string) bool { return !slices.Contains(names(secrets), name) })
				if !slices.Equal(got, want) {
					t.Errorf("%q: the %s in mode %v gets %q, want %q", settings, who, mode, got,
						want)
				}
			}
		}
	}
}
