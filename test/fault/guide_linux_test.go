package fault

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/pgserver"
	"signalbox/internal/testkit/terminal"
)

// guide is docs/how-to/machines.md. The tests of this file do what it says on three machines, with
// its own commands and settings: only addresses, paths and names of hosts are replaced.
type guide struct {
	t        *testing.T
	text     string
	replaces *strings.Replacer // what the document names by what the test has
}

func readGuide(t *testing.T) *guide {
	t.Helper()
	text, err := os.ReadFile("../../docs/how-to/machines.md")
	check(t, err)
	return &guide{t, string(text), strings.NewReplacer()}
}

// section returns the text below a heading, up to the next one.
func (g *guide) section(title string) string {
	g.t.Helper()
	_, text, found := strings.Cut(g.text, "\n## "+title+"\n")
	if !found {
		g.t.Fatalf("the document has no section %q", title)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	text, _, _ = strings.Cut(text, "\n### ")
	return text
}

var fencedBlock = regexp.MustCompile("(?ms)^( *)```(\\w+)\n(.*?)^ *```$")

// block returns a fenced block of a section, the number of those in its language.
func (g *guide) block(title, language string, number int) string {
	g.t.Helper()
	for _, found := range fencedBlock.FindAllStringSubmatch(g.section(title), -1) {
		if found[2] != language {
			continue
		}
		if number--; number < 0 {
			lines := strings.ReplaceAll("\n"+found[3], "\n"+found[1], "\n")
			return g.replaces.Replace(strings.TrimPrefix(lines, "\n"))
		}
	}
	g.t.Fatalf("the section %q has too few blocks of %s", title, language)
	return ""
}

// inline returns the code in a text that begins with something, in the order of the text.
func (g *guide) inline(text, start string) (found []string) {
	g.t.Helper()
	for i, code := range strings.Split(text, "`") {
		if i%2 == 1 && strings.HasPrefix(code, start) {
			found = append(found, g.replaces.Replace(code))
		}
	}
	if len(found) == 0 {
		g.t.Fatalf("nothing begins with %q in: %s", start, text)
	}
	return found
}

// step returns a step of the section about clusters.
func (g *guide) step(number int) string {
	g.t.Helper()
	_, text, found := strings.Cut(g.section("Set up a cluster"), fmt.Sprintf("\n%d. ", number))
	if !found {
		g.t.Fatalf("there is no step %d", number)
	}
	text, _, _ = strings.Cut(text, fmt.Sprintf("\n%d. ", number+1))
	text, _, _ = strings.Cut(text, "\n\nA ") // what follows the last step
	return text
}

// console returns the command of a block with its output, and the output.
func (g *guide) console(block string) (command string, shown []string) {
	g.t.Helper()
	command, rest, _ := strings.Cut(block, "\n")
	command, found := strings.CutPrefix(command, "$ ")
	if !found {
		g.t.Fatalf("no command: %s", block)
	}
	return command, strings.Split(strings.TrimSuffix(rest, "\n"), "\n")
}

// prompt is what a program asks, and the answer.
type prompt struct{ question, answer string }

// typed runs a command of the document on a machine, at a terminal, and returns what it prints. It
// must succeed.
func (f *fixture) typed(t *testing.T, command string, prompts ...prompt) string {
	t.Helper()
	t.Logf("%s", command)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	screen, err := terminal.Open(200, 50)
	check(t, err)
	defer screen.Close()
	check(t, screen.Start(f.other(t, "bash", "-e", "-c", command)))
	seen := 0
	for _, p := range prompts {
		check(t, screen.WaitForWritten(ctx, func(written string) bool {
			return strings.Contains(written[min(seen, len(written)):], p.question)
		}))
		seen = len(screen.Written())
		check(t, screen.Type(p.answer+"\r"))
	}
	if err := screen.Wait(ctx); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, screen.Printed())
	}
	return screen.Printed()
}

// startTyped starts a command of the document that stays.
func (f *fixture) startTyped(t *testing.T, command string) *crewProcess {
	t.Helper()
	t.Logf("%s &", command)
	return f.startCommand(t, f.other(t, "bash", "-c", "exec "+command), "typed")
}

