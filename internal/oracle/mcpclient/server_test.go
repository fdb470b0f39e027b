package mcpclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// modeVariable makes this test binary a server. Its value names how it behaves.
const modeVariable = "MCPCLIENT_TEST_SERVER"

func TestMain(m *testing.M) {
	mode := os.Getenv(modeVariable)
	if mode == "" {
		os.Exit(m.Run())
	}
	if err := serve(mode); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve runs the server process.
func serve(mode string) error {
	switch mode {
	case "exit":
		fmt.Fprintln(os.Stderr, "no licence file\x1b[31m here")
		os.Exit(4)
	case "hang":
		fmt.Fprintln(os.Stderr, "waiting for a friend")
		io.Copy(io.Discard, os.Stdin)
	case "noise":
		fmt.Println("Welcome to the server!")
		fmt.Println(`{"level":"info"}`)
		// The answer shows that the earlier lines were read.
		fmt.Println(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			if strings.Contains(lines.Text(), `"p"`) {
				fmt.Fprintln(os.Stderr, "all was read")
			}
		}
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		child := exec.Command("sleep", "1000")
		if err := child.Start(); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "child %d\n", child.Process.Pid)
		if err := newServer(mode, nil).Run(context.Background(),
			&mcp.StdioTransport{}); err != nil {
			return err
		}
		select {}
	case "no tools":
		return mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"},
			&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{}}).
			Run(context.Background(), &mcp.StdioTransport{})
	case "raw":
		return serveRaw()
	case "hangs later":
		if _, err := os.Stat("died"); err == nil {
			signal.Ignore(syscall.SIGTERM)
			fmt.Fprintln(os.Stderr, "second", os.Getpid())
			select {}
		}
	case "dies once":
		if _, err := os.Stat("died"); err == nil {
			fmt.Fprintln(os.Stderr, "no second life")
			os.Exit(5)
		}
	}
	return newServer(mode, nil).Run(context.Background(), &mcp.StdioTransport{})
}

// serveRaw answers without the SDK, which would not send such messages.
func serveRaw() error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var request struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal(lines.Bytes(), &request); err != nil {
			return err
		}
		answer := map[string]string{
			"initialize": `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`,
			"tools/list": `{"tools":[null,{"name":"bare"},{"name":"bare"},{"name":"","inputSchema":{"type":"object"}},
				{"name":"list","inputSchema":{"type":"array"}},{"name":"php","inputSchema":{"type":"object","properties":[]}},{"name":"odd","inputSchema":{"type":"object","properties":[1]}},{"name":"untyped","title":"A title","inputSchema":{"properties":{"b":{},"a":{}}}}],"nextCursor":"again"}`,
			"tools/call": `{"content":[{"type":"hologram"}]}`,
		}[request.Method]
		if answer != "" {
			// A batch, which older servers may send.
			fmt.Printf(`[{"jsonrpc":"2.0","id":%s,"result":%s}]`+"\n", request.ID,
				strings.ReplaceAll(answer, "\n", " "))
		}
	}
	return lines.Err()
}

type noArguments struct{}

func textResult(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format,
		args...)}}}
}

// newServer returns a server with tools for all cases. Closing over ends its waiting tools.
func newServer(mode string, over <-chan struct{}) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"},
		&mcp.ServerOptions{PageSize: 4})
	if mode == "newest only" || mode == "refuses" {
		s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string,
				request mcp.Request) (mcp.Result, error) {
				if method == "initialize" || mode == "refuses" {
					return nil, &jsonrpc.Error{Code: -32000, Message: "not today"}
				}
				return next(ctx, method, request)
			}
		})
	}
	tool := func(name string, use func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: "does " + name},
			func(ctx context.Context, r *mcp.CallToolRequest, _ noArguments) (*mcp.CallToolResult,
				any, error) {
				return use(ctx, r), nil, nil
			})
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "says it again",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, in struct {
			Message string `json:"message"`
		}) (*mcp.CallToolResult, any, error) {
			return textResult("you said %s", in.Message), nil, nil
		})
	tool("fail", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult {
		r := textResult("the disk is full")
		r.IsError = true
		return r
	})
	mcp.AddTool(s, &mcp.Tool{Name: "set", Description: "does set",
		Annotations: &mcp.ToolAnnotations{IdempotentHint: true}},
		func(context.Context, *mcp.CallToolRequest, noArguments) (*mcp.CallToolResult, any, error) {
			return textResult("set"), nil, nil
		})
	tool("wait", func(ctx context.Context, r *mcp.CallToolRequest) *mcp.CallToolResult {
		fmt.Fprintln(os.Stderr, "started")
		r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "x",
			Progress: 1})
		select {
		case <-ctx.Done():
			fmt.Fprintln(os.Stderr, "cancelled")
		case <-over:
		}
		return textResult("late")
	})
	tool("die", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult {
		fmt.Fprintln(os.Stderr, "out of cheese")
		if mode == "dies once" || mode == "hangs later" {
			os.WriteFile("died", nil, 0o600)
		}
		os.Exit(3)
		return nil
	})
	tool("noise", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult {
		fmt.Print("debug: got a call\n\n{\"half\": \n[1,2]\n[]\n" +
			strings.Repeat("long ", 30<<10) + "\n")
		return textResult("after the noise")
	})
	tool("huge", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult {
		return textResult("%s", strings.Repeat("é", 40<<10))
	})
	tool("flood", func(ctx context.Context, _ *mcp.CallToolRequest) *mcp.CallToolResult {
		os.Stdout.Write(bytes.Repeat([]byte("x"), maxMessage+1<<20))
		<-ctx.Done()
		return textResult("late")
	})
	tool("ask", ask)
	tool("environment", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult {
		dir, _ := os.Getwd()
		return textResult("%s\n%s", dir, strings.Join(os.Environ(), "\n"))
	})
	tool("grow", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult {
		tool("more", func(context.Context,
			*mcp.CallToolRequest) *mcp.CallToolResult {
			return textResult("more")
		})
		return textResult("grown")
	})
	return s
}

// ask sends the client every request that a server may send.
func ask(ctx context.Context, r *mcp.CallToolRequest) *mcp.CallToolResult {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var parts []string
	add := func(what string, err error) {
		if err != nil {
			what += " declined"
		}
		parts = append(parts, what)
	}
	//lint:ignore SA1019 servers of today do
	_, err := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1})
	add("sampling", err)
	_, err = r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Who are you?"})
	add("elicitation", err)
	//lint:ignore SA1019 servers of today do
	roots, err := r.Session.ListRoots(ctx, nil)
	add("roots", err)
	//lint:ignore SA1019 servers of today do
	if caps := r.Session.InitializeParams().Capabilities; caps.RootsV2 != nil {
		parts = append(parts, "announced")
	}
	if roots != nil {
		for _, root := range roots.Roots {
			parts = append(parts, root.URI)
		}
	}
	return textResult("%s", strings.Join(parts, ", "))
}
