package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/sandbox"
	"signalbox/internal/testkit/must"
)

func TestSandboxOf(t *testing.T) {
	c := mustParse(t, `
sandbox: {network: none, read: [/a], write: [/b]}
agents:
  watched: {preset: claude, sandbox: {processes: watch}}
  off: {preset: claude, sandbox: off}
  ports: {preset: claude, sandbox: {network: [443, 8443], read: [/c]}}
  on: {preset: claude, sandbox: {mode: warn, network: on, write: [/d]}}
  plain: {preset: claude}
`)
	for name, want := range map[string]Sandbox{
		"watched": {Mode: sandbox.Enforce, Network: Network{"none"},
			Processes: sandbox.WatchProcesses, Read: []string{"/a"}, Write: []string{"/b"}},
		"off": {Mode: sandbox.Off, Network: Network{"none"}, Processes: sandbox.EndProcesses,
			Read: []string{"/a"}, Write: []string{"/b"}},
		"ports": {Mode: sandbox.Enforce, Network: Network{"443", "8443"},
			Processes: sandbox.EndProcesses, Read: []string{"/a", "/c"}, Write: []string{"/b"}},
		"on": {Mode: sandbox.Warn, Network: Network{"on"}, Processes: sandbox.EndProcesses,
			Read: []string{"/a"}, Write: []string{"/b", "/d"}},
		"plain": {Mode: sandbox.Enforce, Network: Network{"none"},
			Processes: sandbox.EndProcesses, Read: []string{"/a"}, Write: []string{"/b"}},
	} {
		if diff := cmp.Diff(want, c.SandboxOf(c.Agents[name].Sandbox)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for text, want := range map[string]sandbox.Network{"on": {}, "none": {Off: true},
		"[443, 80]": {Ports: []uint16{443, 80}}, "443": {Ports: []uint16{443}}} {
		if diff := cmp.Diff(want, mustParse(t, "sandbox: {network: "+text+
			"}").Sandbox.Network.Policy()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// A mode that is not set is not a sandbox that is off.
func TestSandboxIsOnByDefault(t *testing.T) {
	for _, text := range []string{"", "sandbox:", `sandbox: ""`, "sandbox: {network: on}",
		`sandbox: {mode: "", processes: ""}`} {
		c := mustParse(t, text)
		if got := c.SandboxOf(Sandbox{}); got.Mode != sandbox.Enforce ||
			got.Processes != sandbox.EndProcesses {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestServer(t *testing.T) {
	for address, want := range map[string]sandbox.Server{
		"https://m.example/v1":            {Scheme: "https", Host: "m.example", Port: 443},
		"http://m.example":                {Scheme: "http", Host: "m.example", Port: 80},
		"http://user@127.0.0.1:8080/v1?x": {Scheme: "http", Host: "127.0.0.1", Port: 8080},
		"http://[::1]:1":                  {Scheme: "http", Host: "::1", Port: 1},
		"http://my_box.lan.:1":            {Scheme: "http", Host: "my_box.lan.", Port: 1},
	} {
		if got, ok := (Agent{BaseURL: address}).Server(); !ok || got != want {
			t.Errorf("%s: %+v, %v", address, got, ok)
		}
	}
	for _, address := range []string{"", "http://", "http://m.example:0", "http://m.example:70000",
		"http://[fe80::1%25eth0]:80", "http://müller.example", "http://-m", "ftp://m.example"} {
		if got, ok := (Agent{BaseURL: address}).Server(); ok {
			t.Errorf("%s: %+v", address, got)
		}
	}
}

func TestNetworkModel(t *testing.T) {
	for text, want := range map[string]string{ // a part of the error; "" means none
		"agents: {a: {preset: claude, base_url: 'http://m:1', sandbox: {network: model}}}":                      "",
		"agents: {a: {preset: claude, base_url: 'http://m:1', sandbox: {network: [model]}}}":                    "",
		"agents: {a: {preset: claude, sandbox: {network: model}}}":                                              "agents.a.sandbox.network: model is only valid for an agent with base_url",
		"agents: {a: {preset: claude, base_url: 'http://m:1'}, b: {preset: claude, sandbox: {network: model}}}": "agents.b.sandbox.network: model is only",
		"sandbox: {network: model}":                                                               "sandbox.network: model is only valid",
		"checks: [{name: t, command: make, sandbox: {network: model}}]":                           "model is only valid",
		"agents: {a: {preset: claude, base_url: 'http://m:1', sandbox: {network: [model, 443]}}}": "cannot be combined",
		"agents: {a: {preset: claude, base_url: 'http://mü:1'}}":                                  "agents.a.base_url: the network of the agent cannot be limited to this server",
		"agents: {a: {preset: claude, base_url: 'http://mü:1', sandbox: {network: model}}}":       "cannot be limited",
		"agents: {a: {preset: claude, base_url: 'http://mü:1', sandbox: {network: on}}}":          "",
		"agents: {a: {preset: claude, base_url: 'http://mü:1', sandbox: off}}":                    "",
		"{sandbox: {network: [443]}, agents: {a: {preset: claude, base_url: 'http://mü:1'}}}":     "",
	} {
		_, err := Parse([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if p := (Network{NetworkModel}).Policy(); !p.Off {
		t.Errorf("without a server: %v", p)
	}
}

func TestSandboxPaths(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	project := t.TempDir()
	dir := filepath.Join(project, ".signalbox")
	text := `
sandbox: {read: ["~", ~/x, lib, /abs], write: [../out]}
agents: {a: {preset: claude, sandbox: {write: [~/y]}}}
checks: [{name: t, command: make, sandbox: {read: [z]}}]
`
	must.Succeed(t, os.Mkdir(dir, 0o700))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600))
	c, err := Load(dir)
	must.Succeed(t, err)
	got := [][]string{c.Sandbox.Read, c.Sandbox.Write, c.Agents["a"].Sandbox.Write,
		c.Checks[0].Sandbox.Read}
	want := [][]string{{home, filepath.Join(home, "x"), filepath.Join(project, "lib"), "/abs"},
		{filepath.Join(filepath.Dir(project), "out")},
		{filepath.Join(home, "y")}, {filepath.Join(project, "z")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "4GB": 4e9, "4 gb": 4e9, "512MiB": 512 << 20,
		"1_000": 1000, "9223372036854775807": 1<<63 - 1} {
		got, ok := parseSize(text)
		if !ok || got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
		if again, ok := parseSize(got.String()); !ok || again != got {
			t.Errorf("%q: formatted as %s, parsed as %d", text, got, again)
		}
	}
	for _, text := range []string{"", "GB", "-1", "+1", "1.5GB", "10000000TB", "4X",
		"9223372036854775808"} {
		if got, ok := parseSize(text); ok {
			t.Errorf("%q: %d", text, got)
		}
	}
	for text, want := range map[string]Cores{"0": 0, "2": 2000, "1.5": 1500, "0.025": 25} {
		if got, ok := parseCores(text); !ok || got != want || got.String() != text {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", ".5", "1.", "1.2345", "-1", "1e3", "100000"} {
		if got, ok := parseCores(text); ok {
			t.Errorf("%q: %d", text, got)
		}
	}
}
