package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/testkit/must"
)

var started = time.Date(2026, 11, 16, 5, 0, 0, 500_000_000, time.UTC)

const thread = "01a1dca2-658f-7e41-975f-e448815575f7"

// writeState writes a file of a program's state folder.
func writeState(t *testing.T, name, text string) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o700))
	must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
}

func usage(input, cached, output int64) signalbox.Usage {
	return signalbox.Usage{InputTokens: input, CachedInputTokens: cached, OutputTokens: output}
}

const (
	codexNew     = `{"timestamp":"2026-11-16T05:00:01.000Z","type":"session_meta","payload":{"id":"01a1dca2-658f-7e41-975f-e448815575f7","timestamp":"2026-11-16T05:00:01.000Z"}}` + "\n"
	codexOld     = `{"timestamp":"2026-11-15T05:00:01.000Z","type":"session_meta","payload":{"id":"01a1dca2-658f-7e41-975f-e448815575f7","timestamp":"2026-11-15T05:00:01.000Z"}}` + "\n"
	codexContext = `{"timestamp":"2026-11-16T05:00:01.000Z","type":"turn_context","payload":{"model":"gpt-6-sol"}}` + "\n"
	codexNoInfo  = `{"timestamp":"2026-11-16T05:00:01.000Z","type":"event_msg","payload":{"type":"token_count","info":null}}` + "\n"
	codexBefore  = `{"timestamp":"2026-11-15T05:00:02.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":100,"cached_input_tokens":20,"output_tokens":10}}}}` + "\n"
	codexFirst   = `{"timestamp":"2026-11-16T05:00:02.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":500,"cached_input_tokens":120,"output_tokens":60}}}}` + "\n"
	codexSecond  = `{"timestamp":"2026-11-16T05:00:03.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":900,"cached_input_tokens":320,"output_tokens":90}}}}` + "\n"
)

func TestSessionFilesOfCodex(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		private    bool
		want       signalbox.Usage
		ok         bool
	}{
		{"a new session", codexNew + codexContext + codexNoInfo + codexFirst + codexSecond, false,
			usage(900, 320, 90), true},
		{"nothing used yet", codexNew + codexContext + codexNoInfo, false, usage(0, 0, 0), false},
		{"an incomplete line", codexNew + codexContext + codexFirst + codexSecond[:100], false,
			usage(500, 120, 60), true},
		{"broken lines", "x\n{\n" + codexNew + codexContext +
			`{"type":"event_msg","payload":{"type":"token_count","info":7}}` + "\n" + codexFirst,
			false, usage(500, 120, 60), true},
		{"a resumed session in a folder of its own",
			codexOld + codexBefore + codexContext + codexFirst + codexSecond, true,
			usage(800, 300, 80), true},
		{"a session of somebody else", codexOld + codexBefore + codexContext + codexFirst, false,
			usage(400, 100, 50), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			f := &SessionFiles{Format: signalbox.FormatCodex, Dir: dir, Private: tt.private,
				Since: started}
			if _, ok := f.Read(thread); ok {
				t.Error("it finds a file that does not exist")
			}
			name := filepath.Join(dir, "sessions", "2026", "11", "16",
				"rollout-2026-11-16T05-00-01-"+thread+".jsonl")
			writeState(t, name, tt.text)
			got, ok := f.Read(thread)
			if ok != tt.ok || ok && (got.Usage != tt.want || got.Model != "gpt-6-sol") {
				t.Errorf("%+v %t", got, ok)
			}
			if other := (&SessionFiles{Format: signalbox.FormatCodex, Dir: dir, Private: tt.private,
				Since: started}); tt.ok {
				if _, ok := other.Read("01a1dca2-4dcf-7481-859d-b34412e2b9a0"); ok {
					t.Error("another session has a file")
				}
			}
		})
	}
}

