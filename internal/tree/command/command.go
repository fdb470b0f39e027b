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
	"signalbox/internal/crew/process"
	"signalbox/internal/tree"
	"signalbox/internal/tree/runner"
)

// Environment variables of the programs.
const (
	// KeyVariable is the same for each try of the same work, so that a program can tell that it did it before.
	KeyVariable = "SIGNALBOX_TREE_KEY"
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
func session(key string) string { return process.Within("tree-" + strings.ReplaceAll(key, "/", "-")) }

func run(ctx context.Context, key, command, input string, env ...string) (string, error) {
	own := session(key)
	// A process of this run that was killed may have left the program behind. Two of them would get in each other's way.
	if _, err := process.EndSession(own, grace); err != nil {
		return "", err
	}
	if ctx.Err() != nil {
		return "", ctx.Err() // the tree left the node meanwhile
	}
	full := make(chan struct{})
	output, errors := &clipped{limit: maxOutput, full: full}, &clipped{limit: maxErrors}
	p, err := process.Start(process.Spec{Argv: []string{"sh", "-c", command}, Stdin: []byte(input), Stdout: output, Stderr: errors, Grace: grace,
		Env: append(append(process.Environ(), env...), KeyVariable+"="+key, process.SessionVariable+"="+own)}, nil)
	if err != nil {
		return "", err
	}
	ended, end := context.WithCancel(ctx)
	defer end()
	go func() {
		select {
		case <-ended.Done():
			if ctx.Err() == nil {
				return
			}
		case <-full: // it may print for ever
		}
		p.Stop(grace)
	}()
	exit := p.Wait()
	switch said := strings.TrimSpace(errors.String()); {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case exit.Err != nil:
		return "", exit.Err
	case output.over:
		return "", &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("it printed more than %d bytes", maxOutput)}
	case exit.Code != 0 && said != "":
		return "", fmt.Errorf("exit status %d: %s", exit.Code, said)
	case exit.Code != 0:
		return "", fmt.Errorf("exit status %d", exit.Code)
	}
	return output.String(), nil
}

// clipped keeps the beginning of what is written.
type clipped struct {
	bytes.Buffer
	limit int
	over  bool
	// full, if not nil, is closed when more was written than is kept.
	full chan struct{}
}

func (c *clipped) Write(b []byte) (int, error) {
	room := c.limit - c.Len()
	if len(b) > room {
		if !c.over && c.full != nil {
			close(c.full)
		}
		c.over = true
		c.Buffer.Write(b[:max(room, 0)])
		return len(b), nil
	}
	return c.Buffer.Write(b)
}
