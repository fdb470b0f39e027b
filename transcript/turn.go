package transcript

import (
	"fmt"
	"reflect"
	"strings"

	"signalbox"
	"signalbox/transcript/internal/lines"
	"signalbox/transcript/internal/payload"
)

// turnSignal parses a block outside fences as a signal. first is the turn signal that counts in the
// message so far, nil if there is none. A signal that counts may have invalid fields; problems are
// the remarks about them.
func turnSignal(b turnBlock, key string,
	first *signalbox.Signal) (sig signalbox.Signal, problems []signalbox.Signal) {
	sig = signalbox.Signal{Dialect: signalbox.DialectTurn, Offset: b.at, Line: b.line}
	switch b.kind {
	case blockTooLarge:
		sig.Raw, sig.Refused = lines.Excerpt(b.raw), signalbox.ReasonTooLarge
		sig.Detail = fmt.Sprintf("a turn signal is at most %d bytes", MaxTurnBlock)
		return sig, nil
	case blockUnterminated:
		sig.Raw, sig.Refused = lines.Excerpt(b.raw), signalbox.ReasonMalformed
		sig.Detail = "the block is not closed by </signal>"
		return sig, nil
	}
	sig.Raw = lines.Valid(b.raw)
	turn, err := payload.ReadTurn(b.raw)
	if err != nil {
		if near, ok := lineInBlock(b, key); ok {
			return near, nil
		}
		sig.Refused, sig.Detail = signalbox.ReasonMalformed, err.Error()
		return sig, nil
	}
	sig.Name, sig.Turn = turn.Type, &turn.Signal
	switch {
	case b.refused != "":
		sig.Refused = b.refused
	case !signalbox.IsTurnType(turn.Type):
		sig.Refused = signalbox.ReasonUnknownType
		sig.Detail = "the types are " + strings.Join(signalbox.TurnTypes(), ", ")
	case key != "" && turn.Key != key:
		sig.Refused, sig.Detail = signalbox.ReasonWrongKey,
			`the session's key is missing: add the attribute key="…"`
	case first != nil && sameTurn(first, &sig):
		sig.Refused = signalbox.ReasonDuplicate
	case first != nil:
		sig.Refused, sig.Detail = signalbox.ReasonSuperseded,
			"only the first turn signal of a message counts"
	default:
		for _, problem := range turn.Problems {
			problems = append(problems, signalbox.Signal{Dialect: sig.Dialect, Name: sig.Name,
				Offset: sig.Offset,
				Line:   sig.Line, Raw: sig.Raw, Refused: signalbox.ReasonInvalidField,
				Detail: problem})
		}
	}
	return sig, problems
}

// quotedTurnSignal parses a complete block inside a fence or a code span as a refused signal. It
// returns false for an invalid block.
func quotedTurnSignal(b turnBlock, refused signalbox.Reason) (signalbox.Signal, bool) {
	turn, err := payload.ReadTurn(b.raw)
	if err != nil {
		return signalbox.Signal{}, false
	}
	return signalbox.Signal{Dialect: signalbox.DialectTurn, Name: turn.Type, Turn: &turn.Signal,
		Offset: b.at, Line: b.line, Raw: lines.Valid(b.raw), Refused: refused}, true
}

func sameTurn(a, b *signalbox.Signal) bool {
	return a.Name == b.Name && a.Turn.Confidence == b.Turn.Confidence &&
		reflect.DeepEqual(a.Turn.Fields, b.Turn.Fields)
}
