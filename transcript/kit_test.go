package transcript_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/transcript"
)

// testdata/recognition/README.md describes the format of the kit.
const (
	kitGlob     = "../testdata/recognition/*.txtar"
	kitMinCases = 1266 // the current number, so that a lost file is noticed
)

// plain are the options for plain text.
var plain = &transcript.Options{Format: signalbox.FormatPlain}

// kitCase is one case of the kit. A nil field is not checked.
type kitCase struct {
	name, why     string
	input         []byte
	options       transcript.Options
	role          signalbox.Role
	work          string
	seed          bool
	flag          string
	want          []map[string]any
	resolve       map[string]any
	resolved      []map[string]any
	strip         *string
	check         map[string]any
	hasWant       bool
	hasResolved   bool
	inputs, files int
}

func TestRecognitionKit(t *testing.T) {
	paths, err := filepath.Glob(kitGlob)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no kit at %s: %v", kitGlob, err)
	}
	total := 0
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		must.Succeed(t, err)
		if len(bytes.TrimSpace(archive.Comment)) == 0 {
			t.Errorf("%s has no comment", path)
		}
		group := strings.TrimSuffix(filepath.Base(path), ".txtar")
		cases := kitCases(t, group, archive)
		total += len(cases)
		for _, c := range cases {
			t.Run(group+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.run(t)
			})
		}
	}
	if total < kitMinCases {
		t.Errorf("the kit has %d cases, want at least %d", total, kitMinCases)
	}
}

func (c *kitCase) run(t *testing.T) {
	signals := scanWhole(t, c.input, &c.options)
	if c.hasWant {
		compareSignals(t, "want", c.want, withRole(signals, c.role))
	}
	if !c.seed {
		located := c.options
		located.Locate = true
		whole := scanWhole(t, c.input, &located)
		for name, pieces := range cuts(c.input) {
			if got := scanPieces(pieces, &located); !reflect.DeepEqual(whole, got) {
				t.Errorf("%s gives other signals than the whole (-whole +pieces):\n%s", name,
					cmp.Diff(whole, got))
			}
		}
	}
	if c.resolve != nil {
		c.checkResolve(t, signals)
	}
	c.checkStrip(t)
	if c.check != nil {
		c.checkExit(t)
	}
}

func (c *kitCase) checkResolve(t *testing.T, signals []signalbox.Signal) {
	var said signalbox.Signal
	resolved := slices.Clone(signals)
	if c.seed {
		var err error
		if said, err = transcript.ResolveSeed(bytes.NewReader(c.input), &c.options); err != nil {
			t.Fatalf("resolve: %v", err)
		}
	} else {
		said = transcript.Resolve(resolved, c.role, c.work)
		advise(&said, c.input, &c.options, c.role, c.work)
	}
	if problem := mismatch(c.resolve, asJSON(t, said)); problem != "" {
		t.Errorf("resolve: %s\n got %s", problem, compact(asJSON(t, said)))
	}
	if c.hasResolved {
		compareSignals(t, "resolved", c.resolved, resolved)
	}
}

