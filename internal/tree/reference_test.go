package tree

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"signalbox/internal/testkit/must"
)

const reference = "../../docs/reference/tree-nodes.md"

// referenceHeader is the first line of each table that is executed.
const referenceHeader = "| tree | tick by tick | what it shows |"

// TestReference executes every row of the tables in the document.
func TestReference(t *testing.T) {
	data, err := os.ReadFile(reference)
	must.Succeed(t, err)
	rows, sections := map[string]int{}, map[string]bool{}
	section, inTable := "", false
	for i, line := range strings.Split(string(data), "\n") {
		if heading, ok := strings.CutPrefix(line, "### "); ok {
			section = strings.Trim(heading, "`")
			sections[section] = true
		}
		switch {
		case line == referenceHeader:
			inTable = true
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case inTable && !strings.HasPrefix(line, "|---"):
			rows[section]++
			t.Run(fmt.Sprintf("line_%d_%s", i+1, section), func(t *testing.T) { runRow(t, line) })
		}
	}
	for _, kind := range Kinds() {
		if !sections[kind.String()] || rows[kind.String()] < 2 {
			t.Errorf("%s: section %t, %d rows; want a section with at least 2", kind,
				sections[kind.String()], rows[kind.String()])
		}
	}
	if total := len(rows); total < len(Kinds())+1 {
		t.Errorf("%d sections have rows, want all kinds and the rules", total)
	}
}

var spans = regexp.MustCompile("`([^`]+)`")

func runRow(t *testing.T, line string) {
	cells := strings.Split(strings.Trim(line, "| "), " | ")
	if len(cells) != 3 || !strings.HasPrefix(cells[0], "`") || strings.TrimSpace(cells[2]) == "" {
		t.Fatalf("a row has a tree, ticks and a text: %s", line)
	}
	steps := spans.FindAllStringSubmatch(cells[1], -1)
	if len(steps) == 0 || strings.Trim(spans.ReplaceAllString(cells[1], ""), " ") != "" {
		t.Fatalf("the ticks are code, and nothing else: %s", cells[1])
	}
	p := newPerformance(t, strings.Trim(cells[0], "`"))
	for _, step := range steps {
		if err := p.step(step[1]); err != nil {
			t.Errorf("%s\n  at %s\n  %v", line, step[1], err)
			return
		}
	}
}

// performance executes one row.
type performance struct {
	r      *Run
	o      *RunOptions
	leaves map[string]*expectedLeaf
	jobs   map[string]Start
	// expected holds the events of this tick by leaf, seen the values that the leaves read and
	// wrote.
	expected map[string]event
	seen     map[string]string
	now      time.Time
	log      [][]byte
}

// event is what happens to a leaf in a tick: "a(1→2):S".
type event struct{ name, read, write, answer string }

var eventPattern = regexp.MustCompile(
	`^([a-z_]\w*)(?:\(([^()→]*)(?:→([^()]*))?\))?:(S|F|R|R\+\d+s|halt|start|panic|idle|running)$`)

func newPerformance(t *testing.T, text string) *performance {
	p := &performance{jobs: map[string]Start{}, now: epoch}
	def, leaves, err := parseTree(text, p.ask)
	must.Succeed(t, err)
	p.leaves = leaves
	services := &Registry{}
	services.Add(Tool, "job", Leaf{Job: noJob})
	services.Add(LLMCall, "", Leaf{Job: noJob})
	p.o = &RunOptions{Record: true, Observe: true, Services: services, Inputs: map[string]any{}}
	p.r = mustRun(t, mustCompile(t, def, functions()), p.o)
	return p
}

// ask answers for a leaf as the row specifies.
func (p *performance) ask(l *expectedLeaf, c *Call) Status {
	e, ok := p.expected[l.name]
	if !ok {
		return Failure // the events will differ
	}
	if l.key != "" {
		v, err := c.Get(l.key)
		text := FormatValue(v)
		if err != nil {
			text = "unknown"
		}
		if e.write != "" {
			text += "→" + e.write
			if err := c.Set(l.key, value(e.write)); err != nil {
				return c.Fail("%v", err)
			}
		}
		p.seen[l.name] = text
	}
	switch e.answer {
	case "S":
		return Success
	case "F":
		return Failure
	case "panic":
		panic("out of paper")
	case "idle":
		return Idle
	}
	if wait, ok := strings.CutPrefix(e.answer, "R+"); ok {
		c.WakeAfter(duration(wait))
	}
	return Running
}

var assignment = regexp.MustCompile(`^(\w+)(=| is )(.+)$`)

func (p *performance) step(text string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	first, rest, _ := strings.Cut(text, " ")
	if m := assignment.FindStringSubmatch(text); m != nil && !strings.Contains(text, "→") {
		if m[2] == "=" {
			if len(p.log) == 0 {
				p.o.Inputs[m[1]] = value(m[3]) // for a process that replays the run
			}
			return p.r.Board().Set(m[1], value(m[3]))
		}
		if v, _ := p.r.Board().Get(m[1]); FormatValue(v) != m[3] {
			return fmt.Errorf("%s is %s", m[1], FormatValue(v))
		}
		return nil
	}
	switch {
	case text == "killed":
		return p.kill()
	case first == "see":
		return p.see(rest)
	case first == "halt":
		return p.tick(rest, func() { p.r.Halt() })
	case strings.HasPrefix(rest, "ends "):
		return p.end(first, strings.TrimPrefix(rest, "ends "))
	}
	if at, ok := strings.CutPrefix(first, "@"); ok {
		p.now, text = epoch.Add(duration(at)), rest
	}
	return p.tick(text, func() {
		p.r.Tick(p.now)
		p.log = append(p.log, p.r.AppendRecord(nil))
	})
}

