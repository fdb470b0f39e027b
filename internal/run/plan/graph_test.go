package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

// graphPlan makes a plan of ids with blockers: "A B:A C:A,B".
func graphPlan(spec string) *Plan {
	p := &Plan{Name: "graph"}
	for _, word := range strings.Fields(spec) {
		id, blockers, blocked := strings.Cut(word, ":")
		t := Task{ID: id, Title: "title of " + id, Criteria: []string{"done"}}
		if blocked {
			t.BlockedBy = strings.Split(blockers, ",")
		}
		p.Tasks = append(p.Tasks, t)
	}
	return p
}

func TestOrder(t *testing.T) {
	for spec, want := range map[string]string{
		"A B C":                   "A B C",
		"A B:A":                   "A B",
		"B:A A":                   "A B",
		"A B C:B D:C":             "B C A D", // B unblocks two, then C one
		"A B C:A D:B E:B,D F:E":   "B D A E C F",
		"A B:B C:D D:C E:missing": "A B C D E", // blockers that no parsed plan has are ignored
	} {
		if got := strings.Join(graphPlan(spec).Order(), " "); got != want {
			t.Errorf("%s: %s, want %s", spec, got, want)
		}
	}
	p := graphPlan("A B C:B D")
	p.Tasks[3].Priority, p.Tasks[1].Priority = 2, -1
	if got := strings.Join(p.Order(), " "); got != "D A B C" {
		t.Errorf("with priorities: %s", got)
	}
}

func TestChainAndStart(t *testing.T) {
	p := graphPlan("A B:A C D:B,C E:C")
	if diff := cmp.Diff([]string{"A", "B", "D"}, p.LongestChain()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"A", "C"}, p.Startable()); diff != "" {
		t.Error(diff)
	}
	empty := &Plan{}
	if len(empty.LongestChain())+len(empty.Startable())+len(empty.Phases())+len(
		empty.Order()) != 0 {
		t.Error("an empty plan has tasks")
	}
}

// reaches returns whether a path leads from one node to another (Floyd-Warshall).
func reaches(graph [][]int) [][]bool {
	n := len(graph)
	way := make([][]bool, n)
	for i := range graph {
		way[i] = make([]bool, n)
		for _, j := range graph[i] {
			way[i][j] = true
		}
	}
	for k := range n {
		for i := range n {
			for j := range n {
				way[i][j] = way[i][j] || way[i][k] && way[k][j]
			}
		}
	}
	return way
}

func drawGraph(t *rapid.T) [][]int {
	n := rapid.IntRange(1, 12).Draw(t, "nodes")
	graph := make([][]int, n)
	for _, edge := range rapid.SliceOfN(rapid.IntRange(0, n*n-1), 0, 2*n).Draw(t, "edges") {
		if i, j := edge/n, edge%n; i != j && !slices.Contains(graph[i], j) {
			graph[i] = append(graph[i], j)
		}
	}
	return graph
}

// TestCyclesAgainstModel checks that cycles returns exactly one real cycle for each group of nodes
// that reach one another.
func TestCyclesAgainstModel(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		graph := drawGraph(t)
		way := reaches(graph)
		found := map[int]bool{}
		for _, cycle := range cycles(graph) {
			for i, at := range cycle {
				if !slices.Contains(graph[at], cycle[(i+1)%len(cycle)]) {
					t.Fatalf("%v is not a cycle in %v", cycle, graph)
				}
				if slices.Contains(cycle[:i], at) {
					t.Fatalf("%v visits %d twice", cycle, at)
				}
				if cycle[0] > at {
					t.Fatalf("%v does not begin with its lowest node", cycle)
				}
			}
			for i := range graph {
				if way[i][cycle[0]] && way[cycle[0]][i] {
					if found[i] {
						t.Fatalf("the group of %d has two cycles", i)
					}
					found[i] = true
				}
			}
		}
		for i := range graph {
			if way[i][i] != found[i] {
				t.Fatalf("node %d of %v: in a cycle %v, found %v", i, graph, way[i][i], found[i])
			}
		}
	})
}

// TestOrderAgainstModel checks that Order always takes the ready task that most tasks wait for.
func TestOrderAgainstModel(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		graph := drawGraph(t)
		for i := range graph { // only to earlier nodes, so there is no cycle
			graph[i] = slices.DeleteFunc(graph[i], func(j int) bool { return j > i })
		}
		way := reaches(graph)
		p := &Plan{}
		downstream := map[string]int{}
		for i := range graph {
			task := Task{ID: fmt.Sprintf("T%d", i),
				Priority: rapid.IntRange(0, 1).Draw(t, "priority")}
			for _, j := range graph[i] {
				task.BlockedBy = append(task.BlockedBy, fmt.Sprintf("T%d", j))
			}
			for j := range graph {
				if way[j][i] {
					downstream[task.ID]++
				}
			}
			p.Tasks = append(p.Tasks, task)
		}
		done := map[string]bool{}
		for _, id := range p.Order() {
			best := Task{}
			for _, task := range p.Tasks {
				ready := !done[task.ID] &&
					!slices.ContainsFunc(task.BlockedBy, func(b string) bool { return !done[b] })
				better := best.ID == "" || task.Priority > best.Priority ||
					task.Priority == best.Priority && downstream[task.ID] > downstream[best.ID]
				if ready && better {
					best = task
				}
			}
			if best.ID != id {
				t.Fatalf("got %s, want %s next", id, best.ID)
			}
			done[id] = true
		}
		if len(done) != len(p.Tasks) {
			t.Fatalf("%d of %d tasks", len(done), len(p.Tasks))
		}
	})
}
