// Package command runs programs as the tools and the model of a behaviour tree. A tool receives its
// arguments as JSON on standard input and prints its result. Each program runs in its own process
// group. It is stopped, together with all programs that it started, when the tree halts the node,
// or when a run is resumed after its process was killed.
package command

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/process"
	"signalbox/internal/sandbox"
	"signalbox/internal/tree"
	"signalbox/internal/tree/runner"
)

// Environment variables of the programs.
const (
	// KeyVariable has the key of the work, which is the same for each attempt, so that a program
	// can recognise a repetition.
	KeyVariable = process.KeyVariable
	// SettingsVariable has the arguments of a model call, except for the prompt, as JSON.
	SettingsVariable = "SIGNALBOX_TREE_SETTINGS"
)

const (
	maxOutput = tree.MaxValue / 2
	maxErrors = 500
	grace     = 3 * time.Second
)

// Runner runs the programs.
type Runner struct {
	// Env is their environment, except for the variables above; nil means that of this process
	// without signalbox's own variables.
	Env []string
	// Sandbox is what they may do; nil means what this process may do.
	Sandbox *sandbox.Policy
}

// Tool returns a tool that runs a shell command. The command receives its arguments as a JSON
// object on standard input. Its output is the result: a value if it is JSON, and text otherwise. An
// exit status other than 0 is a failure.
func (r Runner) Tool(name, command string) tree.Leaf {
	return runner.Tool(name, func(ctx context.Context, key string,
		args map[string]any) (any, error) {
		output, err := r.run(ctx, key, command, tree.FormatValue(args)+"\n")
		if err != nil {
			return nil, err
		}
		output = strings.TrimRight(output, "\n")
		if v, err := tree.ParseValue(output); err == nil {
			return v, nil
		}
		return output, nil
	})
}

// Model returns a model that runs a shell command. The command receives the prompt on standard
// input, as text if it is a string and as JSON otherwise, and prints the reply.
func (r Runner) Model(command string) tree.Leaf {
	return runner.Model(func(ctx context.Context, key string, p runner.Prompt) (string, error) {
		prompt, text := p.Text.(string)
		if !text {
			prompt = tree.FormatValue(p.Text)
		}
		return r.run(ctx, key, command, prompt, SettingsVariable+"="+tree.FormatValue(p.Settings))
	})
}

// usedReplies is the key of the number of replies that were used. It is on the blackboard so that
// it survives a restart.
const usedReplies = "_replies_used"

// Replies returns a model that replies with the texts, one after the other.
func Replies(texts []string) tree.Leaf {
	leaf := runner.Model(func(_ context.Context, _ string, p runner.Prompt) (string, error) {
		reply, _ := p.Settings["reply"].(string)
		return reply, nil
	})
	prepare := leaf.Prepare
	leaf.Prepare = func(c *tree.Call) (any, error) {
		payload, err := prepare(c)
		if err != nil {
			return nil, err
		}
		used, err := c.Get(usedReplies)
		if err != nil {
			return nil, err
		}
		n, _ := used.(int64)
		if n >= int64(len(texts)) {
			return nil, fmt.Errorf("all %d replies were used", len(texts))
		}
		payload.(map[string]any)["reply"] = texts[n]
		return payload, c.Set(usedReplies, n+1)
	}
	return leaf
}

// SplitReplies splits a file of replies, which are separated by lines of three dashes.
func SplitReplies(text string) []string {
	var replies []string
	var reply strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimRight(line, " \t\r\n") == "---" {
			replies = append(replies, reply.String())
			reply.Reset()
			continue
		}
		reply.WriteString(line)
	}
	if strings.TrimSpace(reply.String()) != "" || len(replies) == 0 {
		replies = append(replies, reply.String())
	}
	return replies
}

// session returns the session name of the processes for a key.
func session(key string) string {
	return process.NestedSession("tree-" + strings.ReplaceAll(key, "/", "-"))
}

func (r Runner) run(ctx context.Context, key, command, input string,
	env ...string) (string, error) {
	base := r.Env
	if base == nil {
		base = process.Environ()
	}
	stderr := &clippedBuffer{limit: maxErrors}
	result, err := process.Shell{Line: command,
		Env: slices.Concat(base, env, []string{KeyVariable + "=" + key}), Input: []byte(input),
		Session: session(key), Limit: maxOutput, Grace: grace, Stderr: stderr,
		Sandbox: r.Sandbox}.Run(ctx)
	switch message := strings.TrimSpace(stderr.String()); {
	case err != nil:
		return "", err
	case result.Exit.Err != nil:
		return "", result.Exit.Err
	case result.Truncated:
		return "", signalbox.CodeFailed.Errorf("",
			"it printed more than %d bytes", maxOutput)
	case result.Exit.Code != 0 && message != "":
		return "", fmt.Errorf("exit status %d: %s", result.Exit.Code, message)
	case result.Exit.Code != 0:
		return "", fmt.Errorf("exit status %d", result.Exit.Code)
	}
	return result.Output, nil
}

// clippedBuffer keeps the beginning of what is written.
type clippedBuffer struct {
	bytes.Buffer
	limit int
}

func (c *clippedBuffer) Write(b []byte) (int, error) {
	c.Buffer.Write(b[:max(min(c.limit-c.Len(), len(b)), 0)])
	return len(b), nil
}
