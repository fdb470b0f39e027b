package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/mcpclient"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/portfolio"
)

// tools are the built-in ones that have something to work on, the commands, and those of MCP servers.
func (b *builder) tools(ctx context.Context, o *oracle.Options) ([]toolbox.Tool, error) {
	code := cmp.Or(b.Code, b.config.Oracle.Code, b.Project)
	tools := append(b.builtIn(code), b.commands(code)...)
	if wrong := toolbox.Check(tools); wrong != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: wrong, Hint: "rename it under oracle.tools of the configuration"}
	}
	if b.wantsServers(o) {
		served, err := b.servers(ctx, code)
		if err != nil {
			return nil, err
		}
		tools = b.join(tools, served)
	}
	if b.Tools == nil {
		return tools, nil
	}
	return b.chosen(tools)
}

func (b *builder) builtIn(code string) []toolbox.Tool {
	c := &b.config.Oracle
	tools := []toolbox.Tool{toolbox.SearchCode(code), toolbox.ReadFile(code)}
	if c.Notes != "" {
		o := &toolbox.NotesOptions{}
		if rel, err := filepath.Rel(code, c.Notes); err == nil && filepath.IsLocal(rel) {
			o.Prefix = filepath.ToSlash(rel)
		}
		tools = append(tools, toolbox.SearchNotes(c.Notes, o))
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

// commands are the tools that are shell commands. They do not see the keys of models: what a command prints goes to a
// model's server, and into the record.
func (b *builder) commands(code string) (tools []toolbox.Tool) {
	var keys []string
	for _, m := range b.config.Models {
		keys = append(keys, m.KeyEnv)
	}
	for _, name := range slices.Sorted(maps.Keys(b.config.Oracle.Tools)) {
		t := b.config.Oracle.Tools[name]
		tools = append(tools, toolbox.FromCommand(name, toolbox.Command{Line: t.Command, Description: t.Description, Parameters: t.Parameters,
			ReadOnly: t.ReadOnly, Timeout: t.Timeout, Dir: code, Without: keys}))
	}
	return tools
}

// join adds the tools of servers. A name that is taken is noted, and not there twice.
func (b *builder) join(tools, served []toolbox.Tool) []toolbox.Tool {
	taken := make(map[string]bool, len(tools)+len(served))
	for _, t := range tools {
		taken[t.Name] = true
	}
	for _, t := range served {
		if taken[t.Name] {
			b.note("tool %s of an mcp server is left out: another one has its name; rename one of them under oracle.servers or oracle.tools", t.Name)
			continue
		}
		taken[t.Name] = true
		tools = append(tools, t)
	}
	return tools
}

// note is for people.
func (b *builder) note(format string, args ...any) {
	b.setup.Notes = append(b.setup.Notes, fmt.Sprintf(format, args...))
}

// maxNotes is how many notes of one server are shown.
const maxNotes = 5

func (b *builder) noteAll(server string, notes []string) {
	for _, note := range notes[:min(len(notes), maxNotes)] {
		b.note("mcp server %s: %s", server, note)
	}
	if more := len(notes) - maxNotes; more > 0 {
		b.note("mcp server %s: and %d more like these", server, more)
	}
}

// chosen are the tools that Options.Tools name. What a server has is its own affair, so that a tool of one that is missing
// is noted; any other name that there is no tool for is a mistake.
func (b *builder) chosen(tools []toolbox.Tool) ([]toolbox.Tool, error) {
	kept, unknown := toolbox.Pick(tools, b.Tools)
	for _, name := range unknown {
		if server := b.serverOf(name); server != "" {
			if b.started[server] {
				b.note("mcp server %s: there is no tool %s%s", server, name, toolbox.Near(name, tools))
			}
			continue
		}
		return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("there is no tool '%s'%s", name, toolbox.Near(name, tools)),
			Hint: "there is " + strings.Join(namesOf(tools), ", ") + "; others are configured under oracle.tools and oracle.servers"}
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

// serverOf is the configured server whose tool has that name, "" if it is of none. Of several it is the longest.
func (b *builder) serverOf(tool string) (longest string) {
	for name := range b.config.Oracle.Servers {
		if strings.HasPrefix(tool, name+"__") && len(name) > len(longest) {
			longest = name
		}
	}
	return longest
}

// wantsServers reports whether tools of servers may be called at all. A tree of the user's may call them whatever was
// asked, and a sub-agent is asked something else.
func (b *builder) wantsServers(o *oracle.Options) bool {
	if b.Question == "" || b.Agent || o.Source != "" || len(b.config.Oracle.Subagents) > 0 {
		return true
	}
	served := []prompt.Tool{{Name: "served", Kind: prompt.OtherTool}}
	return len(prompt.ToolsFor(o.Prompt.Classify(b.Question), served)) > 0
}

// wanted are the servers that may have one of the tools that are wanted.
func (b *builder) wanted() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(b.config.Oracle.Servers)) {
		if b.Tools == nil || slices.Contains(b.Tools, ReadOnly) ||
			slices.ContainsFunc(b.Tools, func(tool string) bool { return strings.HasPrefix(tool, name+"__") }) {
			names = append(names, name)
		}
	}
	return names
}

// servers starts the MCP servers, all at once. One that does not start is noted, unless it is the configuration that is
// wrong, or nobody waits any more.
func (b *builder) servers(ctx context.Context, dir string) (tools []toolbox.Tool, err error) {
	names := b.wanted()
	clients := make([]*mcpclient.Client, len(names))
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			defer b.tellStarting(name)()
			clients[i], errs[i] = b.server(ctx, name, dir)
		})
	}
	all.Wait()
	for i, name := range names {
		client := clients[i]
		if client == nil {
			continue
		}
		b.started[name] = true
		b.setup.closers = append(b.setup.closers, client.Close)
		tools = append(tools, client.Tools()...)
		b.noteAll(name, client.Notes())
	}
	for _, wrong := range errs {
		switch classed := (*signalbox.Error)(nil); {
		case wrong == nil:
		case ctx.Err() != nil, !errors.As(wrong, &classed), classed.Code == signalbox.CodeUsage: // one is enough to mend at a time, and keeps its hint
			return nil, wrong
		case classed.Hint != "":
			b.note("%v; its tools are missing (%s)", wrong, classed.Hint)
		default:
			b.note("%v; its tools are missing", wrong)
		}
	}
	return tools, nil
}

