package contain

import (
	"slices"
	"strings"
	"testing"

	"signalbox/internal/config"
	"signalbox/internal/process"
	"signalbox/internal/sandbox"
)

func TestWithoutUserinfo(t *testing.T) {
	for in, want := range map[string]string{
		"http://ann:secret@proxy:8080":                          "http://proxy:8080",
		"ann:secret@proxy:8080":                                 "proxy:8080",
		"ann:se@cret@proxy:8080":                                "proxy:8080",
		"http://proxy:8080/":                                    "http://proxy:8080/",
		"socks5h://token@[::1]:1080":                            "socks5h://[::1]:1080",
		"http://ann:se%40cret@proxy":                            "http://proxy",
		"http://ann:se@cret@proxy":                              "http://proxy",
		"http://ann:se/cret@proxy":                              "http://proxy",
		"https://ann:secret@a/x,https://b|HTTPS://t@c,direct":   "https://a/x,https://b|HTTPS://c,direct",
		"file:///home/ann@corp/mod,https://ann:secret@a,off":    "file:///home/ann@corp/mod,https://a,off",
		"file:///home/ann@corp/100%":                            "file:///home/ann@corp/100%",
		"https://a/go@v1,direct":                                "https://a/go@v1,direct",
		"sum.example+abc+def= https://ann:secret@sum.example/x": "sum.example+abc+def= https://sum.example/x",
		"proxy": "proxy",
		"":      "",
	} {
		if got := withoutUserinfo(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// Passwords in the addresses of proxies do not reach programs that run what agents wrote, and what
// has none stays as it is. An agent keeps those that it may need to reach its model.
func TestPasswordsOfProxies(t *testing.T) {
	const secret = "https://ann:secret@proxy.example"
	m := newMachine(t, "checks: [{name: a, command: x}, {name: b, command: x, env_pass: [HTTPS_PROXY, GOPROXY]}, {name: c, command: x, env_pass: ['GO*']}]")
	m.write("home/.config/go/env", "GOPROXY="+secret+
		"/go,direct\nGOSUMDB=sum.example https://t@sum.example\n")
	m.Environ = append(m.Environ, "HTTPS_PROXY="+secret, "all_proxy="+secret, "NO_PROXY=a@b")
	dir := m.path("project/.signalbox/trees/T1")
	check := func(i int) *Program {
		return m.Check(Check{Config: m.Config.Checks[i], Work: "T1", Session: "c", Dir: dir})
	}
	nested := m.Site
	nested.Nested = true
	const bare, bareModules, modules = "https://proxy.example", "https://proxy.example/go,direct",
		secret + "/go,direct"
	for name, tt := range map[string]struct {
		p                   *Program
		https, all, modules string
		stripped            []string
	}{
		"check": {p: check(0), https: bare, all: bare, modules: bareModules,
			stripped: []string{"GOSUMDB", "GOPROXY", "HTTPS_PROXY", "all_proxy"}},
		"named": {p: check(1), https: secret, all: bare, modules: modules,
			stripped: []string{"GOSUMDB", "all_proxy"}},
		"by a pattern": {p: check(2), https: bare, all: bare, modules: bareModules,
			stripped: []string{"GOSUMDB", "GOPROXY", "HTTPS_PROXY", "all_proxy"}},
		"setup": {p: m.Setup(Setup{Work: "T1", Session: "c", Dir: dir}), https: bare,
			all: bare, modules: bareModules, stripped: []string{"GOSUMDB", "GOPROXY", "HTTPS_PROXY",
				"all_proxy"}},
		"tool": {p: m.Tool(config.Sandbox{}, nil, dir, m.path("tmp")), https: bare,
			all: bare, modules: bareModules, stripped: []string{"GOSUMDB", "GOPROXY", "HTTPS_PROXY",
				"all_proxy"}},
		"tool of a tree": {p: nested.Tool(config.Sandbox{}, nil, dir, m.path("tmp")), https: bare,
			all: bare, stripped: []string{"HTTPS_PROXY", "all_proxy"}},
		"agent": {p: m.agent(config.Agent{}), https: secret, all: secret,
			modules: bareModules, stripped: []string{"GOSUMDB", "GOPROXY"}},
		"without": {p: m.Tool(config.Sandbox{Mode: sandbox.Off}, nil, dir, m.path("tmp")),
			https: secret, all: secret},
	} {
		all := slices.Concat(tt.p.Base, tt.p.Env)
		for variable, want := range map[string]string{"HTTPS_PROXY": tt.https, "all_proxy": tt.all,
			"GOPROXY": tt.modules, "NO_PROXY": "a@b", "http_proxy": "http://proxy"} {
			if got := process.Getenv(all, variable); got != want {
				t.Errorf("%s: %s=%s, want %s", name, variable, got, want)
			}
		}
		e := tt.p.Explain(name, sandbox.Support{})
		if !slices.Equal(e.Stripped, tt.stripped) ||
			len(tt.stripped) > 0 != strings.Contains(e.Text(),
				"without the user and password in them: "+strings.Join(tt.stripped, " ")+"\n") {
			t.Errorf("%s: %q in\n%s", name, e.Stripped, e.Text())
		}
	}
}
