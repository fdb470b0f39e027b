package rehearsal

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"signalbox"
)

//go:embed demo
var demo embed.FS

// Demo writes a demonstration to a folder: plan.md, a plan of six tasks; agents.script, the script
// of the agents; and calc, the project they start from, whose checks are "sh test.sh" and "sh
// lint.sh".
func Demo(dir string) error {
	for _, name := range []string{"plan.md", "agents.script"} {
		text, err := demo.ReadFile("demo/" + name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			return err
		}
	}
	files, err := fs.Sub(demo, "demo/files")
	if err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(dir, "calc"), files)
}

// DemoConfig returns the signalbox.yaml of a demonstration that was written to a folder. Each role
// has an agent that writes another format. program is the path of signalbox; pace is the minimum
// duration of an agent's step.
func DemoConfig(dir, program string, pace time.Duration) string {
	var b strings.Builder
	b.WriteString("agent: plain-like\nagents:\n")
	for _, format := range []signalbox.Format{signalbox.FormatPlain, signalbox.FormatClaude,
		signalbox.FormatCodex, signalbox.FormatGemini, signalbox.FormatOpencode} {
		fmt.Fprintf(&b, "  %s-like:\n    command: [%q, rehearse, agent, %q, --pace, %s, --format, %s]\n    format: %s\n",
			format, program, filepath.Join(dir, "agents.script"), pace, format, format)
	}
	b.WriteString(`roles:
  developer: {agent: claude-like}
  critic: {agent: codex-like}
  auditor: {agent: gemini-like}
  remediation: {agent: opencode-like}
experts:
  - {name: security, keywords: [input, untrusted]}
checks:
  - {name: test, command: sh test.sh}
  - {name: lint, command: sh lint.sh}
grace: 2s
`)
	return b.String()
}
