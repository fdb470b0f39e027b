package serving

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/cli/web"
	"signalbox/internal/core/box"
	"signalbox/internal/serve/access"
)

type TokenCommands struct {
	Create tokenCreateCommand `cmd:"" help:"Create a token and print it."`
	Link   tokenLinkCommand   `cmd:"" help:"Print a link that logs a browser in."`
	List   tokenListCommand   `cmd:"" help:"List the tokens."`
	Revoke tokenRevokeCommand `cmd:"" help:"Revoke a token."`
}

func (TokenCommands) Help() string {
	return `Programs that use the API of signalbox serve send a token: Authorization: Bearer TOKEN. A token has a scope:

    read        read everything, including transcripts
    answer      also answer questions, approve, reject, and give words to agents
    operate     also open and claim work, pause, resume, cancel and retry
    session:ID  renew, release and end one session, and nothing else

A token is valid for 90 days unless --expires says otherwise. Its name is the actor on the ledger. Only a digest of it is stored, in the box.

Examples:

    signalbox token create monitor --scope read
    signalbox token link
    signalbox token list
    signalbox token revoke monitor`
}

type tokenCreateCommand struct {
	cli.BoxFlag
	Name    string   `arg:"" help:"A name for the token, which is its actor on the ledger."`
	Scope   string   `required:"" help:"What it allows: read, answer, operate, or session:ID."`
	Expires lifetime `placeholder:"D" default:"2160h" help:"How long it is valid, such as 720h, or never: until you revoke it. Default: 2160h, which is 90 days."`
	JSON    bool     `name:"json" help:"Print one JSON object."`
}

// lifetime is how long a token is valid; 0 means until it is revoked.
type lifetime time.Duration

// never is the lifetime of a token that does not expire.
const never = "never"

