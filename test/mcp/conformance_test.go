package mcp_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// scenario is one of the conformance suite. It must pass over the transports that it applies to;
// why gives the reason why it does not apply to the others.
type scenario struct {
	name        string
	http, stdio bool
	why         string
}

var scenarioRow = regexp.MustCompile(
	"(?m)^\\| `(\\S+)` \\| (passes|–) \\| (passes|–) \\| (.*) \\|$")

// readScenarios returns the scenarios in the table of README.md.
func readScenarios(t *testing.T) []scenario {
	t.Helper()
	data, err := os.ReadFile("README.md")
	must.Succeed(t, err)
	_, table, found := strings.Cut(string(data), "\n|---|---|---|---|\n")
	if !found {
		t.Fatal("README.md has no table of scenarios")
	}
	table = strings.TrimSpace(table)
	var scenarios []scenario
	for _, row := range scenarioRow.FindAllStringSubmatch(table, -1) {
		s := scenario{name: row[1], http: row[2] == "passes", stdio: row[3] == "passes",
			why: strings.TrimSpace(row[4])}
		if (s.why == "") != (s.http && s.stdio) {
			t.Errorf("README.md: %s must either run over both transports or have a reason", s.name)
		}
		scenarios = append(scenarios, s)
	}
	if lines := strings.Count(table, "\n") + 1; len(scenarios) != lines {
		t.Fatalf("README.md: %d of %d rows of the table are scenarios", len(scenarios), lines)
	}
	return scenarios
}

// TestScenarioTable checks the table without running the suite, which needs npm.
func TestScenarioTable(t *testing.T) {
	if !slices.ContainsFunc(readScenarios(t), func(s scenario) bool { return s.http && s.stdio }) {
		t.Error("README.md: no scenario is run")
	}
}

var (
	listedScenario = regexp.MustCompile(`(?m)^\s*- (\S+) \[`)
	passedChecks   = regexp.MustCompile(`Passed: (\d+)/(\d+), 0 failed, 0 warnings`)
)

// TestEveryScenarioIsListed compares the table with the suite, so that a new scenario cannot be
// missed.
func TestEveryScenarioIsListed(t *testing.T) {
	k := needKit(t)
	out, complaints, err := k.Run(t, nil, suite, "list", "--server")
	if err != nil {
		t.Fatalf("%v: %s", err, complaints)
	}
	var has, listed []string
	for _, found := range listedScenario.FindAllStringSubmatch(out, -1) {
		has = append(has, found[1])
	}
	for _, s := range readScenarios(t) {
		listed = append(listed, s.name)
	}
	slices.Sort(has)
	slices.Sort(listed)
	if diff := cmp.Diff(has, listed); diff != "" || len(has) == 0 {
		t.Errorf("the suite has %d scenarios, the table %d (-suite +table):\n%s", len(has),
			len(listed), diff)
	}
}

func TestConformance(t *testing.T) {
	k := needKit(t)
	scenarios := readScenarios(t)
	for transport, applies := range map[string]func(scenario) bool{
		"http":  func(s scenario) bool { return s.http },
		"stdio": func(s scenario) bool { return s.stdio },
	} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			address := ""
			if transport == "http" {
				address = withToken(t, startHTTP(t, newBox(t)))
			} else {
				address = newBridge(t, newBox(t))
			}
			for _, s := range scenarios {
				if !applies(s) {
					continue
				}
				out, complaints, err := k.Run(t, nil, suite, "server", "--url", address,
					"--scenario", s.name)
				// A scenario without checks succeeds too, so at least one check must have passed.
				passed := passedChecks.FindStringSubmatch(out)
				if err != nil || passed == nil || passed[1] != passed[2] || passed[1] == "0" {
					t.Errorf("%s: %v\n%s%s", s.name, err, out, complaints)
				}
			}
		})
	}
}
