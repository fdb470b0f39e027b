// Package oracle implements the conversation agent. It sends questions to a model, runs the tools
// that the model calls, reads the turn signals in its replies, and decides by them whether and how
// the conversation continues.
//
// Every question is a run of a behaviour tree: oracle.lua, or a tree of the user's. The oracle
// provides the tree's leaves: the model call and the tool calls, which run as jobs, and actions and
// conditions that apply the table of package decide. A turn consists of the model's reply, which is
// streamed; its tool calls, which run concurrently; its signal, which is parsed once, recorded and
// removed from the text; and the decision.
//
// Events are passed to the caller as chunks (package chunk) when they happen. The last one is
// always Done. Every step is recorded in a session (package session) and in the journal of the run
// before anything depends on it, so that a conversation can be resumed after an interruption at any
// point without doing anything twice. Signals are also appended to the ledger.
package oracle

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/tree"
	"signalbox/internal/tree/luatree"
	"signalbox/internal/tree/turnlog"
	"signalbox/internal/tree/turnsignal"
)

// Tree is the source of the built-in tree.
//
//go:embed oracle.lua
var Tree string

// MaxQuestion is the size of the longest question in bytes.
const MaxQuestion = 256 << 10

// TreeName is the name of the built-in tree in messages.
const TreeName = "oracle.lua"

// A Model returns replies; *model.Client is one.
type Model interface {
	// Reply calls the function for each event, in the goroutine of the caller. It must be safe for
	// concurrent use and return soon after its context is done.
	Reply(context.Context, model.Request, func(model.Event)) (*model.Reply, error)
}

// Options configure an Oracle.
type Options struct {
	// Model answers the questions. It is required.
	Model Model
	// Models are further models, by the names that a tree's llm_call may use as "model". Nil means
	// none.
	Models map[string]Model
	// Tools are the tools that the model may call. Nil means none.
	Tools []toolbox.Tool
	// Prompt provides the prompts. Nil means the built-in ones.
	Prompt *prompt.Set
	// Source is the source of the tree, File its name in messages. Empty means the built-in tree.
	File, Source string
	// Limit is what a question may cost. A field that is zero or less means no limit.
	Limit decide.Resources
	// TurnLimit is the number of turns after which the model must answer. Zero means
	// decide.DefaultTurnLimit.
	TurnLimit int
	// Workarounds tell the model what to do without a missing capability, by its name. Nil means
	// none.
	Workarounds map[string]string
	// SubAgents can answer a part of a question, by name. Nil means none.
	SubAgents map[string]*Oracle
	// Record appends a signal to a ledger; see turnlog.To and turnlog.ToWithoutText. Nil means that
	// only the session has them.
	Record func(context.Context, turnlog.Signal) error
	// Class is the class of every question. Empty means that the words of each question decide.
	Class prompt.Class
}

// Oracle answers questions. It is safe for concurrent use.
type Oracle struct {
	Options
	tree  *luatree.File
	tools map[string]toolbox.Tool
}

// New returns an Oracle. It validates the tree and the tools.
func New(ctx context.Context, opts *Options) (*Oracle, error) {
	o := &Oracle{Options: *opts, tools: map[string]toolbox.Tool{}}
	if o.Model == nil {
		return nil, errors.New("an oracle needs a model")
	}
	if err := toolbox.Check(o.Tools); err != nil {
		return nil, err
	}
	o.Tools = slices.Clone(o.Tools)
	for _, t := range o.Tools {
		o.tools[t.Name] = t
	}
	if o.Prompt == nil {
		var err error
		if o.Prompt, err = prompt.New(nil); err != nil {
			return nil, err
		}
	}
	if o.Source == "" {
		o.File, o.Source = TreeName, Tree
	}
	if o.TurnLimit <= 0 {
		o.TurnLimit = decide.DefaultTurnLimit
	}
	var err error
	o.tree, err = luatree.Load(ctx, o.File, []byte(o.Source),
		&luatree.Options{Functions: o.functions()})
	return o, err
}

// Functions returns the actions and conditions that a tree of the oracle may use, with the defaults
// of New, to validate and test trees without a model.
func Functions() *tree.Registry {
	words, _ := prompt.New(nil) // the built-in prompts are valid: a test checks them
	o := &Oracle{Options: Options{TurnLimit: decide.DefaultTurnLimit, Prompt: words}}
	return o.functions()
}

// functions returns the leaves that need only the blackboard.
func (o *Oracle) functions() *tree.Registry {
	r := &tree.Registry{}
	turnsignal.Register(r)
	add := func(kind tree.Kind, name string, do tree.Func, params ...tree.Param) {
		r.Add(kind, name, tree.Leaf{Do: do, Params: append([]tree.Param{}, params...)})
	}
	add(tree.Action, "build_llm_request", o.buildRequest,
		tree.Param{Name: "prompt", Type: tree.Any})
	add(tree.Action, "decide", o.decide)
	add(tree.Action, "advise", o.advise)
	add(tree.Action, "say", say, tree.Param{Name: "text", Type: tree.Any, Required: true})
	add(tree.Condition, "decision_is", decisionIs, tree.Param{Name: "decision", Type: tree.String,
		Required: true})
	add(tree.Condition, "decision_ends", decisionEnds)
	add(tree.Condition, "reason_is", reasonIs, tree.Param{Name: "reason", Type: tree.String,
		Required: true})
	add(tree.Condition, "has_tool_calls", hasToolCalls)
	add(tree.Condition, "model_failed", modelFailed)
	add(tree.Condition, "class_is", classIs, tree.Param{Name: "class", Type: tree.String,
		Required: true})
	r.Reserve(topicSystem)
	r.Reserve(topicSay)
	return r
}

// promptTools returns all tools in the form that package prompt uses.
func (o *Oracle) promptTools() []prompt.Tool {
	var all []prompt.Tool
	for _, t := range o.Tools {
		all = append(all, prompt.Tool{Name: t.Name, Description: t.Description, Kind: t.Kind})
	}
	return all
}

// ToolsFor returns the tools that the model is offered for questions of a class.
func (o *Oracle) ToolsFor(class prompt.Class) []toolbox.Tool {
	var tools []toolbox.Tool
	for _, t := range prompt.ToolsFor(class, o.promptTools()) {
		tools = append(tools, o.tools[t.Name])
	}
	return tools
}

// offered returns the specifications of ToolsFor.
func (o *Oracle) offered(class prompt.Class) []model.ToolSpec {
	var specs []model.ToolSpec
	for _, tool := range o.ToolsFor(class) {
		specs = append(specs, model.ToolSpec{Name: tool.Name, Description: tool.Description,
			Schema: tool.Schema})
	}
	return specs
}

// modelNamed returns a model by name. The empty name is Options.Model.
func (o *Oracle) modelNamed(name string) (Model, error) {
	if name == "" {
		return o.Model, nil
	}
	if m, ok := o.Models[name]; ok {
		return m, nil
	}
	return nil, fmt.Errorf("there is no model '%s': use one of %s", name,
		strings.Join(slices.Sorted(maps.Keys(o.Models)), ", "))
}

// Emit receives the chunks of a conversation, one at a time and in order. An error cancels the
// conversation.
type Emit func(chunk.Chunk) error
