package nats

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/journaltest"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/natsserver"
)

// childVariable makes this test binary do what the JSON text in it says.
const childVariable = "NATSJOURNAL_TEST_CHILD"

// child is what a process that a test starts does.
type child struct {
	Address string  // of the journal that it opens
	Cluster Cluster // or the cluster, if Address is ""
	Name    string  // of the box in the cluster
	Append  bool    // append until it is killed, instead of waiting until standard input ends
	Upload  bool    // upload a blob until it is killed
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	// the parallel tests mostly wait
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		flag.Set("test.parallel", "6")
	}
	os.Exit(m.Run())
}

func runChild(text string) error {
	var c child
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	ctx := context.Background()
	j, err := openChild(ctx, c)
	if err != nil {
		return err
	}
	if c.Append {
		return journaltest.AppendForever(ctx, j, os.Stdout)
	}
	if c.Upload {
		_, err := j.PutBlob(ctx, io.MultiReader(bytes.NewReader(make([]byte, 3*pieceBytes)),
			readerFunc(func([]byte) (int, error) {
				fmt.Println("ready") // three pieces are stored
				select {}
			})))
		return err
	}
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return j.Close()
}

func openChild(ctx context.Context, c child) (*Journal, error) {
	if c.Address != "" {
		return Open(ctx, c.Address, Options{})
	}
	return OpenCluster(ctx, c.Cluster,
		Options{Create: true, name: c.Name,
			Logger: slog.New(slog.NewTextHandler(os.Stderr,
				&slog.HandlerOptions{Level: slog.LevelWarn}))})
}

// command returns the command of a child.
func (c child) command(t testing.TB) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(c)
	must.Succeed(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	return cmd
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

var boxNumber atomic.Int64

// newName returns the name of a new box.
func newName() string { return fmt.Sprintf("box-%d", boxNumber.Add(1)) }

// openJournal opens a journal, which waits for a slow server.
func openJournal(t testing.TB, address string) *Journal {
	t.Helper()
	j, err := Open(t.Context(), address, Options{Create: true, patience: time.Minute,
		attempt: time.Minute})
	must.Succeed(t, err)
	return j
}

// change replaces the last message of a subject by one with another last byte.
func change(t testing.TB, j *Journal, subject string) {
	t.Helper()
	defer j.Close()
	m, found, err := j.entry(t.Context(), subject)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	m.Data[len(m.Data)-1] ^= 1
	if _, err := j.store(t.Context(), subject, m.Data, nil); err != nil {
		t.Fatal(err)
	}
}

// testLog returns a new log, which open opens and creates.
func testLog(t testing.TB, open func(testing.TB) *Journal, appends child) journaltest.Log {
	open(t).Close()
	return journaltest.Log{
		Open: func(t testing.TB) journal.Log { return open(t) },
		AppendAndKill: func(t testing.TB, events int) uint64 {
			cmd := appends.command(t)
			cmd.Stderr = os.Stderr
			return journaltest.KillAfter(t, cmd, events)
		},
		DamageBlob: func(t testing.TB, digest signalbox.Hash) {
			j := open(t)
			change(t, j, j.blobSubject(digest))
		},
	}
}

func TestJournal(t *testing.T) {
	server := natsserver.Start(t, nil)
	journaltest.Run(t, func(t *testing.T) journaltest.Log {
		address := server + "/" + newName()
		return testLog(t, func(t testing.TB) *Journal { return openJournal(t, address) },
			child{Address: address, Append: true})
	})
}
