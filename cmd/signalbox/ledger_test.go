package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"signalbox/internal/cli"
	"signalbox/internal/testkit/must"
	"signalbox/ledger"
)

// follow runs ledger tail -f on a box, with its output in a pipe.
func follow(b *testBox, args ...string) (lines *bufio.Scanner, closeReader func() error,
	ended <-chan int) {
	reader, stdout := io.Pipe()
	p, _, stderr := b.program(append([]string{"ledger", "tail", "-f"}, args...)...)
	p.Stdout = stdout
	done := make(chan int, 1)
	go func() {
		status := execute(p)
		if stderr.Len() > 0 {
			status = -1
		}
		stdout.Close()
		done <- status
	}()
	return bufio.NewScanner(reader), reader.Close, done
}

func TestTailFollows(t *testing.T) {
	b := newTestBox(t)
	b.must("work", "open", "before")
	lines, closeReader, ended := follow(b, "--number=1", "--json")
	for i, work := range []string{"before", "t1", "t2"} {
		if i > 0 {
			b.must("work", "open", work)
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), fmt.Sprintf(`{"seq":%d,`, i+2)) ||
			!strings.Contains(lines.Text(), `"work":"`+work+`"`) {
			t.Fatalf("line %q, %v; want event %d, of %s", lines.Text(), lines.Err(), i+2, work)
		}
	}
	closeReader()
	b.must("work", "open", "t3") // the next write fails
	if status := <-ended; status != 0 {
		t.Errorf("after the reader closed the pipe: status %d", status)
	}
}

// On a terminal, notes come after the answer.
func TestNotesComeAfterTheAnswer(t *testing.T) {
	b := newTestBox(t)
	b.must("work", "open", "t1")
	var claim struct{ Secret string }
	must.Succeed(t, json.Unmarshal([]byte(b.must("work", "claim", "t1", "--role=developer",
		"--session=dev")), &claim))
	// an agent does not sign
	b.env[cli.SessionVariable], b.env[cli.SecretVariable] = "dev", claim.Secret
	b.must("work", "renew", "t1", "--epoch=3", "--ttl=1h")
	screen := new(bytes.Buffer)
	p, _, _ := b.program("ledger", "verify")
	p.Stdout, p.Stderr = screen, screen
	if status := execute(p); status != 0 {
		t.Fatalf("status %d: %s", status, screen)
	}
	if want := regexp.MustCompile(
		`^verified 4 events.*\nthe first 3 signed by .*\nnote: 1 event after .*\n$`); !want.MatchString(screen.String()) {
		t.Errorf("on the screen:\n%s", screen)
	}
}

// cloudEventName matches the names of attributes that the specification allows.
var cloudEventName = regexp.MustCompile(`^[a-z0-9]{1,20}$`)

// TestExportIsCloudEvents checks the requirements of CloudEvents 1.0 in JSON.
func TestExportIsCloudEvents(t *testing.T) {
	b := newTestBox(t)
	b.must("work", "open", "t1", "--title", "naïve <b>")
	b.must("work", "claim", "t1", "--role=developer", "--session=dev")
	b.must("work", "exit", "--session=dev", "../../examples/exit-implementation.json")
	var ids []string
	for line := range strings.Lines(b.must("ledger", "export")) {
		var event map[string]any
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for name, value := range event {
			if _, isText := value.(string); !cloudEventName.MatchString(name) || !isText &&
				name != "data" {
				t.Errorf("attribute %q: %v", name, value)
			}
			if value == "" {
				t.Errorf("attribute %q is empty", name)
			}
		}
		for _, required := range []string{"id", "source", "specversion", "type", "data"} {
			if event[required] == nil {
				t.Errorf("event %v has no %s", event["id"], required)
			}
		}
		if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(event["time"])); err != nil {
			t.Error(err)
		}
		if _, err := url.Parse(fmt.Sprint(event["source"])); err != nil {
			t.Error(err)
		}
		if event["specversion"] != "1.0" || event["datacontenttype"] != "application/json" {
			t.Errorf("event %v is of version %v with %v", event["id"], event["specversion"],
				event["datacontenttype"])
		}
		if _, isObject := event["data"].(map[string]any); !isObject {
			t.Errorf("data of event %v: %v", event["id"], event["data"])
		}
		ids = append(ids, fmt.Sprint(event["id"]))
	}
	if got := strings.Join(ids, " "); got != "1 2 3 4 5 6 7" {
		t.Errorf("ids %s", got)
	}
}

