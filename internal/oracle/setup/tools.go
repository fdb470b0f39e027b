package setup

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/contain"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/mcpclient"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/portfolio"
)

// tools returns the built-in tools that are configured, the shell commands, and the tools of MCP
// servers.
func (b *builder) tools(ctx context.Context, o *oracle.Options) ([]toolbox.Tool, error) {
	code := cmp.Or(b.Code, b.config.Oracle.Code, b.Project)
	commands, err := b.commands(code)
	if err != nil {
		return nil, err
	}
	tools := append(b.builtIn(code), commands...)
	if err := toolbox.Check(tools); err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: err,
			Hint: "rename it under oracle.tools in the configuration"}
	}
	if b.wantsServers(o) {
		served, err := b.servers(ctx, code)
		if err != nil {
			return nil, err
		}
		tools = b.merge(tools, served)
	}
	if b.Tools == nil {
		return tools, nil
	}
	return b.pick(tools)
}

func (b *builder) builtIn(code string) []toolbox.Tool {
	c := &b.config.Oracle
	tools := []toolbox.Tool{toolbox.SearchCode(code), toolbox.ReadFile(code)}
	if c.Notes != "" {
		prefix := ""
		if rel, err := filepath.Rel(code, c.Notes); err == nil && filepath.IsLocal(rel) {
			prefix = filepath.ToSlash(rel)
		}
		tools = append(tools, toolbox.SearchNotes(c.Notes, prefix))
	}
	if c.Portfolio != "" {
		desk := portfolio.NewDesk(c.Portfolio, &portfolio.Options{Logs: b.Logs})
		tools = append(tools, toolbox.CheckExitSignals(desk), toolbox.SuggestTaxLossHarvest(desk))
	}
	for i := range tools {
		tools[i].Timeout = c.ToolTimeout
	}
	return tools
}

// commands returns the tools that are shell commands, each in a sandbox. Their environment does not
// have the keys of models: the output of a command goes to a model's server and into the record.
func (b *builder) commands(code string) (tools []toolbox.Tool, err error) {
	if len(b.config.Oracle.Tools) == 0 {
		return nil, nil
	}
	site := contain.Site{Host: contain.ThisHost(), Config: b.config, Box: b.Box, Project: b.Project}
	contained, err := site.OpenTools(code)
	if err != nil {
		return nil, err
	}
	b.setup.closers = append(b.setup.closers, contained.Close)
	for _, name := range slices.Sorted(maps.Keys(b.config.Oracle.Tools)) {
		t := b.config.Oracle.Tools[name]
		p, err := contained.Prepare(t.Sandbox, t.EnvPass)
		if err != nil {
			return nil, err
		}
		tools = append(tools,
			toolbox.FromCommand(name, toolbox.Command{Line: t.Command, Description: t.Description,
				Parameters: t.Parameters,
				ReadOnly:   t.ReadOnly, Timeout: t.Timeout, Dir: code,
				Env:     slices.Concat(p.Base, p.Env),
				Sandbox: p.Policy}))
	}
	return tools, nil
}

// merge adds the tools of servers. A tool whose name is taken is left out with a note.
func (b *builder) merge(tools, served []toolbox.Tool) []toolbox.Tool {
	taken := make(map[string]bool, len(tools)+len(served))
	for _, t := range tools {
		taken[t.Name] = true
	}
	for _, t := range served {
		if taken[t.Name] {
			b.note("tool %s of an mcp server is left out because another tool has its name: rename one under oracle.servers or oracle.tools", t.Name)
			continue
		}
		taken[t.Name] = true
		tools = append(tools, t)
	}
	return tools
}

func (b *builder) note(format string, args ...any) {
	b.setup.Notes = append(b.setup.Notes, fmt.Sprintf(format, args...))
}

// maxNotes is the number of notes per server that are shown.
const maxNotes = 5

func (b *builder) noteAll(server string, notes []string) {
	for _, note := range notes[:min(len(notes), maxNotes)] {
		b.note("mcp server %s: %s", server, note)
	}
	if more := len(notes) - maxNotes; more > 0 {
		b.note("mcp server %s: and %d more like these", server, more)
	}
}

// pick returns the tools that Options.Tools names. A missing tool of a server is a note, because
// the server decides which tools it has; any other unknown name is an error.
func (b *builder) pick(tools []toolbox.Tool) ([]toolbox.Tool, error) {
	kept, unknown := toolbox.Pick(tools, b.Tools)
	for _, name := range unknown {
		if server := b.serverOf(name); server != "" {
			if b.started[server] {
				b.note("mcp server %s: there is no tool %s%s", server, name,
					toolbox.Suggest(name, tools))
			}
			continue
		}
		return nil, signalbox.CodeUsage.Errorf("use one of "+strings.Join(namesOf(tools), ", ")+
			", or configure it under oracle.tools or oracle.servers",
			"there is no tool '%s'%s", name, toolbox.Suggest(name, tools))
	}
	return kept, nil
}