// checkStrip compares StripStream with Strip, and both with the expectation.
func (c *kitCase) checkStrip(t *testing.T) {
	got := transcript.Strip(string(c.input))
	if c.strip != nil {
		if diff := cmp.Diff(*c.strip, got); diff != "" {
			t.Errorf("strip (-want +got):\n%s", diff)
		}
	}
	for name, pieces := range cuts(c.input) {
		var out bytes.Buffer
		stream := transcript.NewStripStream(&out)
		for _, piece := range pieces {
			if _, err := stream.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		must.Succeed(t, stream.Close())
		if out.String() != got {
			t.Errorf("strip stream, %s, differs (-whole +stream):\n%s", name,
				cmp.Diff(got, out.String()))
		}
	}
}

func (c *kitCase) checkExit(t *testing.T) {
	exit, err := transcript.ParseExitIfEnabled(c.input, c.flag)
	got := map[string]any{"error": nil}
	if err != nil {
		got["error"] = err.Error()
	} else {
		got["phase_completed"] = string(exit.PhaseCompleted)
		got["exit_reason"] = string(exit.ExitReason)
		got["next_phase"] = nil
		if next, ok := exit.NextPhase(); ok {
			got["next_phase"] = string(next)
		}
	}
	want := c.check
	if _, fails := want["error"]; !fails && want["error_has"] == nil {
		want = maps.Clone(c.check)
		want["error"] = nil
	}
	if problem := mismatch(want, got); problem != "" {
		t.Errorf("check: %s\n got %s", problem, compact(got))
	}
}

func scanWhole(t *testing.T, input []byte, opts *transcript.Options) []signalbox.Signal {
	signals := []signalbox.Signal{}
	for signal, err := range transcript.Signals(bytes.NewReader(input), opts) {
		if err != nil {
			t.Fatalf("scan: %v", err)
		}
		signals = append(signals, signal)
	}
	return signals
}

func scanPieces(pieces [][]byte, opts *transcript.Options) []signalbox.Signal {
	signals := []signalbox.Signal{}
	scanner := transcript.NewScanner(opts)
	buffer := []byte{}
	for _, piece := range pieces {
		// A scanner must not retain its input, so all pieces share a buffer that is cleared after
		// each.
		buffer = append(buffer[:0], piece...)
		signals = append(signals, scanner.Push(buffer)...)
		clear(buffer)
	}
	return append(signals, scanner.Close()...)
}

// cuts returns ways of cutting the input: into single bytes, sevens, random pieces and, if the
// input is short, into two at every position. For an input that is far longer than all limits but
// those of detecting a format, it returns two ways.
func cuts(input []byte) map[string][][]byte {
	ways := map[string][][]byte{"seven at a time": slices.Collect(slices.Chunk(input, 7))}
	random, times := rand.New(rand.NewPCG(1, 2)), 1
	if len(input) <= 256<<10 {
		ways["one byte at a time"], times = slices.Collect(slices.Chunk(input, 1)), 3
	}
	for i := range times {
		var pieces [][]byte
		for rest := input; len(rest) > 0; {
			n := min(len(rest), random.IntN(1<<random.IntN(10)+1))
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		ways[fmt.Sprintf("random cuts %d", i)] = pieces
	}
	if len(input) <= 300 {
		for i := 1; i < len(input); i++ {
			ways[fmt.Sprintf("cut at %d", i)] = [][]byte{input[:i], input[i:]}
		}
	}
	return ways
}

// withRole refuses the signals that the role may not send, as `scan --role` does.
func withRole(signals []signalbox.Signal, role signalbox.Role) []signalbox.Signal {
	marked := slices.Clone(signals)
	for i := range marked {
		if s := &marked[i]; s.Taken() {
			s.Refused = transcript.RefusalReason(*s, role, "")
		}
	}
	return marked
}

func compareSignals(t *testing.T, what string, want []map[string]any, got []signalbox.Signal) {
	t.Helper()
	listing := func() string {
		var b strings.Builder
		for i, s := range got {
			if i == 25 {
				fmt.Fprintf(&b, "… and %d more\n", len(got)-i)
				break
			}
			fmt.Fprintln(&b, compact(asJSON(t, s)))
		}
		return b.String()
	}
	if len(want) != len(got) {
		t.Errorf("%s: %d signals, want %d; got:\n%s", what, len(got), len(want), listing())
		return
	}
	for i, w := range want {
		if problem := mismatch(w, asJSON(t, got[i])); problem != "" {
			t.Errorf("%s, line %d: %s; got:\n%s", what, i+1, problem, listing())
			return
		}
	}
}

// mismatch compares the keys in want. A key that ends in _has has one or more substrings that must
// be present, one that ends in _lacks those that must be absent.
func mismatch(want, got map[string]any) string {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		field, has := strings.CutSuffix(key, "_has")
		field, lacks := strings.CutSuffix(field, "_lacks")
		if !has && !lacks {
			if _, known := got[key]; !known {
				return fmt.Sprintf("there is no %q", key)
			}
			if diff := cmp.Diff(want[key], got[key]); diff != "" {
				return fmt.Sprintf("%s differs (-want +got):\n%s", key, diff)
			}
			continue
		}
		text, _ := got[field].(string)
		for _, part := range asList(want[key]) {
			if strings.Contains(text, part.(string)) != has {
				return fmt.Sprintf("%s %q is wrong by %s %q", field, text, key, part)
			}
		}
	}
	return ""
}

func asList(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

func asJSON(t *testing.T, s signalbox.Signal) map[string]any {
	t.Helper()
	data, err := json.Marshal(s)
	must.Succeed(t, err)
	var m map[string]any
	must.Succeed(t, json.Unmarshal(data, &m))
	return m
}

// compact formats the values that are not null, shortened.
func compact(m map[string]any) string {
	short := map[string]any{}
	for k, v := range m {
		if text, ok := v.(string); ok && len(text) > 200 {
			v = fmt.Sprintf("%s… (%d bytes)", text[:200], len(text))
		}
		if v != nil {
			short[k] = v
		}
	}
	data, _ := json.Marshal(short)
	return string(data)
}

var kitKeys = []string{"dialect", "signal", "handler", "task_id", "title", "body", "exit",
	"confidence", "fields",
	"raw", "offset", "line", "refused", "detail", "detail_has", "detail_lacks", "times"}

// kitCases reads a group. Anything unknown is an error, so that a typo cannot make a case that
// tests nothing.
func kitCases(t *testing.T, group string, archive *txtar.Archive) []*kitCase {
	t.Helper()
	var cases []*kitCase
	seen := map[string]bool{}
	for _, file := range archive.Files {
		name, part, ok := strings.Cut(file.Name, "/")
		if !ok || seen[file.Name] {
			t.Fatalf("%s: %s: not NAME/part, or there twice", group, file.Name)
		}
		seen[file.Name] = true
		if part == "case" {
			cases = append(cases, &kitCase{name: name, flag: "true",
				options: transcript.Options{Format: signalbox.FormatPlain}})
		}
		if len(cases) == 0 || cases[len(cases)-1].name != name {
			t.Fatalf("%s: %s does not follow %s/case", group, file.Name, name)
		}
		if err := cases[len(cases)-1].read(part, file.Data); err != nil {
			t.Fatalf("%s: %s: %v", group, file.Name, err)
		}
	}
	for _, c := range cases {
		switch {
		case c.why == "":
			t.Errorf("%s/%s has no why", group, c.name)
		case c.inputs != 1:
			t.Errorf("%s/%s has %d inputs, want one", group, c.name, c.inputs)
		case c.files == 0:
			t.Errorf("%s/%s expects nothing", group, c.name)
		case c.hasResolved && c.resolve == nil:
			t.Errorf("%s/%s has resolved without resolve", group, c.name)
		}
	}
	return cases
}

func (c *kitCase) read(part string, data []byte) (err error) {
	if strings.HasPrefix(part, "input") {
		c.inputs++
		c.input, err = kitInput(part, data)
		return err
	}
	if part == "case" {
		return c.readHead(data)
	}
	c.files++
	switch part {
	case "want":
		c.hasWant = true
		c.want, err = kitLines(data)
	case "resolve":
		c.resolve, err = kitObject(data)
	case "resolved":
		c.hasResolved = true
		c.resolved, err = kitLines(data)
	case "strip":
		text := string(data)
		c.strip = &text
	case "strip.json":
		err = json.Unmarshal(data, &c.strip)
	case "check":
		c.check, err = kitObject(data)
	default:
		err = fmt.Errorf("no such part")
	}
	return err
}

func (c *kitCase) readHead(data []byte) error {
	for line := range strings.Lines(string(data)) {
		key, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch {
		case !ok:
			return fmt.Errorf("not key: value: %q", line)
		case key == "why":
			c.why = value
		case key == "format" && slices.Contains(signalbox.Formats(), signalbox.Format(value)):
			c.options.Format = signalbox.Format(value)
		case key == "role" && slices.Contains(signalbox.Roles(), signalbox.Role(value)):
			c.role = signalbox.Role(value)
		case key == "work":
			c.work = value
		case key == "key":
			c.options.Key = value
		case key == "flag":
			c.flag = value
		case key == "policy" && value == "seed":
			c.seed = true
		default:
			return fmt.Errorf("unknown: %q", line)
		}
	}
	return nil
}

func kitInput(part string, data []byte) ([]byte, error) {
	switch part {
	case "input":
		return data, nil
	case "input.json":
		var text string
		err := json.Unmarshal(data, &text)
		return []byte(text), err
	case "input.b64":
		return base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(data)), ""))
	case "input.parts":
		return kitParts(data)
	}
	return nil, fmt.Errorf("no such input")
}

