package draw

import "signalbox/internal/tree"

// glyphs are the symbols of a kind or a status.
type glyphs struct {
	text  string // one column
	ascii string // at most two columns
	// path is the icon, as lines in a square of 16 units.
	path string
}

const circle = "M8 2.2a5.8 5.8 0 1 0 .01 0z"

// kindGlyphs returns the symbols of a kind.
func kindGlyphs(k tree.Kind) glyphs {
	switch k {
	case tree.Sequence:
		return glyphs{"→", "->", "M2.5 8H13.5M9.3 3.8 13.5 8l-4.2 4.2"}
	case tree.Selector:
		return glyphs{"?", "?", "M4.9 5.4a3.1 3.1 0 1 1 4.8 2.6C8.5 8.8 8 9.4 8 10.4M8 13.4v.01"}
	case tree.ReactiveSequence:
		return glyphs{"⇝", "~>", "M14 8A6 6 0 1 1 12 3.5M12.4 1v2.9H9.5M5.2 8h5.3M8.6 6l2 2-2 2"}
	case tree.ReactiveSelector:
		return glyphs{"¿", "~?",
			"M14 8A6 6 0 1 1 12 3.5M12.4 1v2.9H9.5M6.4 6.6a1.6 1.6 0 1 1 2.5 1.3c-.6.4-.9.7-.9 1.2M8 11.3v.01"}
	case tree.Parallel:
		return glyphs{"⇉", "=",
			"M2.5 4.7H13M10.4 2.1 13 4.7l-2.6 2.6M2.5 11.3H13M10.4 8.7l2.6 2.6-2.6 2.6"}
	case tree.ForEach:
		return glyphs{"∀", "*", "M2.6 4h.01M2.6 8h.01M2.6 12h.01M5.8 4h7.7M5.8 8h7.7M5.8 12h7.7"}
	case tree.Timeout:
		return glyphs{"◷", "@", "M8 3.6a5.3 5.3 0 1 0 .01 0zM8 6.2v2.9l1.9 1.1M6.3 1.5h3.4"}
	case tree.Retry:
		return glyphs{"↺", "<@", "M3.4 5.2A5.6 5.6 0 1 1 2.4 8.4M3 2v3.4h3.4"}
	case tree.Repeat:
		return glyphs{"↻", "@>",
			"M2.8 7.4v-.7a2.6 2.6 0 0 1 2.6-2.6H13M10.9 2 13 4.1l-2.1 2.1M13.2 8.6v.7a2.6 2.6 0 0 1-2.6 2.6H3M5.1 14 3 11.9l2.1-2.1"}
	case tree.Guard:
		return glyphs{"◈", "&", "M8 1.8l5.2 1.9v4c0 3.1-2.2 5.4-5.2 6.5-3-1.1-5.2-3.4-5.2-6.5v-4z"}
	case tree.Cooldown:
		return glyphs{"◔", "%",
			"M8 1.8v12.4M2.6 4.9l10.8 6.2M13.4 4.9 2.6 11.1M6.3 2.9 8 4.6l1.7-1.7M6.3 13.1 8 11.4l1.7 1.7"}
	case tree.Inverter:
		return glyphs{"¬", "!", "M5 13V3M2.4 5.6 5 3l2.6 2.6M11 3v10M8.4 10.4 11 13l2.6-2.6"}
	case tree.AlwaysSucceed:
		return glyphs{"⊤", "T", circle + "M5.3 8.2l1.9 1.9 3.6-3.9"}
	case tree.AlwaysFail:
		return glyphs{"⊥", "F", circle + "M6 6l4 4M10 6l-4 4"}
	case tree.Action:
		return glyphs{"ƒ", "f", "M9 1.8 3.4 9h4.1L7 14.2 12.6 7H8.5z"}
	case tree.Condition:
		return glyphs{"◇", "<>", "M8 1.8 14.2 8 8 14.2 1.8 8z"}
	case tree.Script:
		return glyphs{"λ", "#", "M5 4.6 1.8 8 5 11.4M11 4.6 14.2 8 11 11.4M9.3 3 6.7 13"}
	case tree.Wait:
		return glyphs{"…", "..",
			"M4 1.9h8M4 14.1h8M5 1.9v2.7L8 8l3-3.4V1.9M5 14.1v-2.7L8 8l3 3.4v2.7"}
	case tree.Subtree:
		return glyphs{"⊞", "+",
			"M1.8 6.5h3v3h-3zM4.8 8H7.5M10.8 3.9H9A1.5 1.5 0 0 0 7.5 5.4v5.2A1.5 1.5 0 0 0 9 12.1h1.8M10.8 2.4h3v3h-3zM10.8 10.6h3v3h-3z"}
	case tree.LLMCall:
		return glyphs{"✦", "**",
			"M8 1.6c.6 3.9 2.5 5.8 6.4 6.4-3.9.6-5.8 2.5-6.4 6.4-.6-3.9-2.5-5.8-6.4-6.4C5.5 7.4 7.4 5.5 8 1.6z"}
	case tree.Tool:
		return glyphs{"⚙", "$",
			"M13.8 4.7a3.7 3.7 0 0 1-5 4.5l-4.6 4.6a1.4 1.4 0 0 1-2-2l4.6-4.6a3.7 3.7 0 0 1 4.5-5L9 4.5l.4 2.1 2.1.4z"}
	}
	return glyphs{"•", "-", circle}
}

// statusGlyphs returns the symbols of a status. The paths are inside a disc.
func statusGlyphs(s tree.Status) glyphs {
	switch s {
	case tree.Success:
		return glyphs{"✓", "+", "M4.8 8.3l2.2 2.2 4.3-4.7"}
	case tree.Failure:
		return glyphs{"✗", "x", "M5.5 5.5l5 5M10.5 5.5l-5 5"}
	case tree.Running:
		return glyphs{"▶", ">", "M6.4 5.2l4.8 2.8-4.8 2.8z"}
	}
	return glyphs{"·", ".", ""}
}

// statusWord returns the CSS class of a status.
func statusWord(s tree.Status) string {
	switch s {
	case tree.Success:
		return "success"
	case tree.Failure:
		return "failure"
	case tree.Running:
		return "running"
	}
	return "idle"
}

// category returns the CSS class of a kind.
func category(k tree.Kind) string {
	switch {
	case k.IsComposite():
		return "composite"
	case k.IsDecorator():
		return "decorator"
	}
	return "leaf"
}