// TestKeyOfTheBoxIsWrong replaces the public key in the box, as an attacker would to make others
// trust another ledger.
func TestKeyOfTheBoxIsWrong(t *testing.T) {
	b := newTestBox(t)
	key := b.must("ledger", "key")
	name := filepath.Join(b.dir, "key.pub")
	origin, _, _ := strings.Cut(key, "+")
	_, sameName, err := ledger.GenerateKey(rand.Reader, origin)
	must.Succeed(t, err)
	_, otherName, err := ledger.GenerateKey(rand.Reader, "signalbox/box-000000000000")
	must.Succeed(t, err)
	run := func(args ...string) (status int, answer, errors string) {
		p, stdout, stderr := b.program(args...)
		return execute(p), stdout.String(), stderr.String()
	}
	for wrong, want := range map[string]string{
		sameName: "key.pub is not the public key of the private key on this host\nhint: find out who changed it",
		otherName: "key.pub is not a public key of this box, " + origin +
			"\nhint: find out who changed it",
		"noise": "key.pub is not a public key of this box, " + origin +
			"\nhint: find out who changed it",
	} {
		must.Succeed(t, os.WriteFile(name, []byte(wrong+"\n"), 0o600))
		if status, answer, stderr := run("ledger", "key"); status != 0 || answer != key ||
			!strings.HasPrefix(stderr, "warning: ") || !strings.Contains(stderr, want) {
			t.Errorf("%s: ledger key: status %d, %s%s", wrong, status, answer, stderr)
		}
		if _, answer, _ := run("doctor", "--json"); !strings.Contains(answer,
			`{"check":"key","status":"problem"`) {
			t.Errorf("%s: doctor printed %s", wrong, answer)
		}
		// Signing corrects it, and says so.
		if status, _, stderr := run("ledger", "checkpoint"); status != 0 ||
			!strings.Contains(stderr, "the public key in the box was not that of the private key") {
			t.Errorf("%s: ledger checkpoint: status %d, %s", wrong, status, stderr)
		}
		if b.must("ledger", "key") != key {
			t.Error("the key is still wrong")
		}
	}
	// Without the private key, only the name can be checked.
	b.env[cli.KeyVariable] = filepath.Join(t.TempDir(), "none.key")
	if b.must("ledger", "key") != key {
		t.Error("another key")
	}
	must.Succeed(t, os.WriteFile(name, []byte(otherName+"\n"), 0o600))
	if _, _, stderr := run("ledger", "key"); !strings.Contains(stderr,
		"is not a public key of this box") {
		t.Errorf("without the private key: %s", stderr)
	}
}

// TestReplacedEvent overwrites an event of a real box with the statements that fire no trigger for
// the row they delete.
func TestReplacedEvent(t *testing.T) {
	b := newTestBox(t)
	b.must("work", "open", "t1")
	b.must("work", "open", "t2")
	db, err := sql.Open("sqlite", filepath.Join(b.dir, "ledger.db"))
	must.Succeed(t, err)
	defer db.Close()
	const row = "INTO events SELECT 2, time, type, 'forged', session, actor, data, prev, hash FROM events WHERE seq = 2"
	for _, statement := range []string{
		"INSERT OR REPLACE " + row, "REPLACE " + row, "INSERT " + row +
			" ON CONFLICT DO UPDATE SET work = 'forged'",
		"UPDATE OR REPLACE events SET seq = 2 WHERE seq = 3",
		"UPDATE OR REPLACE events SET work = 'forged'",
	} {
		if _, err := db.Exec(statement); err == nil ||
			!strings.Contains(err.Error(), "events of a ledger are") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if list := b.must("work", "list"); strings.Contains(list, "forged") {
		t.Errorf("works:\n%s", list)
	}
	b.must("ledger", "verify")
	b.must("work", "open", "t3")
}
