package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"signalbox/internal/testkit/must"
)

// workBeforeMain are the packages that may do work before main, which every command and every call
// of an agent pays for. All others build what they need when it is first used; for regular
// expressions that is lazy.Regexp.
var workBeforeMain = []string{
	"encoding/gob",
	"github.com/google/jsonschema-go/jsonschema",
	"github.com/govalues/decimal",
	"github.com/nats-io/nats-server/v2/server",
	"github.com/yuin/goldmark/extension",
	"github.com/yuin/goldmark/parser",
	"github.com/yuin/goldmark/util",
	"signalbox/transcript/internal/envelope", // the tables with which all output is read

	// Linked for tests only.
	"github.com/google/go-cmp/cmp",
	"github.com/google/go-cmp/cmp/internal/function",
	"signalbox/cmd/signalbox",
	"signalbox/internal/testkit/output",
}

// TestWorkBeforeMain counts what the initialisation of each package allocates, because its time
// differs from run to run.
func TestWorkBeforeMain(t *testing.T) {
	const maxBytes, maxAllocations = 32 << 10, 250
	self := exec.Command(os.Args[0], "-test.run=^$")
	self.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	trace, err := self.CombinedOutput()
	must.Succeed(t, err)
	packages := regexp.MustCompile(
		`(?m)^init (\S+) @.* clock, (\d+) bytes, (\d+) allocs$`).FindAllStringSubmatch(
		string(trace), -1)
	if len(packages) < 100 {
		t.Fatalf("the trace has %d packages", len(packages))
	}
	for _, p := range packages {
		bytes, _ := strconv.Atoi(p[2])
		allocations, _ := strconv.Atoi(p[3])
		if (bytes > maxBytes || allocations > maxAllocations) &&
			!slices.Contains(workBeforeMain, p[1]) {
			t.Errorf("%s allocates %d bytes in %d pieces before main, more than %d in %d: build it on first use", p[1], bytes, allocations, maxBytes, maxAllocations)
		}
	}
}