// kill simulates a process that is killed, and another one that resumes the run.
func (p *performance) kill() error {
	r, err := replayed(p.r.Tree(), p.o, p.log)
	if err != nil {
		return err
	}
	p.r = r
	for _, s := range r.Pending() {
		if before := p.jobs[r.Tree().Info(s.Node).Name]; before.Request.Key != s.Request.Key {
			return fmt.Errorf("job %s is to be started again as %s", before.Request.Key,
				s.Request.Key)
		}
	}
	return nil
}

func (p *performance) see(text string) error {
	for _, want := range strings.Fields(text) {
		name, letter, _ := strings.Cut(want, ":")
		found := false
		for i := range p.r.Tree().Len() {
			if p.name(i) != name {
				continue
			}
			found = true
			if got := letterOf(p.r.View(i).Status); got != letter {
				return fmt.Errorf("%s is seen as %s", name, got)
			}
		}
		if !found {
			return fmt.Errorf("there is no node %s", name)
		}
	}
	return nil
}

func (p *performance) end(name, how string) error {
	how, late := strings.CutSuffix(how, ", too late")
	letter, text, _ := strings.Cut(how, " ")
	result := Result{Status: map[string]Status{"S": Success, "F": Failure}[letter],
		Err: strings.Trim(text, `"`)}
	if taken := p.r.Finish(p.jobs[name], result); taken == late {
		return fmt.Errorf("the result was taken: %t", taken)
	}
	return nil
}

func letterOf(st Status) string { return statusLetters[st : st+1] }

// name returns the name of a node in a row.
func (p *performance) name(i int) string {
	info := p.r.Tree().Info(i)
	if info.Name != "" {
		return info.Name
	}
	return info.Kind.String()
}

var tickPattern = regexp.MustCompile(`^(.*?) ?→ ([SFRI])(?:, at (once|\d+s))?(?: "([^"]+)")?$`)

// tick calls do and compares its effects with a row: the leaves in the order in which they were
// ticked or halted, the answer, the time of the next tick, and the error.
func (p *performance) tick(text string, do func()) error {
	m := tickPattern.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("not a tick")
	}
	p.expected, p.seen = map[string]event{}, map[string]string{}
	var want []string
	for _, field := range strings.Fields(m[1]) {
		e := eventPattern.FindStringSubmatch(field)
		if e == nil || field[0] != 'w' && p.leaves[e[1]] == nil {
			return fmt.Errorf("%q is not an event", field)
		}
		p.expected[e[1]] = event{e[1], e[2], e[3], e[4]}
		answer := e[4]
		switch {
		case answer == "panic" || answer == "idle" || answer == "running":
			answer = "F"
		case strings.HasPrefix(answer, "R+"):
			answer = "R"
		}
		want = append(want, field[:strings.LastIndexByte(field, ':')+1]+answer)
	}
	do()
	if got := p.events(); got != strings.Join(want, " ") {
		return fmt.Errorf("the events were: %s", got)
	}
	if got := letterOf(p.r.Status()); got != m[2] {
		return fmt.Errorf("the answer was %s", got)
	}
	due := ""
	if at, ok := p.r.Wake(); ok {
		if due = fmt.Sprintf("%gs", at.Sub(epoch).Seconds()); at.Equal(p.now) {
			due = "once"
		}
	}
	if due != m[3] {
		return fmt.Errorf("the next tick is due at %q", due)
	}
	var errs []string
	for _, e := range p.r.tick.errs {
		errs = append(errs, e.value.(string))
	}
	if got := strings.Join(errs, "; "); (got == "") != (m[4] == "") ||
		!strings.Contains(got, m[4]) {
		return fmt.Errorf("the errors were %q", got)
	}
	return nil
}

// events formats the events of the leaves in the last tick.
func (p *performance) events() string {
	for _, s := range p.r.Started() {
		p.jobs[p.name(s.Node)] = s
	}
	var events []string
	for _, v := range p.r.tick.visits {
		i := int(v.node)
		info := p.r.Tree().Info(i)
		if !info.Kind.IsLeaf() || info.Kind == Subtree {
			continue
		}
		name, letter := p.name(i), letterOf(v.status)
		began := p.jobs[name].Node == i && len(p.r.Started()) > 0 && contains(p.r.Started(), i)
		switch {
		case v.status == Idle:
			letter = "halt"
		case began:
			letter = "start"
		}
		if read, ok := p.seen[name]; ok && v.status != Idle {
			name += "(" + read + ")"
		}
		events = append(events, name+":"+letter)
	}
	return strings.Join(events, " ")
}

func contains(starts []Start, i int) bool {
	for _, s := range starts {
		if s.Node == i {
			return true
		}
	}
	return false
}