// checkShown checks that the output of a command has the lines that the document shows. A … stands
// for anything.
func (g *guide) checkShown(command string, shown []string, output string) {
	g.t.Helper()
	for _, want := range shown {
		pattern := regexp.QuoteMeta(want)
		pattern = regexp.MustCompile(`box-[0-9a-f]{12}`).ReplaceAllString(pattern,
			"box-[0-9a-f]{12}")
		pattern = strings.ReplaceAll(pattern, "…", ".*")
		if !regexp.MustCompile("(?m)^" + pattern + "$").MatchString(output) {
			g.t.Errorf("%s does not print %q:\n%s", command, want, output)
		}
	}
}

// guideTasks is the number of tasks of the plan: as many as the machines can do at once, so that
// each gets some.
const guideTasks = 6

// guideAgents wait until all machines work.
const guideAgents = `
on developer *:
    wait for $DIARY/open
    run mkdir -p part && echo good >part/$SIGNALBOX_WORK.txt
    signal READY_FOR_REVIEW: {task}
` + judges

// newGuideTeam returns three machines. The first one has the repository.
func newGuideTeam(t *testing.T, n *network) *team {
	t.Helper()
	var tasks []string
	for i := range guideTasks {
		tasks = append(tasks, fmt.Sprintf("T%d", i+1))
	}
	plan := planOf(tasks...)
	first := newRepository(t, scenario{plan: plan, script: guideAgents,
		files: map[string]string{"plan.md": plan}})
	team := &team{fixtures: []*fixture{first}}
	for i := range 3 {
		if i > 0 {
			other := emptySite(t)
			check(t, os.Remove(other.project))
			team.fixtures = append(team.fixtures, first.member(t, other))
		}
		team.machines = append(team.machines, n.add(t))
		f := team.fixtures[i]
		f.prepare = team.machines[i].enter
		f.environment = []string{"PATH=" + filepath.Dir(os.Getenv(binaryVariable)) + ":" +
			os.Getenv("PATH")}
	}
	return team
}

// guideSettings returns the settings of the agents of a machine.
func (f *fixture) guideSettings() string {
	return fmt.Sprintf("grace: 1s\nslots: %d\nroles: {developer: {slots: %d}}\n%s%s", guideTasks,
		guideTasks, scriptedAgents(f.diary, f.script), partsCheck)
}

// slots returns a command with the limit of a machine, as the document writes it.
func (g *guide) slots(command string) string {
	g.t.Helper()
	limited := g.inline(g.section("Run a worker"), "signalbox worker --slots")[0]
	return command + strings.TrimPrefix(limited, "signalbox worker")
}

// work lets the workers and a run on the first machine carry out the plan, and each machine do a
// part of it.
func (g *guide) work(team *team, workers []*crewProcess) {
	t := g.t
	t.Helper()
	first := team.fixtures[0]
	command := g.inline(g.section("Run a worker"), "signalbox run")[0]
	run := first.startTyped(t, g.slots(command))
	seen := map[int]bool{}
	run.await(0, "work of all machines", func(e *signalbox.Event) bool {
		if e.Type == rules.TypeLeaseGranted {
			seen[team.owner(e.Session)] = true
		}
		return seen[0] && seen[1] && seen[2]
	})
	for _, start := range []string{"signalbox status", "signalbox work show"} {
		first.typed(t, g.inline(g.section("Run a worker"), start)[0])
	}
	first.diary.create(t, "open")
	run.end(0)
	for _, p := range workers {
		check(t, p.cmd.Process.Signal(syscall.SIGINT))
		p.end(0)
	}
}

