package envelope

import (
	"signalbox"
)

// format is how one agent program writes JSON lines.
type format struct {
	schema *schema
	// types are the known event types, parts the known content types.
	types, parts map[string]bool
	// mayBeOwn reports whether a text that starts may be the agent's own, as far as the line is known.
	mayBeOwn func(d *decoder, id fieldID) bool
	// isOwn reports whether the text of a complete line is the agent's own.
	isOwn func(d *decoder) bool
	// continuesMessage reports whether the text of the line continues the previous message. As long as the line has not
	// said so, assume that it does, because then an open fence stays open.
	continuesMessage func(d *decoder) bool
	// mayBeError reports whether a text that starts may be an error message. Nil means that none is.
	mayBeError func(d *decoder, id fieldID) bool
	// mayWithdraw is set if the program may withdraw a message.
	mayWithdraw bool
	// handle acts on a complete line.
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