func (l *lifetime) UnmarshalText(text []byte) error {
	if string(text) == never {
		*l = 0
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d <= 0 {
		return fmt.Errorf("'%s' is neither a duration such as 720h nor %s", text, never)
	}
	*l = lifetime(d)
	return nil
}

func (tokenCreateCommand) Help() string {
	return `Creates a token and prints it. It is not stored, so it cannot be shown again. When it has expired, requests with it are refused with a message that says so, and you can create another one with its name.

Examples:

    signalbox token create ci --scope operate --expires 24h
    TOKEN=$(signalbox token create phone --scope answer)`
}

type tokenLinkCommand struct {
	cli.BoxFlag
	Scope   string       `default:"operate" help:"What the browser may do: read, answer or operate."`
	Address cli.NonEmpty `placeholder:"URL" help:"The address of the server, as the browser reaches it. Default: that of the server that serves the box on this machine."`
	QR      bool         `name:"qr" help:"Also print it as a QR code, for the camera of a phone."`
}

func (tokenLinkCommand) Help() string {
	return `Prints a link that logs a browser in at signalbox serve. It works once, within 15 minutes. The browser stays logged in for 30 days, or until you revoke its token: signalbox token list shows it.

Examples:

    signalbox token link
    signalbox token link --qr --scope answer --address https://192.168.1.20:7700`
}

func (c *tokenLinkCommand) Run(p *cli.Program) error {
	store, err := tokens(p, c.BoxFlag)
	if err != nil {
		return err
	}
	scope, err := access.ParseScope(c.Scope)
	if err != nil {
		return err
	}
	address, err := c.address(p)
	if err != nil {
		return err
	}
	link, err := web.NewLink(context.Background(), store, address, scope)
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintln(p.Out, link); err != nil || !c.QR {
		return err
	}
	colors := p.Colors(p.Stdout)
	lines, err := qrLines(link, colors)
	if err != nil {
		return signalbox.CodeUsage.Errorf("use a shorter --address",
			"the link does not fit into a QR code: %w", err)
	}
	_, err = fmt.Fprintln(p.Styled(colors), strings.Join(lines, "\n"))
	return err
}

// address returns the address of the server without the slash at its end.
func (c *tokenLinkCommand) address(p *cli.Program) (address string, err error) {
	if c.Address != "" {
		return strings.TrimSuffix(string(c.Address), "/"), nil
	}
	err = p.WithLedger(c.BoxFlag, func(ctx context.Context, l *box.Ledger) error {
		name, err := access.NewStore(l.Dir).LoginHost(ctx)
		if err != nil {
			return err
		}
		address = "http://" + name + ":" + web.DefaultPort
		served, err := os.ReadFile(filepath.Join(l.Dir, web.AddressFile))
		if err == nil {
			address = strings.TrimSpace(string(served))
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
			p.Notef("no server serves the box; start it with signalbox serve")
		}
		return err
	})
	return address, err
}

// tokenView is a token as JSON.
type tokenView struct {
	Name    string       `json:"name"`
	Kind    access.Kind  `json:"kind"`
	Scope   access.Scope `json:"scope"`
	Created time.Time    `json:"created"`
	Expires *time.Time   `json:"expires"`
	// Token is the token itself, only when it is created.
	Token string `json:"token,omitempty"`
}

func viewToken(t access.Token) tokenView {
	v := tokenView{Name: t.Name, Kind: t.Kind, Scope: t.Scope, Created: t.Created}
	if !t.Expires.IsZero() {
		v.Expires = &t.Expires
	}
	return v
}

func (c *tokenCreateCommand) Run(p *cli.Program) error {
	store, err := tokens(p, c.BoxFlag)
	if err != nil {
		return err
	}
	scope, err := access.ParseScope(c.Scope)
	if err != nil {
		return err
	}
	t := access.Token{Name: c.Name, Kind: access.KindToken, Scope: scope, Created: time.Now().UTC().Truncate(time.Second)}
	if c.Expires > 0 {
		t.Expires = t.Created.Add(time.Duration(c.Expires))
	}
	secret, err := store.Create(context.Background(), t)
	if err != nil {
		return err
	}
	if c.JSON {
		v := viewToken(t)
		v.Token = secret
		return p.PrintJSON(v, "")
	}
	_, err = fmt.Fprintln(p.Out, secret)
	return err
}

// tokens returns the tokens of the box, which only an operator may change.
func tokens(p *cli.Program, f cli.BoxFlag) (*access.Store, error) {
	if err := p.OperatorOnly("manage tokens"); err != nil {
		return nil, err
	}
	dir, err := p.FindBox(f)
	if err != nil {
		return nil, err
	}
	return access.NewStore(dir), nil
}

type tokenListCommand struct {
	cli.BoxFlag
	JSON bool `name:"json" help:"Print a JSON array."`
}

func (tokenListCommand) Help() string {
	return `Lists the tokens of the box, in the order in which they were created. The tokens themselves are not stored.

Examples:

    signalbox token list
    signalbox token list --json`
}

func (c *tokenListCommand) Run(p *cli.Program) error {
	store, err := tokens(p, c.BoxFlag)
	if err != nil {
		return err
	}
	tokens, err := store.List()
	if err != nil {
		return err
	}
	if c.JSON {
		views := []tokenView{}
		for _, t := range tokens {
			views = append(views, viewToken(t))
		}
		return p.PrintJSON(views, "")
	}
	if len(tokens) == 0 {
		p.Notef("there are no tokens; signalbox token create makes one")
		return nil
	}
	w := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tKIND\tSCOPE\tCREATED\tEXPIRES")
	for _, t := range tokens {
		expires := never
		if !t.Expires.IsZero() {
			expires = t.Expires.Format(time.DateTime)
		}
		if t.Expired(time.Now()) {
			expires += " (expired)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.Name, t.Kind, t.Scope,
			t.Created.Format(time.DateTime), expires)
	}
	return w.Flush()
}

type tokenRevokeCommand struct {
	cli.BoxFlag
	Name string `arg:"" help:"The name of the token."`
}

func (tokenRevokeCommand) Help() string {
	return `Revokes a token. Requests with it are refused from now on, also by a server that is running.

Examples:

    signalbox token revoke phone`
}

func (c *tokenRevokeCommand) Run(p *cli.Program) error {
	store, err := tokens(p, c.BoxFlag)
	if err != nil {
		return err
	}
	if err := store.Revoke(context.Background(), c.Name); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "revoked %s\n", c.Name)
	return err
}
