// Package oracle is the conversation agent: it asks a model, runs the tools that the model calls, hears the turn signals in
// its replies, and decides by them how the conversation goes on.
//
// Every question is a run of a behaviour tree: oracle.lua, or one given in its place. The oracle gives the tree its leaves:
// the model call and the tool calls, which take time, and the actions and conditions that judge a turn by the table in
// package decide. A turn is: the model's reply, streamed; the tool calls in it, all at once; its signal, parsed once,
// recorded and taken out of the text; the decision.
//
// What happens comes out as chunks (package chunk), as it happens. The last is always Done, and there is one. What is
// done is kept in a session (package session) and in the journal of the run before anything follows from it, so that a
// conversation that was cut off anywhere goes on without doing anything twice; signals are put on the ledger.
package oracle

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"signalbox/internal/core/engine"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/tree"
	"signalbox/internal/tree/luatree"
	"signalbox/internal/tree/turnsignal"
)

// Tree is the source of the built-in tree.
//
//go:embed oracle.lua
var Tree string

// TreeName is the name of the built-in tree in messages.
const TreeName = "oracle.lua"

// A Model gives replies. *model.Client is one. Reply may be called by several goroutines at once, must end soon after its
// context did, and calls the function for each part as it comes, in its own goroutine.
type Model interface {
	Reply(context.Context, model.Request, func(model.Event)) (*model.Reply, error)
}

// Options say what an oracle has to work with.
type Options struct {
	// Model answers. It must be there.
	Model Model
	// Models are further ones, by the names that a tree's llm_call may give as "model". Nil: none.
	Models map[string]Model
	// Tools are what the model may call. Nil: none.
	Tools []toolbox.Tool
	// Prompt is the words. Nil: the built-in ones.
	Prompt *prompt.Set
	// Source is the tree, File its name in messages. Zero: the built-in one.
	File, Source string
	// Limit is what a question may cost; zero or less of each: as much as it takes.
	Limit decide.Resources
	// TurnLimit is how many turns a question may take before the answer is asked for. Zero: decide.DefaultTurnLimit.
	TurnLimit int
	// Workarounds say what to do in place of a capability that is missing, by its name. Nil: none.
	Workarounds map[string]string
	// SubAgents are those that a question can be handed to, by name. Nil: none.
	SubAgents map[string]*Oracle
	// Engine is the ledger on which signals are recorded, in the name of Actor. Nil: they are kept in the session only.
	Engine *engine.Engine
	Actor  string
	// Class is that of every question. Zero: its words decide.
	Class prompt.Class
}

// Oracle answers questions. It may have any number of conversations at once.
type Oracle struct {
	Options
	tree  *luatree.File
	tools map[string]toolbox.Tool
}

// New returns an oracle. The error is about the tree or the tools that it was given.
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
	o.tree, err = luatree.Load(ctx, o.File, []byte(o.Source), &luatree.Options{Functions: o.functions()})
	return o, err
}

// Functions are the actions and conditions that a tree of the oracle may use, with the defaults of New, for checking and
// testing one without a model.
func Functions() *tree.Registry {
	words, _ := prompt.New(nil) // which a test tries
	o := &Oracle{Options: Options{TurnLimit: decide.DefaultTurnLimit, Prompt: words}}
	return o.functions()
}

// functions are the leaves that need no conversation but what is on the blackboard.
func (o *Oracle) functions() *tree.Registry {
	r := &tree.Registry{}
	turnsignal.Register(r)
	add := func(kind tree.Kind, name string, do tree.Func, params ...tree.Param) {
		r.Add(kind, name, tree.Leaf{Do: do, Params: append([]tree.Param{}, params...)})
	}
	add(tree.Action, "decide", o.decide)
	add(tree.Action, "advise", o.advise)
	add(tree.Action, "say", say, tree.Param{Name: "text", Type: tree.Any, Required: true})
	add(tree.Condition, "decision_is", decisionIs, tree.Param{Name: "decision", Type: tree.String, Required: true})
	add(tree.Condition, "decision_ends", decisionEnds)
	add(tree.Condition, "reason_is", reasonIs, tree.Param{Name: "reason", Type: tree.String, Required: true})
	add(tree.Condition, "has_tool_calls", hasToolCalls)
	add(tree.Condition, "model_failed", modelFailed)
	add(tree.Condition, "class_is", classIs, tree.Param{Name: "class", Type: tree.String, Required: true})
	r.Reserve(topicSystem)
	r.Reserve(topicSaid)
	return r
}

// promptTools describes all tools to package prompt.
func (o *Oracle) promptTools() []prompt.Tool {
	var all []prompt.Tool
	for _, t := range o.Tools {
		all = append(all, prompt.Tool{Name: t.Name, Description: t.Description, Kind: t.Kind})
	}
	return all
}

// offered are the tools that a class of questions is offered, as a model is told of them.
func (o *Oracle) offered(class prompt.Class) []model.ToolSpec {
	var specs []model.ToolSpec
	for _, t := range prompt.ToolsFor(class, o.promptTools()) {
		tool := o.tools[t.Name]
		specs = append(specs, model.ToolSpec{Name: tool.Name, Description: tool.Description, Schema: tool.Schema})
	}
	return specs
}

// modelNamed returns the model of a name, "" for the oracle's own.
func (o *Oracle) modelNamed(name string) (Model, error) {
	if name == "" {
		return o.Model, nil
	}
	if m, ok := o.Models[name]; ok {
		return m, nil
	}
	return nil, fmt.Errorf("there is no model '%s': there is %s", name, strings.Join(slices.Sorted(maps.Keys(o.Models)), ", "))
}

// Warning is the level of a chunk that is more than a remark.
const Warning = string(decide.Warning)

// Emit takes the chunks of a conversation, one at a time, in order. An error ends the conversation as if it was cancelled.
type Emit func(chunk.Chunk) error
