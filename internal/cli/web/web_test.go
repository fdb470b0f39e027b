package web

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/box"
)

// TestAddressesWithoutAPort get the default port, like the address that serve has without --listen.
func TestAddressesWithoutAPort(t *testing.T) {
	for address, want := range map[string]string{"0.0.0.0": "0.0.0.0:7700", "::": "[::]:7700",
		"::1": "[::1]:7700", "localhost": "localhost:7700", "127.0.0.1:0": "127.0.0.1:0",
		":1": ":1", "nonsense": "nonsense"} {
		if got := withDefaultPort(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// A process that is interrupted while it waits for other machines says only that.
func TestInterruptedOpening(t *testing.T) {
	dir, keys := filepath.Join(t.TempDir(), box.FolderName), filepath.Join(t.TempDir(), "box.key")
	if _, err := box.Init(t.Context(), dir, "ann", &box.Options{KeyFile: keys}); err != nil {
		t.Fatal(err)
	}
	p := &cli.Program{Stderr: io.Discard, Getenv: func(string) string { return "" }}
	ctx, interrupt := context.WithCancel(t.Context())
	open := func(ctx context.Context, _ string, _ *box.Options) (*box.Box, error) {
		interrupt()
		return nil, fmt.Errorf("%w: no leader", ctx.Err())
	}
	err := cli.WithOpened(ctx, p, cli.BoxFlag{Box: cli.NonEmpty(dir)}, open, &box.Options{},
		func(*box.Box) error { return nil })
	_, served := openHosted(ctx, p, cli.BoxFlag{Box: cli.NonEmpty(dir)})
	for command, err := range map[string]error{"worker": err, "serve": served} {
		if signalbox.CodeOf(err) != signalbox.CodeInterrupted ||
			strings.Contains(err.Error(), "leader") {
			t.Errorf("%s: error %v", command, err)
		}
	}
}
