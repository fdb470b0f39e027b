package fault

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/session"
	"signalbox/transcript"
)

// oracleProtocols are the providers of the configuration.
var oracleProtocols = []string{"openai", "anthropic"}

// oracleModel is the script of the model. The turn is chosen by the request alone, so a repeated
// request gets the same reply, and no turn depends on the result of a tool.
const oracleModel = `
conversations:
  - match: {user: ^Which words}
    turns:
      - match: {turn: 1}
        every: 2ms
        usage: {input: 100, output: 10}
        parts:
          - pieces: [First, " I write", " it down,", " and", " look", " around.", "\n\n<sig", "nal type=\"need_", "turn\"><reason>notes", " first</reason>", "<confidence>0.8</confidence></", signal>]
          - call: {id: c-1, name: note, arguments: {text: one}}
          - call: {id: c-2, name: look, arguments: {text: around}}
          - call: {id: c-3, name: slow, arguments: {text: two}}
      - match: {turn: 2}
        every: 2ms
        usage: {input: 200, output: 20}
        parts:
          - pieces: ["<signal type='need_turn' ", "confidence='0.9'><reason>more", " of it</reason></signal>", "Now a <", " b, and <", "b>two</b> <sign", "s> more.", "\n` + "```" + `\n<signal type=\"stuck\">", "</signal>\n` + "```" + `\n", "So much."]
          - call: {id: c-4, name: note, arguments: {text: three}}
          - call: {id: c-5, name: note, arguments: {text: four}}
      - match: {turn: 3}
        delay: 20ms
        every: 2ms
        usage: {input: 300, output: 30}
        parts:
          - pieces: [I hand, " it over.", "<signal type=\"delegation_recommended\">", "<reason>it is large</reason><scope>Count the other words</scope>", "<subagent_type>helper</subagent_type><confidence>0.8</confidence>", "</signal>"]
      - match: {turn: 4}
        usage: {input: 400, output: 40}
        drip: {bytes: 200, every: 2ms}
        parts:
          - reasoning: One look more.
          - text: "One look more. <signal type=\"need_turn\"><reason>a last look</reason></signal>"
            cut: {at: [4, 9, 30]}
          - call: {id: c-6, name: look, arguments: {text: back}}
      - match: {turn: 5}
        every: 1ms
        usage: {input: 500, output: 50}
        parts:
          - text: "It is **six** words: naïve, 日本, and so on.\n<signal type=\"context_sufficient\"><sources_found>2</sources_found></signal>"
            cut: every byte
  - match: {user: ^Count the other words}
    turns:
      - match: {turn: 1}
        every: 2ms
        usage: {input: 10, output: 1}
        parts:
          - pieces: [I count., " <signal type=\"need_turn\"><reason>counting</reason></signal>"]
          - call: {id: s-1, name: slow, arguments: {text: five}}
          - call: {id: s-2, name: look, arguments: {text: aside}}
      - match: {turn: 2}
        every: 2ms
        usage: {input: 20, output: 2}
        parts:
          - pieces: [Four, " of them.", " <signal type=\"context_sufficient\"><sources_found>1</sources_found></signal>"]
  - match: {user: ^Which tool hangs}
    turns:
      - match: {turn: 1, user: keep}
        parts: [{text: I use it. }, {call: {id: h-1, name: keep}}]
      - match: {turn: 1, user: stay}
        parts: [{text: I use it. }, {call: {id: h-2, name: stay}}]
      - match: {turn: 1, user: deaf}
        parts: [{text: I use it. }, {call: {id: h-3, name: deaf}}]
      - match: {turn: 2}
        parts: [{text: "It did. <signal type=\"context_sufficient\"><sources_found>1</sources_found></signal>"}]
  - match: {user: ^Which reply hangs}
    turns:
      - match: {turn: 1}
        every: 1ms
        parts: [{pieces: [This, " one", " does", ".", " <signal type=\"context_", "sufficient\"><sources_found>1</sources_found></signal>"]}]
        faults: [{kind: hang, after_pieces: 4}]
`

const oracleQuestion = "Which words are there?"

