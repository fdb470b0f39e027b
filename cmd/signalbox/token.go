package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"signalbox"
	"signalbox/internal/serve/access"
)

type tokenCommands struct {
	Create tokenCreateCommand `cmd:"" help:"Create a token and print it."`
	List   tokenListCommand   `cmd:"" help:"List the tokens."`
	Revoke tokenRevokeCommand `cmd:"" help:"Revoke a token."`
}

func (tokenCommands) Help() string {
	return `Programs that use the API of signalbox serve send a token: Authorization: Bearer TOKEN. A token has a scope:

    read        read everything, including transcripts
    answer      also answer questions, approve, reject, and give words to agents
    operate     also open and claim work, pause, resume, cancel and retry
    session:ID  renew, release and end one session, and nothing else

The name of a token is the actor on the ledger. Only a digest of it is stored, in the box.

Examples:

    signalbox token create dashboard --scope read
    signalbox token list
    signalbox token revoke dashboard`
}

type tokenCreateCommand struct {
	boxFlag
	Name    string        `arg:"" help:"A name for the token, which is its actor on the ledger."`
	Scope   string        `required:"" help:"What it allows: read, answer, operate, or session:ID."`
	Expires time.Duration `placeholder:"D" help:"How long it is valid, such as 720h. Default: until it is revoked."`
	JSON    bool          `name:"json" help:"Print one JSON object."`
}

func (tokenCreateCommand) Help() string {
	return `Creates a token and prints it. It is not stored, so it cannot be shown again.

Examples:

    signalbox token create ci --scope operate --expires 24h
    TOKEN=$(signalbox token create phone --scope answer)`
}

// tokenView is a token as JSON.
type tokenView struct {
	Name    string       `json:"name"`
	Scope   access.Scope `json:"scope"`
	Created time.Time    `json:"created"`
	Expires *time.Time   `json:"expires"`
	// Token is the token itself, only when it is created.
	Token string `json:"token,omitempty"`
}

func viewToken(t access.Token) tokenView {
	v := tokenView{Name: t.Name, Scope: t.Scope, Created: t.Created}
	if !t.Expires.IsZero() {
		v.Expires = &t.Expires
	}
	return v
}

func (c *tokenCreateCommand) Run(p *program) error {
	store, err := p.tokens(c.boxFlag)
	if err != nil {
		return err
	}
	scope, err := access.ParseScope(c.Scope)
	if err != nil {
		return err
	}
	if c.Expires < 0 {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("--expires is %s", c.Expires), Hint: "a duration such as 720h"}
	}
	t := access.Token{Name: c.Name, Kind: access.KindToken, Scope: scope, Created: time.Now().UTC().Truncate(time.Second)}
	if c.Expires > 0 {
		t.Expires = t.Created.Add(c.Expires)
	}
	secret, err := store.Create(context.Background(), t)
	if err != nil {
		return err
	}
	if c.JSON {
		v := viewToken(t)
		v.Token = secret
		return p.printJSON(v, "")
	}
	_, err = fmt.Fprintln(p.out, secret)
	return err
}

// tokens returns the tokens of the box, which only an operator may change.
func (p *program) tokens(f boxFlag) (*access.Store, error) {
	if err := p.operatorOnly("manage tokens"); err != nil {
		return nil, err
	}
	dir, err := p.findBox(f)
	if err != nil {
		return nil, err
	}
	return access.NewStore(dir), nil
}

type tokenListCommand struct {
	boxFlag
	JSON bool `name:"json" help:"Print a JSON array."`
}

func (tokenListCommand) Help() string {
	return `Lists the tokens of the box, in the order in which they were created. The tokens themselves are not stored.

Examples:

    signalbox token list
    signalbox token list --json`
}

func (c *tokenListCommand) Run(p *program) error {
	store, err := p.tokens(c.boxFlag)
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
		return p.printJSON(views, "")
	}
	if len(tokens) == 0 {
		p.notef("there are no tokens; signalbox token create makes one")
		return nil
	}
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSCOPE\tCREATED\tEXPIRES")
	for _, t := range tokens {
		expires := "never"
		if !t.Expires.IsZero() {
			expires = t.Expires.Format(time.DateTime)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.Name, t.Scope, t.Created.Format(time.DateTime), expires)
	}
	return w.Flush()
}

type tokenRevokeCommand struct {
	boxFlag
	Name string `arg:"" help:"The name of the token."`
}

func (tokenRevokeCommand) Help() string {
	return `Revokes a token. Requests with it are refused from now on, also by a server that is running.

Examples:

    signalbox token revoke phone`
}

func (c *tokenRevokeCommand) Run(p *program) error {
	store, err := p.tokens(c.boxFlag)
	if err != nil {
		return err
	}
	if err := store.Revoke(context.Background(), c.Name); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "revoked %s\n", c.Name)
	return err
}