// TestGuideOnPostgres follows docs/how-to/machines.md with a PostgreSQL server that wants passwords
// and has a certificate.
func TestGuideOnPostgres(t *testing.T) {
	t.Parallel()
	inNetwork(t, startSecurePostgres, func(t *testing.T, n *network, socket string) {
		g, team := readGuide(t), newGuideTeam(t, n)
		a, b, c := team.fixtures[0], team.fixtures[1], team.fixtures[2]
		database := n.add(t)
		database.relay(5432, socket)
		setHosts(t, map[string]string{"db.example.com": database.address})
		folder := filepath.Dir(socket)
		for _, f := range team.fixtures {
			f.environment = append(f.environment, "PGPASSFILE="+filepath.Join(f.home, ".pgpass"),
				"SSL_CERT_FILE="+filepath.Join(folder, "root.crt"))
		}
		for _, v := range a.environment { // this process opens the ledger too
			name, value, _ := strings.Cut(v, "=")
			check(t, os.Setenv(name, value))
		}

		// Set up PostgreSQL
		server := a.member(t, &site{project: a.home, home: a.home,
			environment: superuser(t, folder)})
		for line := range strings.Lines(g.block("Set up PostgreSQL", "sh", 0)) {
			var prompts []prompt
			if strings.Contains(line, "--pwprompt") {
				prompts = []prompt{{"Enter password", "secret"}, {"again", "secret"}}
			}
			server.typed(t, strings.TrimSpace(line), prompts...)
		}
		a.writePasswords(t, g.inline(g.section("Set up PostgreSQL"), "db.example.com:")[0])
		a.typed(t, g.block("Set up PostgreSQL", "sh", 1))
		a.findKeys(t)

		// Join a machine, and another one over ssh
		invite, _ := g.console(g.block("Join a machine", "console", 0))
		token := strings.TrimSpace(a.typed(t, invite))
		g.replaces = strings.NewReplacer("/home/ann", b.home, "/srv/shop", a.project)
		passwords := g.inline(g.section("Join a machine"), "db.example.com:")[0]
		for _, f := range []*fixture{b, c} {
			f.writePasswords(t, passwords)
			f.publicKey = a.publicKey
			f.project = f.home // the folder does not exist yet
		}
		join, shown := g.console(g.block("Join a machine", "console", 1))
		g.checkShown(join, shown, b.typed(t, join, prompt{"paste the token", token}))
		c.writeSSH(t, a, team.machines[0])
		c.typed(t, g.block("Join a machine", "sh", 0))
		for _, f := range []*fixture{b, c} {
			f.project = filepath.Join(f.home, "work", "shop")
			f.box = filepath.Join(f.project, box.FolderName)
		}

		// Run a worker
		for _, f := range team.fixtures {
			settings, err := os.ReadFile(f.file("signalbox.yaml"))
			check(t, err)
			f.write(t, f.file("signalbox.yaml"), string(settings)+"\n"+f.guideSettings())
		}
		var workers []*crewProcess
		for _, f := range []*fixture{b, c} {
			lines := strings.Split(strings.TrimSpace(g.block("Run a worker", "sh", 0)), "\n")
			f.typed(t, strings.Join(lines[:len(lines)-1], "\n"))
			workers = append(workers, f.startTyped(t, g.slots(lines[len(lines)-1])))
		}
		g.work(team, workers)
		team.checkDone(t, guideTasks)
	})
}

// TestGuideInCluster follows docs/how-to/machines.md with the ledger on the machines themselves.
func TestGuideInCluster(t *testing.T) {
	if !isFull() {
		t.Skip("it takes long: make fault runs it")
	}
	t.Parallel()
	inNetwork(t, nil, func(t *testing.T, n *network, _ string) {
		g, team := readGuide(t), newGuideTeam(t, n)
		first := team.fixtures[0]
		g.replaces = strings.NewReplacer("10.0.0.1", team.machines[0].address, "10.0.0.2",
			team.machines[1].address, "10.0.0.3", team.machines[2].address)
		settings := g.block("Set up a cluster", "yaml", 0)
		trust := g.inline(g.step(3), "signalbox")[0]
		var workers []*crewProcess
		for i, f := range team.fixtures {
			if i > 0 {
				run(t, "git", "clone", "-q", first.project, f.project)
			}
			f.write(t, f.file("signalbox.yaml"), strings.Replace(settings, "node: a",
				"node: "+string(rune('a'+i)), 1)+f.guideSettings())
		}
		first.typed(t, g.block("Set up a cluster", "sh", 0))
		secret, err := os.ReadFile(first.file("cluster.secret"))
		check(t, err)
		for i, f := range team.fixtures {
			check(t, os.WriteFile(f.file("cluster.secret"), secret, 0o600))
			f.typed(t, trust, prompt{"[y/N]", "y"})
			if i > 0 {
				worker := g.inline(g.step(4), "signalbox")[0]
				workers = append(workers, f.startTyped(t, g.slots(worker)))
			}
		}
		first.typed(t, g.inline(g.step(5), "signalbox")[0])
		first.findKeys(t)
		for _, f := range team.fixtures {
			f.publicKey = first.publicKey
		}
		g.work(team, workers)
		for _, f := range team.fixtures {
			f.host(t)
		}
		team.checkDone(t, guideTasks)
	})
}

