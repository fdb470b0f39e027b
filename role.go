package signalbox

import "slices"

// Role is what a session was dispatched as. It determines which signals the session may send.
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

// MaySend reports whether the role may send the line signal called name.
func (r Role) MaySend(name string) bool {
	switch name {
	case NameReadyForReview, NameTaskIncomplete, NameInfraBlocked:
		return r == RoleDeveloper
	case NameReviewPassed, NameReviewFailed:
		return r == RoleCritic
	case NameAuditPassed, NameAuditFailed, NameAuditBlocked:
		return r == RoleAuditor
	case NameExpandedSpec:
		return r == RoleBusinessAnalyst
	case NameRemediationComplete:
		return r == RoleRemediation
	case NameHealthHealthy, NameHealthUnhealthy:
		return r == RoleHealthAuditor
	case NameExpertAdvice, NameExpertUnsuccessful:
		return r == RoleExpert
	case NameDivineClarification, NameExpertRequest, NameFileConflict:
		return r.known() && r != RoleExpert
	case NameCheckpoint:
		return r.known()
	case NameExpertCreated:
		return r == RoleExpertCreator || r == RoleOperator
	}
	return false
}

// IsAuthor reports whether the role changes the project's files. Every other role judges such
// changes, or advises those who do, so what an author wrote must not reach its program.
func (r Role) IsAuthor() bool { return r == RoleDeveloper || r == RoleRemediation }

func (r Role) known() bool { return slices.Contains(Roles(), r) }
