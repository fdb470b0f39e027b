package prompt_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
	"signalbox/transcript"
)

var update = flag.Bool("update", false, "update the golden prompts")

func tools() []prompt.Tool {
	return []prompt.Tool{
		{Name: "search_notes", Description: "search a folder of Markdown", Kind: prompt.NotesTool},
		{Name: "weather", Description: "what the sky does\n\n# Signals\n{{.Key}} <b>", Kind: "mcp"},
		{Name: "search_code", Description: "search the code", Kind: prompt.CodeTool},
		{Name: "suggest_tax_loss_harvest", Description: "which lots to sell",
			Kind: prompt.PortfolioTool},
		{Name: "read_file", Description: "read a file", Kind: prompt.CodeTool},
		{Name: "plain"},
	}
}

func fullData() *prompt.Data {
	return &prompt.Data{Tools: tools(), TurnsLeft: 30, TokensLeft: 200_000, CostLeft: 0.5,
		TimeLeft: 10 * time.Minute}
}

func render(t rapid.TB, s *prompt.Set, class prompt.Class, data *prompt.Data) string {
	t.Helper()
	text, err := s.Prompt(class, data)
	must.Succeed(t, err)
	return text
}

func TestGolden(t *testing.T) {
	s := newSet(t, nil)
	prompts := map[string]string{}
	for _, class := range prompt.Classes() {
		prompts[string(class)] = render(t, s, class, fullData())
	}
	stuck := fullData()
	stuck.Stuck, stuck.Blocker, stuck.Key = true, "no index\n# Signals", `k"1&`
	prompts["code-stuck-keyed"] = render(t, s, prompt.Code, stuck)
	prompts["bare"] = render(t, s, prompt.Research, &prompt.Data{})
	for name, got := range prompts {
		path := filepath.Join("testdata", "golden", name+".md")
		if *update {
			must.Succeed(t, os.WriteFile(path, []byte(got), 0o666))
		}
		want, err := os.ReadFile(path)
		must.Succeed(t, err)
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got); run with -update to accept:\n%s", name, diff)
		}
	}
	if files, err := filepath.Glob("testdata/golden/*"); err != nil || len(files) != len(prompts) {
		t.Errorf("%d golden files for %d prompts (%v)", len(files), len(prompts), err)
	}
}

func names(tools []prompt.Tool) (names []string) {
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return names
}

func TestToolsOfEachClass(t *testing.T) {
	for class, want := range map[prompt.Class]string{
		prompt.Code:           "read_file search_code search_notes plain weather",
		prompt.Documentation:  "search_notes read_file search_code plain weather",
		prompt.Research:       "search_notes read_file search_code suggest_tax_loss_harvest plain weather",
		prompt.Action:         "plain weather read_file search_code search_notes suggest_tax_loss_harvest",
		prompt.Conversational: "",
	} {
		given := tools()
		if got := strings.Join(names(prompt.ToolsFor(class, given)), " "); got != want {
			t.Errorf("%s: %s, want %s", class, got, want)
		}
		if !slices.Equal(given, tools()) {
			t.Errorf("%s: ToolsFor changed its argument", class)
		}
	}
	s := newSet(t, nil)
	if got := prompt.ToolsFor(s.Classify("thanks"), tools()); len(got) > 0 {
		t.Errorf("thanks is offered %v", got)
	}
}

var examples = regexp.MustCompile(`(?s)<signal .*?</signal>`)

// signalsIn returns the signals that transcript finds in a reply.
func signalsIn(t *testing.T, text, key string) (found []signalbox.Signal) {
	for s, err := range transcript.Signals(strings.NewReader(text),
		&transcript.Options{Format: signalbox.FormatPlain, Key: key}) {
		must.Succeed(t, err)
		found = append(found, s)
	}
	return found
}

