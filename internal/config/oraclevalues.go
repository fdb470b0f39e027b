package config

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Limits of models and tools.
const (
	maxTokens = 10_000_000
	maxTries  = 100
	// bytes; the tools of a server begin with its name, and providers limit their length
	maxToolName = 32
)

func (c *Config) checkModels(f *faults) {
	for _, name := range sortedKeys(c.Models) {
		at := setting("models", name)
		f.add(checkID(at, name, true))
		c.Models[name].check(at, f)
	}
	for _, name := range sortedKeys(c.Agents) {
		a, at := c.Agents[name], setting("agents", name)
		if a.Tree == "" || a.Preset != "" {
			continue
		}
		if a.Model == "" && c.Oracle.Model == "" && len(c.Models) > 1 {
			f.fail(at, "write model: with one of "+list(sortedKeys(c.Models)),
				"there are %d models, and neither the agent nor oracle.model names one",
				len(c.Models))
		}
		f.add(c.checkModelName(at.field("model"), a.Model))
		c.checkAgentTools(at.field("tools"), a.Tools, f)
	}
}

// BuiltInTools returns the names of the oracle's own tools. Some are offered only if notes or a
// portfolio are configured.
func BuiltInTools() []string {
	return []string{"search_code", "read_file", "search_notes", "check_exit_signals",
		"suggest_tax_loss_harvest"}
}

// checkAgentTools reports tools that cannot exist. The names of a server's tools are known only to
// the server.
func (c *Config) checkAgentTools(at settingPath, tools []string, f *faults) {
	known := append(sortedKeys(c.Oracle.Tools), BuiltInTools()...)
	for _, name := range sortedKeys(c.Oracle.Servers) {
		known = append(known, name+"__*")
	}
	for i, tool := range tools {
		f.add(checkRepeated(at.item(i), tools, i))
		of := func(server string) bool { return strings.HasPrefix(tool, server+"__") && tool != server+"__" }
		if !slices.Contains(known, tool) && !slices.ContainsFunc(sortedKeys(c.Oracle.Servers), of) {
			f.fail(at.item(i), suggest(tool, known, "add it under oracle.tools, or use one of"),
				"there is no tool %q", tool)
		}
	}
}

func (m Model) check(at settingPath, f *faults) {
	if m.Provider != ProviderOpenAI && m.Provider != ProviderAnthropic {
		fault := "must not be empty"
		if m.Provider != "" {
			fault = fmt.Sprintf("%q is not a provider", m.Provider)
		}
		f.fail(at.field("provider"), "write openai, for any OpenAI-compatible server, or anthropic",
			"%s", fault)
	}
	f.add(checkText(at.field("model"), m.Model,
		"write what the server calls the model, such as gpt-5"))
	f.add(checkAddress(at.field("base_url"), m.BaseURL))
	if u, err := url.Parse(m.BaseURL); err == nil && (u.User != nil || u.RawQuery != "") {
		f.fail(at.field("base_url"),
			"do not write keys here; set key_env to the name of the environment variable that has the key", "the address has a key or a query in it")
	}
	f.add(checkKeyEnv(at.field("key_env"), m.KeyEnv))
	f.add(checkNumber(at.field("max_tokens"), m.MaxTokens, maxTokens))
	f.add(m.checkLimitName(at.field("max_tokens_name")))
	f.add(checkTime(at.field("timeout"), m.Timeout))
	f.add(checkNumber(at.field("tries"), m.Tries, maxTries))
	if m.Price != nil {
		m.Price.check(at.field("price"), "price: ", f)
	}
}

// check reports a price without a part. name is how the setting begins.
func (p Price) check(at settingPath, name string, f *faults) {
	for _, part := range []struct {
		name   string
		micros int64
	}{{"input", p.InputMicros}, {"output", p.OutputMicros}} {
		if part.micros == missing {
			f.fail(at.field(part.name), "write dollars per million tokens, as in "+name+
				"{input: 3.00, output: 15.00}, or remove "+strings.TrimSuffix(name, ": "),
				"missing")
		}
	}
}

func (c *Config) checkPrices(f *faults) {
	for _, pattern := range sortedKeys(c.Prices) {
		at := setting("prices", pattern)
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			f.add(badName(at, `write the name of a model, or a pattern in quotes such as "gpt-5*"`,
				"%q is not a pattern for models", pattern))
		}
		c.Prices[pattern].check(at, strconv.Quote(pattern)+": ", f)
	}
}

// limitNames returns the names that servers have for the limit of a reply; none means that it is
// not sent.
func limitNames() []string { return []string{"max_tokens", "max_completion_tokens", "none"} }

