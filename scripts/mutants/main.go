// Command mutants breaks the code in one small way at a time and reports which of these mutants no
// test notices. It is a measure of the tests, for example before and after they are rewritten:
//
//	git worktree add ../before v1.2.0
//	go run ./scripts/mutants -other ../before          # in this tree
//	go run ./scripts/mutants -other ../before -there   # the same mutants in the other one
//
// A seed draws the same mutants each time. A mutant is known by the function and the line that
// it changes, not by its place, and with -other only those that both trees have are drawn. The files
// stay as they are: the compiler gets the changed one as an overlay.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/run/mutation"
)

// A group is code that is tested together: count mutants are drawn from its folders. also names
// packages that test the folders from above.
type group struct {
	name    string
	count   int
	folders []string
	also    []string
}

var groups = []group{
	{"rules", 12, []string{"internal/core/rules"}, nil},
	{"run", 9, []string{
		"internal/run/crew", "internal/run/checks", "internal/run/checkrun", "internal/run/questions",
		"internal/run/steer", "internal/run/project", "internal/run/planload", "internal/run/deliver",
		"internal/run/exitsignal", "internal/run/turnprompt", "internal/run/conflicts", "internal/run/changes",
	}, []string{"internal/run/crew"}},
	{"transport", 6, []string{"internal/run/transport"}, []string{"internal/run/crew"}},
	{"journals", 9, []string{
		"internal/core/journal", "internal/core/journal/sqlite", "internal/core/journal/postgres",
		"internal/core/journal/nats",
	}, nil},
	{"sandbox", 6, []string{"internal/contain", "internal/run/contain", "internal/sandbox"}, nil},
	{"access", 6, []string{"internal/serve/access"}, []string{"internal/serve/api"}},
	{"tax", 6, []string{"internal/portfolio/tax"}, nil},
	{"transcript", 6, []string{"transcript", "transcript/internal/payload"}, nil},
}

func main() {
	other := flag.String("other", "", "draw only mutants that the `tree` in this folder has, too")
	there := flag.Bool("there", false, "run the tests of the other tree")
	seed := flag.Int("seed", 30, "another seed draws other mutants")
	only := flag.String("only", "", "draw from this `group` alone")
	list := flag.Bool("list", false, "list the mutants without running tests")
	flag.Parse()
	if err := run(*other, *there, *seed, *only, *list); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(other string, there bool, seed int, only string, list bool) error {
	drawn, err := draw(other, there, seed)
	if err != nil {
		return err
	}
	survivors, total := 0, 0
	for _, g := range groups {
		if only != "" && g.name != only {
			continue
		}
		left := g.count
		for _, m := range drawn[g.name] {
			if left == 0 {
				break
			}
			fate := "listed"
			if !list {
				if fate, err = m.test(g.also); err != nil {
					return err
				}
			}
			if fate == "does not compile" {
				continue
			}
			left--
			total++
			if fate == "survived" {
				survivors++
			}
			fmt.Printf("%-9s %-10s %s\n", fate, g.name, m)
		}
	}
	fmt.Printf("%d mutants, %d survived\n", total, survivors)
	return nil
}

// draw returns the mutants of each group, in the order of the seed: all that this tree and the other
// have, as they are in the tree that is to be tested.
func draw(other string, there bool, seed int) (map[string][]mutant, error) {
	trees := []string{"."}
	if other != "" {
		trees = append(trees, other)
	}
	var known []map[string]mutant
	for _, tree := range trees {
		all, err := mutants(tree)
		if err != nil {
			return nil, err
		}
		known = append(known, all)
	}
	from := known[0]
	if there {
		from = known[len(known)-1]
	}
	drawn := map[string][]mutant{}
	for key, m := range known[0] {
		if _, both := known[len(known)-1][key]; both {
			drawn[m.group] = append(drawn[m.group], from[key])
		}
	}
	for _, some := range drawn {
		slices.SortFunc(some, func(a, b mutant) int {
			return bytes.Compare(a.rank(seed), b.rank(seed))
		})
	}
	return drawn, nil
}

// A mutant is one change of one expression or statement.
type mutant struct {
	mutation.Mutant
	group, tree string
}

// key is the same in every tree in which the function has the same line.
func (m mutant) key() string { return m.Function + ": " + m.Before + " → " + m.After }

func (m mutant) rank(seed int) []byte {
	sum := sha256.Sum256(fmt.Append(nil, seed, m.key()))
	return sum[:]
}

func (m mutant) String() string { return fmt.Sprintf("%s:%d %s", m.File, m.Line, m.key()) }

// mutants returns all mutants of a tree by their keys. Where a function repeats an expression, only
// the first is taken.
func mutants(tree string) (map[string]mutant, error) {
	all := map[string]mutant{}
	for _, g := range groups {
		for _, folder := range g.folders {
			files, err := filepath.Glob(filepath.Join(tree, folder, "*.go"))
			if err != nil {
				return nil, err
			}
			for _, path := range files {
				if strings.HasSuffix(path, "_test.go") {
					continue
				}
				source, err := os.ReadFile(path)
				if err != nil {
					return nil, err
				}
				name := filepath.Join(folder, filepath.Base(path))
				for _, found := range mutation.Find(name, nil, source) {
					m := mutant{found, g.name, tree}
					if _, again := all[m.key()]; !again {
						all[m.key()] = m
					}
				}
			}
		}
	}
	return all, nil
}

// test runs the tests of the mutant's package, then those of the packages that use it.
func (m mutant) test(also []string) (string, error) {
	folder, err := os.MkdirTemp("", "signalbox-mutant-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	tree, err := filepath.Abs(m.tree)
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(filepath.Join(tree, m.File))
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(folder, "changed.go"), filepath.Join(folder, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(tree, m.File): changed},
	})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(changed, m.Apply(source), 0o600),
		os.WriteFile(overlay, replace, 0o600)); err != nil {
		return "", err
	}
	call := func(args ...string) error {
		c := exec.Command("go", args...)
		c.Dir = tree
		// The tests that build the program build the changed one.
		c.Env = append(os.Environ(), "GOFLAGS=-overlay="+overlay, "CGO_ENABLED=0")
		return c.Run()
	}
	own := "./" + filepath.Dir(m.File)
	if call("vet", "-unsafeptr=false", own) != nil {
		return "does not compile", nil
	}
	packages := []string{own}
	for _, folder := range also {
		if _, err := os.Stat(filepath.Join(tree, folder)); err == nil && own != "./"+folder {
			packages = append(packages, "./"+folder)
		}
	}
	for _, folder := range packages {
		if call("test", "-count=1", "-failfast", "-timeout=15m", folder) != nil {
			return "killed", nil
		}
	}
	return "survived", nil
}