// slow is how long a server may take to start before anybody is told.
const slow = time.Second

// tellStarting tells of a server that takes long, until what it returns is called.
func (b *builder) tellStarting(name string) (stop func()) {
	if b.Starting == nil {
		return func() {}
	}
	over := false
	timer := time.AfterFunc(slow, func() {
		b.telling.Lock()
		defer b.telling.Unlock()
		if !over {
			b.Starting(name)
		}
	})
	return func() {
		timer.Stop()
		b.telling.Lock()
		defer b.telling.Unlock()
		over = true
	}
}

// maxStart is how long a server may take to start whose calls may take longer.
const maxStart = time.Minute

func (b *builder) server(ctx context.Context, name, dir string) (*mcpclient.Client, error) {
	s, err := b.config.Oracle.Servers[name].Resolved(b.Lookup)
	if err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("oracle.servers.%s.%w", name, err), Hint: "set the variable, or change the configuration"}
	}
	o := &mcpclient.Options{Version: b.Version, StartTimeout: min(cmp.Or(s.Timeout, maxStart), maxStart)}
	if b.Logs != "" {
		o.Calls = filepath.Join(b.Logs, "calls")
	}
	return mcpclient.Start(ctx, mcpclient.Server{Name: name, Command: s.Command, Env: s.Env, Dir: dir, URL: s.URL, Headers: s.Headers,
		Tools: s.Tools, Timeout: s.Timeout}, o)
}
