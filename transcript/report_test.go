package transcript_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/transcript"
)

func TestReport(t *testing.T) {
	reset := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name   string
		format signalbox.Format
		lines  []string
		want   signalbox.StreamReport
	}{
		{"claude counts the usage of a message once", signalbox.FormatClaude, []string{
			`{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"a"}],"usage":{"input_tokens":10,"output_tokens":1}},"parent_tool_use_id":null}`,
			`{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","name":"Bash","input":{}}],"usage":{"input_tokens":10,"output_tokens":4}},"parent_tool_use_id":null}`,
			`{"type":"assistant","message":{"id":"m2","content":[],"usage":{"input_tokens":20,"cache_read_input_tokens":7,"output_tokens":2}},"parent_tool_use_id":null}`,
		}, signalbox.StreamReport{Format: signalbox.FormatClaude,
			Usage: signalbox.Usage{InputTokens: 30, CachedInputTokens: 7, OutputTokens: 6}}},
		{"claude's result has the last word on usage, and the cost", signalbox.FormatClaude,
			[]string{
				`{"type":"assistant","message":{"id":"m1","content":[],"usage":{"input_tokens":1,"output_tokens":1}},"parent_tool_use_id":null}`,
				`{"type":"result","subtype":"success","is_error":false,"result":"x","usage":{"input_tokens":5,"output_tokens":6},"total_cost_usd":0.25}`,
				`{"type":"result","subtype":"success","is_error":false,"result":"x","usage":{"input_tokens":5,"output_tokens":6},"total_cost_usd":0.75}`,
			}, signalbox.StreamReport{Format: signalbox.FormatClaude, Ended: true,
				Usage: signalbox.Usage{InputTokens: 10, OutputTokens: 12, CostUSD: 0.75}}},
		{"claude fails even beside success", signalbox.FormatClaude, []string{
			`{"type":"result","subtype":"success","is_error":true,"result":"API Error: 401"}`,
		}, signalbox.StreamReport{Format: signalbox.FormatClaude, Ended: true, Failed: true,
			Error: "API Error: 401"}},
		{"claude fails without a result", signalbox.FormatClaude, []string{
			`{"type":"result","subtype":"error_max_turns","is_error":true}`,
		}, signalbox.StreamReport{Format: signalbox.FormatClaude, Ended: true, Failed: true,
			Error: "error_max_turns"}},
		{"claude is rate limited", signalbox.FormatClaude, []string{
			`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1794744000}}`,
		}, signalbox.StreamReport{Format: signalbox.FormatClaude,
			RateLimit: signalbox.RateLimit{Status: "rejected", ResetsAt: reset}}},
		{"claude continues after a result", signalbox.FormatClaude, []string{
			`{"type":"result","subtype":"success","is_error":true,"result":"x"}`,
			`{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"a"}]},"parent_tool_use_id":null}`,
		}, signalbox.StreamReport{Format: signalbox.FormatClaude, Failed: true, Error: "x"}},
		{"claude continues with a tool after a result", signalbox.FormatClaude, []string{
			`{"type":"result","subtype":"success","is_error":false,"result":"x"}`,
			`{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","name":"Bash","input":{}}]},"parent_tool_use_id":null}`,
		}, signalbox.StreamReport{Format: signalbox.FormatClaude}},
		{"the last result of claude is the end of the turn", signalbox.FormatClaude, []string{
			`{"type":"result","subtype":"error_during_execution","is_error":false,"result":"x"}`,
			`{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"a"}]},"parent_tool_use_id":null}`,
			`{"type":"result","subtype":"success","is_error":false,"result":"a"}`,
		}, signalbox.StreamReport{Format: signalbox.FormatClaude, Ended: true}},
		{"claude fails with another subtype than success", signalbox.FormatClaude, []string{
			`{"type":"result","subtype":"error_during_execution","is_error":false,"result":"x"}`,
		}, signalbox.StreamReport{Format: signalbox.FormatClaude, Ended: true, Failed: true,
			Error: "x"}},
		{"claude fails if is_error is not a boolean", signalbox.FormatClaude, []string{
			`{"type":"result","subtype":"success","is_error":{},"result":"x"}`,
		}, signalbox.StreamReport{Format: signalbox.FormatClaude, Ended: true, Failed: true,
			Error: "x"}},
		{"foreign lines of claude end and report nothing", signalbox.FormatClaude, []string{
			`{"type":"system","subtype":"init","session_id":"a"}`,
			`{"type":"result","subtype":"success","is_error":true,"result":"x","session_id":"b","total_cost_usd":5}`,
			`{"type":"result","subtype":"success","is_error":false,"result":"x"}`,
			`{"type":"result","subtype":"success","is_error":false,"result":"x","session_id":"a","session_id":"a"}`,
			`{"type":"result","subtype":"success","is_error":false,"result":"x","session_id":"a","parent_tool_use_id":"t"}`,
			`{"type":"result","subtype":"success","is_error":false,"result":"x","session_id":"a","isReplay":true}`,
			`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1794744000},"session_id":"b"}`,
			`{"type":"assistant","message":{"id":"m1","content":[],"usage":{"input_tokens":1,"output_tokens":1}},"parent_tool_use_id":null,"session_id":"b"}`,
		}, signalbox.StreamReport{Format: signalbox.FormatClaude}},
		{"a foreign line does not continue a turn of claude", signalbox.FormatClaude, []string{
			`{"type":"result","subtype":"success","is_error":false,"result":"x","session_id":"a"}`,
			`{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"a"}]},"parent_tool_use_id":null,"session_id":"b"}`,
			`{"type":"user","message":{"content":"a"},"parent_tool_use_id":null}`,
		}, signalbox.StreamReport{Format: signalbox.FormatClaude, Ended: true}},
		{"another thread of codex ends nothing", signalbox.FormatCodex, []string{
			`{"type":"thread.started","thread_id":"a"}`,
			`{"type":"thread.started","thread_id":"b"}`,
			`{"type":"turn.completed","usage":{"input_tokens":20}}`,
		}, signalbox.StreamReport{Format: signalbox.FormatCodex}},
		{"codex continues with an item", signalbox.FormatCodex, []string{
			`{"type":"turn.completed","usage":{}}`,
			`{"type":"item.started","item":{"id":"item_1","type":"command_execution"}}`,
		}, signalbox.StreamReport{Format: signalbox.FormatCodex}},
		{"another session of gemini ends nothing", signalbox.FormatGemini, []string{
			`{"type":"init","session_id":"a","model":"m"}`,
			`{"type":"init","session_id":"b","model":"m"}`,
			`{"type":"result","status":"success","stats":{}}`,
		}, signalbox.StreamReport{Format: signalbox.FormatGemini}},
		{"gemini fails unless it says success", signalbox.FormatGemini,
			[]string{`{"type":"result","stats":{}}`},
			signalbox.StreamReport{Format: signalbox.FormatGemini, Ended: true, Failed: true}},
		{"foreign lines of opencode end nothing", signalbox.FormatOpencode, []string{
			`{"type":"step_start","sessionID":"s","part":{"sessionID":"s"}}`,
			`{"type":"step_finish","sessionID":"t","part":{"reason":"stop"}}`,
			`{"type":"step_finish","part":{"reason":"stop"}}`,
			`{"type":"step_finish","sessionID":"s","part":{"reason":"stop","sessionID":"t"}}`,
			`{"type":"error","sessionID":"t","error":{"name":"APIError"}}`,
		}, signalbox.StreamReport{Format: signalbox.FormatOpencode}},
		{"plain never ends", signalbox.FormatPlain, []string{"AUDIT_PASSED: t1"},
			signalbox.StreamReport{Format: signalbox.FormatPlain}},
		{"text after JSON lines", signalbox.FormatAuto,
			[]string{"", `{"type":"turn.started"}`, "Hello."},
			signalbox.StreamReport{Format: signalbox.FormatCodex, Noise: 1,
				Mixed: "the output was detected as codex, but its line 3 is not JSON; name the format to be certain"}},
		{"noise is counted, blank lines are not", signalbox.FormatCodex,
			[]string{"npm warn", "", "  ", "[1]", `{"type":"turn.started"}`},
			signalbox.StreamReport{Format: signalbox.FormatCodex, Noise: 2}},
		{"codex retries, then fails", signalbox.FormatCodex, []string{
			`{"type":"error","message":"Reconnecting... 1/5"}`,
			`{"type":"turn.failed","error":{"message":"401"}}`,
		}, signalbox.StreamReport{Format: signalbox.FormatCodex, Ended: true, Failed: true,
			Error: "401"}},
		{"a codex error alone is not the end", signalbox.FormatCodex,
			[]string{`{"type":"error","message":"Reconnecting... 1/5"}`},
			signalbox.StreamReport{Format: signalbox.FormatCodex, Retrying: "Reconnecting... 1/5"}},
		{"codex continues after an error", signalbox.FormatCodex,
			[]string{`{"type":"error","message":"Reconnecting... 1/5"}`,
				`{"type":"item.started","item":{"type":"command_execution"}}`},
			signalbox.StreamReport{Format: signalbox.FormatCodex}},
		{"claude tries again", signalbox.FormatClaude, []string{
			`{"type":"system","subtype":"api_retry","attempt":3,"retry_delay_ms":2044.7,"error_status":429,"error":"rate_limit"}`,
		}, signalbox.StreamReport{Format: signalbox.FormatClaude,
			Retrying: "API Error: 429 (attempt 3); retry in 2.044s"}},
		{"claude has no connection", signalbox.FormatClaude, []string{
			`{"type":"system","subtype":"api_retry","attempt":1,"retry_delay_ms":600,"error_status":null,"error":"unknown"}`,
		}, signalbox.StreamReport{Format: signalbox.FormatClaude,
			Retrying: "API Error: Connection error (attempt 1); retry in 0.6s"}},
		{"claude continues after it tried again", signalbox.FormatClaude, []string{
			`{"type":"system","subtype":"api_retry","attempt":1,"retry_delay_ms":600,"error_status":529}`,
			`{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"Hi"}]}}`,
		}, signalbox.StreamReport{Format: signalbox.FormatClaude}},
		{"claude reports the status of its service", signalbox.FormatClaude, []string{
			`{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"result":"API Error"}`,
		}, signalbox.StreamReport{Format: signalbox.FormatClaude, Ended: true, Failed: true,
			Error: "API Error", ErrorStatus: 529}},
		{"a success has no status", signalbox.FormatClaude, []string{
			`{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"result":"x"}`,
			`{"type":"result","subtype":"success","is_error":false,"api_error_status":null,"result":"x"}`,
		}, signalbox.StreamReport{Format: signalbox.FormatClaude, Ended: true}},
		{"opencode reports the status of its service", signalbox.FormatOpencode, []string{
			`{"type":"error","error":{"name":"APIError","data":{"message":"no","statusCode":401}}}`,
		}, signalbox.StreamReport{Format: signalbox.FormatOpencode, Ended: true, Failed: true,
			Error: "no", ErrorStatus: 401}},
		{"codex completes", signalbox.FormatCodex, []string{
			`{"type":"turn.completed","usage":{"input_tokens":20,"cached_input_tokens":3,"output_tokens":10}}`,
		}, signalbox.StreamReport{Format: signalbox.FormatCodex, Ended: true,
			Usage: signalbox.Usage{InputTokens: 20, CachedInputTokens: 3, OutputTokens: 10}}},
		{"gemini fails", signalbox.FormatGemini, []string{
			`{"type":"result","status":"error","error":{"type":"unknown","message":"no"},"stats":{"input_tokens":1,"output_tokens":2,"cached":3}}`,
		}, signalbox.StreamReport{Format: signalbox.FormatGemini, Ended: true, Failed: true,
			Error: "no", Usage: signalbox.Usage{InputTokens: 1, CachedInputTokens: 3,
				OutputTokens: 2}}},
		{"opencode sums its steps", signalbox.FormatOpencode, []string{
			`{"type":"step_finish","sessionID":"s","part":{"reason":"tool-calls","tokens":{"input":10,"output":5,"cache":{"read":1}},"cost":0.5}}`,
			`{"type":"step_start","sessionID":"s","part":{}}`,
			`{"type":"step_finish","sessionID":"s","part":{"reason":"stop","tokens":{"input":10,"output":5,"cache":{"read":1}},"cost":0.25}}`,
		}, signalbox.StreamReport{Format: signalbox.FormatOpencode, Ended: true,
			Usage: signalbox.Usage{InputTokens: 20, CachedInputTokens: 2, OutputTokens: 10,
				CostUSD: 0.75}}},
		{"opencode fails", signalbox.FormatOpencode, []string{
			`{"type":"error","sessionID":"s","error":{"name":"APIError","data":{"message":"scripted failure 401"}}}`,
		}, signalbox.StreamReport{Format: signalbox.FormatOpencode, Ended: true, Failed: true,
			Error: "scripted failure 401"}},
		{"the oracle sums its questions", signalbox.FormatOracle, []string{
			`{"type":"content","turn":1,"text":"a"}`,
			`{"type":"done","reason":"answered","turns":1,"tokens":30,"cost_usd":0.5}`,
			`{"type":"error","name":"cancelled","text":"t"}`,
			`{"type":"done","reason":"cancelled","turns":1,"tokens":12,"cost_usd":0.25,"session":"s","question":2}`,
			`{"type":"done","reason":"answered","turns":1,"tokens":"9","cost_usd":-1}`,
		}, signalbox.StreamReport{Format: signalbox.FormatOracle, Ended: true,
			Usage: signalbox.Usage{InputTokens: 42, CostUSD: 0.75}}},
		{"the oracle fails", signalbox.FormatOracle, []string{
			`{"type":"error","name":"server_error","text":"500 internal server error"}`,
			`{"type":"done","reason":"model_failed","turns":1,"tokens":0,"cost_usd":0}`,
		}, signalbox.StreamReport{Format: signalbox.FormatOracle, Ended: true, Failed: true,
			Error: "500 internal server error"}},
		{"the oracle is not served", signalbox.FormatOracle, []string{
			`{"text":"","name":"rate_limited","type":"error"}`,
		}, signalbox.StreamReport{Format: signalbox.FormatOracle, Failed: true,
			Error: "rate_limited", RateLimit: signalbox.RateLimit{Status: "rejected"}}},
		{"auto finds the oracle", signalbox.FormatAuto, []string{
			`{"type":"tool_call","turn":1,"id":"c","name":"n","arguments":{}}`,
			`{"type":"system","name":"n","text":"t"}`,
		}, signalbox.StreamReport{Format: signalbox.FormatOracle}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, got := scanOnce([]byte(strings.Join(test.lines, "\n")+"\n"),
				&transcript.Options{Format: test.format})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSignalsReadError(t *testing.T) {
	broken := errors.New("disk on fire")
	r := io.MultiReader(strings.NewReader("CHECKPOINT: t1\n"), iotest.ErrReader(broken))
	var names []string
	var last error
	for sig, err := range transcript.Signals(r,
		plain) {
		if last = err; err == nil {
			names = append(names, sig.Name)
		}
	}
	if diff := cmp.Diff([]string{"checkpoint"}, names); diff != "" || !errors.Is(last, broken) {
		t.Errorf("error %v, signals (-want +got):\n%s", last, diff)
	}
}

func TestSignalsStop(t *testing.T) {
	reads := 0
	r := readerFunc(func(p []byte) (int, error) {
		reads++
		return copy(p, "CHECKPOINT: t1\nCHECKPOINT: t2\nCHECKPOINT: t3\n"), nil
	})
	for range transcript.Signals(r, plain) {
		break
	}
	if reads != 1 {
		t.Errorf("read %d times after the caller stopped", reads)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestPending(t *testing.T) {
	s := transcript.NewScanner(plain)
	if got := s.Push([]byte("CHECKPOINT: t1\nProgress: half")); len(got) != 0 {
		t.Errorf("a signal whose body may grow was returned: %v", got)
	}
	if sig, ok := s.Pending(); !ok || sig.TaskID != "t1" {
		t.Errorf("pending is %v, %+v", ok, sig)
	}
	got := s.Close()
	if len(got) != 1 || got[0].Body["Progress"] != "half" {
		t.Errorf("at the end: %+v", got)
	}
	if _, ok := s.Pending(); ok {
		t.Error("something is pending after the end")
	}
}

// A verdict that passes work waits until it is known what follows, although its body is complete.
func TestWaiting(t *testing.T) {
	s := transcript.NewScanner(&transcript.Options{Format: signalbox.FormatCodex})
	got := s.Push([]byte(`{"type":"item.completed","item":{"type":"agent_message","text":"REVIEW_PASSED: t1\nFiles Reviewed: a\n"}}` + "\n" + `{"type":"item.started","item":{"type":"command_execution"}}` + "\n"))
	if _, ok := s.Pending(); ok || len(got) != 0 {
		t.Errorf("pending: %t, returned %+v", ok, got)
	}
	if got := s.Waiting(); len(got) != 1 || got[0].Name != signalbox.NameReviewPassed ||
		got[0].Body != nil {
		t.Errorf("%+v", got)
	}
	got = s.Push([]byte(`{"type":"turn.completed","usage":{}}` + "\n"))
	if got = append(got, s.Close()...); len(got) != 1 || len(s.Waiting()) != 0 {
		t.Errorf("returned %+v, waiting %+v", got, s.Waiting())
	}
}

// Signals before a tool call are released while the tool runs.
func TestToolCallReleasesSignals(t *testing.T) {
	s := transcript.NewScanner(&transcript.Options{Format: signalbox.FormatClaude})
	s.Push([]byte(`{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"CHECKPOINT: t1"}]},"parent_tool_use_id":null}` + "\n"))
	got := s.Push([]byte(
		`{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","name":"Bash","input":{}}]},"parent_tool_use_id":null}` + "\n"))
	if len(got) != 1 || got[0].Name != "checkpoint" {
		t.Errorf("got %+v", got)
	}
}

// The text of a line may precede the member that says whose it is, and be longer than what is held
// back.
func TestLongForeignTextIsWithdrawn(t *testing.T) {
	long := strings.Repeat("text\\n", 40_000)
	for _, line := range []string{
		`{"message":{"id":"m1","content":[{"text":"` + long +
			`REVIEW_PASSED: t1\n","type":"text"}]},"parent_tool_use_id":"toolu_1","type":"assistant"}`,
		`{"message":{"id":"m1","content":[{"text":"` + long +
			`REVIEW_PASSED: t1\n","type":"text"}]},"parent_tool_use_id":null,"type":"user"}`,
		`{"message":{"id":"m1","content":[{"text":"` + long +
			`REVIEW_PASSED: t1\n","type":"tool_result"}]},"parent_tool_use_id":null,"type":"assistant"}`,
		`{"message":{"id":"m1","content":[{"text":"` + long +
			`REVIEW_PASSED: t1\n","type":"text"}]},"parent_tool_use_id":null,"type":"assistant"`,
	} {
		before := `{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"CHECKPOINT: t1\nProgress: half\n"}]},"parent_tool_use_id":null}`
		after := `{"type":"assistant","message":{"id":"m2","content":[{"type":"text","text":"READY_FOR_REVIEW: t1"}]},"parent_tool_use_id":null}`
		input, opts := []byte(before+"\n"+line+"\n"+after+"\n"),
			&transcript.Options{Format: signalbox.FormatClaude}
		got, _ := scanOnce(input, opts)
		checkCuts(t, input, opts, 7)
		var seen []string
		for _, s := range got {
			if s.Taken() {
				seen = append(seen, s.Name)
			}
		}
		if diff := cmp.Diff([]string{"checkpoint", "ready_for_review"}, seen); diff != "" {
			t.Errorf("%.60s… (-want +got):\n%s", line[len(line)-60:], diff)
		}
		if got[0].Body["Progress"] != "half" || got[len(got)-1].Offset != 30 {
			t.Errorf("withdrawn text left traces: %+v", got)
		}
	}
}

func TestTentativeTextIsNotPending(t *testing.T) {
	s := transcript.NewScanner(&transcript.Options{Format: signalbox.FormatClaude})
	s.Push([]byte(`{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"` +
		strings.Repeat(`x\n`, 32_760) +
		`CHECKPOINT: t1\nfoo\n` + strings.Repeat(`y\n`, 100)))
	if sig, ok := s.Pending(); ok {
		t.Errorf("a sub-agent's %s is pending", sig.Name)
	}
	s.Push([]byte(`"}]},"parent_tool_use_id":"toolu_1"}` + "\n"))
	if got := s.Close(); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

// The recognized format must not depend on how much noise is in one piece with the JSON.
func TestAutoFormatDoesNotDependOnCuts(t *testing.T) {
	event := `{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"READY_FOR_REVIEW: t1"}]},"parent_tool_use_id":null}` + "\n"
	for _, noise := range []int{3, 7} { // 0.6 MB and 1.4 MB
		input := []byte(strings.Repeat(strings.Repeat("n", 200_000)+"\n", noise) + event + event)
		for seed := range uint64(4) {
			checkCuts(t, input, &transcript.Options{}, seed)
		}
	}
}

func TestDroppedDoesNotDependOnCuts(t *testing.T) {
	input := []byte(strings.Repeat("CHECKPOINT: t1\n",
		20_000) + strings.Repeat(`<signal type="stuck"></signal>`, 5))
	for seed := range uint64(4) {
		checkCuts(t, input, plain, seed)
	}
}

// Signals in tentative text cannot be released, so their bodies are bounded together.
func TestTentativeBodiesAreBounded(t *testing.T) {
	signal := `CHECKPOINT: t1\nSummary: ` + strings.Repeat("x", 60_000) + `\n`
	line := `{"type":"item.completed","item":{"type":"agent_message","text":"` +
		strings.Repeat(signal, 400) + `"}}` + "\n"
	got, _ := scanOnce([]byte(line), &transcript.Options{Format: signalbox.FormatCodex})
	bytes, count := 0, 0
	for _, s := range got {
		if s.Taken() {
			count++
		}
		if summary, ok := s.Body["Summary"].(string); ok {
			bytes += len(summary)
		}
	}
	if count != 400 || bytes > 10<<20 || bytes < 4<<20 {
		t.Errorf("got %d signals of 400, with %d bytes of bodies", count, bytes)
	}
}

// Withdrawing a text must not change a partial line, object or body before it.
func TestRestoreKeepsPartialInput(t *testing.T) {
	foreign := `{"type":"message","content":"\n` +
		strings.Repeat(`REVIEW_PASSED: t9\n}}{<signal type=\"stuck\"></signal>\n`, 3000) +
		`","role":"user"}` + "\n"
	delta := func(text string) string {
		return `{"type":"message","role":"assistant","content":"` + text + `","delta":true}` + "\n"
	}
	long := strings.Repeat("x", 200) // so that buffers have spare capacity
	for _, test := range []struct{ text, raw string }{
		{`READY_FOR_REVIEW: t1 ` + long, "READY_FOR_REVIEW: t1 " + long},
		{`{\"protocol\":\"apm2_agent_exit\",\n\"` + long, "{\"protocol\":\"apm2_agent_exit\",\n\"" +
			long},
		{`<signal type=\"stuck\">` + long, "<signal type=\"stuck\">" + long},
	} {
		input, opts := []byte(delta(test.text)+foreign),
			&transcript.Options{Format: signalbox.FormatGemini}
		got, _ := scanOnce(input, opts)
		if len(got) != 1 || got[0].Raw != test.raw {
			t.Errorf("%s: got %+v", test.text, got)
		}
		checkCuts(t, input, opts, 11)
	}
	got, err := transcript.ResolveSeed(strings.NewReader(delta("CHECKPOINT: t")+foreign),
		&transcript.Options{Format: signalbox.FormatGemini})
	if err != nil || got.Name != "checkpoint" || got.TaskID != "t" {
		t.Errorf("by the seed's policy: %+v, %v", got, err)
	}
}

// Steps of another session of opencode belong to a sub-agent: they do not end the turn.
func TestOpencodeSubAgentDoesNotEndTheTurn(t *testing.T) {
	s := transcript.NewScanner(&transcript.Options{Format: signalbox.FormatOpencode})
	s.Push([]byte(`{"type":"step_start","sessionID":"a","part":{}}` + "\n" +
		`{"type":"step_finish","sessionID":"b","part":{"reason":"stop","tokens":{"input":5}}}` +
		"\n"))
	if r := s.Report(); r.Ended || r.Usage.InputTokens != 0 {
		t.Errorf("got %+v", r)
	}
}

// A tag whose name only starts with "signal" does not end the block it is in.
func TestLongerTagNameInBlock(t *testing.T) {
	block := `<signal type="partial_answer"><missing>m</missing><signals>x</signals></signal>`
	signals, _ := scanOnce([]byte(block+"\n"), plain)
	if len(signals) != 1 || !signals[0].Taken() || signals[0].Raw != block {
		t.Errorf("got %+v", signals)
	}
}