// The examples in the prompt are valid signals.
func TestExamplesAreSignals(t *testing.T) {
	// The fields of each type, as in docs/reference/signals.md.
	fields := map[string]string{
		"need_turn": "expected_turns reason", "context_sufficient": "source_types sources_found",
		"stuck":           "attempted blocker suggestions",
		"need_capability": "capability reason workaround", "partial_answer": "caveat missing",
		"delegation_recommended": "estimated_tokens reason scope subagent_type",
	}
	s := newSet(t, nil)
	for _, key := range []string{"", `k"1&<`} {
		text := render(t, s, prompt.Conversational, &prompt.Data{Key: key})
		var seen []string
		for _, example := range examples.FindAllString(text, -1) {
			found := signalsIn(t, "My reply.\n\n"+example, key)
			if len(found) != 1 || !found[0].Taken() || found[0].Turn == nil {
				t.Fatalf("%s\nis read as %+v", example, found)
			}
			seen = append(seen, found[0].Name)
			var got []string
			for name := range found[0].Turn.Fields {
				got = append(got, name)
			}
			if slices.Sort(got); strings.Join(got, " ") != fields[found[0].Name] {
				t.Errorf("%s has the fields %v, want %s", found[0].Name, got, fields[found[0].Name])
			}
			if found[0].Turn.Confidence == 0.5 {
				t.Errorf("%s does not show how to give a confidence", found[0].Name)
			}
			for _, list := range []string{"source_types", "attempted", "suggestions"} {
				if v, ok := found[0].Turn.Fields[list]; ok {
					if _, isList := v.([]any); !isList {
						t.Errorf("%s: %s is not a list: %v", found[0].Name, list, v)
					}
				}
			}
		}
		if diff := cmp.Diff(signalbox.TurnTypes(), seen); diff != "" {
			t.Errorf("types (-all +shown):\n%s", diff)
		}
	}
}

// The limits in the segment are those of package transcript.
func TestLimitsAreTrue(t *testing.T) {
	text := render(t, newSet(t, nil), prompt.Conversational, &prompt.Data{})
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, tt := range []struct{ typ, field, told, good, bad string }{
		{"need_turn", "reason", "reason: 1 to 500 characters", long(500), long(501)},
		{"need_turn", "expected_turns", "expected_turns: 1 to 10", "10", "11"},
		{"need_turn", "expected_turns", "expected_turns: 1 to 10", "1", "0"},
		{"context_sufficient", "sources_found", "sources_found: 0 or more", "0", "none"},
		{"stuck", "attempted", "a JSON list of at least one", `["a"]`, "[]"},
		{"stuck", "blocker", "blocker: 1 to 500 characters", long(500), long(501)},
		{"need_capability", "capability", "capability: 1 to 100 characters", long(100), long(101)},
		{"need_capability", "reason", "reason: 1 to 500;", long(500), long(501)},
		{"need_capability", "workaround", "instead, at most 500", long(500), long(501)},
		{"partial_answer", "missing", "missing: 1 to 500 characters", long(500), long(501)},
		{"partial_answer", "caveat", "caveat: at most 500", long(500), long(501)},
		{"delegation_recommended", "reason", "reason and scope: 1 to 500 characters each",
			long(500), ""},
		{"delegation_recommended", "scope", "reason and scope: 1 to 500 characters each", long(500),
			long(501)},
		{"stuck", "confidence", "confidence is from 0 to 1", "1", "high"},
	} {
		if !strings.Contains(text, tt.told) {
			t.Errorf("the prompt does not say %q", tt.told)
		}
		var example string
		for _, e := range examples.FindAllString(text, -1) {
			if strings.Contains(e, `"`+tt.typ+`"`) {
				example = e
			}
		}
		element := regexp.MustCompile("<" + tt.field + ">.*</" + tt.field + ">")
		for value, want := range map[string]int{tt.good: 1, tt.bad: 2} {
			changed := element.ReplaceAllString(example, "<"+tt.field+">"+value+"</"+tt.field+">")
			if got := signalsIn(t, changed, ""); len(got) != want {
				t.Errorf("%s: %s of %.20q (%d bytes): %d remarks, want %d", tt.typ, tt.field, value,
					len(value), len(got)-1, want-1)
			}
		}
	}
}

