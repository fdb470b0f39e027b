package fault

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"signalbox/internal/oracle/chunk"
)

// TestOracleTerm interrupts signalbox oracle while the model talks and while a tool runs. It says so and ends, nothing keeps
// running, and it can be resumed.
func TestOracleTerm(t *testing.T) {
	addresses := startModel(t)
	for _, protocol := range oracleProtocols {
		for name, sig := range map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM} {
			t.Run(protocol+" "+name, func(t *testing.T) {
				t.Parallel()
				tools := []string{"keep", "stay"}
				if isFull() || protocol == "openai" && name == "TERM" { // it takes as long as a deaf tool is waited for
					tools = append(tools, "deaf")
				}
				testTerm(t, newOracleSite(t, protocol, addresses[protocol]), sig, tools)
			})
		}
	}
}

// hangingTools are the ids of calls of tools that never end, and what comes of them when they are gone on with.
var hangingTools = map[string]struct{ id, result string }{
	"keep": {"h-1", doubted},
	"stay": {"h-2", "(no output)"}, // it may be called again
	"deaf": {"h-3", doubted},
}

// testTerm has conversations in a box that are interrupted: while the model talks, and while each of the tools runs.
func testTerm(t *testing.T, s *site, sig syscall.Signal, tools []string) {
	t.Run("while it talks", func(t *testing.T) {
		// The model falls silent the first time that it hears a question.
		o := s.newTalk(t, "Which reply hangs? "+t.Name())
		p := o.start(t)
		if !p.until(t, func(c chunk.Chunk) bool {
			said, ok := c.(chunk.Content)
			return ok && strings.HasSuffix(said.Text, "does")
		}) {
			t.Fatalf("it never said so:\n%s", &p.said)
		}
		o.checkInterrupted(t, p, sig)
		if texts := textsOf(p.printed)[1]; !strings.HasPrefix(texts[0], "This one does") {
			t.Errorf("it said %q", texts)
		}
		if got := o.goOn(t); got.Content[1] != "This one does." || got.Done.Turns != 1 {
			t.Errorf("gone on with, it told %s", printed(got))
		}
	})
	for _, tool := range tools {
		t.Run("while "+tool+" runs", func(t *testing.T) {
			o := s.newTalk(t, "Which tool hangs? "+tool)
			p := o.start(t)
			o.awaitTool(t)
			o.checkInterrupted(t, p, sig)
			check(t, os.WriteFile(filepath.Join(o.diary, "go"), nil, 0o644))
			want, got := hangingTools[tool], o.goOn(t)
			if got.Content[1] != "I use it." || got.Content[2] != "It did." || got.Results[want.id] != want.result || got.Done.Turns != 2 {
				t.Errorf("gone on with, it told %s", printed(got))
			}
		})
	}
	s.mustVerify(t)
}

// checkInterrupted sends a signal to the oracle, and checks that it ends as it should.
func (o *talk) checkInterrupted(t *testing.T, p *oracleProcess, sig syscall.Signal) {
	t.Helper()
	check(t, p.cmd.Process.Signal(sig))
	if status := p.end(t); status != 130 {
		t.Errorf("exit status %d, want 130\n%s", status, &p.said)
	}
	var ends []string
	for _, c := range p.printed {
		switch c := c.(type) {
		case chunk.Error:
			ends = append(ends, "error "+c.Name)
		case chunk.Done:
			ends = append(ends, "done "+c.Reason)
		}
	}
	if got := strings.Join(ends, ", "); got != "error cancelled, done cancelled" {
		t.Errorf("it ends with %s", got)
	}
	if last := p.printed[len(p.printed)-1].Kind(); last != chunk.KindDone {
		t.Errorf("the last chunk is %s", last)
	}
	if left := o.toolsAlive(); len(left) > 0 {
		t.Errorf("tools are left: %v", left)
	}
	if t.Failed() {
		t.FailNow()
	}
	o.checkPrinted(t, p.printed)
}

// goOn goes on with the conversation to its end.
func (o *talk) goOn(t *testing.T) told {
	t.Helper()
	p := o.start(t)
	if status := p.end(t); status != 0 {
		t.Fatalf("gone on with: exit status %d\n%s", status, &p.said)
	}
	if left := o.toolsAlive(); len(left) > 0 {
		t.Errorf("tools are left: %v", left)
	}
	got := toldBy(t, p.printed)
	if got.Done.Reason != "context_sufficient" {
		t.Errorf("gone on with, it ended with %s", got.Done.Reason)
	}
	return got
}
