package runner

import (
	"context"
	"errors"

	"signalbox/internal/tree"
	"signalbox/internal/tree/turnsignal"
)

// Prompt is what a model call asks for.
type Prompt struct {
	// Text is the prompt: the argument "prompt", or else what stands under "llm_request". It may be structured.
	Text any
	// Settings are the call's other arguments, such as system or model.
	Settings map[string]any
}

// Model makes llm_call of a function that returns a model's whole reply. The reply goes to llm_response and
// accumulated_content, and to the key that the argument "response_key" names; a new turn begins with the call. The error
// is for people: the leaf fails with it.
func Model(reply func(ctx context.Context, key string, p Prompt) (string, error)) tree.Leaf {
	return tree.Leaf{
		Prepare: func(c *tree.Call) (any, error) {
			args := c.Args()
			if args["prompt"] == nil {
				request, err := c.Get("llm_request")
				if err != nil {
					return nil, err
				}
				args["prompt"] = request
			}
			if args["prompt"] == nil {
				return nil, errors.New("there is no prompt: set llm_request, or give the argument prompt")
			}
			if given := args["response_key"]; given != nil {
				key, ok := given.(string)
				if !ok {
					return nil, errors.New("response_key must be the name of a key")
				}
				if _, err := c.Get(key); err != nil { // sooner than after a long call
					return nil, err
				}
			}
			return args, turnsignal.NewTurn(c)
		},
		Job: func(ctx context.Context, r tree.Request) tree.Result {
			settings, _ := r.Payload.(map[string]any)
			prompt := Prompt{Text: settings["prompt"], Settings: map[string]any{}}
			writes := []string{"llm_response", "accumulated_content"}
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
			// What was parsed while the model was thinking was the reply before.
			result := tree.Result{Status: tree.Success, Writes: map[string]any{turnsignal.Parsed: false}}
			for _, key := range writes {
				result.Writes[key] = text
			}
			return result
		},
	}
}

// lastResult is where a tool leaves its entry of tool_results for the node after it.
const lastResult = "_tool_result"

// maxToolResults is how many results are kept for the model to see.
const maxToolResults = 100

// Tool makes a tool of a function. What it returns, or why it failed, is added to tool_results as
// {tool, success, result | error}, and stands under _tool_result until the next; the leaf fails if the tool did.
func Tool(name string, use func(ctx context.Context, key string, args map[string]any) (any, error)) tree.Leaf {
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
				// the model must not take an older result for this one
				if err := keepResult(c, map[string]any{"tool": name, "success": false, "error": c.Err()}); err != nil {
					return c.Fail("%v", err)
				}
				return tree.Failure
			case r.Status != tree.Success:
				return c.Fail("%s", r.Err) // whose path says which tool it was
			}
			return tree.Success
		},
	}
}

// keepResult adds to tool_results. The newest result is the one that counts: older ones make room for it.
func keepResult(c *tree.Call, entry map[string]any) error {
	before, err := c.Get("tool_results")
	if err != nil {
		return err
	}
	list, _ := before.([]any)
	list = append(list[max(0, len(list)-maxToolResults+1):len(list):len(list)], entry)
	for err = c.Set("tool_results", list); err != nil && len(list) > 1; err = c.Set("tool_results", list) {
		list = list[1:]
	}
	if err == nil {
		err = c.Set(lastResult, entry)
	}
	return err
}
