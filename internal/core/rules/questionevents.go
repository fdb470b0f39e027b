package rules

import "signalbox"

// The types of events about questions to the human.
const (
	TypeQuestionAsked    = "QuestionAsked"
	TypeQuestionAnswered = "QuestionAnswered"
)

// QuestionAsked asks the human a question.
type QuestionAsked struct {
	Question string         `json:"question"`
	Kind     QuestionKind   `json:"kind"`
	Text     string         `json:"text"`
	Body     signalbox.Hash `json:"body,omitzero"`
	// Cap is which budget is spent, if it is not that of the task or the run. Role is the role if that is CapRole, and Spent what
	// the turn has used if it is CapTurn.
	Cap   Cap            `json:"cap,omitempty"`
	Role  signalbox.Role `json:"role,omitempty"`
	Spent Spent          `json:"spent,omitzero"`
	// Agents is the list of agents that cannot work, if the question is about them.
	Agents []string `json:"agents,omitempty"`
}

func (QuestionAsked) eventType() string { return TypeQuestionAsked }

// QuestionAnswered records the human's answer. Withdrawn means that the question no longer matters.
type QuestionAnswered struct {
	Question  string `json:"question"`
	Answer    string `json:"answer,omitempty"`
	Withdrawn bool   `json:"withdrawn,omitempty"`
	// NoGrant means that the answer to a question about a budget does not extend the budget: it was no, or the limit was raised.
	NoGrant bool `json:"no_grant,omitempty"`
	// Keep means that the human allows the large files of the task.
	Keep bool `json:"keep,omitempty"`
}

func (QuestionAnswered) eventType() string { return TypeQuestionAnswered }
