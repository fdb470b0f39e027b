package config

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// Bounds of models and tools.
const (
	maxTokens   = 10_000_000
	maxTries    = 100
	maxToolName = 32 // bytes: the names of a server's tools begin with it, and providers limit them
)

func (c *Config) checkModels() *settingError {
	for _, name := range sortedKeys(c.Models) {
		at := setting("models", name)
		if wrong := checkID(at, name, true); wrong != nil {
			return wrong
		}
		if wrong := c.Models[name].check(at); wrong != nil {
			return wrong
		}
	}
	for _, name := range sortedKeys(c.Agents) {
		a, at := c.Agents[name], setting("agents", name)
		if a.Tree == "" {
			continue
		}
		if a.Model == "" && c.Oracle.Model == "" && len(c.Models) > 1 {
			return &settingError{at: at, fault: fmt.Sprintf("there are %d models, and neither the agent nor oracle.model names one", len(c.Models)),
				hint: "write model: with one of " + list(sortedKeys(c.Models))}
		}
		if wrong := c.checkModelName(at.field("model"), a.Model); wrong != nil {
			return wrong
		}
		if wrong := c.checkAgentTools(at.field("tools"), a.Tools); wrong != nil {
			return wrong
		}
	}
	return nil
}

// BuiltInTools are the oracle's own, of which some are there only if there is something to work on.
func BuiltInTools() []string {
	return []string{"search_code", "read_file", "search_notes", "check_exit_signals", "suggest_tax_loss_harvest"}
}

// checkAgentTools holds that each is a tool that there may be. Which ones a server has, only the server knows.
func (c *Config) checkAgentTools(at settingPath, tools []string) *settingError {
	known := append(sortedKeys(c.Oracle.Tools), BuiltInTools()...)
	for _, name := range sortedKeys(c.Oracle.Servers) {
		known = append(known, name+"__*")
	}
	for i, tool := range tools {
		if slices.Contains(tools[:i], tool) {
			return &settingError{at: at.item(i), fault: fmt.Sprintf("%q is named twice", tool), hint: "keep one of them"}
		}
		of := func(server string) bool { return strings.HasPrefix(tool, server+"__") && tool != server+"__" }
		if !slices.Contains(known, tool) && !slices.ContainsFunc(sortedKeys(c.Oracle.Servers), of) {
			return &settingError{at: at.item(i), fault: fmt.Sprintf("there is no tool %q", tool),
				hint: suggest(tool, known, "configure it under oracle.tools, or name one of")}
		}
	}
	return nil
}

func (m Model) check(at settingPath) *settingError {
	if m.Provider != ProviderOpenAI && m.Provider != ProviderAnthropic {
		wrong := &settingError{at: at.field("provider"), fault: "it is empty", hint: "write openai, which is any OpenAI-compatible server, or anthropic"}
		if m.Provider != "" {
			wrong.fault = fmt.Sprintf("%q is not a provider", m.Provider)
		}
		return wrong
	}
	if strings.TrimSpace(m.Model) == "" {
		return &settingError{at: at.field("model"), fault: "it is empty", hint: "write what the server calls the model, such as gpt-5"}
	}
	if wrong := checkAddress(at.field("base_url"), m.BaseURL); wrong != nil {
		return wrong
	}
	if u, err := url.Parse(m.BaseURL); err == nil && (u.User != nil || u.RawQuery != "") {
		return &settingError{at: at.field("base_url"), fault: "the address has a key or a query in it",
			hint: "keys are not written here: remove it, and name in key_env the environment variable that has the key"}
	}
	if wrong := checkKeyEnv(at.field("key_env"), m.KeyEnv); wrong != nil {
		return wrong
	}
	if wrong := checkNumber(at.field("max_tokens"), m.MaxTokens, maxTokens); wrong != nil {
		return wrong
	}
	if wrong := checkTime(at.field("timeout"), m.Timeout); wrong != nil {
		return wrong
	}
	if wrong := checkNumber(at.field("tries"), m.Tries, maxTries); wrong != nil {
		return wrong
	}
	if m.Price == nil {
		return nil
	}
	for _, part := range []struct {
		name   string
		micros int64
	}{{"input", m.Price.InputMicros}, {"output", m.Price.OutputMicros}} {
		if part.micros == missing {
			return &settingError{at: at.field("price").field(part.name), fault: "it is missing",
				hint: "write dollars per million tokens, as in price: {input: 3.00, output: 15.00}, or remove price"}
		}
	}
	return nil
}

// checkKeyEnv holds that it is the name of a variable. Its errors do not repeat what may be a key.
func checkKeyEnv(at settingPath, name string) *settingError {
	if looksLikeKey(name) {
		return &settingError{at: at, fault: "it looks like the key itself, which must not be in the file",
			hint: "write the name of the environment variable that has the key, such as OPENAI_API_KEY, and make a new key if others could read the file"}
	}
	if !variableName(name) {
		return &settingError{at: at, fault: "it is not the name of an environment variable", hint: "write a name such as OPENAI_API_KEY"}
	}
	return nil
}