// oracleTools record when they start and, if they change something, when they have changed it.
const oracleTools = `
    note:
      description: Writes a word down.
      parameters: &text {type: object, properties: {text: {type: string}}, required: [text]}
      command: |
        $NOTE_KEY
        sleep 0.02; echo "$SIGNALBOX_TREE_KEY $(cat)" >>"$DIARY/done"; sleep 0.02; echo noted
    slow:
      description: Writes a word down in its own time.
      parameters: *text
      command: |
        $NOTE_KEY
        sleep 0.06; echo "$SIGNALBOX_TREE_KEY $(cat)" >>"$DIARY/done"; sleep 0.06; echo slowly noted
    look:
      description: Looks.
      parameters: *text
      read_only: true
      command: |
        $NOTE_KEY
        sleep 0.03; echo "I see $(cat)"
    keep:
      description: Never ends.
      command: |
        $NOTE_KEY
        sleep 1000 & wait
    stay:
      description: Never ends before there is a file.
      read_only: true
      command: |
        $NOTE_KEY
        test -e "$DIARY/go" || { sleep 1000 & wait; }
    deaf:
      description: Never ends, and ignores TERM.
      command: |
        trap '' TERM
        $NOTE_KEY
        while :; do sleep 1000; done
`

// unknownOutcome is the start of the result of a call whose outcome is unknown.
const unknownOutcome = "it is not known what came of this call"

// startModel starts the model server, and returns its base URL for each protocol.
func startModel(t testing.TB) map[string]string {
	t.Helper()
	s := emptySite(t)
	file := filepath.Join(s.home, "model.yaml")
	check(t, os.WriteFile(file, []byte(oracleModel), 0o644))
	cmd := s.command(t, "rehearse", "model", file, "--json")
	out, err := cmd.StdoutPipe()
	check(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	check(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if text := stderr.String(); t.Failed() {
			t.Logf("the model server printed:\n%s", text[max(0, len(text)-3000):])
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	check(t, err)
	addresses := map[string]string{}
	check(t, json.Unmarshal(line, &addresses))
	return addresses
}

// newOracleSite returns a site whose oracle uses the model at an address.
func newOracleSite(t testing.TB, protocol, address string) *site {
	t.Helper()
	requireTools(t, "flock")
	agent, err := filepath.Abs("../../examples/oracle/agent.lua")
	check(t, err)
	s := newSite(t)
	noteKey := strings.ReplaceAll(strings.TrimSpace(noteKey), "\n", "\n        ")
	check(t, os.WriteFile(s.file("signalbox.yaml"), []byte(fmt.Sprintf(`
env_pass: [DIARY]
models:
  main: {provider: %s, model: rehearsal, base_url: %q, tries: 1}
oracle:
  subagents: {helper: {tree: %q, description: counts}}
  tools:%s`, protocol, address, agent, strings.ReplaceAll(oracleTools, "$NOTE_KEY", noteKey))), 0o600))
	return s
}

// conversation is a question to the oracle, answered by one or more processes.
type conversation struct {
	*site
	question string
	diary    diary
	before   []string        // ids of earlier sessions
	id       string          // of the session, once it is recorded; "" before
	killed   [][]chunk.Chunk // the output of each killed process
}

// newConversation returns a conversation that has not started. A site can have one at a time.
func (s *site) newConversation(t testing.TB, question string) *conversation {
	t.Helper()
	own := *s
	dir, err := os.MkdirTemp(s.project, "conversation-") // where tools may write
	check(t, err)
	o := &conversation{site: &own, question: question, diary: newDiary(t, dir)}
	own.environment = append(slices.Clone(s.environment), "DIARY="+string(o.diary))
	o.before = o.sessions(t)
	return o
}

// sessions returns the ids of all recorded sessions.
func (o *conversation) sessions(t testing.TB) (ids []string) {
	t.Helper()
	all, err := session.List(filepath.Join(o.box, "oracle"))
	check(t, err)
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	return ids
}

// find sets o.id once the session is recorded, and reports whether it is.
func (o *conversation) find(t testing.TB) bool {
	t.Helper()
	if o.id != "" {
		return true
	}
	fresh := slices.DeleteFunc(o.sessions(t),
		func(id string) bool { return slices.Contains(o.before, id) })
	if len(fresh) > 1 {
		t.Fatalf("one question created the sessions %v", fresh)
	}
	o.id = strings.Join(fresh, "")
	return o.id != ""
}

// oracleProcess is a running signalbox oracle whose chunks are read one by one.
type oracleProcess struct {
	cmd     *exec.Cmd
	out     *os.File
	lines   *bufio.Reader
	printed []chunk.Chunk
	stderr  bytes.Buffer
}

// start asks the question, or resumes the session if it is recorded.
func (o *conversation) start(t testing.TB) *oracleProcess {
	t.Helper()
	args := []string{"oracle", "--json", o.question}
	if o.find(t) {
		args = []string{"oracle", "--continue", "--json"}
	}
	p := &oracleProcess{cmd: o.command(t, args...)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	read, write, err := os.Pipe()
	check(t, err)
	p.out, p.lines = read, bufio.NewReader(read)
	p.cmd.Stdout, p.cmd.Stderr = write, &p.stderr
	check(t, p.cmd.Start())
	write.Close()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.out.Close()
	})
	return p
}

// until reads chunks up to the first for which match returns true, and reports whether there was
// one.
func (p *oracleProcess) until(t testing.TB, match func(chunk.Chunk) bool) bool {
	t.Helper()
	for {
		line, err := p.lines.ReadBytes('\n')
		if err != nil {
			return false // an incomplete line is ignored
		}
		c, err := chunk.Parse(line)
		check(t, err)
		p.printed = append(p.printed, c)
		if match(c) {
			return true
		}
	}
}

// kill kills the process, or its whole group, after the first chunk for which match returns true or
// after some time, whichever is first. It reports whether the process was still running.
func (p *oracleProcess) kill(t testing.TB, group bool, match func(chunk.Chunk) bool,
	after time.Duration) bool {
	t.Helper()
	end := func() {
		if group {
			// before Wait, so the id is still valid
			syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		}
		p.cmd.Process.Kill()
	}
	fired := make(chan struct{})
	timer := time.AfterFunc(after, func() {
		defer close(fired)
		end()
	})
	if p.until(t, match) {
		end()
	}
	status := p.end(t)
	if !timer.Stop() {
		<-fired
	}
	return status < 0
}

// end waits for the end of the process and returns its exit status, which is negative if it was
// killed.
func (p *oracleProcess) end(t testing.TB) int {
	t.Helper()
	p.until(t, func(chunk.Chunk) bool { return false })
	p.cmd.Wait()
	if text := p.stderr.String(); crashed(text) {
		t.Fatalf("it crashed:\n%s", text)
	}
	return p.cmd.ProcessState.ExitCode()
}

// record reads all complete entries of the record, including superseded ones.
func (o *conversation) record(t testing.TB, folder string) (entries []session.Entry) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, session.RecordName))
	check(t, err)
	text = text[:1+bytes.LastIndexByte(text, '\n')]
	for line := range bytes.Lines(text) {
		var e session.Entry
		check(t, json.Unmarshal(line, &e))
		entries = append(entries, e)
	}
	return entries
}