func (m Model) checkLimitName(at settingPath) *settingError {
	switch {
	case m.LimitName == "":
	case !slices.Contains(limitNames(), m.LimitName):
		return faultAt(at, "write one of "+list(limitNames()), "%q is not a name of the limit",
			m.LimitName)
	case m.Provider == ProviderAnthropic && m.LimitName != limitNames()[0]:
		return faultAt(at, "remove it: with anthropic the limit is always called max_tokens",
			"only valid with the provider openai")
	}
	return nil
}

// checkKeyEnv reports a text that is not the name of a variable. Its errors do not repeat the text,
// which may be a key.
func checkKeyEnv(at settingPath, name string) *settingError {
	if looksLikeKey(name) {
		return faultAt(at, "write the name of the environment variable that has the key, such as OPENAI_API_KEY, and make a new key if others could read the file", "looks like the key itself, which must not be in the file")
	}
	if !variableName(name) {
		return faultAt(at, "write a name such as OPENAI_API_KEY",
			"not the name of an environment variable")
	}
	return nil
}

// looksLikeKey reports whether a text has the prefix of a well-known kind of key, or is a long mix
// of digits and letters.
func looksLikeKey(text string) bool {
	for _, beginning := range []string{"sk-", "sk_", "gsk_", "hf_", "xai-", "AIza", "Bearer "} {
		if strings.HasPrefix(text, beginning) {
			return true
		}
	}
	const long = 24
	return len(text) >= long && strings.ContainsFunc(text, unicode.IsDigit) &&
		strings.ContainsFunc(text, unicode.IsLower) &&
		(strings.ContainsFunc(text, unicode.IsUpper) || !strings.Contains(text, "_"))
}

func (c *Config) checkModelName(at settingPath, name string) *settingError {
	_, wrong := c.modelNamed(name)
	if wrong != nil {
		wrong.at = at
	}
	return wrong
}

func (c *Config) checkOracle(f *faults) {
	o := c.Oracle
	if o.Model != "" {
		f.add(c.checkModelName(setting("oracle", "model"), o.Model))
	}
	o.Limits.check(f)
	f.add(checkTime(setting("oracle", "tool_timeout"), o.ToolTimeout))
	o.checkServers(f)
	o.checkTools(f)
	c.checkSubagents(f)
	c.checkCostLimit(f)
	o.checkWorkarounds(f)
}

func (l OracleLimits) check(f *faults) {
	at := setting("oracle", "limits")
	f.add(checkNumber(at.field("turns"), l.Turns, maxLimit))
	f.add(checkTokens(at.field("tokens"), l.Tokens))
	f.add(checkTimeOrNone(at.field("time"), l.Time))
}

// checkCostLimit reports a cost limit if a model that a question may use has no price.
func (c *Config) checkCostLimit(f *faults) {
	if c.Oracle.Limits.CostMicros == 0 || len(c.Models) == 0 {
		return
	}
	names := []string{""}
	for _, name := range sortedKeys(c.Oracle.Subagents) {
		names = append(names, c.Oracle.Subagents[name].Model)
	}
	for _, name := range names {
		name, wrong := c.modelNamed(name)
		if wrong == nil && c.ModelPrice(name) == nil {
			f.fail(setting("oracle", "limits", "cost"),
				fmt.Sprintf("add price: {input: 3.00, output: 15.00}, in dollars per million tokens, to models.%s, or remove the limit", name), "the model %s has no price, so its cost cannot be limited", name)
		}
	}
}

func checkToolName(at settingPath, name string) *settingError {
	if wrong := checkID(at, name, true); wrong != nil {
		return wrong
	}
	if strings.Contains(name, ".") || len(name) > maxToolName {
		return badName(at, fmt.Sprintf("write at most %d letters, digits, _ and -", maxToolName),
			"%q cannot be part of the name of a tool", name)
	}
	return nil
}

func (o Oracle) checkServers(f *faults) {
	for _, name := range sortedKeys(o.Servers) {
		at := setting("oracle", "servers", name)
		f.add(checkToolName(at, name))
		o.Servers[name].check(at, f)
	}
}