// looksLikeKey knows the beginnings of well-known keys, and that names of variables are not a long mix of everything.
func looksLikeKey(text string) bool {
	for _, beginning := range []string{"sk-", "sk_", "gsk_", "hf_", "xai-", "AIza", "Bearer "} {
		if strings.HasPrefix(text, beginning) {
			return true
		}
	}
	const long = 24
	return len(text) >= long && strings.ContainsFunc(text, unicode.IsDigit) && strings.ContainsFunc(text, unicode.IsLower) &&
		(strings.ContainsFunc(text, unicode.IsUpper) || !strings.Contains(text, "_"))
}

func (c *Config) checkModelName(at settingPath, name string) *settingError {
	_, wrong := c.modelNamed(name)
	if wrong != nil {
		wrong.at = at
	}
	return wrong
}

func (c *Config) checkOracle() *settingError {
	o := c.Oracle
	if o.Model != "" {
		if wrong := c.checkModelName(setting("oracle", "model"), o.Model); wrong != nil {
			return wrong
		}
	}
	if wrong := o.Limits.check(); wrong != nil {
		return wrong
	}
	if wrong := checkTime(setting("oracle", "tool_timeout"), o.ToolTimeout); wrong != nil {
		return wrong
	}
	for _, check := range []func() *settingError{o.checkServers, o.checkTools, c.checkSubagents, c.checkCostLimit, o.checkWorkarounds} {
		if wrong := check(); wrong != nil {
			return wrong
		}
	}
	return nil
}

func (l OracleLimits) check() *settingError {
	at := setting("oracle", "limits")
	if wrong := checkNumber(at.field("turns"), l.Turns, maxLimit); wrong != nil {
		return wrong
	}
	if l.Tokens < 0 {
		return &settingError{at: at.field("tokens"), fault: fmt.Sprintf("%d is negative", l.Tokens), hint: "write how many tokens may be used, or remove the line"}
	}
	if l.Time != 0 {
		return checkTime(at.field("time"), l.Time)
	}
	return nil
}

// checkCostLimit holds that the cost is counted of every model that a question may spend it on.
func (c *Config) checkCostLimit() *settingError {
	if c.Oracle.Limits.CostMicros == 0 || len(c.Models) == 0 {
		return nil
	}
	names := []string{""}
	for _, name := range sortedKeys(c.Oracle.Subagents) {
		names = append(names, c.Oracle.Subagents[name].Model)
	}
	for _, name := range names {
		name, wrong := c.modelNamed(name)
		if wrong == nil && c.Models[name].Price == nil {
			return &settingError{at: setting("oracle", "limits", "cost"), fault: fmt.Sprintf("the model %s has no price, so that its cost is not counted", name),
				hint: fmt.Sprintf("add price: {input: 3.00, output: 15.00}, in dollars per million tokens, to models.%s, or remove the limit", name)}
		}
	}
	return nil
}

func checkToolName(at settingPath, name string) *settingError {
	if wrong := checkID(at, name, true); wrong != nil {
		return wrong
	}
	if strings.Contains(name, ".") || len(name) > maxToolName {
		return &settingError{at: at, onKey: true, bare: true, fault: fmt.Sprintf("%q cannot be part of the name of a tool", name),
			hint: fmt.Sprintf("write at most %d letters, digits, _ and -", maxToolName)}
	}
	return nil
}

func (o Oracle) checkServers() *settingError {
	for _, name := range sortedKeys(o.Servers) {
		at := setting("oracle", "servers", name)
		if wrong := checkToolName(at, name); wrong != nil {
			return wrong
		}
		if wrong := o.Servers[name].check(at); wrong != nil {
			return wrong
		}
	}
	return nil
}

