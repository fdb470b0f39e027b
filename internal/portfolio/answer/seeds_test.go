package answer_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"signalbox/brief"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/testkit/must"
)

// seedAnswer is a random result, and what the seeds' Python answers to it.
type seedAnswer struct {
	Tool   string
	Result json.RawMessage
	Answer map[string]any
}

// TestAnswersOfTheSeeds checks that our answers have all keys of those of the Python programs in
// testdata/seeds, with the same values and flags. Ours may have more keys. Python is not needed:
// answers.jsonl has what it answered. To compare with more results, write them to another file
// there:
//
//	python3 generate.py 3000 > more.jsonl
func TestAnswersOfTheSeeds(t *testing.T) {
	files, err := filepath.Glob("testdata/seeds/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no answers in testdata/seeds: %v", err)
	}
	for _, name := range files {
		file, err := os.Open(name)
		must.Succeed(t, err)
		lines, n := bufio.NewScanner(file), 0
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			n++
			var seed seedAnswer
			must.Succeed(t, json.Unmarshal(lines.Bytes(), &seed))
			for _, difference := range seed.compare(t) {
				t.Errorf("%s:%d: %s", name, n, difference)
			}
		}
		must.Succeed(t, lines.Err())
		must.Succeed(t, file.Close())
		if n == 0 {
			t.Errorf("%s is empty", name)
		}
	}
}

// compare returns how our answer differs.
func (s *seedAnswer) compare(t *testing.T) []string {
	t.Helper()
	var ours json.RawMessage
	var err error
	switch s.Tool {
	case "check_exit_signals":
		var r answer.ExitResult
		must.Succeed(t, json.Unmarshal(s.Result, &r))
		ours, err = answer.ExitTool().Answer(r, brief.FormatAgent, brief.Saved{})
	case "suggest_tax_loss_harvest":
		var r answer.HarvestResult
		must.Succeed(t, json.Unmarshal(s.Result, &r))
		ours, err = answer.HarvestTool().Answer(r, brief.FormatAgent, brief.Saved{})
		s.correct(r)
	default:
		t.Fatalf("tool %q", s.Tool)
	}
	return missing("", any(s.Answer), any(object(t, ours, err)))
}

// correct replaces the one flag of the seeds that we do not copy, because it is false: if no
// position has lots, nobody knows that all lots are at a gain.
func (s *seedAnswer) correct(r answer.HarvestResult) {
	if r.Status == "success" && r.CandidateCount == 0 && r.DataCoveragePct <= 0 &&
		r.Metadata.PositionsAnalyzed > 0 {
		s.Answer["flags"] = []any{map[string]any{"flag": "no_lot_data", "severity": "warning",
			"message": "No lot data for any position — losses cannot be computed"}}
	}
}

// missing returns what of a decoded value another one does not have. Objects may have more keys,
// lists must have the same length.
func missing(path string, want, got any) (differences []string) {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		for key, value := range want {
			other, found := got[key]
			if !ok || !found {
				differences = append(differences, path+"."+key+" is missing")
				continue
			}
			differences = append(differences, missing(path+"."+key, value, other)...)
		}
		slices.Sort(differences)
	case []any:
		got, _ := got.([]any)
		if len(got) != len(want) {
			return []string{fmt.Sprintf("%s has %d entries, want %d", path, len(got), len(want))}
		}
		for i := range want {
			differences = append(differences, missing(fmt.Sprintf("%s[%d]", path, i), want[i], got[i])...)
		}
	default:
		if want != got {
			differences = append(differences, fmt.Sprintf("%s is %v, want %v", path, got, want))
		}
	}
	return differences
}
