//go:build unix

package mcpserver

import (
	"os"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox/internal/testkit/must"
)

// Reading a file that was replaced by a pipe must not block.
func TestFileReplacedByPipe(t *testing.T) {
	c := newCaller(t, newServer(t, newBox(t), nil))
	a := c.ok("scan_transcript", args{"text": "READY_FOR_REVIEW: T1\nSummary: mine\n"})
	must.Succeed(t, os.Remove(*a.FilePath))
	must.Succeed(t, syscall.Mkfifo(*a.FilePath, 0o600))
	if _, err := c.session.ReadResource(t.Context(),
		&mcp.ReadResourceParams{URI: a.links[0].URI}); notFound(err) == nil {
		t.Errorf("read: %v", err)
	}
}
