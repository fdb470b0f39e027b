package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/sandbox"
)

func TestSandboxOf(t *testing.T) {
	c := mustParse(t, `
sandbox: {network: none, read: [/a], write: [/b]}
agents:
  off: {preset: claude, sandbox: off}
  ports: {preset: claude, sandbox: {network: [443, 8443], read: [/c]}}
  on: {preset: claude, sandbox: {mode: warn, network: on, write: [/d]}}
  plain: {preset: claude}
`)
	for name, want := range map[string]Sandbox{
		"off":   {Mode: sandbox.Off, Network: Network{"none"}, Read: []string{"/a"}, Write: []string{"/b"}},
		"ports": {Mode: sandbox.Enforce, Network: Network{"443", "8443"}, Read: []string{"/a", "/c"}, Write: []string{"/b"}},
		"on":    {Mode: sandbox.Warn, Network: Network{"on"}, Read: []string{"/a"}, Write: []string{"/b", "/d"}},
		"plain": {Mode: sandbox.Enforce, Network: Network{"none"}, Read: []string{"/a"}, Write: []string{"/b"}},
	} {
		if diff := cmp.Diff(want, c.SandboxOf(c.Agents[name].Sandbox)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for text, want := range map[string]sandbox.Network{"on": {}, "none": {Off: true}, "[443, 80]": {Ports: []uint16{443, 80}}, "443": {Ports: []uint16{443}}} {
		if diff := cmp.Diff(want, mustParse(t, "sandbox: {network: "+text+"}").Sandbox.Network.Policy()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// A mode that is not set is not a sandbox that is off.
func TestSandboxIsOnByDefault(t *testing.T) {
	for _, text := range []string{"", "sandbox:", `sandbox: ""`, "sandbox: {network: on}", `sandbox: {mode: ""}`} {
		c := mustParse(t, text)
		if got := c.SandboxOf(Sandbox{}).Mode; got != sandbox.Enforce {
			t.Errorf("%q: mode %q", text, got)
		}
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
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := [][]string{c.Sandbox.Read, c.Sandbox.Write, c.Agents["a"].Sandbox.Write, c.Checks[0].Sandbox.Read}
	want := [][]string{{home, filepath.Join(home, "x"), filepath.Join(project, "lib"), "/abs"}, {filepath.Join(filepath.Dir(project), "out")},
		{filepath.Join(home, "y")}, {filepath.Join(project, "z")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "4GB": 4e9, "4 gb": 4e9, "512MiB": 512 << 20, "1_000": 1000, "9223372036854775807": 1<<63 - 1} {
		got, ok := parseSize(text)
		if !ok || got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
		if again, ok := parseSize(got.String()); !ok || again != got {
			t.Errorf("%q: formatted as %s, parsed as %d", text, got, again)
		}
	}
	for _, text := range []string{"", "GB", "-1", "+1", "1.5GB", "10000000TB", "4X", "9223372036854775808"} {
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
