package property

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawn returns the numbers that a property draws.
func drawn(t *testing.T, failed ...uint64) (numbers []uint64) {
	Check(t, func(t *rapid.T) { numbers = append(numbers, rapid.Uint64().Draw(t, "n")) }, failed...)
	return numbers
}

func TestCasesAreFixed(t *testing.T) {
	if os.Getenv(randomVariable) != "" || rapidFlags().seed != 0 {
		t.Skip("the cases are random, or from a given seed")
	}
	first, second, all := drawn(t), drawn(t), drawn(t, 12345)
	if !slices.Equal(first, second) {
		t.Errorf("two runs differ:\n%v\n%v", first, second)
	}
	if len(first) != rapidFlags().checks {
		t.Errorf("%d cases, want %d", len(first), rapidFlags().checks)
	}
	slices.Sort(first)
	// rapid prefers small numbers
	if distinct := len(slices.Compact(first)); distinct < len(second)/2 {
		t.Errorf("only %d of %d cases differ", distinct, len(second))
	}
	if len(all) != len(second)+1 || !slices.Equal(all[1:], second) {
		t.Errorf("with a seed that failed: %v\nwant one more case before\n%v", all, second)
	}
}

// TestSeed runs TestFailing in processes of its own, with and without a seed of the user's choice.
func TestSeed(t *testing.T) {
	run := func(env string, args ...string) string {
		cmd := exec.Command(os.Args[0], append([]string{"-test.run=^TestFailing$"}, args...)...)
		cmd.Env = append(os.Environ(), "PROPERTY_TEST_FAIL=1", env)
		output, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%s %q: passed", env, args)
		}
		return string(output)
	}
	const hint = "-rapid.seed=1000000000\n"
	if output := run(randomVariable + "="); !strings.Contains(output, hint) {
		t.Errorf("fixed seeds: no %q in\n%s", hint, output)
	}
	if output := run(randomVariable + "=1"); strings.Contains(output, hint) ||
		!strings.Contains(output, "-rapid.seed=") {
		t.Errorf("random seeds:\n%s", output)
	}
	if output := run(randomVariable+"=", "-rapid.seed=77"); !strings.Contains(output,
		"-rapid.seed=77\n") {
		t.Errorf("given seed:\n%s", output)
	}
	if _, err := os.Stat("testdata"); err == nil {
		t.Error("a fail file was written")
	}
}

func TestFailing(t *testing.T) {
	if os.Getenv("PROPERTY_TEST_FAIL") == "" {
		t.Skip("run by TestSeed")
	}
	Check(t, func(t *rapid.T) { t.Fatalf("drew %d", rapid.Uint64().Draw(t, "n")) })
}
