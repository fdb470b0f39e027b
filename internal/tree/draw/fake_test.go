package draw

import (
	"fmt"
	"strings"

	"signalbox/internal/tree"
)

// fake is a Tree that is not compiled.
type fake struct {
	name, description string
	nodes             []tree.NodeInfo
	views             []tree.View
}

func (f *fake) Name() string             { return f.name }
func (f *fake) Description() string      { return f.description }
func (f *fake) Len() int                 { return len(f.nodes) }
func (f *fake) Info(i int) tree.NodeInfo { return f.nodes[i] }

// add appends a node. The order must be a preorder.
func (f *fake) add(parent int, kind tree.Kind, name, detail string, v tree.View) int {
	i := len(f.nodes)
	n := tree.NodeInfo{Index: i, Parent: parent, Kind: kind, Name: name, Detail: detail}
	n.Path = name
	if name == "" {
		n.Path = kind.String()
	}
	if parent >= 0 {
		n.Depth = f.nodes[parent].Depth + 1
		n.Path = f.nodes[parent].Path + "/" + n.Path
		f.nodes[parent].Children = append(f.nodes[parent].Children, i)
	}
	f.nodes, f.views = append(f.nodes, n), append(f.views, v)
	return i
}

// sample returns a tree with every kind and every status, in the middle of a run.
const sample = `
reactive_sequence | answer a question | | RUNNING 12
  inverter | | | SUCCESS 12
    condition | cancelled | is_set(key=cancelled) | FAILURE 12
  selector | gather | | SUCCESS
    guard | notes first | | FAILURE | no notes folder is configured; set oracle.notes
      condition | has notes | is_set(key=notes) | FAILURE
      tool | | search_notes(query={question}) | IDLE
    timeout | | 30s | SUCCESS 4
      retry | | 3 attempts, backoff 1s | SUCCESS 4
        tool | search the code | search_code(query={question}, limit=20) | SUCCESS 4
  sequence | think | | RUNNING 6
    llm_call | ask the model | model=large, streamed | SUCCESS
    sequence | hear the signal | | SUCCESS
      action | | parse_response_signal | SUCCESS
      action | | update_signal_state | SUCCESS
      always_succeed | | | SUCCESS
        action | log | log_signal | FAILURE | the ledger is locked by another process; wait until it has finished
    parallel | look closer | 2 of 3, at most 2 at once | RUNNING 4
      for_each | files | file in {files} | RUNNING 4
        script | read and rank | 14 lines | RUNNING 4
      subtree | look up documentation | documentation(topic={topic}) | RUNNING 4
        reactive_selector | | | RUNNING 4
          condition | signal_type_is | signal_type_is(expected_type=stuck) | FAILURE 4
          wait | | 2s | RUNNING 4
      repeat | | until success, at most 5 times | IDLE
        script | | 3 lines | IDLE
    cooldown | | 1m0s | IDLE
      action | strip | strip_signal_from_response | IDLE
  always_fail | | | IDLE
    action | noop | noop | IDLE
`

func sampleTree() *fake {
	f := &fake{name: "oracle",
		description: "Answers a question: looks around, asks the model, and hears what it signals."}
	var above []int
	for line := range strings.Lines(strings.TrimPrefix(sample, "\n")) {
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		var part [5]string
		for i, s := range strings.SplitN(line, "|", 5) {
			part[i] = strings.TrimSpace(s)
		}
		kind, ok := tree.ParseKind(part[0])
		word, count, _ := strings.Cut(part[3], " ")
		status, known := tree.ParseStatus(word)
		if !ok || !known {
			panic("sample: " + line)
		}
		v := tree.View{Status: status, Err: part[4]}
		if status != tree.Idle {
			v.Visits = 1
		}
		if count != "" {
			if _, err := fmt.Sscan(count, &v.Visits); err != nil {
				panic(err)
			}
		}
		parent := -1
		if depth > 0 {
			parent = above[depth-1]
		}
		above = append(above[:depth], f.add(parent, kind, part[1], part[2], v))
	}
	f.nodes[0].Description = "Runs once for each turn."
	f.nodes[0].At = tree.Position{File: "oracle.lua", Line: 12}
	return f
}
