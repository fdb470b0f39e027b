package fault

import (
	"strings"
	"syscall"
	"testing"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/decide"
)

// TestOracleTerm interrupts signalbox oracle during a reply and during a tool call. It reports the
// interruption and ends, no process keeps running, and it can be resumed.
func TestOracleTerm(t *testing.T) {
	addresses := startModel(t)
	for _, protocol := range oracleProtocols {
		for name, sig := range map[string]syscall.Signal{"INT": syscall.SIGINT,
			"TERM": syscall.SIGTERM} {
			if !isFull() && (protocol == "openai") != (name == "TERM") {
				continue // each protocol and each signal once
			}
			t.Run(protocol+" "+name, func(t *testing.T) {
				t.Parallel()
				tools := []string{"keep", "stay"}
				// slow: the oracle waits for the tool that ignores TERM
				if isFull() || name == "TERM" {
					tools = append(tools, "deaf")
				}
				testTerm(t, newOracleSite(t, protocol, addresses[protocol]), sig, tools)
			})
		}
	}
}

// hangingTools are the calls of tools that never end, and their results after a resume.
var hangingTools = map[string]struct{ id, result string }{
	"keep": {"h-1", unknownOutcome},
	"stay": {"h-2", "(no output)"}, // it may be called again
	"deaf": {"h-3", unknownOutcome},
}

// testTerm interrupts conversations in a box: one during a reply, and one during a call of each
// tool.
func testTerm(t *testing.T, s *site, sig syscall.Signal, tools []string) {
	t.Run("during a reply", func(t *testing.T) {
		// The model stops in the middle of its reply the first time it receives a question.
		o := s.newConversation(t, "Which reply hangs? "+t.Name())
		p := o.start(t)
		if !p.until(t, func(c chunk.Chunk) bool {
			content, ok := c.(chunk.Content)
			return ok && strings.HasSuffix(content.Text, "does")
		}) {
			t.Fatalf("the reply never came:\n%s", &p.stderr)
		}
		o.checkInterrupted(t, p, sig)
		if texts := textsOf(p.printed)[1]; !strings.HasPrefix(texts[0], "This one does") {
			t.Errorf("the reply is %q", texts)
		}
		if got := o.resume(t); got.Content[1] != "This one does." || got.Done.Turns != 1 {
			t.Errorf("after the resume the output is %s", asJSON(got))
		}
	})
	for _, tool := range tools {
		t.Run("during "+tool, func(t *testing.T) {
			o := s.newConversation(t, "Which tool hangs? "+tool)
			p := o.start(t)
			o.diary.await(t, "keys")
			o.checkInterrupted(t, p, sig)
			o.diary.create(t, "go")
			want, got := hangingTools[tool], o.resume(t)
			if got.Content[1] != "I use it." || got.Content[2] != "It did." ||
				got.Results[want.id] != want.result || got.Done.Turns != 2 {
				t.Errorf("after the resume the output is %s", asJSON(got))
			}
		})
	}
	s.mustVerify(t)
}

// checkInterrupted sends a signal to the oracle, and checks how it ends.
func (o *conversation) checkInterrupted(t *testing.T, p *oracleProcess, sig syscall.Signal) {
	t.Helper()
	check(t, p.cmd.Process.Signal(sig))
	if status := p.end(t); status != 130 {
		t.Errorf("exit status %d, want 130\n%s", status, &p.stderr)
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
	o.diary.checkNoTools(t)
	if t.Failed() {
		t.FailNow()
	}
	o.checkPrinted(t, p.printed)
}

// resume resumes the conversation and runs it to its end.
func (o *conversation) resume(t *testing.T) output {
	t.Helper()
	p := o.start(t)
	if status := p.end(t); status != 0 {
		t.Fatalf("resumed: exit status %d\n%s", status, &p.stderr)
	}
	o.diary.checkNoTools(t)
	got := outputOf(t, p.printed)
	if got.Done.Reason != string(decide.ReasonContextSufficient) {
		t.Errorf("after the resume it ended with %s", got.Done.Reason)
	}
	return got
}