// kitParts reads a list of strings and of [string, times] pairs.
func kitParts(data []byte) ([]byte, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return nil, err
	}
	var input []byte
	for _, part := range parts {
		text, times := "", 1
		if part[0] == '[' {
			if err := json.Unmarshal(part, &[]any{&text, &times}); err != nil {
				return nil, err
			}
		} else if err := json.Unmarshal(part, &text); err != nil {
			return nil, err
		}
		input = append(input, strings.Repeat(text, times)...)
	}
	return input, nil
}

func kitObject(data []byte) (map[string]any, error) {
	var object map[string]any
	err := json.Unmarshal(data, &object)
	return object, err
}

// kitLines reads expectations, one per line. Without refused the signal must be accepted. times
// repeats the line.
func kitLines(data []byte) ([]map[string]any, error) {
	lines := []map[string]any{}
	for line := range bytes.Lines(data) {
		object, err := kitObject(line)
		if err != nil {
			return nil, err
		}
		for key := range object {
			if !slices.Contains(kitKeys, key) {
				return nil, fmt.Errorf("unknown key %q", key)
			}
		}
		if _, ok := object["refused"]; !ok {
			object["refused"] = nil
		}
		times := 1
		if n, ok := object["times"].(float64); ok {
			times = int(n)
			delete(object, "times")
		}
		for range times {
			lines = append(lines, object)
		}
	}
	return lines, nil
}
