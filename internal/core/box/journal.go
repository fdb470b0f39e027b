package box

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/nats"
	"signalbox/internal/core/journal/postgres"
	"signalbox/internal/core/journal/sqlite"
	"signalbox/internal/durable"
)

// access is how a journal is opened.
type access int

const (
	readWrite      access = iota
	readOnly              // where the driver knows the difference
	create                // if there is none
	destination           // of a move; returns an error with CodeNotFound if there is none
	newDestination        // of a move; created if there is none
)

// creates reports whether a journal is created if there is none.
func (a access) creates() bool { return a == create || a == newDestination }

// openJournal opens the journal at an address, which is what config.ReadJournal returns for the box
// in dir.
func openJournal(ctx context.Context, dir, address string, how access,
	opts *Options) (journal.Journal, error) {
	switch config.JournalScheme(address) {
	case "postgres":
		database, schema, err := config.PostgresAddress(address)
		if err != nil {
			return nil, err
		}
		j, err := postgres.Open(ctx, database,
			postgres.Options{Schema: schema, Create: how.creates(), Logger: opts.Log})
		return shared(dir, how, j, err)
	case "nats":
		j, err := nats.Open(ctx, address, nats.Options{Dir: dir, Create: how.creates(),
			Logger: opts.Log})
		return shared(dir, how, j, err)
	case config.JournalCluster:
		return openCluster(ctx, dir, how, opts)
	}
	j, err := sqlite.Open(ctx, dir,
		&sqlite.Options{Create: how.creates(), ReadOnly: how == readOnly, Logger: opts.Log})
	if err != nil {
		return nil, err
	}
	return j, nil
}

// clusterName is the folder in which the node of this machine keeps its data.
const clusterName = "cluster"

// openCluster opens the journal in the nodes that the configuration of the box lists.
func openCluster(ctx context.Context, dir string, how access,
	opts *Options) (journal.Journal, error) {
	settings, err := config.ReadCluster(dir)
	if err != nil {
		return nil, err
	}
	secret, made, err := clusterSecret(settings.SecretFile, how.creates())
	if how == destination && errors.Is(err, fs.ErrNotExist) {
		return nil, signalbox.CodeNotFound.Errorf(
			"copy the secret from a machine of the cluster, if there is one",
			"the cluster has not been used yet")
	}
	if err != nil {
		return nil, err
	}
	if made && len(settings.Nodes) > 1 {
		opts.Log.Warn("made a secret for the cluster: copy it to the other machines, and start signalbox worker on them", "file", settings.SecretFile)
	}
	cluster := nats.Cluster{Dir: filepath.Join(dir, clusterName), Node: settings.Node, Nodes: settings.Nodes, Secret: secret,
		Host: opts.Host || how.creates() || how == destination, Await: opts.Host &&
			how == readWrite, Guest: how == readOnly, Replace: how == newDestination}
	j, err := nats.OpenCluster(ctx, cluster, nats.Options{Create: how.creates(), Logger: opts.Log})
	if how == destination && errors.Is(err, nats.ErrOtherKind) {
		err = &signalbox.Error{Code: signalbox.CodeNotFound, Err: err}
	}
	return shared(dir, how, j, err)
}

// clusterSecret returns the secret of a cluster. If there is none and create is set, it makes one,
// and reports that.
func clusterSecret(name string, create bool) (secret []byte, made bool, err error) {
	if create {
		err := durable.Create(name, nats.NewSecret(), 0o600)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, false, signalbox.CodeFailed.Errorf(
				"set cluster.secret_file to a file that you may write",
				"cannot create the secret of the cluster: %w", err)
		}
		made = err == nil
	}
	info, err := os.Stat(name)
	if err == nil && info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, false, signalbox.CodeFailed.Errorf("run chmod 600 on the file",
			"other users can read the secret of the cluster, %s", name)
	}
	if err == nil {
		secret, err = durable.ReadRegular(name, 1<<16)
	}
	if err != nil {
		return nil, false, signalbox.CodeFailed.Errorf(
			"copy the file from a machine of the cluster; signalbox init makes the first one",
			"cannot read the secret of the cluster: %w", err)
	}
	return bytes.TrimSpace(secret), made, nil
}
