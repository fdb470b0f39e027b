package crew

import (
	"fmt"
	"slices"

	"signalbox"
	"signalbox/transcript"
)

// adviceFor returns what to tell an agent whose turn has no valid signal, although it sent
// something that is or resembles one: why the last such signal was refused, and what to send
// instead. It returns "" if there is nothing to say. signals were resolved.
func adviceFor(signals []signalbox.Signal, role signalbox.Role, work string) string {
	for _, sig := range slices.Backward(signals) {
		row, known := signalbox.LineSignalNamed(sig.Name)
		if sig.Dialect == "" || !known && sig.Detail == "" {
			continue
		}
		sent, line := row.Text, row.Text
		if sig.TaskID != "" {
			sent += ": " + sig.TaskID
		}
		if row.Argument == signalbox.TaskArgument {
			line += ": " + work
		}
		place := map[signalbox.Reason]string{signalbox.ReasonFenced: "inside a code block", signalbox.ReasonQuoted: "inside inline code",
			signalbox.ReasonDelegated: "inside a prompt for another agent"}[sig.Refused]
		switch {
		case sig.Dialect == signalbox.DialectExit &&
			sig.Detail == transcript.ErrExitDisabled.Error():
			return fmt.Sprintf("You sent an exit signal, but %v. Send this line instead: %s",
				transcript.ErrExitDisabled, exitAsLine(sig.Exit, role, work))
		case sig.Refused == signalbox.ReasonThinking && known:
			return fmt.Sprintf("You wrote %s inside what you think, where signals are ignored. Write the signal that you mean after it.", sent)
		case sig.Refused == signalbox.ReasonWrongWork:
			return fmt.Sprintf("You sent %s, but your signals must name %s (wrong_work). Send: %s",
				sent, work, line)
		case sig.Refused == signalbox.ReasonOutOfRole:
			return fmt.Sprintf("You sent %s, which the role %s must not send (out_of_role). Send one of the signals listed in your prompt.", sent, role)
		case place != "" && known &&
			transcript.RefusalReason(sig, role, work) == "": // otherwise it was hardly meant
			return ifMeant(sig, fmt.Sprintf(
				"You sent %s %s (%s), where signals are ignored. Send it outside, on a line of its own: %s", sent, place, sig.Refused, line))
		case sig.Refused == signalbox.ReasonNearMiss && !role.MaySend(sig.Name):
		case sig.Refused == signalbox.ReasonNearMiss, sig.Refused == signalbox.ReasonWrongKey,
			sig.Refused == signalbox.ReasonMalformed, sig.Refused == signalbox.ReasonUnknownType,
			sig.Refused == signalbox.ReasonTooLarge:
			if sig.Detail != "" {
				return ifMeant(sig, sig.Detail)
			}
		}
	}
	return ""
}

// ifMeant makes advice to send a verdict that passes work conditional: the reviewer may have denied
// it, or quoted it.
func ifMeant(sig signalbox.Signal, advice string) string {
	switch sig.Name {
	case signalbox.NameReviewPassed, signalbox.NameAuditPassed, signalbox.NameHealthHealthy:
		return "Only if it is your verdict; otherwise send the one that is: " + advice
	}
	return advice
}

// exitAsLine returns the line signal that says what an exit signal says. What does not fit into a
// line is a question to the human.
func exitAsLine(exit *signalbox.ExitSignal, role signalbox.Role, work string) string {
	stopped := map[signalbox.Role]string{signalbox.RoleDeveloper: signalbox.NameTaskIncomplete,
		signalbox.RoleCritic:        signalbox.NameReviewFailed,
		signalbox.RoleAuditor:       signalbox.NameAuditBlocked,
		signalbox.RoleHealthAuditor: signalbox.NameHealthUnhealthy,
		signalbox.RoleExpert:        signalbox.NameExpertUnsuccessful}
	line := signalbox.LineSignal{}
	for _, row := range signalbox.LineSignals() {
		said := row.Passing && exit.ExitReason == signalbox.ExitCompleted ||
			row.Name == stopped[role] && exit.ExitReason != signalbox.ExitCompleted ||
			row.Name == signalbox.NameDivineClarification
		if line.Name == "" && said && role.MaySend(row.Name) {
			line = row
		}
	}
	if line.Argument == signalbox.TaskArgument {
		return line.Text + ": " + work
	}
	return line.Text
}