func (o *conversation) folder() string { return filepath.Join(o.box, "oracle", o.id) }

// checkPrinted checks that everything a process printed is recorded.
func (o *conversation) checkPrinted(t testing.TB, printed []chunk.Chunk) {
	t.Helper()
	if !o.find(t) {
		if len(printed) > 0 {
			t.Errorf("nothing is recorded, but it printed %s", printed)
		}
		return
	}
	entries := o.record(t, o.folder())
	has := map[string]bool{}
	for i := range entries {
		has[entryLine(&entries[i])] = true
	}
	for _, c := range printed {
		switch c := c.(type) {
		case chunk.ToolCall, chunk.ToolResult, chunk.Signal:
			if !has[chunkLine(c)] {
				t.Errorf("printed but not recorded: %s", chunkLine(c))
			}
		case chunk.System:
			if !slices.Contains([]string{chunk.Resumed, chunk.ReplyRestarted, chunk.ReplyCut,
				chunk.Retry}, c.Name) && !has[chunkLine(c)] {
				t.Errorf("printed but not recorded: %s", chunkLine(c))
			}
		}
	}
	recorded := recordedTexts(entries)
	for turn, texts := range textsOf(printed) {
		for _, text := range texts {
			if !slices.ContainsFunc(recorded[turn],
				func(whole string) bool { return strings.HasPrefix(whole, text) }) {
				t.Errorf("turn %d: %q was printed but not recorded; recorded: %q", turn, text,
					recorded[turn])
			}
		}
	}
}

// chunkLine describes a chunk, to compare it with the entryLine of the entry that it came from.
func chunkLine(c chunk.Chunk) string {
	switch c := c.(type) {
	case chunk.ToolCall:
		return fmt.Sprintf("call %d %s %s", c.Turn, c.ID, c.Name)
	case chunk.ToolResult:
		return fmt.Sprintf("result %d %s %v %s", c.Turn, c.ID, c.OK, c.Text)
	case chunk.Signal:
		return fmt.Sprintf("signal %d %s", c.Turn, c.Raw)
	case chunk.System:
		return "system " + c.Name + " " + c.Text
	}
	return ""
}

