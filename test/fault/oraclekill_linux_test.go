package fault

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/core/rules"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/session"
)

// TestOracleKilled kills signalbox oracle while the model talks, while tools and a sub-agent work, and at any instant, and
// goes on with it until it ends. The answer is the one that an undisturbed oracle gives, and nothing is done twice.
func TestOracleKilled(t *testing.T) {
	addresses := startModel(t)
	for _, protocol := range oracleProtocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			s := newOracleSite(t, protocol, addresses[protocol])
			whole := s.newTalk(t, oracleQuestion)
			p := whole.start(t)
			if status := p.end(t); status != 0 {
				t.Fatalf("undisturbed: exit status %d\n%s", status, &p.said)
			}
			want := toldBy(t, p.printed)
			whole.checkEnd(t)
			if len(want.Results) != 7 || want.inDoubt(want) != 0 || len(want.Content) != 5 {
				t.Fatalf("undisturbed it tells %s", printed(want))
			}
			random := newRand(t)
			doubts, kills := 0, 0
			for i, plan := range killPlans(random, p.printed) {
				o := s.newTalk(t, oracleQuestion)
				n, doubt := o.disturb(t, random, plan, want)
				kills, doubts = kills+n, doubts+doubt
				if t.Failed() {
					t.Fatalf("plan %d (%s), killed %d times", i, plan.name, n)
				}
			}
			t.Logf("%d kills left %d calls in doubt", kills, doubts)
			s.mustVerify(t)
			s.verifyCommand(t, 0)
		})
	}
}

// killPlan is when to kill: after a chunk, or after some time.
type killPlan struct {
	name  string
	is    func(chunk.Chunk) bool
	after time.Duration
}

// nth is true at the n-th chunk, from 1.
func nth(n int) func(chunk.Chunk) bool {
	return func(chunk.Chunk) bool { n--; return n == 0 }
}

// atInstant kills after some time.
func atInstant(d time.Duration) killPlan {
	return killPlan{d.String(), func(chunk.Chunk) bool { return false }, d}
}

// afterChunk kills after the n-th chunk.
func afterChunk(n int) killPlan { return killPlan{fmt.Sprintf("chunk %d", n), nth(n), patience} }

// longest is about how long an undisturbed oracle takes.
const longest = 800 * time.Millisecond

// killPlans are the first kills of each conversation.
func killPlans(random *rand.Rand, undisturbed []chunk.Chunk) (plans []killPlan) {
	// After the first chunk of each kind in each turn: a content is in mid-reply, a call has no result yet, a signal is decided on.
	seen := map[string]bool{}
	for i, c := range undisturbed {
		key := string(c.Kind())
		switch c := c.(type) {
		case chunk.Content:
			key = fmt.Sprint(key, c.Turn)
		case chunk.ToolCall:
			key = fmt.Sprint(key, c.Turn)
		case chunk.ToolResult:
			key = fmt.Sprint(key, c.Turn)
		case chunk.Signal:
			key = fmt.Sprint(key, c.Turn)
		}
		if !seen[key] {
			seen[key] = true
			plans = append(plans, afterChunk(i+1))
		}
	}
	random.Shuffle(len(plans), func(i, j int) { plans[i], plans[j] = plans[j], plans[i] })
	plans = plans[:sized(min(2, len(plans)), len(plans))]
	for range sized(1, 8) {
		plans = append(plans, afterChunk(1+random.IntN(len(undisturbed))))
	}
	for range sized(1, 8) {
		plans = append(plans, atInstant(time.Duration(random.Int64N(int64(longest)))))
	}
	return plans
}

