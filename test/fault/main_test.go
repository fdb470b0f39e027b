package fault

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"signalbox/internal/testkit/built"
)

// Environment variables of the tests.
const (
	// sizeVariable selects the full form of the tests if it is "full".
	sizeVariable = "SIGNALBOX_FAULT"
	// seedVariable repeats the random choices of an earlier run.
	seedVariable = "SIGNALBOX_FAULT_SEED"
	// childVariable makes the test binary act as a child process of a test. Its value is a key of
	// children.
	childVariable = "SIGNALBOX_FAULT_CHILD"
	// binaryVariable is the path of the program under test. TestMain builds the program if it is
	// not set.
	binaryVariable = "SIGNALBOX_FAULT_BINARY"
)

// children are the functions that a child process can run, by the value of childVariable.
var children = map[string]func(ctx context.Context, args []string) error{
	"claim":   claimChild,
	"history": historyChild,
	"init":    initChild,
	"load":    loadChild,
	"peak":    peakChild,
	"sql":     sqlChild,
}

func TestMain(m *testing.M) {
	if mode := os.Getenv(childVariable); mode != "" {
		if err := children[mode](context.Background(), os.Args[1:]); err != nil {
			fmt.Fprintf(os.Stderr, "child %s: %v\n", mode, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(runTests(m))
}

// runTests builds the program, unless binaryVariable already names one, and runs the tests.
func runTests(m *testing.M) int {
	flag.Parse()
	// the parallel tests mostly wait
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		flag.Set("test.parallel", "4")
	}
	defer postgresServer.Stop()
	if os.Getenv(binaryVariable) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "signalbox-fault-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// Some tests run the program as another user.
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binary, err := built.Program(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Setenv(binaryVariable, binary)
	return m.Run()
}

// isFull reports whether the tests run in their full form.
func isFull() bool { return os.Getenv(sizeVariable) == "full" }

// sized returns short or full, depending on the form of the tests.
func sized[T any](short, full T) T {
	if isFull() {
		return full
	}
	return short
}

// newRand returns a random number generator. The short form always uses the same seed; the full
// form uses a new one each time. The seed is logged.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := sized(1, uint64(time.Now().UnixNano()))
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	t.Logf("random choices: %s=%d", seedVariable, seed)
	name := fnv.New64()
	name.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(seed, name.Sum64()))
}

// skipOrFail ends a test that this machine cannot run. It skips the test, but in CI, where a
// skipped test would go unnoticed, it fails the test.
func skipOrFail(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("this test must run in CI: "+format, args...)
	}
	t.Skipf(format, args...)
}
