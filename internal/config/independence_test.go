package config

import (
	"strings"
	"testing"
)

func TestVendorOf(t *testing.T) {
	c := mustParse(t, `
models: {main: {provider: anthropic, model: claude-sonnet-5}, local: {provider: openai, model: qwen, base_url: "http://localhost:1/v1"}}
agents:
  big: {preset: claude, model: opus}
  gateway: {preset: claude, base_url: "http://localhost:1"}
  declared: {preset: claude, base_url: "http://localhost:1", vendor: anthropic}
  relay: {preset: opencode, model: openrouter/anthropic/Claude-Sonnet-5}
  mine: {command: [mine]}
  gpt: {command: [mine, "{model}"], model: gpt-5}
  yours: {command: [yours, "{model}"], model: gpt-like, vendor: yours}
  thinker: {tree: a.lua, model: main}
  local: {tree: a.lua, model: local}
`)
	for _, test := range [][3]string{ // agent, reported, vendor
		{"claude", "", "anthropic"}, {"codex", "", "openai"}, {"gemini", "", "google"},
		{"opencode", "", ""}, {"big", "", "anthropic"}, {"gateway", "", ""},
		{"declared", "", "anthropic"}, {"relay", "", "anthropic"}, {"mine", "", ""},
		{"gpt", "", "openai"}, {"yours", "", "yours"}, {"thinker", "", "anthropic"},
		{"local", "", ""},
		// what the program reports counts, not what is configured, and not its name
		{"claude", "gemini-3-pro", "google"}, {"yours", "o3-mini", "openai"},
		{"mine", "vendor/claude-opus-5", "anthropic"}, {"opencode", "codex-mini", "openai"},
		{"mine", "azure:gpt-5", "openai"}, {"mine", "gpt-oss:20b", "openai"},
		{"claude", "qwen", "anthropic"}, {"mine", "claudette", ""},
	} {
		if got := c.VendorOf(test[0], test[1]); got != test[2] {
			t.Errorf("%s that reports %q: %q, want %q", test[0], test[1], got, test[2])
		}
	}
}

func TestEffectiveIndependence(t *testing.T) {
	for _, test := range []struct {
		text, want string
		fails      bool
		says       string // doctor
	}{
		{"", "none", false, "no other vendor judges what claude writes; name agents of two vendors"},
		{"agent: [claude, codex]", "vendor", false, ""},
		{"agent: codex\nroles: {developer: {agent: claude}}", "vendor", false, ""},
		{"agent: [claude, big]\nagents: {big: {preset: claude, model: opus}}", "none", false,
			"no other vendor judges what claude, big writes"},
		{"agent: [claude, codex, mine]\nagents: {mine: {command: [mine]}}", "none", false,
			"set agents.mine.vendor"},
		{"agent: [claude, codex, mine]\nagents: {mine: {command: [mine], vendor: me}}", "vendor",
			false, ""},
		// who is named for a role works there
		{"agent: claude\nroles: {critic: {agent: codex}}", "none", false, "claude writes"},
		{"agent: [claude, codex]\nroles: {critic: {agent: codex}, auditor: {agent: claude}}",
			"none", false, "codex as critic and claude as auditor may judge"},
		{"agent: [claude, codex]\nroles: {critic: {agent: codex}}", "vendor", false,
			"codex as critic may judge"},
		{"agent: [claude, codex]\nindependence: none", "none", false, "may be of the same vendor"},
		{"independence: vendor", "vendor", true, "no agent of another vendor can judge what claude"},
		{"independence: model", "model", true, "no agent of another model can judge what claude"},
		{"agent: [claude, codex]\nindependence: model", "model", false,
			"of another model than the author"},
		{"agents: {a: {preset: claude, model: big}, b: {preset: claude, model: small}}\n" +
			"agent: [a, b]\nindependence: model", "model", false, "of another model"},
		{"agents: {a: {preset: claude, model: big}, b: {preset: claude, model: big}}\n" +
			"agent: [a, b]\nindependence: model", "model", true,
			"no agent of another model can judge what a, b writes"},
		{"agents: {a: {preset: codex, model: gpt-5}, b: {preset: codex, model: openai/gpt-5}}\n" +
			"agent: [a, b]\nindependence: model", "model", true, "what a, b writes"},
		{"agents: {a: {preset: claude, model: opus}, b: {preset: claude, model: default}}\n" +
			"agent: [a, b]\nindependence: model", "model", true, "what a, b writes"},
		{"agents: {a: {preset: claude}, b: {preset: claude, model: big}}\nagent: b\n" +
			"roles: {developer: {agent: a}}\nindependence: model", "model", false,
			"of another model"},
		{"agents: {a: {preset: claude}, b: {preset: claude, model: big}}\nagent: a\n" +
			"roles: {developer: {agent: b}}\nindependence: model", "model", true, "what b writes"},
	} {
		c := mustParse(t, test.text)
		says, hint, fails := c.DescribeIndependence()
		if got := c.EffectiveIndependence(); got != test.want || fails != test.fails ||
			!strings.HasPrefix(says, got+": ") || !strings.Contains(says+"; "+hint, test.says) ||
			fails != (hint != "") {
			t.Errorf("%s\nis %s: %q, %q, %v", test.text, got, says, hint, fails)
		}
	}
	if _, err := Parse([]byte("independence: total")); err == nil ||
		!strings.Contains(err.Error(), `"total" is not a kind of independence`) {
		t.Errorf("%v", err)
	}
	if _, err := Parse([]byte("agents: {a: {preset: claude, vendor: 'a b'}}")); err == nil {
		t.Error("a vendor may have spaces")
	}
}
