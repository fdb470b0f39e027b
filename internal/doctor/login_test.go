package doctor

import (
	"runtime"
	"testing"

	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/core/box"
	"signalbox/internal/testkit/must"
)

func TestLogins(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("the login may be in the keychain")
	}
	c, err := config.Parse(
		[]byte("agents: {mine: {command: [x]}}\nagent: [claude, codex, gemini, mine]"))
	must.Succeed(t, err)
	checks := []box.Check{{Name: "agent claude", Health: box.Healthy},
		{Name: "agent codex", Health: box.Healthy}, {Name: "agent gemini", Health: box.Problem},
		{Name: "agent mine", Health: box.Healthy}}
	host := contain.Host{Home: t.TempDir(), Environ: []string{"OPENAI_API_KEY=x"}}
	found := logins(c, host, checks)
	if len(found) != 2 || found[0].Name != "login claude" || found[0].Health != box.Warning ||
		found[0].Fix == "" || found[1].Name != "login codex" || found[1].Health != box.Healthy {
		t.Errorf("%+v", found)
	}
}
