// Package property runs property tests on the same cases every time, so that a test that passed
// once passes again.
//
// Random cases are for `make fuzz`, which sets SIGNALBOX_RANDOM=1. When it finds a failing case,
// rapid prints the seed; add that seed to the Check call of the property, so that every later run
// tries it first.
package property

import (
	"flag"
	"os"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// randomVariable is the environment variable that asks for random seeds.
const randomVariable = "SIGNALBOX_RANDOM"

// seeds are where the cases of every property start. From a seed, rapid counts up by less than the
// square of the number of cases, so these are far enough apart.
var seeds = []uint64{1_000_000_000, 2_000_000_000, 3_000_000_000, 4_000_000_000}

// Check fails t if f fails for one of rapid.checks (100) cases. It first runs the cases of failed,
// seeds for which the property once did not hold, then as many cases from each of the fixed seeds.
// The flags and variables of rapid apply; a seed given with -rapid.seed replaces all others.
func Check(t *testing.T, f func(*rapid.T), failed ...uint64) {
	t.Helper()
	given := rapidFlags()
	if given.seed != 0 || os.Getenv(randomVariable) != "" {
		rapid.Check(t, f)
		return
	}
	for _, seed := range failed {
		checkSeed(t, f, seed, 1)
	}
	for _, seed := range seeds {
		checkSeed(t, f, seed, max(given.checks/len(seeds), 1))
	}
}

// settings are the flags of rapid that Check changes.
type settings struct {
	seed   uint64
	checks int
}

// rapidFlags returns the flags as the user gave them. Fail files are off from then on: a seed
// reproduces a failure as well, and a forgotten file would make the next run differ.
var rapidFlags = sync.OnceValue(func() settings {
	setFlag("rapid.nofailfile", "true")
	return settings{getFlag[uint64]("rapid.seed"), getFlag[int]("rapid.checks")}
})

// flagLock guards the flags of rapid while Check changes them.
var flagLock sync.Mutex

// checkSeed runs a number of cases from a seed. Rapid reads its flags before it calls the property
// for the first time, so the lock is held only until then, and properties can run in parallel.
func checkSeed(t *testing.T, f func(*rapid.T), seed uint64, checks int) {
	t.Helper()
	if testing.Short() {
		checks *= 5 // rapid divides by 5, which would leave none
	}
	flagLock.Lock()
	unlock := sync.OnceFunc(flagLock.Unlock)
	defer unlock()
	setFlag("rapid.seed", strconv.FormatUint(seed, 10))
	setFlag("rapid.checks", strconv.Itoa(checks))
	rapid.Check(t, func(t *rapid.T) {
		unlock()
		f(t)
	})
}

func getFlag[T any](name string) T {
	return flag.Lookup(name).Value.(flag.Getter).Get().(T)
}

func setFlag(name, value string) {
	if err := flag.Set(name, value); err != nil {
		panic(err)
	}
}