// startSecurePostgres starts a server for db.example.com that wants passwords. It has the superuser
// postgres, and the certificate of its authority is in the folder of its socket.
func startSecurePostgres(t testing.TB) string {
	t.Helper()
	pgserver.Need(t)
	requireTools(t, "createuser", "createdb")
	certificate, key := pgserver.Certificate(t, "db.example.com")
	server, err := pgserver.StartWith(pgserver.Options{
		Settings: []string{"fsync = on", "listen_addresses = '127.0.0.1'", "ssl = on",
			"ssl_cert_file = '" + certificate + "'", "ssl_key_file = '" + key + "'"},
		Access: []string{"hostssl all all all scram-sha-256", "hostnossl all all all reject"}})
	check(t, err)
	t.Cleanup(func() { server.Stop() })
	_, err = server.Query("CREATE ROLE postgres SUPERUSER LOGIN; " +
		"SET SESSION AUTHORIZATION postgres; ALTER ROLE signalbox RENAME TO first")
	check(t, err)
	check(t, os.Link(certificate, filepath.Join(server.Dir, "root.crt")))
	// A Unix socket reaches into other networks, but PostgreSQL has no TLS at its own.
	socket := filepath.Join(server.Dir, "tls")
	listener, err := net.Listen("unix", socket)
	check(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go connect(from, "tcp", fmt.Sprintf("127.0.0.1:%d", server.Port))
		}
	}()
	return socket
}

// superuser returns the environment of the superuser on the machine of the database.
func superuser(t testing.TB, folder string) []string {
	t.Helper()
	sockets, err := filepath.Glob(filepath.Join(folder, ".s.PGSQL.*.lock"))
	check(t, err)
	if len(sockets) != 1 {
		t.Fatalf("sockets: %v", sockets)
	}
	port := strings.TrimPrefix(filepath.Base(strings.TrimSuffix(sockets[0], ".lock")), ".s.PGSQL.")
	return []string{"PGHOST=" + folder, "PGPORT=" + port, "PGUSER=postgres"}
}

// setHosts gives addresses names, for all processes of the namespaces of the test.
func setHosts(t testing.TB, addresses map[string]string) {
	t.Helper()
	text := "127.0.0.1 localhost\n"
	for name, address := range addresses {
		text += address + " " + name + "\n"
	}
	file := filepath.Join(t.TempDir(), "hosts")
	check(t, os.WriteFile(file, []byte(text), 0o644))
	check(t, syscall.Mount(file, "/etc/hosts", "", syscall.MS_BIND, ""))
}

// writePasswords writes the file of passwords that the document shows.
func (f *fixture) writePasswords(t testing.TB, line string) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(f.home, ".pgpass"),
		[]byte(strings.ReplaceAll(line, "PASSWORD", "secret")+"\n"), 0o600))
}

// writeSSH gives a machine a program ssh with which it reaches another one.
func (f *fixture) writeSSH(t testing.TB, to *fixture, m *machine) {
	t.Helper()
	bin := filepath.Join(filepath.Dir(f.home), "bin")
	var environment strings.Builder
	for _, v := range to.environment {
		environment.WriteString(" '" + v + "'")
	}
	f.write(t, filepath.Join(bin, "ssh"), fmt.Sprintf(`#!/bin/sh
[ "$1" = a.example.com ] || exit 1
shift
exec nsenter --net=%s env HOME=%s%s "$@"
`, m.path, to.home, environment.String()))
	check(t, os.Chmod(filepath.Join(bin, "ssh"), 0o755))
	f.environment = append(f.environment, "PATH="+bin+":"+
		strings.TrimPrefix(f.environment[0], "PATH="))
}
