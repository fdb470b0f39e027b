package box

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/durable"
	"signalbox/ledger"
)

// Invitation is what another machine needs to join a box: where its ledger is, and how to recognise
// it.
type Invitation struct {
	// Version is the version of this format.
	Version int `json:"v"`
	// Box is the id of the box, and Key its public key.
	Box string `json:"box"`
	Key string `json:"key"`
	// Journal is the address of the ledger; "" if Cluster is set.
	Journal string `json:"journal,omitempty"`
	// Cluster is for machines that run the database themselves. It has their secret.
	Cluster *InvitedNode `json:"cluster,omitempty"`
	// Remote is the setting workspace.remote of the inviting machine.
	Remote string `json:"remote,omitempty"`
	// NoRepository means that the box of the inviting machine is not for a repository, so that
	// there is none to get.
	NoRepository bool `json:"no_repository,omitempty"`
	// Checkpoint is the last signed checkpoint that the inviting machine has; nil if it has none.
	Checkpoint []byte `json:"checkpoint,omitempty"`
	// Expires is when the invitation ends.
	Expires time.Time `json:"expires"`
}

// InvitedNode is the node of a cluster that the invited machine will run.
type InvitedNode struct {
	Node   string            `json:"node"`
	Nodes  map[string]string `json:"nodes"`
	Secret []byte            `json:"secret"`
}

const (
	invitationVersion = 1
	tokenPrefix       = "signalbox-"
	tokenSum          = 6 // bytes of the digest at the start of a token
	maxToken          = 32 << 10
)

// Invite returns an invitation to the box. In a cluster, the invited machine runs node. In a
// database, it logs in as user; "" is the user of this machine.
func (l *Ledger) Invite(node, user string, expires time.Time) (*Invitation, error) {
	public, err := l.PublicKey()
	if err != nil {
		return nil, err
	}
	i := &Invitation{Version: invitationVersion, Box: l.ID(), Key: public, Expires: expires.UTC().Truncate(time.Second)}
	if last, err := l.lastCheckpoint(public); err != nil {
		return nil, err
	} else if last != nil {
		i.Checkpoint = last.Signed
	}
	settings, err := config.Load(l.Dir)
	if err != nil {
		return nil, err
	}
	i.Remote = settings.Workspace.Remote
	address, err := config.ReadJournal(l.Dir)
	if err != nil {
		return nil, err
	}
	switch {
	case address == config.JournalSQLite:
		return nil, signalbox.CodeFailed.Errorf(
			"move it to a database with signalbox ledger migrate",
			"the ledger of this box is a file, which other machines cannot reach")
	case address != config.JournalCluster && node != "":
		return nil, signalbox.CodeUsage.Errorf("leave --node out",
			"this box has no cluster, so there is no node to run")
	case user != "":
		i.Journal, err = config.SetJournalUser(address, user)
		return i, err
	case address != config.JournalCluster:
		i.Journal = address
		return i, nil
	}
	cluster, err := config.ReadCluster(l.Dir)
	if err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(cluster.Nodes)),
		func(name string) bool { return name == cluster.Node })
	if len(others) == 0 {
		return nil, signalbox.CodeFailed.Errorf(
			"move the ledger to a database that other machines reach with signalbox ledger migrate",
			"the cluster has one node, on this machine")
	}
	if !slices.Contains(others, node) {
		return nil, signalbox.CodeUsage.Errorf(
			"add --node with one of: "+strings.Join(others, ", "),
			"the node that the other machine runs is missing")
	}
	secret, _, err := clusterSecret(cluster.SecretFile, false)
	if err != nil {
		return nil, err
	}
	i.Cluster = &InvitedNode{Node: node, Nodes: cluster.Nodes, Secret: secret}
	return i, nil
}