// disturb has the conversation, killed by the plan and then up to three times more, and checks it. It returns how often it was
// killed, and how many calls were left in doubt.
func (o *talk) disturb(t *testing.T, random *rand.Rand, plan killPlan, want told) (kills, doubts int) {
	t.Helper()
	for more := true; more; more = kills < 4 && random.IntN(3) > 0 {
		p := o.start(t)
		if !p.kill(t, random.IntN(2) == 0, plan.is, plan.after) {
			o.checkAnswer(t, p, want)
			o.checkRecorded(t, want)
			return kills, o.checkEnd(t)
		}
		kills++
		o.killed = append(o.killed, p.printed)
		o.checkPrinted(t, p.printed)
		if o.isAnswered(t) { // the kill came after the end
			break
		}
		// What was told before is told again at once, so that chunks alone are rarely anything new.
		if plan = afterChunk(1 + random.IntN(60)); random.IntN(2) == 0 {
			plan = atInstant(time.Duration(random.Int64N(int64(longest))))
		}
	}
	answered := o.isAnswered(t)
	p := o.start(t)
	if p.end(t); !answered || p.cmd.ProcessState.ExitCode() == 0 {
		o.checkAnswer(t, p, want)
	} else if !strings.Contains(p.said.String(), "the last question of the session is answered") {
		t.Errorf("it had answered, and says:\n%s", &p.said)
	}
	o.checkRecorded(t, want)
	return kills, o.checkEnd(t)
}

// isAnswered tells whether the record has the answer.
func (o *talk) isAnswered(t *testing.T) bool {
	t.Helper()
	return o.find(t) && slices.ContainsFunc(o.record(t, o.folder()), func(e session.Entry) bool { return e.Kind == session.Answer })
}

// checkRecorded checks that the record tells the same as the stream of an undisturbed oracle.
func (o *talk) checkRecorded(t *testing.T, want told) {
	t.Helper()
	entries, err := session.Read(o.folder())
	check(t, err)
	chunks := oracle.Chunks(entries, 1)
	for _, e := range entries {
		if e.Kind == session.Answer {
			chunks = append(chunks, *e.Done)
		}
	}
	got := toldBy(t, chunks)
	got.inDoubt(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the record tells something else than without a kill:\n%s", diff)
	}
}

// checkAnswer checks the stream of the process that came to an end.
func (o *talk) checkAnswer(t *testing.T, p *oracleProcess, want told) {
	t.Helper()
	if status := p.cmd.ProcessState.ExitCode(); status != 0 {
		t.Errorf("exit status %d\n%s", status, &p.said)
	}
	got := toldBy(t, p.printed)
	got.inDoubt(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("it told something else than without a kill:\n%s", diff)
	}
	o.checkPrinted(t, p.printed)
}

// checkEnd checks what holds of every conversation that came to its end, and returns how many calls are in doubt.
func (o *talk) checkEnd(t *testing.T) (doubts int) {
	t.Helper()
	if !o.find(t) {
		t.Fatal("the conversation is not recorded")
	}
	if left := o.toolsAlive(); len(left) > 0 {
		t.Errorf("tools are left: %v", left)
	}
	if text, err := os.ReadFile(filepath.Join(o.diary, "overlaps")); err == nil {
		t.Errorf("these began while an earlier start of them was alive:\n%s", text)
	}
	for _, printed := range o.killed {
		o.checkPrinted(t, printed)
	}
	subs, err := filepath.Glob(filepath.Join(o.folder(), "sub", "*"))
	if check(t, err); len(subs) != 1 {
		t.Fatalf("the sub-agent has the sessions %v", subs)
	}
	entries := o.record(t, o.folder())
	doubts = o.checkCalls(t, append(slices.Clone(entries), o.record(t, subs[0])...))
	o.checkSignals(t, filepath.Base(subs[0]))
	o.checkShown(t, entries)
	return doubts
}

// checkCalls checks that what changes something was done once, or at most once and is in doubt.
func (o *talk) checkCalls(t *testing.T, entries []session.Entry) (doubts int) {
	t.Helper()
	began, done := o.diaryCounts(t, "keys"), o.diaryCounts(t, "done")
	calls := map[string]session.Entry{}
	for _, e := range entries {
		switch e.Kind {
		case session.Call:
			if _, twice := calls[e.Key]; twice {
				t.Errorf("call %s is recorded twice", e.Key)
			}
			calls[e.Key] = e
		case session.Result:
			call, there := calls[e.Key]
			if !there {
				t.Errorf("call %s has a result that nobody waited for: %s", e.Key, e.Text)
			}
			if strings.HasPrefix(call.Call.Name, "delegate:") {
				continue
			}
			begun, ended := began[e.Key], done[e.Key]
			delete(began, e.Key)
			switch {
			case strings.HasPrefix(e.Text, doubted):
				doubts++
				if call.Call.Name == "look" || begun > 1 || ended > 1 {
					t.Errorf("%s %s is in doubt: it began %d times, and was done %d times", call.Call.Name, e.Key, begun, ended)
				}
			case !e.OK:
				t.Errorf("%s %s failed: %s", call.Call.Name, e.Key, e.Text)
			case call.Call.Name == "look":
				if begun < 1 || begun > 1+len(o.killed) {
					t.Errorf("look %s began %d times in %d processes", e.Key, begun, 1+len(o.killed))
				}
			case begun != 1 || ended != 1:
				t.Errorf("%s %s began %d times, and was done %d times", call.Call.Name, e.Key, begun, ended)
			}
		}
	}
	if len(began) > 0 {
		t.Errorf("these calls were made, and have no result: %v", began)
	}
	return doubts
}

