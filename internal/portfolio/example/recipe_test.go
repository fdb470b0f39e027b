package example_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"signalbox/internal/portfolio"
)

// recipe is a section of the README: a flag, and the steps that raise it.
type recipe struct {
	flag, severity string
	line           int // of its heading
	changes        []change
	// tool is harvest, exits, gains, simulate or reconcile; args are its arguments.
	tool string
	args []string
}

type change struct{ verb, file, text, with string }

func (r recipe) name() string { return fmt.Sprintf("%s/%s/line_%d", r.tool, r.flag, r.line) }

var (
	heading = regexp.MustCompile(`^### ([a-z0-9_]+) \((error|warning|info|success)\)$`)
	step    = regexp.MustCompile(`^(append|replace|delete|write) (\S+): (.+)$`)
	removal = regexp.MustCompile(`^remove (\S+)$`)
)

const command = "run: signalbox portfolio "

// readRecipes parses the README. Everything that it cannot parse fails the test, so that no recipe
// is left untested.
func readRecipes(t *testing.T, text string) []recipe {
	t.Helper()
	var recipes []recipe
	inBlock := false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "### "):
			m := heading.FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("README.md:%d: %q is not a heading of a flag: write ### flag (severity)",
					i+1, line)
			}
			recipes = append(recipes, recipe{flag: m[1], severity: m[2], line: i + 1})
		case len(recipes) == 0: // what comes before the flags
		case strings.HasPrefix(line, "```"):
			inBlock = !inBlock
		case inBlock:
			if err := recipes[len(recipes)-1].add(line); err != nil {
				t.Fatalf("README.md:%d: %v", i+1, err)
			}
		}
	}
	for _, r := range recipes {
		if r.tool == "" {
			t.Errorf("README.md:%d: the recipe of %s has no run", r.line, r.flag)
		}
	}
	if len(recipes) == 0 {
		t.Fatal("README.md has no recipes")
	}
	return recipes
}

// add parses one step.
func (r *recipe) add(line string) error {
	if r.tool != "" {
		return fmt.Errorf("%q comes after run, which is the last step", line)
	}
	if asked, ok := strings.CutPrefix(line, command); ok {
		words := strings.Fields(asked)
		r.tool, r.args = words[0], words[1:]
		return nil
	}
	if m := removal.FindStringSubmatch(line); m != nil {
		r.changes = append(r.changes, change{verb: "remove", file: m[1]})
		return nil
	}
	m := step.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("%q is not a step", line)
	}
	c := change{verb: m[1], file: m[2], text: m[3]}
	if c.verb == "replace" {
		var ok bool
		if c.text, c.with, ok = strings.Cut(m[3], " => "); !ok {
			return fmt.Errorf("%q does not say with what: OLD => NEW", line)
		}
	}
	r.changes = append(r.changes, c)
	return nil
}

// make makes the changes in a folder.
func (c change) make(dir string) error {
	name := filepath.Join(dir, filepath.FromSlash(c.file))
	switch c.verb {
	case "remove":
		return os.Remove(name)
	case "write":
		return os.WriteFile(name, []byte(c.text+"\n"), 0o600)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text := string(data)
	switch c.verb {
	case "append":
		text += c.text + "\n"
	case "replace":
		if n := strings.Count(text, c.text); n != 1 {
			return fmt.Errorf("%q stands %d times in %s, expected once", c.text, n, c.file)
		}
		text = strings.Replace(text, c.text, c.with, 1)
	case "delete":
		var kept strings.Builder
		for line := range strings.Lines(text) {
			if !strings.Contains(line, c.text) {
				kept.WriteString(line)
			}
		}
		if kept.Len() == len(text) {
			return fmt.Errorf("no line of %s has %q", c.file, c.text)
		}
		text = kept.String()
	}
	return os.WriteFile(name, []byte(text), 0o600)
}

// ask asks a desk for a folder the question of the recipe.
func (r recipe) ask(t *testing.T, desk *portfolio.Desk, dir string) portfolio.Answer {
	t.Helper()
	var harvest portfolio.HarvestQuery
	var exits portfolio.ExitQuery
	var gains portfolio.GainsQuery
	var simulate portfolio.SimulateQuery
	var reconcile portfolio.ReconcileQuery
	words := r.args
	values := map[string]*string{"--format": &harvest.Format, "--output": &harvest.Output,
		"--as-of":   &harvest.AsOf,
		"--account": &harvest.Account, "--min-loss": &harvest.MinLoss, "--sort-by": &harvest.SortBy,
		"--source": &harvest.Source}
	var here string
	if r.tool == "exits" {
		exits.Ticker, words = words[0], words[1:]
		values = map[string]*string{"--format": &exits.Format, "--output": &exits.Output,
			"--as-of":   &exits.AsOf,
			"--account": &exits.AccountID, "--shares": &exits.Shares}
	}
	if r.tool == "gains" {
		values = map[string]*string{"--format": &gains.Format, "--output": &gains.Output,
			"--year": &gains.Year, "--1099b": &gains.FormName}
	}
	if r.tool == "simulate" {
		simulate.Ticker, words = words[0], words[1:]
		values = map[string]*string{"--format": &simulate.Format, "--account": &simulate.AccountID,
			"--shares": &simulate.Shares, "--method": &simulate.Method, "--as-of": &simulate.AsOf}
	}
	if r.tool == "reconcile" {
		values = map[string]*string{"--format": &reconcile.Format}
	}
	values["--data"] = &here
	for len(words) > 0 {
		if words[0] == "--no-wash-sale-check" && r.tool == "harvest" {
			harvest.SkipWashCheck, words = true, words[1:]
			continue
		}
		value := values[words[0]]
		if value == nil || len(words) < 2 {
			t.Fatalf("README.md:%d: this test does not know %q of %s", r.line, words[0], r.tool)
		}
		*value, words = words[1], words[2:]
	}
	switch {
	case here != "" && here != ".":
		t.Fatalf("README.md:%d: the recipe looks at another folder, %s", r.line, here)
	case r.tool == "exits":
		return desk.CheckExitSignals(t.Context(), exits)
	case r.tool == "gains":
		// The recipe may not have written the form yet.
		gains.Form, _ = os.ReadFile(filepath.Join(dir, "form.csv"))
		return desk.RealizedGains(t.Context(), gains)
	case r.tool == "simulate":
		return desk.SimulateSale(t.Context(), simulate)
	case r.tool == "reconcile":
		return desk.ReconcilePositions(t.Context(), reconcile)
	case r.tool == "harvest":
		return desk.SuggestTaxLossHarvest(t.Context(), harvest)
	}
	t.Fatalf("README.md:%d: %q is not a tool with flags", r.line, r.tool)
	return portfolio.Answer{}
}