func (s Server) check(at settingPath) *settingError {
	switch {
	case len(s.Command) == 0 && s.URL == "":
		return &settingError{at: at, fault: "it has neither command nor url", hint: "add command: [program, argument], or url: https://example.org/mcp"}
	case len(s.Command) > 0 && s.URL != "":
		return &settingError{at: at.field("url"), fault: "it does not go with command", hint: "keep one of them"}
	case s.URL != "" && len(s.Env) > 0:
		return &settingError{at: at.field("env"), fault: "it goes only with command", hint: "remove it, or use headers"}
	case s.URL == "" && len(s.Headers) > 0:
		return &settingError{at: at.field("headers"), fault: "it goes only with url", hint: "remove it, or use env"}
	}
	if wrong := checkProgram(at.field("command"), s.Command); wrong != nil {
		return wrong
	}
	if wrong := checkAddress(at.field("url"), s.URL); wrong != nil {
		return wrong
	}
	if wrong := checkEnv(at.field("env"), s.Env); wrong != nil {
		return wrong
	}
	if wrong := checkHeaders(at.field("headers"), s.Headers); wrong != nil {
		return wrong
	}
	for _, of := range []struct {
		name   string
		values map[string]string
	}{{"env", s.Env}, {"headers", s.Headers}} {
		for _, name := range sortedKeys(of.values) {
			// Whether there is such a variable matters when it is used.
			if _, fault, hint := expand(of.values[name], func(string) (string, bool) { return "", true }); fault != "" {
				return &settingError{at: at.field(of.name).field(name), fault: fault, hint: hint}
			}
		}
	}
	for i, tool := range s.Tools {
		at := at.field("tools").item(i)
		if strings.TrimSpace(tool) == "" {
			return &settingError{at: at, fault: "it is empty", hint: "write the name of a tool of the server, or remove it"}
		}
		if slices.Contains(s.Tools[:i], tool) {
			return &settingError{at: at, fault: fmt.Sprintf("%q is named twice", tool), hint: "keep one of them"}
		}
	}
	return checkTime(at.field("timeout"), s.Timeout)
}

func checkHeaders(at settingPath, headers map[string]string) *settingError {
	for _, name := range sortedKeys(headers) {
		plain := func(r rune) bool {
			return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
		}
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
			return &settingError{at: at.field(name), onKey: true, bare: true, fault: fmt.Sprintf("%q is not the name of a header", name),
				hint: "write a name such as Authorization"}
		}
		if strings.ContainsFunc(headers[name], unicode.IsControl) {
			return &settingError{at: at.field(name), fault: "it has a line end or another character that cannot be seen", hint: "write it on one line"}
		}
	}
	return nil
}

func (o Oracle) checkTools() *settingError {
	for _, name := range sortedKeys(o.Tools) {
		at, tool := setting("oracle", "tools", name), o.Tools[name]
		if wrong := checkToolName(at, name); wrong != nil {
			return wrong
		}
		if strings.TrimSpace(tool.Command) == "" {
			return &settingError{at: at.field("command"), fault: "it is empty", hint: "write the line that a shell runs, such as go test ./..."}
		}
		if strings.TrimSpace(tool.Description) == "" {
			return &settingError{at: at.field("description"), fault: "it is empty", hint: "write what the tool does and when to use it: the model reads it"}
		}
		if wrong := checkParameters(at.field("parameters"), tool.Parameters); wrong != nil {
			return wrong
		}
		if wrong := checkTime(at.field("timeout"), tool.Timeout); wrong != nil {
			return wrong
		}
	}
	return nil
}

// checkParameters holds that a schema is that of an object, since what a model hands over is one.
func checkParameters(at settingPath, schema json.RawMessage) *settingError {
	const example = "write {type: object, properties: {path: {type: string}}, required: [path]}"
	var object map[string]json.RawMessage
	if json.Unmarshal(schema, &object) != nil || object == nil {
		return &settingError{at: at, fault: "it is not the schema of an object", hint: example}
	}
	if string(object["type"]) != `"object"` {
		return &settingError{at: at.field("type"), fault: "it is not object", hint: example}
	}
	var properties map[string]any
	if text, ok := object["properties"]; ok && json.Unmarshal(text, &properties) != nil {
		return &settingError{at: at.field("properties"), fault: "it is not a group of parameters", hint: example}
	}
	return nil
}

func (c *Config) checkSubagents() *settingError {
	for _, name := range sortedKeys(c.Oracle.Subagents) {
		at, sub := setting("oracle", "subagents", name), c.Oracle.Subagents[name]
		if wrong := checkID(at, name, true); wrong != nil {
			return wrong
		}
		if strings.TrimSpace(sub.Tree) == "" {
			return &settingError{at: at.field("tree"), fault: "it is empty", hint: "write the path of a file with a tree, relative to the folder of the box"}
		}
		if sub.Model != "" {
			if wrong := c.checkModelName(at.field("model"), sub.Model); wrong != nil {
				return wrong
			}
		}
	}
	return nil
}

func (o Oracle) checkWorkarounds() *settingError {
	for _, name := range sortedKeys(o.Workarounds) {
		at := setting("oracle", "workarounds", name)
		if strings.TrimSpace(name) == "" {
			return &settingError{at: at, onKey: true, bare: true, fault: "the name of a capability is empty", hint: "write what may be missing, such as web_search"}
		}
		if strings.TrimSpace(o.Workarounds[name]) == "" {
			return &settingError{at: at, fault: "it is empty", hint: "write what to do instead, or remove the line"}
		}
	}
	return nil
}
