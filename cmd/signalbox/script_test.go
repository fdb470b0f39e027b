package main

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/loopback"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/natsserver"
	"signalbox/internal/testkit/pgserver"
)

func TestMain(m *testing.M) {
	os.Setenv("GORACE", noRaceSleep)
	testscript.Main(tests{m}, map[string]func(){"signalbox": patientMain})
}

// noRaceSleep is a setting of the race detector, which would make every command wait a second.
const noRaceSleep = "atexit_sleep_ms=0"

// patientMain is main, but it gives the machine more time than a person who pressed Tab.
func patientMain() {
	p := newProgram()
	p.CompletionLimit = time.Minute
	os.Exit(execute(p))
}

// tests runs the tests, four at a time unless a flag says otherwise: scripts mostly wait.
type tests struct{ *testing.M }

func (m tests) Run() int {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		flag.Set("test.parallel", "4")
	}
	code := m.M.Run()
	if err := database.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// TestScript runs testdata/script/*.txtar, which specify the command line.
func TestScript(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("found %d scripts: %v", len(scripts), err)
	}
	examples, err := filepath.Abs("../../examples")
	must.Succeed(t, err)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("ESC", "\x1b")
			env.Setenv("GORACE", noRaceSleep)
			env.Setenv("EXAMPLES", examples)
			env.Setenv("USER", "ann")
			moveTo(env.Setenv, filepath.Join(env.WorkDir, "home"))
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond != "postgres" {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			return pgserver.Available(t), nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"keep":    keepMatch,
			"blobs":   countBlobs,
			"bytes":   writeBytes,
			"machine": machine,
			"model":   serveModel,
			"mode":    checkMode,
			"sql":     execSQL,

			"postgres":  servePostgres,
			"listener":  startListener,
			"connected": isConnected,
			"addresses": freeAddresses,
			"nats":      serveNATS(t),
		},
	})
}

// moveTo sets the home and configuration folders of the user, on every platform.
func moveTo(setenv func(name, value string), home string) {
	setenv("HOME", home)
	setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	setenv("AppData", filepath.Join(home, "config"))
}

// homeAt returns the environment of a program whose user has another home folder.
func homeAt(home string) []string {
	env := os.Environ()
	moveTo(func(name, value string) { env = append(env, name+"="+value) }, home)
	return env
}

// machine simulates another machine: it changes to a new folder with a new home, and copies only
// the named files there: machine auditor key.pub
func machine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: machine name [file...]")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.Mkdir(dir, 0o777))
	for _, file := range args[1:] {
		content, err := os.ReadFile(ts.MkAbs(file))
		ts.Check(err)
		ts.Check(os.WriteFile(filepath.Join(dir, filepath.Base(file)), content, 0o666))
	}
	ts.Check(ts.Chdir(dir))
	moveTo(ts.Setenv, filepath.Join(dir, "home"))
}

// serveModel serves a scripted model until the test ends, and sets MODEL to its address: model
// model.yaml
func serveModel(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: model script")
	}
	script, err := modelserver.ParseScript(args[0], []byte(ts.ReadFile(args[0])))
	ts.Check(err)
	handler, err := modelserver.New(script, nil)
	ts.Check(err)
	server := httptest.NewServer(handler)
	ts.Defer(server.Close)
	ts.Setenv("MODEL", server.URL)
}

// servePostgres sets POSTGRES to the address of a database with an empty schema of its own, and
// creates roles, whose names it sets too: postgres WORKER
func servePostgres(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: postgres [ROLE...]")
	}
	server, err := database.Get()
	ts.Check(err)
	schema := "box_" + strings.ToLower(rand.Text())
	ts.Setenv("POSTGRES", server.Address+"&schema="+schema)
	for _, variable := range args {
		role := strings.ToLower(variable) + "_" + schema
		_, err := server.Query("CREATE ROLE " + role + " LOGIN")
		ts.Check(err)
		ts.Setenv(variable, role)
	}
}

// serveNATS returns a command that sets NATS to the address of a server without streams of its own
// box: nats
func serveNATS(t *testing.T) func(*testscript.TestScript, bool, []string) {
	address := sync.OnceValue(func() string { return natsserver.Start(t, nil) })
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) > 0 {
			ts.Fatalf("usage: nats")
		}
		ts.Setenv("NATS", address()+"/"+rand.Text())
	}
}

