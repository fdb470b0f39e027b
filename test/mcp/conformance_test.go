package mcp_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scenario is one of the conformance suite. It must pass over the transports that it applies to; why says why it does not apply to the
// others.
type scenario struct {
	name        string
	http, stdio bool
	why         string
}

const (
	noFixture    = "needs a tool that exists for the suite only: "
	noPrompts    = "the server has no prompts, and declares none"
	noResource   = "needs a resource that exists for the suite only: the server gives out the files of its own answers"
	noSubscribe  = "the server declares no subscriptions: its files do not change"
	noAsking     = "the server never asks the client; needs the tool "
	httpOnly     = "is about HTTP: over stdio it would try the bridge of the test"
	noLogging    = "the server sends no log messages, and declares none"
	noCompletion = "the server completes nothing, and declares that"
)

// scenarios are all that the pinned suite has. docs/mcp.md has the same table.
var scenarios = []scenario{
	{"server-initialize", true, true, ""},
	{"ping", true, true, ""},
	{"tools-list", true, true, ""},
	{"resources-list", true, true, ""},
	{"dns-rebinding-protection", true, false, httpOnly},
	{"server-sse-multiple-streams", true, false, httpOnly},
	{"server-sse-polling", false, false, noFixture + "test_reconnection"},
	{"logging-set-level", false, false, noLogging},
	{"completion-complete", false, false, noCompletion},
	{"tools-call-simple-text", false, false, noFixture + "test_simple_text"},
	{"tools-call-image", false, false, noFixture + "test_image_content"},
	{"tools-call-audio", false, false, noFixture + "test_audio_content"},
	{"tools-call-embedded-resource", false, false, noFixture + "test_embedded_resource"},
	{"tools-call-mixed-content", false, false, noFixture + "test_multiple_content_types"},
	{"tools-call-with-logging", false, false, noFixture + "test_tool_with_logging"},
	{"tools-call-error", false, false, noFixture + "test_error_handling"},
	{"tools-call-with-progress", false, false, noFixture + "test_tool_with_progress"},
	{"tools-call-sampling", false, false, noAsking + "test_sampling"},
	{"tools-call-elicitation", false, false, noAsking + "test_elicitation"},
	{"elicitation-sep1034-defaults", false, false, noAsking + "test_elicitation_sep1034_defaults"},
	{"elicitation-sep1330-enums", false, false, noAsking + "test_elicitation_sep1330_enums"},
	{"json-schema-2020-12", false, false, noFixture + "json_schema_2020_12_tool"},
	{"resources-read-text", false, false, noResource},
	{"resources-read-binary", false, false, noResource},
	{"resources-templates-read", false, false, noResource},
	{"resources-subscribe", false, false, noSubscribe},
	{"resources-unsubscribe", false, false, noSubscribe},
	{"prompts-list", false, false, noPrompts},
	{"prompts-get-simple", false, false, noPrompts},
	{"prompts-get-with-args", false, false, noPrompts},
	{"prompts-get-embedded-resource", false, false, noPrompts},
	{"prompts-get-with-image", false, false, noPrompts},
}

var (
	listedScenario = regexp.MustCompile(`(?m)^\s*- (\S+) \[`)
	passedChecks   = regexp.MustCompile(`Passed: (\d+)/(\d+), 0 failed, 0 warnings`)
)

// TestEveryScenarioIsListed compares the table with what the suite has, so that a new one is not passed over in silence.
func TestEveryScenarioIsListed(t *testing.T) {
	k := needKit(t)
	out, complaints, err := k.run(t, nil, suite, "list", "--server")
	if err != nil {
		t.Fatalf("%v: %s", err, complaints)
	}
	var has, listed []string
	for _, found := range listedScenario.FindAllStringSubmatch(out, -1) {
		has = append(has, found[1])
	}
	for _, s := range scenarios {
		listed = append(listed, s.name)
		if (s.why == "") != (s.http && s.stdio) {
			t.Errorf("%s: applies everywhere, or says why not", s.name)
		}
	}
	slices.Sort(has)
	slices.Sort(listed)
	if diff := cmp.Diff(has, listed); diff != "" || len(has) == 0 {
		t.Errorf("the suite has %d scenarios, the table %d (-suite +table):\n%s", len(has), len(listed), diff)
	}
}

func TestConformance(t *testing.T) {
	k := needKit(t)
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
				out, complaints, err := k.run(t, nil, suite, "server", "--url", address, "--scenario", s.name)
				// A scenario whose checks could not be made ends well too, so at least one must have passed.
				passed := passedChecks.FindStringSubmatch(out)
				if err != nil || passed == nil || passed[1] != passed[2] || passed[1] == "0" {
					t.Errorf("%s: %v\n%s%s", s.name, err, out, complaints)
				}
			}
		})
	}
}

// TestConformanceTableIsInTheDocumentation compares the table above with the one that people read.
func TestConformanceTableIsInTheDocumentation(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "mcp.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(data), "| scenario | HTTP | stdio | why not |\n|---|---|---|---|\n")
	if !found {
		t.Fatal("docs/mcp.md has no table of scenarios")
	}
	table, _, _ := strings.Cut(section, "\n\n")
	word := map[bool]string{true: "passes", false: "–"}
	var want []string
	for _, s := range scenarios {
		want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s |", s.name, word[s.http], word[s.stdio], s.why))
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(table), "\n")); diff != "" {
		t.Errorf("the table in docs/mcp.md (-want +got):\n%s", diff)
	}
}
