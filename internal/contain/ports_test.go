package contain

import (
	"slices"
	"testing"

	"signalbox/internal/config"
	"signalbox/internal/testkit/must"
)

// TestPorts checks that all who work in a folder know its ports, and may use them where only some
// ports are allowed.
func TestPorts(t *testing.T) {
	dir := t.TempDir()
	ports := Ports{First: 20100, Count: 3}
	for text, want := range map[string]string{
		"sandbox: {network: [443]}": "TCP ports [443 20100-20102]",
		"sandbox: {network: none}":  "none",
		"sandbox: {network: on}":    "on",
		"sandbox: off":              "on",
	} {
		c, err := config.Parse([]byte(text))
		must.Succeed(t, err)
		site := Site{Host: Host{Home: t.TempDir()}, Config: c, Box: dir, Project: dir}
		for name, p := range map[string]*Program{
			"agent": site.Agent(Agent{Name: "a", Config: config.Agent{Command: []string{"sh"}},
				Role: "developer", Work: "T1", Dir: dir, Ports: ports}),
			"check": site.Check(Check{Work: "T1", Dir: dir, Ports: ports}),
			"setup": site.Setup(Setup{Work: "T1", Dir: dir, Ports: ports}),
		} {
			if got := p.Policy.Network.String(); got != want {
				t.Errorf("%s with %s: network %s, want %s", name, text, got, want)
			}
			for _, variable := range []string{"SIGNALBOX_PORT=20100", "SIGNALBOX_PORTS=3"} {
				if !slices.Contains(p.Env, variable) {
					t.Errorf("%s with %s does not get %s", name, text, variable)
				}
			}
		}
		container := site.Check(Check{Work: "T1", Dir: dir, Ports: ports,
			Environment: config.Environment{Run: []string{"docker"}}})
		if !slices.Contains(container.Env, "SIGNALBOX_PORT=20100") {
			t.Error("a check in a container does not get its ports")
		}
		if site.Check(Check{Work: "T1", Dir: dir}).Policy.Network.String() == want &&
			want == "TCP ports [443 20100-20102]" {
			t.Error("a folder without ports has some")
		}
	}
}
