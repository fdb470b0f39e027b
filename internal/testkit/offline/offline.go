// Package offline runs a test again in a process that can reach only its own machine: it is in a
// network namespace that has no interface but loopback. Real programs run there cannot reach their
// vendors.
package offline

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// variable is set in the process in the namespace.
const variable = "SIGNALBOX_TEST_OFFLINE"

// Inside reports whether this process runs in the namespace.
func Inside() bool { return os.Getenv(variable) != "" }

// Run runs the test again in a namespace, with more variables in its environment, and fails if it
// fails there. The test must then call Start. Where namespaces are forbidden, the test is skipped,
// but in CI it fails.
func Run(t *testing.T, timeout time.Duration, env ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pattern := "^" + t.Name() + "$"
	if _, below, found := strings.Cut(flag.Lookup("test.run").Value.String(), "/"); found {
		pattern += "/" + below // only some of its subtests
	}
	if deadline, ok := t.Deadline(); ok {
		// Its report comes before this process ends.
		timeout = min(timeout, time.Until(deadline)-10*time.Second)
	}
	var out bytes.Buffer
	err = run(t, func() *exec.Cmd {
		cmd := exec.Command(self, "-test.v", "-test.run="+pattern, "-test.timeout="+
			timeout.String())
		cmd.Env = append(append(os.Environ(), variable+"=1"), env...)
		cmd.Stdout, cmd.Stderr = &out, &out
		return cmd
	})
	t.Logf("in the namespace:\n%s", out.Bytes())
	if err != nil {
		t.Errorf("in the namespace: %v", err)
	}
	if !strings.Contains(out.String(), "\n--- PASS: "+t.Name()) && !t.Failed() {
		t.Error("the test did not run in the namespace")
	}
}