func namesOf(tools []toolbox.Tool) (names []string) {
	for _, t := range tools {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names
}

// serverOf returns the configured server to which a tool name belongs, or "". The longest server
// name wins.
func (b *builder) serverOf(tool string) (longest string) {
	for name := range b.config.Oracle.Servers {
		if strings.HasPrefix(tool, name+"__") && len(name) > len(longest) {
			longest = name
		}
	}
	return longest
}

// wantsServers reports whether tools of servers can be called for the question. A user's tree can call them whatever the question is,
// and sub-agents get other questions.
func (b *builder) wantsServers(o *oracle.Options) bool {
	if b.Question == "" || b.Agent || o.Source != "" || len(b.config.Oracle.Subagents) > 0 {
		return true
	}
	served := []prompt.Tool{{Name: "served", Kind: prompt.OtherTool}}
	return len(prompt.ToolsFor(o.Prompt.Classify(b.Question), served)) > 0
}

// wanted returns the servers that may have one of the tools in Options.Tools.
func (b *builder) wanted() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(b.config.Oracle.Servers)) {
		if b.Tools == nil || slices.Contains(b.Tools, ReadOnly) ||
			slices.ContainsFunc(b.Tools,
				func(tool string) bool { return strings.HasPrefix(tool, name+"__") }) {
			names = append(names, name)
		}
	}
	return names
}

// servers starts the MCP servers concurrently and returns their tools. A server that does not start
// is a note; an error in the configuration, or a cancelled context, is an error.
func (b *builder) servers(ctx context.Context, dir string) (tools []toolbox.Tool, err error) {
	names := b.wanted()
	clients := make([]*mcpclient.Client, len(names))
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			defer b.reportSlowStart(name)()
			clients[i], errs[i] = b.server(ctx, name, dir)
		})
	}
	wg.Wait()
	for i, name := range names {
		client := clients[i]
		if client == nil {
			continue
		}
		b.started[name] = true
		b.setup.closers = append(b.setup.closers, client.Close)
		for _, tool := range client.Tools() {
			// or a server could take the place of another's tool
			if owner := b.serverOf(tool.Name); owner != name {
				b.note("mcp server %s: tool %s is left out: it would belong to server %s", name,
					tool.Name, owner)
				continue
			}
			tools = append(tools, tool)
		}
		b.noteAll(name, client.Notes())
	}
	for _, err := range errs {
		switch code, hint := signalbox.CodeOf(err), signalbox.HintOf(err); {
		case err == nil:
		case ctx.Err() != nil, code == 0,
			code == signalbox.CodeUsage: // only the first, which keeps its hint
			return nil, err
		case hint != "":
			b.note("%v; its tools are missing (%s)", err, hint)
		default:
			b.note("%v; its tools are missing", err)
		}
	}
	return tools, nil
}

// slowStart is the time after which a server that is still starting is reported.
const slowStart = time.Second

// reportSlowStart calls Starting for a server that is slow to start, unless stop is called before.
func (b *builder) reportSlowStart(name string) (stop func()) {
	if b.Starting == nil {
		return func() {}
	}
	stopped := false
	timer := time.AfterFunc(slowStart, func() {
		b.startingMu.Lock()
		defer b.startingMu.Unlock()
		if !stopped {
			b.Starting(name)
		}
	})
	return func() {
		timer.Stop()
		b.startingMu.Lock()
		defer b.startingMu.Unlock()
		stopped = true
	}
}

// maxStart is the longest time to wait for a server to start, even if its calls may take longer.
const maxStart = time.Minute

func (b *builder) server(ctx context.Context, name, dir string) (*mcpclient.Client, error) {
	s, err := b.config.Oracle.Servers[name].Resolved(b.Lookup)
	if err != nil {
		return nil, signalbox.CodeUsage.Errorf("set the variable, or change the configuration",
			"oracle.servers.%s.%w", name, err)
	}
	o := &mcpclient.Options{Version: b.Version, StartTimeout: min(cmp.Or(s.Timeout, maxStart), maxStart)}
	if b.Logs != "" {
		o.CallDir = filepath.Join(b.Logs, "calls")
	}
	return mcpclient.Start(ctx, mcpclient.Server{Name: name, Command: s.Command, Env: s.Env,
		Dir: dir, URL: s.URL, Headers: s.Headers,
		Tools: s.Tools, Limits: mcpclient.Limits(s.Limits), Timeout: s.Timeout}, o)
}
