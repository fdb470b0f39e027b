package fault

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// Environment variables of the tests.
const (
	// sizeVariable chooses the full form of the tests with "full".
	sizeVariable = "SIGNALBOX_FAULT"
	// seedVariable repeats the random choices of an earlier run.
	seedVariable = "SIGNALBOX_FAULT_SEED"
	// childVariable makes the test binary a child of a test: it names what to do, the arguments say with what.
	childVariable = "SIGNALBOX_FAULT_CHILD"
	// binaryVariable is where the program is that the tests run. TestMain builds it if it is not set.
	binaryVariable = "SIGNALBOX_FAULT_BINARY"
)

// children are what a child process can do.
var children = map[string]func(ctx context.Context, args []string) error{
	"claim":   claimChild,
	"history": historyChild,
	"load":    loadChild,
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

// runTests builds the program, unless somebody did, and runs the tests.
func runTests(m *testing.M) int {
	if os.Getenv(binaryVariable) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "signalbox-fault-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// Tests also run the program as another user.
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binary := filepath.Join(dir, "signalbox")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	build := exec.Command("go", "build", "-o", binary, "signalbox/cmd/signalbox")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build the program:", err)
		return 1
	}
	os.Setenv(binaryVariable, binary)
	return m.Run()
}

// isFull says whether the tests run in their full form.
func isFull() bool { return os.Getenv(sizeVariable) == "full" }

// sized returns what fits the form of the tests.
func sized[T any](short, full T) T {
	if isFull() {
		return full
	}
	return short
}

// times is how often to do something. Under the race detector the short form does with less.
func times(short, full int) int { return sized(max(1, short/slowdown), full) }

// newRand returns random numbers: the same in every run of the short form, and others each time in the full form, which
// logs the seed that repeats them.
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

// mayNotSkip ends a test that the machine cannot run: it is skipped, but on a build server it fails, since nobody would
// notice there.
func mayNotSkip(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("on a build server this must run: "+format, args...)
	}
	t.Skipf(format, args...)
}
