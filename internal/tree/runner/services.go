package runner

import (
	"context"
	"errors"

	"signalbox/internal/tree"
	"signalbox/internal/tree/blackboard"
	"signalbox/internal/tree/turnsignal"
)

// Prompt is the input of a model call.
type Prompt struct {
	// Text is the argument "prompt", or the value of the key llm_request if it is absent. It may be
	// structured.
	Text any
	// Settings are the call's other arguments, such as system or model.
	Settings map[string]any
}

// Model returns the leaf for llm_call, given a function that returns the complete reply of a model.
// The reply is written to llm_response, accumulated_content and the key that the argument
// "response_key" names. Each call starts a new turn. If the function returns an error, the leaf
// fails with it.
func Model(reply func(ctx context.Context, key string, p Prompt) (string, error)) tree.Leaf {
	return tree.Leaf{
		Prepare: func(c *tree.Call) (any, error) {
			args := c.Args()
			if args["prompt"] == nil {
				request, err := c.Get(blackboard.KeyRequest)
				if err != nil {
					return nil, err
				}
				args["prompt"] = request
			}
			if args["prompt"] == nil {
				return nil, errors.New(
					"there is no prompt: set llm_request, or give the argument prompt")
			}
			if given := args["response_key"]; given != nil {
				key, ok := given.(string)
				if !ok {
					return nil, errors.New("response_key must be the name of a key")
				}
				if _, err := c.Get(key); err != nil { // report it before a long call
					return nil, err
				}
			}
			return args, turnsignal.NewTurn(c)
		},
		Job: func(ctx context.Context, r tree.Request) tree.Result {
			settings, _ := r.Payload.(map[string]any)
			prompt := Prompt{Text: settings["prompt"], Settings: map[string]any{}}
			writes := []string{blackboard.KeyResponse, blackboard.KeyContent}
			for name, v := range settings {
				switch name {
				case "prompt":
				case "response_key":
					if key, ok := v.(string); ok {
						writes = append(writes, key)
					}
				default:
					prompt.Settings[name] = v
				}
			}
			text, err := reply(ctx, r.Key, prompt)
			if err != nil {
				return tree.Result{Status: tree.Failure, Err: err.Error()}
			}
			// The tree may have parsed the previous reply again while the model was working.
			result := tree.Result{Status: tree.Success, Writes: map[string]any{turnsignal.Parsed: false}}
			for _, key := range writes {
				result.Writes[key] = text
			}
			return result
		},
	}
}

// lastResult is the key of the last entry of tool_results, for the next node.
const lastResult = "_tool_result"

// maxToolResults is the number of results that are kept for the model.
const maxToolResults = 100

// Tool returns the leaf for a tool, given its function. The result or error is added to
// tool_results as {tool, success, result | error}, and is the value of _tool_result until the next
// tool. The leaf fails if the tool does.
func Tool(name string, use func(ctx context.Context, key string, args map[string]any) (any,
	error)) tree.Leaf {
	return tree.Leaf{
		Job: func(ctx context.Context, r tree.Request) tree.Result {
			args, _ := r.Payload.(map[string]any)
			v, err := use(ctx, r.Key, args)
			if err != nil {
				return tree.Result{Status: tree.Failure, Err: err.Error()}
			}
			return tree.Result{Status: tree.Success, Writes: map[string]any{"result": v}}
		},
		Finish: func(c *tree.Call, r tree.Result) tree.Status {
			entry := map[string]any{"tool": name, "success": r.Status == tree.Success}
			if r.Status == tree.Success {
				entry["result"] = r.Writes["result"]
			} else {
				entry["error"] = r.Err
			}
			err := keepResult(c, entry)
			switch {
			case err != nil:
				c.Fail("the result of %s cannot be kept: %v", name, err)
				// the model must not mistake an older result for this one
				if err := keepResult(c, map[string]any{"tool": name, "success": false,
					"error": c.Err()}); err != nil {
					return c.Fail("%v", err)
				}
				return tree.Failure
			case r.Status != tree.Success:
				return c.Fail("%s", r.Err) // the path of the leaf names the tool
			}
			return tree.Success
		},
	}
}

// keepResult adds an entry to tool_results. It removes the oldest entries if there is no room.
func keepResult(c *tree.Call, entry map[string]any) error {
	before, err := c.Get(blackboard.KeyToolResults)
	if err != nil {
		return err
	}
	list, _ := before.([]any)
	list = append(list[max(0, len(list)-maxToolResults+1):len(list):len(list)], entry)
	for err = c.Set(blackboard.KeyToolResults, list); err != nil &&
		len(list) > 1; err = c.Set(blackboard.KeyToolResults, list) {
		list = list[1:]
	}
	if err == nil {
		err = c.Set(lastResult, entry)
	}
	return err
}
