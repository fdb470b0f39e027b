package nats

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"signalbox"
	"signalbox/internal/durable"
)

// ErrOtherKind means that a node has the data of, or runs as, a single node although the settings
// list several, or the other way around. It must not be started like that: a server that becomes
// part of a cluster deletes all streams that the cluster does not know, and a single one does not
// know which events the others have acknowledged.
var ErrOtherKind = errors.New("the node does not match the settings of the cluster")

// Where a server keeps its streams, and what only one of a cluster has.
func (c *Cluster) storeDir() string   { return filepath.Join(c.Dir, "jetstream") }
func (c *Cluster) streamsDir() string { return filepath.Join(c.storeDir(), "$G", "streams") }
func (c *Cluster) metaDir() string    { return c.groupDir("_meta_") }
func (c *Cluster) groupDir(group string) string {
	return filepath.Join(c.storeDir(), "$SYS", "_js_", group)
}

// checkKind returns ErrOtherKind if the node must not be started with its data.
func (c *Cluster) checkKind() error {
	streams, err := os.ReadDir(c.streamsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c.unreadable(err)
	}
	_, err = os.Stat(c.metaDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c.unreadable(err)
	}
	several := err == nil
	if len(streams) == 0 && !several || several == (len(c.Nodes) > 1) {
		return nil
	}
	was := "a cluster of one node"
	if several {
		was = "a cluster of several nodes"
	}
	hint := "list the nodes as before in cluster.nodes; to change their number, move the ledger: docs/how-to/machines.md, Grow a cluster"
	if old, _ := filepath.Glob(c.storeDir() + asideSuffix + "*"); len(old) > 0 {
		hint += "; the earlier data of the node was moved to " + old[len(old)-1]
	}
	return signalbox.CodeFailed.Errorf(hint,
		"%w: %s has data of %s, and cluster.nodes lists %d", ErrOtherKind, c.Dir,
		was, len(c.Nodes))
}

// unreadable returns the error for data that cannot be read.
func (c *Cluster) unreadable(err error) error {
	return signalbox.CodeFailed.Errorf(c.hintFiles(),
		"cannot read the data of the node of this machine: %w", err)
}

// hintFiles is what to do if a node cannot use its data.
func (c *Cluster) hintFiles() string {
	return "check that this user can read and write the files in " + c.Dir +
		", and that their disk has space"
}

// asideSuffix is added, with the time, to the name of a folder that is moved aside.
const asideSuffix = "-until-"

// putAside renames data with which the node must not be started. The caller has the lock of the
// node.
func (c *Cluster) putAside(log *slog.Logger) error {
	err := c.checkKind()
	if !errors.Is(err, ErrOtherKind) {
		return err
	}
	old := c.storeDir() + asideSuffix + time.Now().UTC().Format("20060102T150405Z")
	if err := os.Rename(c.storeDir(), old); err != nil {
		return err
	}
	log.Warn("moved the node's data of another cluster aside: remove it when you no longer need it",
		"folder", old)
	return durable.SyncFolder(c.Dir)
}