// Token returns the invitation on one line. ParseInvitation reads it.
func (i *Invitation) Token() string {
	text, err := json.Marshal(i)
	if err != nil {
		panic("box: encoding an invitation: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(append(sum[:tokenSum], text...))
}

// ParseInvitation reads a token. It returns an error if the token is damaged or has expired.
func ParseInvitation(token string, now time.Time) (*Invitation, error) {
	fail := func(hint, format string, args ...any) error {
		return signalbox.CodeUsage.Errorf(hint, format, args...)
	}
	const again = "copy the whole line that signalbox invite printed"
	encoded, ours := strings.CutPrefix(strings.TrimSpace(token), tokenPrefix)
	if !ours || len(encoded) > maxToken {
		return nil, fail(again, "this is not an invitation")
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(data) <= tokenSum {
		return nil, fail(again, "the invitation is damaged")
	}
	if sum := sha256.Sum256(data[tokenSum:]); string(sum[:tokenSum]) != string(data[:tokenSum]) {
		return nil, fail(again, "the invitation is damaged")
	}
	var i Invitation
	if err := json.Unmarshal(data[tokenSum:], &i); err != nil {
		return nil, fail(again, "the invitation is damaged")
	}
	if i.Version != invitationVersion {
		return nil, fail("install the version of signalbox that the other machine has",
			"the invitation is from another version of signalbox")
	}
	name, err := ledger.KeyName(i.Key)
	if err != nil || name != origin(i.Box) || signalbox.CheckID(i.Box) != nil ||
		(i.Journal == "") == (i.Cluster == nil) {
		return nil, fail("ask for a new one", "the invitation is not valid")
	}
	if !now.Before(i.Expires) {
		return nil, fail("run signalbox invite again on the other machine",
			"the invitation expired at %s", i.Expires.Format(time.RFC3339))
	}
	return &i, nil
}

// WriteBox writes the folder of a box for the invited machine. Its ledger must exist.
func (i *Invitation) WriteBox(dir string) error {
	if err := makeFolder(dir, config.Template); err != nil {
		return err
	}
	files := map[string][]byte{publicKeyName: []byte(i.Key + "\n")}
	if i.Checkpoint != nil {
		files[checkpointName] = i.Checkpoint
	}
	text, err := i.configuration()
	if err != nil {
		return err
	}
	files[config.FileName] = text
	if i.Cluster != nil {
		files[config.DefaultSecretFile] = i.Cluster.Secret
	}
	for name, data := range files {
		if err := durable.Replace(filepath.Join(dir, name), data, 0o600); err != nil {
			return cannotCreate(err)
		}
	}
	return nil
}

// configuration returns the commented configuration of a new box, with the ledger and the remote
// repository of the invitation. Nothing else comes from the invitation: the agents and the checks
// of a machine are its own.
func (i *Invitation) configuration() ([]byte, error) {
	text := []byte(config.Template)
	if i.Cluster == nil {
		var err error
		if text, err = config.SetJournal(text, i.Journal); err != nil {
			return nil, err
		}
	} else {
		text = fmt.Appendf(text, "\ncluster:\n  node: %q\n  nodes:\n", i.Cluster.Node)
		for _, name := range slices.Sorted(maps.Keys(i.Cluster.Nodes)) {
			text = fmt.Appendf(text, "    %q: %q\n", name, i.Cluster.Nodes[name])
		}
	}
	if i.Remote != "" {
		text = fmt.Appendf(text, "\nworkspace: {remote: %q}\n", i.Remote)
	}
	_, err := config.Parse(text)
	return text, err
}

// Recognise returns an error if the ledger is not the one that the invitation is for.
func (i *Invitation) Recognise(ctx context.Context, l *Ledger) error {
	if l.ID() != i.Box {
		return unverified("the ledger at %s belongs to %s, but the invitation is for %s",
			i.address(), l.ID(), i.Box)
	}
	if i.Checkpoint == nil {
		return nil
	}
	opened, err := ledger.OpenCheckpoint(i.Checkpoint, i.Key)
	if err != nil {
		return unverified("the checkpoint in the invitation is not valid: %w", err)
	}
	_, err = l.treeFor(ctx, &Checkpoint{opened, i.Checkpoint, false})
	return err
}

// address returns where the ledger is, for people.
func (i *Invitation) address() string {
	if i.Cluster != nil {
		return "the cluster"
	}
	return config.WithoutSecrets(i.Journal)
}

// Exists reports whether there is a box in a folder, or a part of one.
func Exists(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) > 0
}
