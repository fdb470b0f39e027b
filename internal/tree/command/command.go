// Package command makes the tools and the model of a behaviour tree out of programs: what a tool is given goes to a
// program's standard input as JSON, and what it prints is the result. A program runs in a process group of its own and
// is ended, with all that it started, when the tree leaves the node, or when a run goes on after its process was killed.
package command

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/process"
	"signalbox/internal/tree"
	"signalbox/internal/tree/runner"
)

// Environment variables of the programs.
const (
	// KeyVariable is the same for each try of the same work, so that a program can tell that it did it before.
	KeyVariable = process.KeyVariable
	// SettingsVariable has the arguments of a model call but the prompt, as JSON.
	SettingsVariable = "SIGNALBOX_TREE_SETTINGS"
)

const (
	maxOutput = tree.MaxValue / 2
	maxErrors = 500
	grace     = 3 * time.Second
)

// Tool is a tool that is a shell command. Its arguments are a JSON object on standard input. What it prints is the
// result, as a value if it is JSON and else as text; an exit status other than 0 is a failure.
func Tool(name, command string) tree.Leaf {
	return runner.Tool(name, func(ctx context.Context, key string, args map[string]any) (any, error) {
		output, err := run(ctx, key, command, tree.FormatValue(args)+"\n")
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

// Model is a model that is a shell command: it gets the prompt on standard input, as text if it is one and else as
// JSON, and prints the reply.
func Model(command string) tree.Leaf {
	return runner.Model(func(ctx context.Context, key string, p runner.Prompt) (string, error) {
		prompt, text := p.Text.(string)
		if !text {
			prompt = tree.FormatValue(p.Text)
		}
		return run(ctx, key, command, prompt, SettingsVariable+"="+tree.FormatValue(p.Settings))
	})
}

// usedReplies counts, on the blackboard, how many of the replies were used, so that a run that goes on knows.
const usedReplies = "_replies_used"

// Replies is a model that answers with these texts, one after the other.
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

// SplitReplies reads a file of replies: they are separated by lines of three dashes.
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

// session names the processes of one start.
func session(key string) string {
	return process.NestedSession("tree-" + strings.ReplaceAll(key, "/", "-"))
}

func run(ctx context.Context, key, command, input string, env ...string) (string, error) {
	complaint := &clipped{limit: maxErrors}
	printed, err := process.Shell{Line: command, Env: append(append(process.Environ(), env...), KeyVariable+"="+key), Input: []byte(input),
		Session: session(key), Limit: maxOutput, Grace: grace, Stderr: complaint}.Run(ctx)
	switch said := strings.TrimSpace(complaint.String()); {
	case err != nil:
		return "", err
	case printed.Exit.Err != nil:
		return "", printed.Exit.Err
	case printed.Truncated:
		return "", &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("it printed more than %d bytes", maxOutput)}
	case printed.Exit.Code != 0 && said != "":
		return "", fmt.Errorf("exit status %d: %s", printed.Exit.Code, said)
	case printed.Exit.Code != 0:
		return "", fmt.Errorf("exit status %d", printed.Exit.Code)
	}
	return printed.Output, nil
}

// clipped keeps the beginning of what is written.
type clipped struct {
	bytes.Buffer
	limit int
}

func (c *clipped) Write(b []byte) (int, error) {
	c.Buffer.Write(b[:max(min(c.limit-c.Len(), len(b)), 0)])
	return len(b), nil
}