func (s Server) check(at settingPath, f *faults) {
	switch {
	case len(s.Command) == 0 && s.URL == "":
		f.fail(at, "add command: [program, argument], or url: https://example.org/mcp",
			"needs command or url")
	case len(s.Command) > 0 && s.URL != "":
		f.fail(at.field("url"), "keep one of them", "not valid together with command")
	case s.URL != "" && len(s.Env) > 0:
		f.fail(at.field("env"), "remove it, or use headers", "only valid with command")
	case s.URL == "" && len(s.Headers) > 0:
		f.fail(at.field("headers"), "remove it, or use env", "only valid with url")
	}
	f.add(checkProgram(at.field("command"), s.Command))
	f.add(checkAddress(at.field("url"), s.URL))
	checkEnv(at.field("env"), s.Env, f)
	checkHeaders(at.field("headers"), s.Headers, f)
	for _, of := range []struct {
		name   string
		values map[string]string
	}{{"env", s.Env}, {"headers", s.Headers}} {
		for _, name := range sortedKeys(of.values) {
			// The variable need not be set until the server is used.
			if _, fault, hint := expand(of.values[name],
				func(string) (string, bool) { return "", true }); fault != "" {
				f.fail(at.field(of.name).field(name), hint, "%s", fault)
			}
		}
	}
	for i, tool := range s.Tools {
		at := at.field("tools").item(i)
		f.add(checkText(at, tool, "write the name of a tool of the server, or remove it"))
		f.add(checkRepeated(at, s.Tools, i))
	}
	limits := at.field("limits")
	f.add(checkNumber(limits.field("tools"), s.Limits.Tools, maxServerTools))
	f.add(checkNumber(limits.field("description"), s.Limits.Description, maxServerText))
	f.add(checkNumber(limits.field("schema"), s.Limits.Schema, maxServerText))
	f.add(checkNumber(limits.field("total"), s.Limits.Total, maxServerText))
	f.add(checkTime(at.field("timeout"), s.Timeout))
}

// The most that the limits of a server may allow.
const (
	maxServerTools = 2000
	maxServerText  = 4 << 20
)

func checkHeaders(at settingPath, headers map[string]string, f *faults) {
	for _, name := range sortedKeys(headers) {
		plain := func(r rune) bool {
			return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) ||
				strings.ContainsRune("!#$%&'*+-.^_`|~", r))
		}
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
			f.add(badName(at.field(name), "write a name such as Authorization",
				"%q is not the name of a header", name))
		}
		if strings.ContainsFunc(headers[name], unicode.IsControl) {
			f.fail(at.field(name), "write it on one line",
				"contains a line end or another control character")
		}
	}
}

func (o Oracle) checkTools(f *faults) {
	for _, name := range sortedKeys(o.Tools) {
		at, tool := setting("oracle", "tools", name), o.Tools[name]
		f.add(checkToolName(at, name))
		f.add(checkText(at.field("command"), tool.Command,
			"write the line that a shell runs, such as go test ./..."))
		f.add(checkText(at.field("description"), tool.Description,
			"write what the tool does and when to use it: the model reads it"))
		f.add(checkParameters(at.field("parameters"), tool.Parameters))
		f.add(checkTime(at.field("timeout"), tool.Timeout))
	}
}

// checkParameters reports a schema that is not of an object, because a model always passes an
// object.
func checkParameters(at settingPath, schema json.RawMessage) *settingError {
	const example = "write {type: object, properties: {path: {type: string}}, required: [path]}"
	var object map[string]json.RawMessage
	if json.Unmarshal(schema, &object) != nil || object == nil {
		return faultAt(at, example, "must be the JSON schema of an object")
	}
	if string(object["type"]) != `"object"` {
		return faultAt(at.field("type"), example, "must be object")
	}
	var properties map[string]any
	if text, ok := object["properties"]; ok && json.Unmarshal(text, &properties) != nil {
		return faultAt(at.field("properties"), example, "must be a group of parameters")
	}
	return nil
}

func (c *Config) checkSubagents(f *faults) {
	for _, name := range sortedKeys(c.Oracle.Subagents) {
		at, sub := setting("oracle", "subagents", name), c.Oracle.Subagents[name]
		f.add(checkID(at, name, true))
		f.add(checkText(at.field("tree"), sub.Tree,
			"write the path of a file with a tree, relative to the folder of the box"))
		if sub.Model != "" {
			f.add(c.checkModelName(at.field("model"), sub.Model))
		}
	}
}

func (o Oracle) checkWorkarounds(f *faults) {
	for _, name := range sortedKeys(o.Workarounds) {
		at := setting("oracle", "workarounds", name)
		if strings.TrimSpace(name) == "" {
			f.add(badName(at, "write the name of a capability, such as web_search",
				"the name of a capability is empty"))
		}
		f.add(checkText(at, o.Workarounds[name], "write what to do instead, or remove the line"))
	}
}
