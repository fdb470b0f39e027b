package boxes

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/testkit/must"
	"signalbox/ledger"
)

// Other users can see the arguments of a program, so the secret of a cluster must not be one.
func TestJoinTokens(t *testing.T) {
	_, public, err := ledger.GenerateKey(strings.NewReader(strings.Repeat("x", 100)),
		"signalbox/box-1")
	must.Succeed(t, err)
	plain := box.Invitation{Version: 1, Box: "box-1", Key: public,
		Journal: "postgres://db.example.com/shop", Expires: time.Now().Add(time.Hour)}
	secret := plain
	secret.Journal, secret.Cluster = "",
		&box.InvitedNode{Node: "b", Nodes: map[string]string{"a": "10.0.0.1:7420",
			"b": "10.0.0.2:7420"}, Secret: []byte("secret")}
	file := filepath.Join(t.TempDir(), "token")
	must.Succeed(t, os.WriteFile(file, []byte(secret.Token()+"\n"), 0o600))
	for name, test := range map[string]struct {
		command JoinCommand
		dir     string
		fault   string
	}{
		"no secret": {JoinCommand{Token: cli.NonEmpty(plain.Token()), Dir: "shop"},
			"shop", ""},
		"a secret": {JoinCommand{Token: cli.NonEmpty(secret.Token()), Dir: "shop"}, "",
			"other users can see"},
		"standard input": {JoinCommand{Token: "-", Dir: "shop"}, "shop", ""},
		"a file": {JoinCommand{TokenFile: cli.NonEmpty(file), Token: "shop"}, "shop",
			""},
		"a file, no folder": {JoinCommand{TokenFile: cli.NonEmpty(file)}, "", ""},
		"a token and a file": {JoinCommand{TokenFile: cli.NonEmpty(file),
			Token: cli.NonEmpty(plain.Token()), Dir: "shop"}, "", "together"},
		"neither": {JoinCommand{}, "", "the token is missing"},
		"a file with no token": {JoinCommand{TokenFile: cli.NonEmpty(os.DevNull)}, "",
			"not an invitation"},
	} {
		p := &cli.Program{Stdin: strings.NewReader(secret.Token() + "\n"), Stdout: io.Discard,
			Stderr: &bytes.Buffer{}, Out: bufio.NewWriter(io.Discard)}
		invitation, err := test.command.invitation(p)
		switch {
		case test.fault != "":
			if err == nil || !strings.Contains(err.Error(), test.fault) ||
				signalbox.CodeOf(err) != signalbox.CodeUsage {
				t.Errorf("%s: %v, want %q", name, err, test.fault)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case invitation.Box != "box-1" || test.command.Dir != test.dir:
			t.Errorf("%s: %+v in %q", name, invitation, test.command.Dir)
		}
	}
}