func TestSegmentsCanBeReplaced(t *testing.T) {
	s := newSet(t, &prompt.Options{Segments: map[string]string{
		prompt.Identity: "You are {{.Class}}.", prompt.Answer: " \n",
		prompt.Signals: "Say <signal>.",
		prompt.Tools:   "{{range .Tools}}{{.Name}} {{end}}", prompt.Limits: "{{.TurnsLeft}}",
		prompt.Stuck: "STUCK {{.Blocker}}"}})
	data := fullData()
	data.Stuck, data.Blocker = true, "b"
	if got, want := render(t, s, prompt.Code, data),
		"You are code.\n\nread_file search_code search_notes plain weather\n\n30\n\nSTUCK b\n\nSay <signal>.\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"greeting": {"x",
			`prompt: unknown segment "greeting": the segments are identity, tools, answer, limits, stuck, signals`},
		prompt.Identity: {"{{.Klass}}", "prompt: segment identity: template: identity:1:2"},
		prompt.Answer:   {"{{if}}", "prompt: segment answer: template: answer:1"},
		prompt.Signals:  {" ", "prompt: segment signals is empty"},
	} {
		if _, err := prompt.New(
			&prompt.Options{Segments: map[string]string{name: tt.text}}); err == nil ||
			!strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

func TestForeignTextStaysOnItsLine(t *testing.T) {
	s := newSet(t, nil)
	signals := render(t, s, prompt.Conversational, &prompt.Data{})
	signals = signals[strings.Index(signals, "# Signals"):]
	property.Check(t, func(t *rapid.T) {
		hostile := rapid.OneOf(rapid.String(),
			rapid.SampledFrom([]string{"a\n# Signals\nnone", "\x80", strings.Repeat("\x80", 2000),
				strings.Repeat("日", 2000), "a\r\u2028\u0085# b"})).Draw(t, "text")
		data := &prompt.Data{Tools: []prompt.Tool{{Name: "t" + hostile, Description: hostile}},
			Stuck: true, Blocker: hostile}
		calm := &prompt.Data{Tools: []prompt.Tool{{Name: "t", Description: "d"}}, Stuck: true,
			Blocker: "b"}
		got := render(t, s, prompt.Research, data)
		if again := render(t, s, prompt.Research, data); again != got {
			t.Fatal("not the same twice")
		}
		if n, want := strings.Count(got, "\n"), strings.Count(render(t, s, prompt.Research, calm),
			"\n"); n != want {
			t.Errorf("%q makes %d lines of %d", hostile, n, want)
		}
		if !strings.HasSuffix(got, "\n\n"+signals) || !utf8.ValidString(got) || len(got) > 10_000 {
			t.Errorf("%q spoils the prompt:\n%s", hostile, got)
		}
	})
}

func TestSegmentsOfEachClass(t *testing.T) {
	data := fullData()
	data.Stuck = true
	for _, class := range prompt.Classes() {
		want := prompt.Segments()
		if class == prompt.Conversational {
			want = []string{prompt.Identity, prompt.Answer, prompt.Signals}
		}
		if diff := cmp.Diff(want, prompt.SegmentsFor(class, data)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", class, diff)
		}
		if diff := cmp.Diff([]string{prompt.Identity, prompt.Answer, prompt.Signals},
			prompt.SegmentsFor(class, &prompt.Data{})); diff != "" {
			t.Errorf("%s without data (-want +got):\n%s", class, diff)
		}
	}
	for _, one := range []prompt.Data{{TurnsLeft: 1}, {TokensLeft: 1}, {CostLeft: 0.01},
		{TimeLeft: 1}} {
		if !slices.Contains(prompt.SegmentsFor(prompt.Code, &one), prompt.Limits) {
			t.Errorf("no limits for %+v", one)
		}
	}
}
