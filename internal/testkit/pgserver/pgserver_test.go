package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"signalbox/internal/testkit/must"
)

// A row that was committed survives kill -9 and the failure of the primary.
func TestServer(t *testing.T) {
	Need(t)
	s, err := Start()
	must.Succeed(t, err)
	defer s.Stop()
	standby, err := s.Standby()
	must.Succeed(t, err)
	defer standby.Stop()
	steps := []func() error{
		func() error { _, err := s.Query("CREATE TABLE x AS SELECT 42 AS y"); return err },
		s.Pause, s.Resume, s.Kill, s.Restart, s.AwaitStandby,
		func() error { _, err := s.Query("INSERT INTO x VALUES (43)"); return err },
		s.Kill, standby.Promote,
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	if got, err := standby.Query("SELECT sum(y) FROM x"); got != "85" {
		t.Errorf("sum %q, %v", got, err)
	}
}

// childVariable makes the test start a server and end without stopping it.
const childVariable = "SIGNALBOX_PGSERVER_CHILD"

// A server ends when the process ends that started it.
func TestServerEndsWithItsProcess(t *testing.T) {
	Need(t)
	if os.Getenv(childVariable) != "" {
		s, err := Start()
		must.Succeed(t, err)
		fmt.Println("DIR", s.Dir)
		os.Exit(0)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerEndsWithItsProcess$")
	cmd.Env = append(os.Environ(), childVariable+"=1")
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	_, rest, _ := strings.Cut(string(output), "DIR ")
	dir, _, _ := strings.Cut(rest, "\n")
	if dir == "" {
		t.Fatalf("no folder in %q", output)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the server and its files stay")
		}
	}
}
