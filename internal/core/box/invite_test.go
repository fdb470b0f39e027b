package box

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/testkit/must"
	"signalbox/ledger"
)

func TestInvitationTokens(t *testing.T) {
	_, public, err := ledger.GenerateKey(strings.NewReader(strings.Repeat("x", 100)),
		origin("box-1"))
	must.Succeed(t, err)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	valid := Invitation{Version: 1, Box: "box-1", Key: public,
		Journal: "postgres://db.example.com/shop", Checkpoint: []byte("note"),
		Expires: now.Add(time.Hour)}
	token := valid.Token()
	if strings.ContainsAny(token, " \n+/=") {
		t.Errorf("%q cannot be copied easily", token)
	}
	got, err := ParseInvitation(" "+token+"\n", now)
	must.Succeed(t, err)
	if diff := cmp.Diff(&valid, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	other := func(change func(*Invitation)) string {
		i := valid
		change(&i)
		return i.Token()
	}
	changed := "A"
	if token[30:31] == changed {
		changed = "B"
	}
	for want, token := range map[string]string{
		"not an invitation":     "hello",
		"damaged":               token[:len(token)-3],
		"invitation is damaged": token[:30] + changed + token[31:],
		"another version":       other(func(i *Invitation) { i.Version = 2 }),
		"not valid":             other(func(i *Invitation) { i.Box = "box-2" }),
		"is not valid":          other(func(i *Invitation) { i.Journal = "" }),
		"expired at":            other(func(i *Invitation) { i.Expires = now }),
	} {
		if _, err := ParseInvitation(token, now); err == nil ||
			!strings.Contains(err.Error(), want) || signalbox.CodeOf(err) != signalbox.CodeUsage {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// The folder of an invited machine has the ledger of the invitation and otherwise the commented
// template.
func TestInvitedBox(t *testing.T) {
	_, public, err := ledger.GenerateKey(strings.NewReader(strings.Repeat("x", 100)),
		origin("box-1"))
	must.Succeed(t, err)
	dir := filepath.Join(t.TempDir(), FolderName)
	i := Invitation{Version: 1, Box: "box-1", Key: public,
		Journal: "postgres://signalbox@db.example.com/shop?schema=shop",
		Remote:  "ssh://git@example.com/shop.git"}
	must.Succeed(t, i.WriteBox(dir))
	if got, err := config.ReadJournal(dir); err != nil || got != i.Journal {
		t.Errorf("the journal is %q (%v)", got, err)
	}
	if c, err := config.Load(dir); err != nil || c.Workspace.Remote != i.Remote {
		t.Errorf("the configuration: %+v, %v", c, err)
	}
	dir = filepath.Join(t.TempDir(), FolderName)
	i.Journal, i.Cluster = "",
		&InvitedNode{Node: "b", Nodes: map[string]string{"a": "10.0.0.1:7420", "b": "10.0.0.2:7420",
			"c": "10.0.0.3:7420"}, Secret: []byte("secret")}
	must.Succeed(t, i.WriteBox(dir))
	got, err := config.ReadCluster(dir)
	if err != nil || got.Node != "b" || len(got.Nodes) != 3 ||
		got.SecretFile != filepath.Join(dir, config.DefaultSecretFile) {
		t.Errorf("the cluster is %+v (%v)", got, err)
	}
	if c, err := config.Load(dir); err != nil || c.Cluster.Node != "b" {
		t.Errorf("the configuration: %+v, %v", c, err)
	}
	// Settings cannot be smuggled in.
	i.Cluster.Nodes["d\"\nchecks: x #"] = "x"
	if err := i.WriteBox(filepath.Join(t.TempDir(), FolderName)); err == nil {
		t.Error("the name of a node that is not valid is accepted")
	}
}