// A file that grows is read from where the last reading ended.
func TestSessionFileGrows(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "sessions", "2026", "11", "16", "rollout-x-"+thread+".jsonl")
	text := codexOld + codexBefore + codexFirst
	f := &SessionFiles{Format: signalbox.FormatCodex, Dir: dir, Private: true, Since: started}
	for _, step := range []struct {
		more string
		want signalbox.Usage
	}{{"", usage(400, 100, 50)}, {codexSecond[:50], usage(400, 100, 50)}, {codexSecond[50:], usage(800, 300, 80)}} {
		text += step.more
		writeState(t, name, text)
		if got, ok := f.Read(thread); !ok || got.Usage != step.want ||
			got.Before != usage(100, 20, 10) {
			t.Errorf("%+v %t, want %+v", got, ok, step.want)
		}
	}
}

func TestSessionFilesOfGemini(t *testing.T) {
	const head = `{"sessionId":"01a1dca2-658f-7e41-975f-e448815575f7","projectHash":"x","startTime":"2026-11-16T05:00:01.000Z","messages":[`
	const old = `{"sessionId":"01a1dca2-658f-7e41-975f-e448815575f7","startTime":"2026-11-15T05:00:01.000Z","messages":[`
	const other = `{"sessionId":"01a1dca2-ffff-7e41-975f-e448815575f7","startTime":"2026-11-16T05:00:01.000Z","messages":[`
	const user = `{"id":"1","timestamp":"2026-11-16T05:00:01.000Z","type":"user","content":"x"}`
	const before = `{"id":"0","timestamp":"2026-11-15T05:00:02.000Z","type":"gemini","model":"gemini-3-pro","tokens":{"input":1000,"output":500,"cached":0,"thoughts":0}}`
	const one = `{"id":"2","timestamp":"2026-11-16T05:00:02.000Z","type":"gemini","model":"gemini-3-pro","content":[{"text":"y"}],"tokens":{"input":100,"output":10,"cached":40,"thoughts":5,"tool":0,"total":115}}`
	const two = `{"id":"3","timestamp":"2026-11-16T05:00:03.000Z","type":"gemini","model":"gemini-3-pro","content":"z","tokens":{"input":200,"output":20,"cached":0,"thoughts":0,"tool":0,"total":220}}`
	for _, tt := range []struct {
		name, end, text string
		private         bool
		want            signalbox.Usage
		ok              bool
	}{
		{"one object", "json", head + user + "," + one + "," + two + "]}", false,
			usage(300, 40, 35), true},
		{"an object on each line", "jsonl", head + "]}\n" + user + "\n" + one + "\n" + one + "\n" +
			two + "\n", false, usage(300, 40, 35), true},
		{"being written", "json", head + user + "," + one, false, usage(0, 0, 0), false},
		{"resumed", "json", old + before + "," + one + "]}", true, usage(100, 40, 15), true},
		{"of somebody else", "json", old + before + "," + one + "]}", false, usage(0, 0, 0), false},
		{"with a similar name", "json", other + one + "]}", true, usage(0, 0, 0), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeState(t, filepath.Join(dir, "tmp", "hash", "chats",
				"session-2026-11-16T05-00-01a1dca2."+tt.end), tt.text)
			f := &SessionFiles{Format: signalbox.FormatGemini, Dir: dir, Private: tt.private,
				Since: started}
			for range 2 {
				if got, ok := f.Read(thread); ok != tt.ok || ok &&
					(got.Usage != tt.want || got.Model != "gemini-3-pro") {
					t.Errorf("%+v %t", got, ok)
				}
			}
		})
	}
}

func TestStateDir(t *testing.T) {
	for _, tt := range []struct {
		format signalbox.Format
		env    []string
		want   string
	}{
		{signalbox.FormatCodex, []string{"HOME=/home/a", "CODEX_HOME=/first", "CODEX_HOME=/state"},
			"/state"},
		{signalbox.FormatCodex, []string{"HOME=/home/a", "CODEX_HOME="}, "/home/a/.codex"},
		{signalbox.FormatGemini, []string{"HOME=/home/a", "GEMINI_CLI_HOME=/g"}, "/g/.gemini"},
		{signalbox.FormatGemini, []string{"HOME=/home/a"}, "/home/a/.gemini"},
		{signalbox.FormatClaude, []string{"HOME=/home/a"}, ""},
		{signalbox.FormatCodex, nil, ""},
	} {
		if got := filepath.ToSlash(StateDir(tt.format, tt.env)); got != tt.want {
			t.Errorf("%s %q: %s", tt.format, tt.env, got)
		}
	}
}
