package nats

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// A node with the ledger of a cluster of one node must not become one of three: the server would
// delete the ledger, because the cluster does not know it. Nor does a node of three become a single
// one, which could lack acknowledged events.
func TestOtherKind(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	several := maps.Clone(c.Nodes)
	c.Nodes = map[string]string{"a": several["a"]}
	j := c.open(t, "a", "")
	must.Succeed(t, j.Append(t.Context(), 0, testEvents(0, 3)))
	j.Close()
	one := c.Nodes

	c.Nodes = several
	for _, host := range []bool{true, false} {
		_, err := OpenCluster(t.Context(), c.of("a", host),
			Options{Create: host, patience: time.Minute})
		if !errors.Is(err, ErrOtherKind) || signalbox.CodeOf(err) != signalbox.CodeFailed ||
			!strings.Contains(signalbox.HintOf(err), "Grow a cluster") {
			t.Fatalf("one node becomes one of three, host %t: %v", host, err)
		}
	}
	c.Nodes = one
	j = c.open(t, "a", "")
	if head, err := j.Head(t.Context()); head != 3 || err != nil {
		t.Errorf("afterwards the single node has %d events, %v", head, err)
	}
	j.Close()

	c.Nodes = several
	for _, node := range []string{"b", "c"} {
		c.start(t, node)
	}
	joining := c.of("a", true)
	joining.Await, joining.Replace = false, true
	j, err := OpenCluster(t.Context(), joining, Options{Create: true})
	must.Succeed(t, err)
	defer j.Close()
	if head, err := j.Head(t.Context()); head != 0 || err != nil {
		t.Errorf("a new cluster has %d events, %v", head, err)
	}
	if aside, err := filepath.Glob(filepath.Join(joining.Dir, "jetstream-until-*", "$G", "streams",
		defaultName)); len(aside) != 1 {
		t.Errorf("the ledger of the single node was not put aside: %v, %v", aside, err)
	}
	j.Close()
	c.Nodes = one
	if _, err := OpenCluster(t.Context(), c.of("a", true),
		Options{patience: time.Minute}); !errors.Is(err, ErrOtherKind) ||
		!strings.Contains(signalbox.HintOf(err), "jetstream-until-") {
		t.Errorf("one node again: %v, hint %q", err, signalbox.HintOf(err))
	}
	c.Nodes = several
	c.ready(t, "b")
	c.stop(t, "b")
	c.Nodes = map[string]string{"b": several["b"]}
	if _, err := OpenCluster(t.Context(), c.of("b", true),
		Options{patience: time.Minute}); !errors.Is(err, ErrOtherKind) {
		t.Errorf("one of three nodes becomes a single one: %v", err)
	}
}

// A process does not use a node that another process runs with other settings, and does not put its
// data aside when that process ends.
func TestNodeWithOtherSettings(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	several := maps.Clone(c.Nodes)
	one := map[string]string{"a": several["a"]}
	wantRefused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrOtherKind) || signalbox.CodeOf(err) != signalbox.CodeFailed ||
			!strings.Contains(signalbox.HintOf(err), "end the process") {
			t.Errorf("%s: %v (%s)", what, err, signalbox.HintOf(err))
		}
	}
	c.Nodes = one
	c.start(t, "a")
	c.ready(t, "a")
	c.Nodes = several
	joining := c.of("a", true)
	joining.Replace, joining.Await = true, false
	for what, of := range map[string]Cluster{"a new cluster": joining,
		"another machine": c.of("b", false)} {
		j, err := OpenCluster(t.Context(), of, Options{Create: true, patience: time.Minute})
		if err == nil {
			j.Close()
		}
		wantRefused(what, err)
	}

	config, err := nodeTLS(c.Secret, c.hosts())
	must.Succeed(t, err)
	n, err := newNode(t.Context(), joining, defaultName, config, slog.New(slog.DiscardHandler))
	must.Succeed(t, err)
	c.kill(t, "a")
	for n.failure() == nil { // until it tries to take over
		if aside, _ := filepath.Glob(filepath.Join(joining.Dir, "jetstream-until-*")); len(
			aside) != 0 {
			t.Fatalf("the ledger was put aside at a takeover: %v", aside)
		}
		time.Sleep(time.Millisecond)
	}
	if err := n.failure(); !errors.Is(err, ErrOtherKind) {
		t.Errorf("takeover: %v, want %v", err, ErrOtherKind)
	}
	must.Succeed(t, n.stop())
}

