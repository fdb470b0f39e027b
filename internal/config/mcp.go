package config

import (
	"slices"

	"signalbox"
)

// MCP configures who may do what over MCP.
type MCP struct {
	// AllowSelfReview lets clients review and audit work that they have developed themselves.
	AllowSelfReview bool `yaml:"allow_self_review"`
	// Clients are HTTP clients with a token of their own, by name. The name is the identity of the
	// client.
	Clients map[string]MCPClient `yaml:"clients"`
}

// MCPClient is an HTTP client of the MCP server.
type MCPClient struct {
	// TokenEnv is the environment variable with the token. The token itself is never in the file.
	TokenEnv string `yaml:"token_env"`
	// Roles are the roles in which it may claim work. Nil means DefaultClientRoles; an empty list
	// means that it may not claim work.
	Roles []signalbox.Role `yaml:"roles"`
}

// ClientRoles returns the roles that an MCP client can have. The others are signalbox itself, or
// are dispatched only by a run.
func ClientRoles() []signalbox.Role {
	return []signalbox.Role{signalbox.RoleBusinessAnalyst, signalbox.RoleDeveloper,
		signalbox.RoleCritic, signalbox.RoleAuditor}
}

// DefaultClientRoles returns the roles of an MCP client for which none are configured.
func DefaultClientRoles() []signalbox.Role { return []signalbox.Role{signalbox.RoleDeveloper} }

func (c *Config) checkMCP(f *faults) {
	variables := map[string]bool{}
	for _, name := range sortedKeys(c.MCP.Clients) {
		at, client := setting("mcp", "clients", name), c.MCP.Clients[name]
		f.add(checkID(at, name, true))
		if client.TokenEnv == "" {
			f.fail(at, "write the name of the environment variable that has the token of this client", "needs token_env")
			continue
		}
		if wrong := checkKeyEnv(at.field("token_env"), client.TokenEnv); wrong != nil {
			wrong.hint = "write the name of an environment variable that has the token, such as REVIEWER_TOKEN"
			f.add(wrong)
		} else if variables[client.TokenEnv] {
			f.fail(at.field("token_env"),
				"give each client a token of its own: clients with the same token cannot be told apart", "used by two clients")
		}
		variables[client.TokenEnv] = true
		for i, role := range client.Roles {
			if !slices.Contains(ClientRoles(), role) {
				f.fail(at.field("roles").item(i), "the roles are "+list(ClientRoles()),
					"role %q cannot be claimed over MCP", role)
			}
		}
	}
}
