package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// inBox returns the folder of a box with a configuration, in a folder of its own.
func inBox(t testing.TB, text string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), ".signalbox")
	must.Succeed(t, os.MkdirAll(dir, 0o700))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600))
	return dir
}

func teamOf(text string, files ...string) *Team {
	return &Team{Name: "TEAM", Text: []byte(text), Files: files, Dir: filepath.FromSlash("/copies"),
		Root: filepath.FromSlash("/top")}
}

// merged returns the settings that count, as NAME=VALUE (ORIGIN), for settings that are not the
// default.
func merged(t *testing.T, team, own string, files ...string) (lines []string) {
	t.Helper()
	all, err := Show(inBox(t, own), teamOf(team, files...))
	if err != nil {
		t.Fatalf("%q under %q: %v", team, own, err)
	}
	for _, s := range all {
		if s.Origin != OriginDefault {
			lines = append(lines, s.Name+"="+s.Value+" ("+string(s.Origin)+")")
		}
	}
	return lines
}

func TestMerge(t *testing.T) {
	for name, tt := range map[string]struct {
		team, own string
		want      []string
	}{
		"only the team": {"slots: 2", "", []string{"slots=2 (team)"}},
		"only the box":  {"", "slots: 2", []string{"slots=2 (local)"}},
		"a scalar": {"slots: 2\ngrace: 1s", "slots: 3",
			[]string{"slots=3 (local)", `grace="1s" (team)`}},
		"a default": {"slots: 2", "slots: 5", []string{"slots=5 (local)"}},
		"a null": {"slots: 2\nprotected: [a]", "slots:\nprotected: ~",
			[]string{"slots=2 (team)", `protected=["a"] (team)`}},
		"a group": {"budget: {run: {cost: 1}, task: {cost: 2}}",
			"budget: {run: {tokens: 9}, task: {cost: 3}}",
			[]string{"budget.run.tokens=9 (local)", "budget.run.cost=1 (team)",
				"budget.task.cost=3 (local)"}},
		"members": {"models: {a: {provider: openai, model: x}}",
			"models: {a: {model: y}, b: {provider: openai, model: z}}\noracle: {model: a}",
			[]string{`models.a.provider="openai" (team)`, `models.a.model="y" (local)`,
				`models.b.provider="openai" (local)`, `models.b.model="z" (local)`,
				`oracle.model="a" (local)`}},
		"names of env": {"agents: {a: {command: [x], env: {A: '1', B: '2'}}}",
			"agents: {a: {env: {B: '3'}}}", []string{`agents.a.command=["x"] (team)`,
				`agents.a.env.A="1" (team)`, `agents.a.env.B="3" (local)`}},
		"a list": {"protected: [a, b]", "protected: [c]",
			[]string{`protected=["c"] (local)`}},
		"an empty list": {"protected: [a, b]", "protected: []", []string{`protected=[] (local)`}},
		"a list in one": {"agents: {a: {command: [x, y, z], env_pass: [A]}}",
			"agents: {a: {command: [w]}}", []string{`agents.a.command=["w"] (local)`,
				`agents.a.env_pass=["A"] (team)`}},
		"a pointer": {"models: {a: {provider: openai, model: x, price: {input: 1, output: 2}}}",
			"models: {a: {price: {output: 3}}}", []string{`models.a.provider="openai" (team)`,
				`models.a.model="x" (team)`, "models.a.price.input=1 (team)",
				"models.a.price.output=3 (local)"}},
		"another kind": {"agents: {a: {preset: claude}}",
			"agents: {a: {preset: '', command: [x]}}",
			[]string{`agents.a.preset="" (local)`, `agents.a.command=["x"] (local)`}},
		"a mode": {"sandbox: {network: none}", "sandbox: warn",
			[]string{`sandbox.mode="warn" (local)`, `sandbox.network=["none"] (team)`}},
		"a role": {"roles: {business-analyst: }", "", []string{}},
		"a named agent": {"agents: {big: {preset: claude, model: opus}}", "agent: big",
			[]string{`agents.big.preset="claude" (team)`, `agents.big.model="opus" (team)`,
				`agent="big" (local)`}},
		"a team's agent": {"agents: {big: {preset: claude}}\nagent: big",
			"agents: {big: {model: opus}}", []string{`agents.big.preset="claude" (team)`,
				`agents.big.model="opus" (local)`, `agent="big" (team)`}},
		"words": {"oracle: {words: w.txt}", "",
			[]string{`oracle.words="/copies/w.txt" (team)`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := merged(t, tt.team, tt.own, "w.txt")
			if diff := cmp.Diff(tt.want, append([]string{}, got...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A list of the box replaces the team's list with all that its items set: an item of the box
// without a timeout has the default, not the timeout of the team's item at the same place.
func TestMergedListHasItsOwnDefaults(t *testing.T) {
	c, err := LoadTeam(inBox(t, "checks: [{name: b, command: make}]"),
		teamOf("checks: [{name: a, command: make, timeout: 1h, sandbox: {read: [x]}}]"))
	must.Succeed(t, err)
	if want := []Check{{Name: "b", Command: "make", Timeout: DefaultCheckTimeout}}; !reflect.DeepEqual(c.Checks, want) {
		t.Errorf("checks %+v, want %+v", c.Checks, want)
	}
}

// texts are valid configurations that can be combined in any way.
var texts = []string{"", "slots: 3\n", "slots: 4\n", "grace: 1s\n", "protected: [a]\n",
	"protected: [b, c]\n", "keyed: true\n",
	"agents: {a: {command: [x], env: {A: '1'}}}\n",
	"agents: {a: {command: [y], env: {A: '2', B: '3'}}}\n", "agents: {b: {preset: codex}}\n",
	"budget: {run: {cost: 1}}\n", "budget: {run: {tokens: 5}, task: {time: 1h}}\n",
	"sandbox: off\n", "sandbox: {network: [443], read: [/a]}\n",
	"checks: [{name: a, command: make}]\n",
	"checks: [{name: b, command: x, timeout: 1m}, {name: c, command: y}]\n",
	"roles: {critic: {slots: 1}}\n", "roles: {critic: {timeout: 1h}, developer: {slots: 2}}\n",
	"limits: {reviews: 9}\n",
	"models: {m: {provider: openai, model: a}}\n", "oracle: {limits: {turns: 3}}\n",
	"notify: {command: [a]}\n", "env_pass: [X]\n"}

// compose draws a configuration: texts that set different things.
func compose(r *rapid.T, label string) string {
	all, seen := "", map[string]bool{}
	for _, text := range rapid.SliceOfN(rapid.SampledFrom(texts), 0, 6).Draw(r, label) {
		if group, _, _ := strings.Cut(text, ":"); !seen[group] {
			all, seen[group] = all+text, true
		}
	}
	return all
}

func TestMergeProperties(t *testing.T) {
	dir := inBox(t, "")
	load := func(r *rapid.T, own string, team *Team) *Config {
		err := os.WriteFile(filepath.Join(dir, FileName), []byte(own), 0o600)
		must.Succeed(r, err)
		c, err := LoadTeam(dir, team)
		if err != nil {
			r.Fatalf("%v", err)
		}
		if team != nil { // what useTeam adds
			c.Protected, c.Team, c.TeamFiles = c.Protected[:len(c.Protected)-2], "", nil
		}
		return c
	}
	property.Check(t, func(r *rapid.T) {
		a, b := compose(r, "team"), compose(r, "own")
		same := func(what string, got, want *Config) {
			if diff := cmp.Diff(want, got,
				cmp.Transformer("nil",
					func(list []string) []string { return append([]string{}, list...) })); diff != "" {
				r.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		same("without the box", load(r, "", teamOf(a)), load(r, a, nil))
		same("the same twice", load(r, a, teamOf(a)), load(r, a, nil))
		same("without the team", load(r, b, teamOf("")), load(r, b, nil)) // last: the box keeps b
		own, err := Show(dir, nil)
		must.Succeed(r, err)
		both, err := Show(dir, teamOf(a))
		must.Succeed(r, err)
		for _, s := range own {
			if s.Origin == OriginLocal && !slices.Contains(both, s) {
				r.Errorf("the box's %v does not count in %v", s, both)
			}
		}
	})
}

func TestFaultsNameTheirFile(t *testing.T) {
	for name, tt := range map[string]struct {
		team, own string
		want      string // BOX is the file of the box
	}{
		"unknown in the team's": {"slots: 1\nslotz: 2", "",
			`TEAM: line 2, column 1: unknown field "slotz"`},
		"unknown in the box's": {"slots: 1", "\nslotz: 2",
			`BOX: line 2, column 1: unknown field "slotz"`},
		"wrong but overridden": {"slots: 0", "slots: 2",
			`TEAM: line 1, column 8: slots: 0 is not between 1 and 10000`},
		"wrong in the box's": {"slots: 2", "slots: 0",
			`BOX: line 1, column 8: slots: 0 is not between 1 and 10000`},
		"not YAML": {"a: [", "", `TEAM: line 1, column 4:`},
		"the team needs the box": {"agent: mine", "agents: {mine: {command: [x]}}",
			`TEAM: line 1, column 8: agent: there is no agent "mine"`},
		"only together": {"agents: {a: {preset: claude}}",
			"agents: {a: {command: [x]}}",
			`BOX: line 1, column 23: agents.a.command: not valid together with preset`},
		"together, fault in the team's": {"agents: {a: {command: [x, '{model}'], model: m}}",
			"agents: {a: {command: [x]}}",
			`TEAM: line 1, column 46: agents.a.model: the command has no {model} placeholder`},
		"no such file": {"\noracle: {words: none.txt}", "",
			`TEAM: line 2, column 17: oracle.words: there is no file none.txt in the repository`},
		"no such folder": {"\noracle: {prompts: none}", "",
			`TEAM: line 2, column 19: oracle.prompts: there is no Markdown file in the folder none in the repository`},
		"a path out of it": {"roles: {critic: {prompt: ../x.md}}", "",
			`TEAM: line 1, column 26: roles.critic.prompt: "../x.md" is not a path in the repository`},
		"an absolute path": {"models: {m: {provider: openai, model: x}}\nagents: {a: {tree: /x.lua}}", "", `TEAM: line 2, column 20: agents.a.tree: "/x.lua" is not a path in the repository`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := inBox(t, tt.own)
			_, err := LoadTeam(dir, teamOf(tt.team))
			if all := (*Error)(nil); !errors.As(err, &all) ||
				signalbox.CodeOf(err) != signalbox.CodeUsage {
				t.Fatalf("error %v", err)
			}
			if got := strings.ReplaceAll(err.Error(), filepath.Join(dir, FileName),
				"BOX"); !strings.HasPrefix(got, tt.want) {
				t.Errorf("error %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTeamFiles(t *testing.T) {
	const text = "roles: {critic: {prompt: review.md}}\nmodels: {m: {provider: openai, model: x}}\nagents: {t: {tree: trees/a.lua}}\noracle: {prompts: ask, code: src}\n" +
		"sandbox: {read: [data]}\ncheckpoint: {file: out}\n"
	c, named, err := ParseTeam("TEAM", []byte(text))
	must.Succeed(t, err)
	if c.Harmless() {
		t.Error("it counts as harmless")
	}
	if diff := cmp.Diff([]TeamPath{{"review.md", false}, {"trees/a.lua", false}, {"ask", true}},
		named); diff != "" {
		t.Errorf("named (-want +got):\n%s", diff)
	}
	top := t.TempDir()
	must.Succeed(t, os.Mkdir(filepath.Join(top, "src"), 0o700))
	team := &Team{Name: "TEAM", Text: []byte(text), Dir: "/copies", Root: top,
		Files: []string{"review.md", "trees/a.lua", "ask/identity.md",
			"prompts/developer.md", "prompts/critic.md", "prompts/business-analyst.md",
			"prompts/expert.md"}}
	dir := inBox(t, "roles: {expert: {prompt: own.md}}")
	own := filepath.Join(dir, "own.md")
	must.Succeed(t, os.WriteFile(own, nil, 0o600))
	if c, err = LoadTeam(dir, team); err != nil {
		t.Fatal(err)
	}
	got := []string{c.RoleOf(signalbox.RoleCritic).Prompt, c.RoleOf(signalbox.RoleDeveloper).Prompt,
		c.RoleOf(signalbox.RoleExpert).Prompt,
		c.RoleOf(signalbox.RoleBusinessAnalyst).Prompt, c.Agents["t"].Tree, c.Oracle.Prompts,
		c.Oracle.Code, c.Sandbox.Read[0], c.Checkpoint.File}
	copies := filepath.FromSlash("/copies")
	want := []string{filepath.Join(copies, "review.md"),
		filepath.Join(copies, "prompts", "developer.md"), own, "",
		filepath.Join(copies, "trees", "a.lua"),
		filepath.Join(copies, "ask"), filepath.Join(top, "src"), filepath.Join(top, "data"),
		filepath.Join(top, "out")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c.Analyst() {
		t.Error("a template alone configures a business analyst")
	}
	if got, want := c.RoleOf(signalbox.RoleDeveloper).Slots,
		defaultRole(signalbox.RoleDeveloper).Slots; got != want {
		t.Errorf("%d developers, want %d", got, want)
	}
	for _, name := range []string{"signalbox.yaml", "Signalbox.YAML", "prompts/x", "trees/a.lua",
		"ask/identity.md", ".signalbox/signalbox.yaml", ".signalbox", "sub/.SignalBox/x"} {
		if !c.Protects(name) {
			t.Errorf("%s is not protected", name)
		}
	}
	if !Default().Protects("signalbox.yaml") || !Default().Protects(".signalbox/x") ||
		Default().Protects("prompts/x") || Default().Protects("sub/signalbox.yaml") {
		t.Error("without a team, signalbox.yaml at the top and the box are protected, and nothing else")
	}
}

// Everything that is not in a short list needs trust.
func TestHarmless(t *testing.T) {
	for text, want := range map[string]bool{
		"":                      true,
		"slots: 1":              true,
		"slots: 5":              true,
		"slots: 6":              false,
		"approve: merge":        true,
		"approve: steering":     true,
		"approve: never":        false,
		"keyed: true":           true,
		"protected: [Makefile]": true,
		"budget: {run: {cost: 5}, turn: {tokens: 9}, window: {tokens: 5, every: 1h}}": true,
		"budget: {run: {cost: 5}}\nsandbox: off":                                      false,
		"agent: codex":                                                                false,
		"lease: {ttl: 20m}":                                                           false,
		"workspace: shared":                                                           false,
		"deliver: branch":                                                             true,
		"deliver: {as: merge, squash: true}":                                          true,
		"deliver: {target: release}":                                                  false,
		"deliver: push":                                                               false,
		"deliver: pull-request":                                                       false,
	} {
		c, _, err := ParseTeam("TEAM", []byte(text))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if got := c.Harmless(); got != want {
			t.Errorf("%q: harmless %v, want %v", text, got, want)
		}
	}
	// Each example of the template, alone.
	blocks := strings.Split(Template, "\n\n")
	models := uncomment(blocks[slices.IndexFunc(blocks,
		func(block string) bool { return strings.Contains(block, "\n# models:\n") })])
	dangerous := 0
	for _, block := range blocks {
		text := uncomment(block) + "\n"
		if strings.Contains(block, "\n# agents:\n") {
			text += models
		}
		c, err := Parse([]byte(text))
		must.Succeed(t, err)
		harmless := reflect.DeepEqual(c, Default())
		for _, group := range []string{"\n# protected:", "\n# approve:", "\n# keyed:",
			"\n# slots:"} {
			harmless = harmless || strings.Contains(block, group)
		}
		if !harmless {
			dangerous++
		}
		if c.Harmless() != harmless {
			t.Errorf("harmless is %v, want %v:\n%s", c.Harmless(), harmless, text)
		}
	}
	if dangerous < 8 {
		t.Errorf("only %d blocks need trust", dangerous)
	}
}

// TestShowIsComplete checks that no setting of a team is missing from what people are shown before
// they trust it.
func TestShowIsComplete(t *testing.T) {
	text := uncomment(Template)
	c := Default()
	places, faults := read([]byte(text), c)
	if faults != nil {
		t.Fatal(places.locate("", "", faults))
	}
	all, err := ShowTeam([]byte(text + "sandbox_: 1"))
	if err == nil {
		t.Errorf("an unknown setting is shown: %v", all)
	}
	if all, err = ShowTeam([]byte(text)); err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, s := range all {
		shown[s.Name] = true
	}
	for at := range places {
		name := ""
		for part := range strings.SplitSeq(strings.TrimSuffix(string(at), pathEnd), pathEnd) {
			if item, is := strings.CutPrefix(part, pathItem); is {
				name += "[" + item + "]"
			} else {
				name += "." + part
			}
		}
		name = strings.TrimPrefix(name, ".")
		ofGroup := func(s Setting) bool {
			return strings.HasPrefix(s.Name, name+".") || strings.HasPrefix(s.Name, name+"[") ||
				strings.HasPrefix(name, s.Name+"[") || strings.HasPrefix(name, s.Name+".")
		}
		if name != "" && !shown[name] && !slices.ContainsFunc(all, ofGroup) {
			t.Errorf("%s is not shown", name)
		}
	}
	for text, want := range map[string]Setting{
		"sandbox: off":                              {"sandbox.mode", `"off"`, OriginTeam},
		"roles: {business-analyst: }":               {"roles.business-analyst", "{}", OriginTeam},
		"roles: {expert-creator: {}}":               {"roles.expert-creator", "{}", OriginTeam},
		"limits: {file: 0}":                         {"limits.file", `"0"`, OriginTeam},
		"agents: {a: &x {command: [a]}, b: *x}":     {"agents.b.command", `["a"]`, OriginTeam},
		"checks: [{name: a, command: \"x \\n y\"}]": {"checks[0].command", `"x \n y"`, OriginTeam},
	} {
		if all, err := ShowTeam([]byte(text)); err != nil || !slices.Contains(all, want) {
			t.Errorf("%q: %v, %v, want %v", text, all, err, want)
		}
	}
}

func TestTeamTemplate(t *testing.T) {
	c, _, err := ParseTeam("TEAM", []byte(TeamTemplate))
	if err != nil || !c.Harmless() || strings.Contains(TeamTemplate, "of this box") {
		t.Errorf("error %v in:\n%s", err, TeamTemplate[:600])
	}
}