// The same after a reconnection.
func TestReconnectToNodeWithOtherSettings(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	several := maps.Clone(c.Nodes)
	one := map[string]string{"a": several["a"]}
	c.startAll(t)
	j := c.open(t, "a", "")
	defer j.Close()
	must.Succeed(t, j.Append(t.Context(), 0, testEvents(0, 1)))
	guest := c.of("a", false)
	guest.Dir, guest.Nodes, guest.Guest = t.TempDir(), one, true
	if _, err := OpenCluster(t.Context(), guest,
		Options{Create: true, patience: time.Minute}); !errors.Is(err, ErrOtherKind) {
		t.Errorf("a guest of a single node, at one of several: %v, want %v", err, ErrOtherKind)
	}
	for node := range several {
		c.kill(t, node)
	}
	alone := c.of("a", true)
	alone.Dir, alone.Nodes = t.TempDir(), one
	other, err := OpenCluster(t.Context(), alone, Options{Create: true})
	must.Succeed(t, err)
	defer other.Close()
	must.Succeed(t, other.Append(t.Context(), 0, testEvents(0, 1)))
	for what, f := range map[string]func() error{
		"append": func() error { return j.Append(t.Context(), 1, testEvents(1, 1)) },
		"head":   func() error { _, err := j.Head(t.Context()); return err },
		"read":   func() error { _, err := j.Read(t.Context(), 0, 10); return err },
		"blob":   func() error { _, err := j.PutBlob(t.Context(), strings.NewReader("evidence")); return err },
	} {
		if err := f(); !errors.Is(err, ErrOtherKind) || !strings.Contains(signalbox.HintOf(err),
			"end the process") {
			t.Errorf("%s: %v (%s)", what, err, signalbox.HintOf(err))
		}
	}
	if head, err := other.Head(t.Context()); head != 1 || err != nil {
		t.Errorf("the other node has %d events, %v, want 1", head, err)
	}
}

// Data that cannot be read belongs to neither kind: the node is not started with it, and it is not
// moved aside.
func TestUnknownKind(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		for _, part := range []string{"$SYS", "$G"} {
			c := newCluster(t, nodes)
			of := c.of("a", true)
			obstacle := filepath.Join(of.storeDir(), part)
			must.Succeed(t, os.MkdirAll(of.storeDir(), 0o700))
			must.Succeed(t, os.WriteFile(obstacle, nil, 0o600))
			if _, err := os.Stat(filepath.Join(obstacle, "file")); errors.Is(err, fs.ErrNotExist) {
				t.Skip("a file within a file does not exist on this system")
			}
			for _, replace := range []bool{true, false} {
				of.Replace = replace
				_, err := OpenCluster(t.Context(), of,
					Options{Create: true, patience: time.Millisecond})
				if signalbox.CodeOf(err) != signalbox.CodeFailed || errors.Is(err, ErrOtherKind) ||
					!strings.Contains(fmt.Sprint(err), "cannot read the data of the node") ||
					!strings.Contains(signalbox.HintOf(err), of.Dir) {
					t.Errorf("%d nodes, %s, replace %t: %v (%s)", nodes, part, replace, err,
						signalbox.HintOf(err))
				}
			}
			if _, err := os.Stat(obstacle); err != nil {
				t.Errorf("%d nodes, %s: the data was moved aside: %v", nodes, part, err)
			}
		}
	}
}
