package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/transcript"
)

// TestDiagnoseRealPrograms reads what real programs wrote when their server answered with a status,
// refused connections, or did not exist.
func TestDiagnoseRealPrograms(t *testing.T) {
	want := map[string]Trouble{"401": TroubleLogin, "403": TroubleLogin, "429": TroubleLimit,
		"500": TroubleServer, "529": TroubleServer,
		"refused": TroubleServer, "dns": TroubleServer}
	files, err := filepath.Glob("testdata/errors/*.jsonl")
	if err != nil || len(files) < 12 {
		t.Fatalf("found %d files: %v", len(files), err)
	}
	for _, file := range files {
		program, what, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".jsonl"), "-")
		text, err := os.ReadFile(file)
		must.Succeed(t, err)
		scanner := transcript.NewScanner(&transcript.Options{Format: signalbox.Format(program)})
		scanner.Push(text)
		scanner.Close()
		r := scanner.Report()
		if !r.Failed {
			t.Errorf("%s reports no failure", file)
		}
		if got := Diagnose(r.Format, r.ErrorStatus, r.Error); got != want[what] {
			t.Errorf("%s: %q, want %q, of status %d and %q", file, got, want[what], r.ErrorStatus,
				r.Error)
		}
	}
}

func TestStatusOfExit(t *testing.T) {
	for exit, want := range map[int]int{0: 0, 1: 0, 143: 0, 144: 400, 145: 401, 173: 429, 247: 503} {
		if got := StatusOfExit(signalbox.FormatGemini, exit); got != want {
			t.Errorf("%d is %d, want %d", exit, got, want)
		}
	}
	if got := StatusOfExit(signalbox.FormatCodex, 173); got != 0 {
		t.Errorf("of codex: %d", got)
	}
}

func TestDiagnose(t *testing.T) {
	for _, tt := range []struct {
		format  signalbox.Format
		status  int
		message string
		want    Trouble
	}{
		{signalbox.FormatClaude, 0,
			`API Error: 401 {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, TroubleLogin},
		{signalbox.FormatClaude, 0, "Invalid API key · Please run /login", TroubleLogin},
		{signalbox.FormatClaude, 0, "OAuth token has expired · Please run /login", TroubleLogin},
		{signalbox.FormatClaude, 0, "Credit balance is too low", TroubleCredit},
		{signalbox.FormatClaude, 0,
			`API Error: 400 {"error":{"message":"Your credit balance is too low to access it"}}`,
			TroubleCredit},
		{signalbox.FormatClaude, 0, "I read that the credit balance is too low", ""},
		{signalbox.FormatClaude, 402, "", TroubleCredit},
		{signalbox.FormatCodex, 0, "unexpected status 402 Payment Required: no", TroubleCredit},
		{signalbox.FormatCodex, 0,
			"Quota exceeded. Check your plan and billing details.", TroubleCredit},
		{signalbox.FormatOpencode, 402, "Insufficient credits. Add more to continue", TroubleCredit},
		{signalbox.FormatOpencode, 429,
			"You exceeded your current quota, please check your plan and billing details.",
			TroubleCredit},
		{signalbox.FormatOpencode, 429, "Rate limit reached", TroubleLimit},
		{signalbox.FormatGemini, 0, "[API Error: Slow down] Please wait and try again later. " +
			"To increase your limits, request a quota increase through AI Studio, or switch to " +
			"another /auth method", TroubleLimit},
		{signalbox.FormatGemini, 429,
			"You exceeded your current quota, please check your plan and billing details.",
			TroubleLimit},
		{signalbox.FormatClaude, 0,
			`API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, TroubleServer},
		{signalbox.FormatClaude, 0, "API Error: Connection error.", TroubleServer},
		{signalbox.FormatClaude, 0, "API Error: Unable to connect to API (ECONNREFUSED)",
			TroubleServer},
		{signalbox.FormatClaude, 0, "Claude AI usage limit reached|1794744000", TroubleLimit},
		{signalbox.FormatClaude, 529, "", TroubleServer},
		{signalbox.FormatClaude, 0,
			`API Error: 400 {"type":"error","error":{"type":"invalid_request_error"}}`, ""},
		{signalbox.FormatClaude, 0, "error_max_turns", ""},
		{signalbox.FormatClaude, 0, "I read that the server said API Error: 401", ""},
		{signalbox.FormatCodex, 0,
			"You've hit your usage limit. Upgrade to Pro, or try again in 2 hours 5 minutes.",
			TroubleLimit},
		{signalbox.FormatCodex, 0,
			"Your access token could not be refreshed. Please log out and sign in again.",
			TroubleLogin},
		{signalbox.FormatCodex, 0,
			"Reconnecting... waiting for network (Connection failed: error sending request)",
			TroubleServer},
		{signalbox.FormatCodex, 0, "unexpected status 400 Bad Request: no such model", ""},
		{signalbox.FormatCodex, 0, "context window exceeded", ""},
		{signalbox.FormatGemini, 0,
			"Please set an Auth method in your /home/a/.gemini/settings.json or specify one of the following environment variables before running: GEMINI_API_KEY", TroubleLogin},
		{signalbox.FormatGemini, 0,
			`[API Error: {"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`, TroubleLogin},
		{signalbox.FormatGemini, 0, `[API Error: {"error":{"code":400,"message":"Bad request"}}]`,
			""},
		{signalbox.FormatOpencode, 404, "model not found", ""},
		{signalbox.FormatPlain, 0, "unexpected status 401 Unauthorized", ""},
		{signalbox.FormatOracle, 0, "401 Unauthorized", ""},
	} {
		if got := Diagnose(tt.format, tt.status, tt.message); got != tt.want {
			t.Errorf("%s, %d, %q: %q, want %q", tt.format, tt.status, tt.message, got, tt.want)
		}
	}
}

func TestAdvice(t *testing.T) {
	for _, preset := range Presets() {
		for _, url := range []string{"", "http://127.0.0.1:1"} {
			for _, trouble := range []Trouble{TroubleLogin, TroubleServer} {
				if got := Advice(preset, url, trouble); got == "" || !strings.Contains(got, url) {
					t.Errorf("%s at %q: %q", preset, url, got)
				}
			}
		}
	}
}
