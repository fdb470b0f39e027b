package tree

// Kind is the kind of a node.
type Kind uint8

const (
	Sequence Kind = iota + 1
	Selector
	ReactiveSequence
	ReactiveSelector
	Parallel
	ForEach

	Timeout
	Retry
	Repeat
	Guard
	Cooldown
	Inverter
	AlwaysSucceed
	AlwaysFail

	Action
	Condition
	Script
	Wait
	Subtree
	LLMCall
	Tool
)

var kindNames = [...]string{
	Sequence: "sequence", Selector: "selector", ReactiveSequence: "reactive_sequence",
	ReactiveSelector: "reactive_selector",
	Parallel:         "parallel", ForEach: "for_each",
	Timeout: "timeout", Retry: "retry", Repeat: "repeat", Guard: "guard", Cooldown: "cooldown",
	Inverter:      "inverter",
	AlwaysSucceed: "always_succeed", AlwaysFail: "always_fail",
	Action: "action", Condition: "condition", Script: "script", Wait: "wait", Subtree: "subtree",
	LLMCall: "llm_call", Tool: "tool",
}

// Kinds returns all kinds, in the order of the documentation.
func Kinds() []Kind {
	kinds := make([]Kind, 0, len(kindNames)-1)
	for k := Sequence; k <= Tool; k++ {
		kinds = append(kinds, k)
	}
	return kinds
}

func (k Kind) String() string {
	if int(k) < len(kindNames) && k != 0 {
		return kindNames[k]
	}
	return "unknown"
}

// ParseKind parses the result of String.
func ParseKind(name string) (Kind, bool) {
	for _, k := range Kinds() {
		if k.String() == name {
			return k, true
		}
	}
	return 0, false
}

// IsComposite reports whether nodes of the kind have several children, or, like a for_each, run one
// child several times.
func (k Kind) IsComposite() bool { return k >= Sequence && k <= ForEach }

// IsDecorator reports whether nodes of the kind change the answer of one child, or when it is
// ticked.
func (k Kind) IsDecorator() bool { return k >= Timeout && k <= AlwaysFail }

// IsLeaf reports whether nodes of the kind have no children in a definition. A subtree gets a child
// when it is compiled.
func (k Kind) IsLeaf() bool { return k >= Action && k <= Tool }

// isReactive reports whether nodes of the kind check their first children again in each tick.
func (k Kind) isReactive() bool {
	return k == ReactiveSequence || k == ReactiveSelector || k == Guard
}