// diaryCounts is how often a key was noted.
func (o *talk) diaryCounts(t *testing.T, name string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(o.diary, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range bytes.Lines(text) {
		key, _, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		counts[string(key)]++
	}
	return counts
}

// checkSignals checks that the ledger has the signals of the model and of the sub-agent's, each once, in order.
func (o *talk) checkSignals(t *testing.T, sub string) {
	t.Helper()
	var got []string
	for _, h := range all[rules.TurnSignalHeard](o.events(t), "TurnSignalHeard", "") {
		if strings.HasPrefix(h.Run, o.id) {
			got = append(got, fmt.Sprintf("%s %s %d %s", h.Run, h.Tree, h.Turn, h.Signal))
		}
	}
	want := []string{
		o.id + ".1.1 oracle 1 need_turn",
		o.id + ".1.1 oracle 2 need_turn",
		o.id + ".1.1 oracle 3 delegation_recommended",
		sub + ".1.1 agent 1 need_turn",
		sub + ".1.1 agent 2 context_sufficient",
		o.id + ".1.1 oracle 4 need_turn",
		o.id + ".1.1 oracle 5 context_sufficient",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the ledger has these signals:\n%s", diff)
	}
}

// checkShown checks that the program can show the record, and that it has each turn's reply once.
func (o *talk) checkShown(t *testing.T, entries []session.Entry) {
	t.Helper()
	var replies []string
	for _, e := range entries {
		if e.Kind == session.Reply {
			replies = append(replies, fmt.Sprintf("turn %d: %s", e.Turn, e.Reply.Text))
		}
	}
	if len(replies) != 5 {
		t.Errorf("the record has %d replies: %q", len(replies), replies)
	}
	shown := o.must(t, "oracle", "--show", o.id, "--json")
	if n := strings.Count(shown, `"type":"done"`); n != 1 {
		t.Errorf("the end is shown %d times", n)
	}
}

// TestOracleInDoubt kills the oracle while a tool that changes something runs. Nobody knows what came of that, so it is ended
// before the model is told: it must not go on behind its back.
func TestOracleInDoubt(t *testing.T) {
	addresses := startModel(t)
	for _, protocol := range oracleProtocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s := newOracleSite(t, protocol, addresses[protocol])
			for _, group := range []bool{false, true} {
				o := s.newTalk(t, "Which tool hangs? keep")
				p := o.start(t)
				o.awaitTool(t)
				p.kill(t, group, func(chunk.Chunk) bool { return false }, 0)
				if len(o.toolsAlive()) == 0 {
					t.Fatal("the tool is not alive")
				}
				p = o.start(t)
				if status := p.end(t); status != 0 {
					t.Fatalf("exit status %d\n%s", status, &p.said)
				}
				got := toldBy(t, p.printed)
				if got.Results["h-1"] != doubted || got.Content[2] != "It did." || got.Done.Reason != "context_sufficient" {
					t.Errorf("it told %s", printed(got))
				}
				if left := o.toolsAlive(); len(left) > 0 {
					t.Errorf("tools are left: %v", left)
				}
				if n := o.diaryCounts(t, "keys"); len(n) != 1 {
					t.Errorf("the tool began as %v", n)
				}
			}
		})
	}
}

// awaitTool waits until a tool has begun.
func (o *talk) awaitTool(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(patience); !exists(filepath.Join(o.diary, "keys")); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no tool began")
		}
	}
}