// entryLine returns the chunkLine of the chunk that an entry becomes.
func entryLine(e *session.Entry) string {
	switch e.Kind {
	case session.Call:
		return chunkLine(chunk.ToolCall{Turn: e.Turn, ID: e.Call.ID, Name: e.Call.Name})
	case session.Result:
		return chunkLine(chunk.ToolResult{Turn: e.Turn, ID: e.Call.ID, OK: e.OK, Text: e.Text})
	case session.Signal:
		return chunkLine(*e.Signal)
	case session.System:
		return chunkLine(*e.System)
	}
	return ""
}

// recordedTexts returns the texts of each turn's replies, including incomplete ones.
func recordedTexts(entries []session.Entry) map[int][]string {
	texts := map[int][]string{}
	partial := map[int]string{}
	for _, e := range entries {
		switch e.Kind {
		case session.Piece:
			partial[e.Turn] += e.Text
		case session.Restart:
			texts[e.Turn] = append(texts[e.Turn], transcript.Content(partial[e.Turn]))
			partial[e.Turn] = ""
		case session.Reply:
			texts[e.Turn] = append(texts[e.Turn], transcript.Content(e.Reply.Text))
		}
	}
	for turn, text := range partial {
		texts[turn] = append(texts[turn], transcript.Content(text))
	}
	return texts
}

// textsOf returns the texts that were printed for each turn. The last one is valid; the others were
// restarted.
func textsOf(printed []chunk.Chunk) map[int][]string {
	texts := map[int][]string{}
	for _, c := range printed {
		switch c := c.(type) {
		case chunk.Content:
			if len(texts[c.Turn]) == 0 {
				texts[c.Turn] = []string{""}
			}
			texts[c.Turn][len(texts[c.Turn])-1] += c.Text
		case chunk.System:
			if c.Name == chunk.ReplyRestarted || c.Name == chunk.ReplyCut {
				texts[c.Turn] = append(texts[c.Turn], "")
			}
		}
	}
	return texts
}

// output is the part of a chunk stream that must be the same with and without kills.
type output struct {
	Content map[int]string
	Calls   []string
	Results map[string]string
	Signals []string
	Systems []string
	Done    chunk.Done
}

var delegation = regexp.MustCompile(`delegate-[0-9a-f]+`)

// outputOf returns the output in a stream of chunks. The result of a call with an unknown outcome
// is unknownOutcome.
func outputOf(t testing.TB, printed []chunk.Chunk) output {
	t.Helper()
	got := output{Content: map[int]string{}, Results: map[string]string{}}
	for turn, texts := range textsOf(printed) {
		got.Content[turn] = texts[len(texts)-1]
	}
	for i, c := range printed {
		switch c := c.(type) {
		case chunk.ToolCall:
			c.ID = delegation.ReplaceAllString(c.ID, "delegate")
			got.Calls = append(got.Calls, chunkLine(c))
		case chunk.ToolResult:
			c.ID = delegation.ReplaceAllString(c.ID, "delegate")
			if _, twice := got.Results[c.ID]; twice {
				t.Errorf("call %s has two results", c.ID)
			}
			got.Results[c.ID] = c.Text
			if strings.HasPrefix(c.Text, unknownOutcome) {
				got.Results[c.ID] = unknownOutcome
			}
		case chunk.Signal:
			got.Signals = append(got.Signals, chunkLine(c))
		case chunk.System:
			if !slices.Contains([]string{chunk.Resumed, chunk.ReplyRestarted}, c.Name) {
				got.Systems = append(got.Systems, chunkLine(c))
			}
		case chunk.Error:
			t.Errorf("error %s: %s", c.Name, c.Text)
		case chunk.Done:
			if i != len(printed)-1 {
				t.Errorf("done is chunk %d of %d", i+1, len(printed))
			}
			got.Done = c
			got.Done.Session = ""
		}
	}
	return got
}

// replaceUnknown replaces unknown results by those of want, for a comparison, and returns their
// number.
func (got *output) replaceUnknown(want output) (n int) {
	got.Results = maps.Clone(got.Results)
	for id, text := range got.Results {
		if text == unknownOutcome {
			n++
			got.Results[id] = want.Results[id]
		}
	}
	return n
}