// listener accepts connections, closes them, and sends the addresses of the other side.
type listener struct {
	net.Listener
	from chan string
}

// listeners has the listener of each script.
var listeners sync.Map

// startListener sets LISTENER to an address that accepts connections, for connected: listener
func startListener(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: listener")
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	l := &listener{inner, make(chan string, 1000)}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			l.from <- conn.RemoteAddr().String()
			conn.Close()
		}
	}()
	listeners.Store(ts, l)
	ts.Defer(func() {
		l.Close()
		listeners.Delete(ts)
	})
	ts.Setenv("LISTENER", l.Addr().String())
}

// isConnected fails unless a program has connected to the listener since the last time: connected
func isConnected(ts *testscript.TestScript, neg bool, args []string) {
	found, ok := listeners.Load(ts)
	if !ok || len(args) > 0 {
		ts.Fatalf("usage: [!] connected, after listener")
	}
	l := found.(*listener)
	own, err := net.Dial("tcp", l.Addr().String()) // connections are accepted in their order
	ts.Check(err)
	defer own.Close()
	others := 0
	for from := range l.from {
		if from == own.LocalAddr().String() {
			break
		}
		others++
	}
	if others > 0 == neg {
		ts.Fatalf("%d connections to the listener", others)
	}
}

// freeAddresses sets variables to addresses for nodes of a cluster: addresses A B C
func freeAddresses(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: addresses VARIABLE...")
	}
	for _, name := range args {
		address, err := loopback.Find()
		ts.Check(err)
		ts.Setenv(name, address)
	}
}

// database is the server that all scripts share.
var database pgserver.Shared

// checkMode fails unless a file has a mode: mode 600 .signalbox/ledger.db
func checkMode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode octal file")
	}
	want, err := strconv.ParseUint(args[0], 8, 32)
	ts.Check(err)
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := info.Mode().Perm(); runtime.GOOS != "windows" && got != os.FileMode(want) {
		ts.Fatalf("%s has mode %o, want %o", args[1], got, want)
	}
}

// execSQL changes the ledger like an intruder who gets past the triggers: sql 'UPDATE events SET
// actor = ”eve” WHERE seq = 2'
func execSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sql statement")
	}
	ts.Check(tamper(ts.MkAbs(".signalbox/ledger.db"), args[0]))
}

// tamper changes a ledger without signalbox.
func tamper(ledger, statement string) error {
	db, err := sql.Open("sqlite", ledger) // the journal imports the driver
	if err != nil {
		return err
	}
	_, err = db.Exec("DROP TRIGGER IF EXISTS events_are_never_changed; DROP TRIGGER IF EXISTS events_are_never_deleted; DROP TRIGGER IF EXISTS events_are_only_appended; " + statement)
	return errors.Join(err, db.Close())
}

// countBlobs checks the number of blobs of the box in the current folder: blobs 3
func countBlobs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: blobs number")
	}
	found, err := filepath.Glob(ts.MkAbs(".signalbox/blobs/??/*"))
	ts.Check(err)
	if want, err := strconv.Atoi(args[0]); err != nil || len(found) != want {
		ts.Fatalf("%d blobs, want %s: %q", len(found), args[0], found)
	}
}

// exits runs a program and checks its exit status: exits 2 signalbox scan --nonsense
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits status program [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exited := (*exec.ExitError)(nil)
		if !errors.As(err, &exited) {
			ts.Fatalf("%v", err)
		}
		got = exited.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// keepMatch sets a variable to what the group of an expression matches in the last standard output:
// keep SESSION '"session":"([^"]+)"'
func keepMatch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: keep variable expression")
	}
	match := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(match) != 2 {
		ts.Fatalf("%s does not match", args[1])
	}
	ts.Setenv(args[0], match[1])
}

// writeBytes writes a file from Go string literals, for content that a text archive cannot have. An
// argument *N repeats the content so far N times: bytes noise.bin '"\x00\xff\n"' *1000
func writeBytes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: bytes file 'literal' [*times]...")
	}
	content := ""
	for _, arg := range args[1:] {
		if times, ok := strings.CutPrefix(arg, "*"); ok {
			n, err := strconv.Atoi(times)
			ts.Check(err)
			content = strings.Repeat(content, n)
			continue
		}
		text, err := strconv.Unquote(arg)
		ts.Check(err)
		content += text
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(content), 0o666))
}
