package envelope

import (
	"signalbox"
)

// format is how one agent program writes JSON lines.
type format struct {
	schema *schema
	// types are the known event types, parts the known content types.
	types, parts map[string]bool
	// session is how lines show the session that they belong to.
	session sessionRule
	// announces reports whether the line announces the session of the lines that follow, for
	// sessionAnnounced.
	announces func(d *decoder) bool
	// speaks are the event types that contain text of an agent or end a turn. Only lines of these
	// types are reported if they are not the agent's own.
	speaks map[string]bool
	// refuse returns why a line of the agent's session is not its own, "" if it is. Nil means that
	// all are.
	refuse func(d *decoder) signalbox.Reason
	// mayBeOwn reports whether a text that starts may be the agent's own, as far as the line is
	// known.
	mayBeOwn func(d *decoder, id fieldID) bool
	// isOwn reports whether the text of a complete line that is not refused is the agent's own.
	isOwn func(d *decoder) bool
	// continuesMessage reports whether the text of the line continues the previous message. As long
	// as the line has not said so, assume that it does, because then an open fence stays open.
	continuesMessage func(d *decoder) bool
	// mayBeError reports whether a text that starts may be an error message. Nil means that none
	// is.
	mayBeError func(d *decoder, id fieldID) bool
	// mayWithdraw is set if the program may withdraw a message.
	mayWithdraw bool
	// handle acts on a complete line that is not refused, or refused as that of a sub-agent.
	handle func(d *decoder)
}

var formats = map[signalbox.Format]*format{
	signalbox.FormatClaude:   claudeFormat(),
	signalbox.FormatCodex:    codexFormat(),
	signalbox.FormatGemini:   geminiFormat(),
	signalbox.FormatOpencode: opencodeFormat(),
	signalbox.FormatOracle:   oracleFormat(),
}

func set(names ...string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
}
