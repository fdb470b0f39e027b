package signalbox

import "slices"

// Role is what a session was dispatched as. It is a capability, not a word in a message.
type Role string

const (
	RoleDeveloper       Role = "developer"
	RoleCritic          Role = "critic"
	RoleAuditor         Role = "auditor"
	RoleBusinessAnalyst Role = "business-analyst"
	RoleRemediation     Role = "remediation"
	RoleHealthAuditor   Role = "health-auditor"
	RoleExpert          Role = "expert"
	RoleExpertCreator   Role = "expert-creator"
	RoleOperator        Role = "operator"
)

// Roles returns all roles.
func Roles() []Role {
	return []Role{RoleDeveloper, RoleCritic, RoleAuditor, RoleBusinessAnalyst, RoleRemediation,
		RoleHealthAuditor, RoleExpert, RoleExpertCreator, RoleOperator}
}

// MaySend reports whether the role may send the line signal of that name.
func (r Role) MaySend(name string) bool {
	switch name {
	case "ready_for_review", "task_incomplete", "infra_blocked":
		return r == RoleDeveloper
	case "review_passed", "review_failed":
		return r == RoleCritic
	case "audit_passed", "audit_failed", "audit_blocked":
		return r == RoleAuditor
	case "expanded_spec":
		return r == RoleBusinessAnalyst
	case "remediation_complete":
		return r == RoleRemediation
	case "health_healthy", "health_unhealthy":
		return r == RoleHealthAuditor
	case "expert_advice", "expert_unsuccessful":
		return r == RoleExpert
	case "divine_clarification", "expert_request", "file_conflict":
		return r.known() && r != RoleExpert
	case "checkpoint":
		return r.known()
	case "expert_created":
		return r == RoleExpertCreator || r == RoleOperator
	}
	return false
}

func (r Role) known() bool { return slices.Contains(Roles(), r) }
