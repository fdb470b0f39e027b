package mcpserver

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

// Client is who calls tools: the program that started the server over stdio, or everyone who sends
// the same token over HTTP. It has the same name after it has reconnected, so that it stays one
// identity.
type Client struct {
	// Name is the identity of the client, and the actor of what it does.
	Name string
	// Roles are the roles in which it may claim work. Nil means config.DefaultClientRoles; an empty
	// list means none.
	Roles []signalbox.Role
	// Token is its bearer token over HTTP. It is not used over stdio.
	Token string
}

// validate fills in the defaults and checks the name and the roles.
func (c *Client) validate() error {
	if c.Roles == nil {
		c.Roles = config.DefaultClientRoles()
	}
	if err := signalbox.CheckID(c.Name); err != nil {
		return signalbox.CodeUsage.Errorf("set --actor or SIGNALBOX_ACTOR to a name such as ann",
			"name of the client: %w", err)
	}
	for _, role := range c.Roles {
		if !slices.Contains(config.ClientRoles(), role) {
			return signalbox.CodeUsage.Errorf("use one or more of: "+
				joinRoles(config.ClientRoles()), "role '%s' cannot be claimed over MCP", role)
		}
	}
	return nil
}

func joinRoles(roles []signalbox.Role) string {
	names := make([]string, len(roles))
	for i, role := range roles {
		names[i] = string(role)
	}
	return strings.Join(names, ", ")
}

// clientOf returns who makes a call. Over HTTP, the token of the request identifies the client.
func (s *Server) clientOf(request *mcp.CallToolRequest) (Client, error) {
	if request.Extra == nil || request.Extra.Header == nil && request.Extra.TokenInfo == nil {
		return s.opts.Client, nil // over stdio
	}
	if info := request.Extra.TokenInfo; info != nil {
		for _, client := range s.clients() {
			if client.Name == info.UserID {
				return client, nil
			}
		}
	}
	return Client{}, problemf("not_allowed", "send the token", "the caller is unknown")
}

// clients returns all HTTP clients.
func (s *Server) clients() []Client { return append([]Client{s.opts.Client}, s.opts.Clients...) }

// clientKey is the context key of the client of a call.
type clientKey struct{}

func withClient(ctx context.Context, client Client) context.Context {
	return context.WithValue(ctx, clientKey{}, client)
}

func clientFrom(ctx context.Context) Client {
	client, _ := ctx.Value(clientKey{}).(Client)
	return client
}

// caller returns who a call acts for, and the proof that it may. The server of an agent has the
// secret of its session; all others send the one that claim_work returned.
func (s *Server) caller(ctx context.Context, secret string) *rules.Caller {
	if s.opts.Session == "" {
		return &rules.Caller{Identity: clientFrom(ctx).Name, Secret: rules.HashSecret(secret)}
	}
	if secret == "" {
		secret = s.opts.Secret
	}
	return &rules.Caller{Secret: rules.HashSecret(secret)}
}

// actor returns the actor of what the client does, which is the client. Its calls may name it, and
// no one else.
func (c Client) actor(named string) (string, error) {
	if named != "" && named != c.Name {
		return "", problemf("not_allowed", "leave out actor",
			"this connection is '%s' and may not act as '%s'", c.Name, named)
	}
	return c.Name, nil
}

// checkRole returns an error if the client may not claim in a role.
func (c Client) checkRole(role signalbox.Role) error {
	switch {
	case slices.Contains(c.Roles, role):
		return nil
	case len(c.Roles) == 0:
		return problemf("not_allowed",
			"ask the operator for a connection with a role (signalbox mcp --roles, or mcp.clients)",
			"'%s' has no roles and may not claim work", c.Name)
	}
	return problemf("not_allowed",
		"claim work for one of these roles, or ask the operator for a connection with the other role (signalbox mcp --roles, or mcp.clients)",
		"'%s' may claim work as %s, not as %s", c.Name, joinRoles(c.Roles), role)
}

// checkSession returns an error if the client may not act in the role of a session. No client may
// act as ci or merger, which are signalbox itself.
func (s *Server) checkSession(ctx context.Context, b *box.Box, id string) error {
	var session *rules.Session
	b.Engine.View(func(state *rules.State) { session, _ = state.Session(id) })
	switch {
	case session == nil:
		return nil // the rules refuse it
	case session.Role == signalbox.RoleCI, session.Role == signalbox.RoleMerger:
		return problemf("not_allowed", "claim other work",
			"session '%s' is the %s, which cannot be used over MCP", id, session.Role)
	case s.opts.Session != "":
		return nil
	}
	return clientFrom(ctx).checkRole(session.Role)
}

// mayClaim reports whether the client could claim a work item that is not held now. It is for
// lists: the rules decide about an actual claim.
func (c Client) mayClaim(b *box.Box, state *rules.State, w *rules.Work, now time.Time) bool {
	role := claimable(state, w, now)
	if role == "" || !slices.Contains(c.Roles, role) {
		return false
	}
	reviews := role == signalbox.RoleCritic || role == signalbox.RoleAuditor
	return !reviews || b.Config.MCP.AllowSelfReview || !w.DevelopedBy(c.Name)
}
