package inspect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/run/agent"
	"signalbox/internal/testkit/must"
)

func TestHearing(t *testing.T) {
	for line, want := range map[string]string{
		"plain words":             "plain words",
		`func f() { return "a" }`: `func f() { return "a" }`,
		`{"type":"item.started","item":{"id":"item_0","type":"command_execution","command":"go test ./..."}}`:           "go test ./...",
		`{"type":"item.completed","item":{"type":"agent_message","text":"Done."}}`:                                      "Done.",
		`{"type":"item.completed","item":{"type":"file_change","changes":[{"path":"a.go"},{"path":"b.go"}]}}`:           "a.go, b.go",
		`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"Now the tests."}]}}`:       "Now the tests.",
		`{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Read","input":{"file_path":"a/b.go"}}]}}`: "Read a/b.go",
		`{"type":"message","role":"assistant","content":"Done."}`:                                                       "Done.",
		`{"type":"tool_use","tool_name":"run_shell_command","parameters":{"command":"ls"}}`:                             "run_shell_command ls",
		`{"type":"text","part":{"type":"text","text":"Reading."}}`:                                                      "Reading.",
		`{"type":"tool_use","part":{"tool":"bash","state":{"input":{"command":["go","vet"]}}}}`:                         "bash go vet",
		`{"type":"tool_use","part":{"tool":"bash","state":{"title":"Vets"}}}`:                                           "bash Vets",
		`{"type":"content","turn":1,"text":"Reading.\nNow vet."}`:                                                       "Now vet.",
		`{"type":"tool_call","turn":1,"id":"c","name":"read_file","arguments":{"path":"a/b.go"}}`:                       "read_file a/b.go",
		`{"type":"assistant","message":{"content":[{"type":"text","text":"` +
			strings.Repeat("a", 3000) + `"}]}}`: strings.Repeat("a", maxActivity),
	} {
		if got := (Activity{}).Next(line).Text; got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestHearingKeepsTheLastWords has all that is in a stream and is not what an agent says or does.
func TestHearingKeepsTheLastWords(t *testing.T) {
	for _, line := range []string{
		"", "  ", "{", `{not JSON`, `{"a":1}`, `{"type":"assistant","message":"x"}`,
		`{"type":"assistant","message":{"content":"x"}}`,
		`{"type":"init","session_id":"x","model":"y"}`,
		`{"type":"system","subtype":"init","cwd":"/w"}`,
		`{"type":"result","subtype":"success","is_error":false,"result":"Done."}`,
		`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"12 files"}]}}`,
		`{"type":"message","role":"user","content":"You are the developer of T1."}`,
		`{"type":"step_finish","part":{"type":"step-finish","reason":"stop"}}`,
		`{"type":"turn.completed","usage":{"input_tokens":1}}`,
		`{"type":"assistant","message":{"content":[{"type":"text","text":"cut off in the mi`,
		`ubtype":"success","is_error":false,"duration_ms":12}`,
		`the end of what it said."}]}}`,
		`"text":"the middle of a lin`,
		`{"type":"content","text":"of no turn"}`, `{"type":"content","turn":1,"text":5}`,
		`{"type":"reasoning","turn":1,"text":"Hm."}`,
		`{"type":"tool_result","turn":1,"id":"c","name":"n","ok":true,"text":"12 files"}`,
		`{"type":"system","name":"reply_restarted","text":"It begins again."}`,
		`{"type":"done","reason":"answered","turns":1,"tokens":0,"cost_usd":0}`,
		strings.Repeat(`{"a":`, 900), `{"text":` + strings.Repeat("[", 900),
	} {
		if got := (Activity{Text: "before"}).Next(line).Text; got != "before" {
			t.Errorf("%.80s: %q", line, got)
		}
	}
	streams := (Activity{}).Next(`{"type":"init"}`).Next("the middle of a line of JSON")
	if streams.Text != "" {
		t.Errorf("%q of a stream of JSON", streams.Text)
	}
}

func TestHearingJoinsTheDeltasOfAMessage(t *testing.T) {
	var h Activity
	for _, piece := range []string{`Reading`, ` the`, ` tests.\n`, `Now`, ` vet.`} {
		h = h.Next(`{"type":"message","role":"assistant","content":"` + piece + `","delta":true}`)
	}
	if h.Text != "Now vet." {
		t.Errorf("%q", h.Text)
	}
	h = h.Next(`{"type":"tool_use","tool_name":"ls"}`).Next(
		`{"type":"message","role":"assistant","content":"Then","delta":true}`)
	if h.Text != "Then" {
		t.Errorf("%q after a tool", h.Text)
	}
}

func TestHearingJoinsTheContentOfATurn(t *testing.T) {
	var h Activity
	content := func(turn,
		text string) {
		h = h.Next(`{"type":"content","turn":` + turn + `,"text":"` + text + `"}`)
	}
	for _, piece := range []string{`Reading`, ` the tests.\n`, `Now`, ` vet.`} {
		content("1", piece)
		h = h.Next(`{"type":"reasoning","turn":1,"text":"Hm."}`)
	}
	if h.Text != "Now vet." {
		t.Errorf("%q", h.Text)
	}
	if content("2", "Then"); h.Text != "Then" {
		t.Errorf("%q in another turn", h.Text)
	}
	h = h.Next(`{"type":"system","name":"reply_restarted","text":"It begins again."}`)
	if content("2", "Again"); h.Text != "Again" {
		t.Errorf("%q in a reply that began again", h.Text)
	}
}

// TestReadActivity reads the end of a long output, whose first line is cut, and the output of an
// agent that has none.
func TestReadActivity(t *testing.T) {
	dir := t.TempDir()
	if got, err := ReadActivity(dir, "w-1.1"); got != "" || err != nil {
		t.Errorf("without output: %q, %v", got, err)
	}
	name := agent.LiveTranscript(dir, "w-1.1")
	must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o700))
	for output, want := range map[string]string{
		"Reading.\nNow vet.\n": "Now vet.",
		strings.Repeat("x", 2*maxLive) + "\n" +
			`{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Read","input":{"file_path":"a/b.go"}}]}}` + "\n": "Read a/b.go",
		strings.Repeat("x", 2*maxLive): "",
	} {
		must.Succeed(t, os.WriteFile(name, []byte(output), 0o600))
		if got, err := ReadActivity(dir, "w-1.1"); got != want || err != nil {
			t.Errorf("%.30q: %q, want %q, %v", output, got, want, err)
		}
	}
}
