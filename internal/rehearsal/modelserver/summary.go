package modelserver

import (
	"cmp"
	"fmt"
)

// ConversationSummary describes a conversation of a script in one line.
type ConversationSummary struct {
	Line         int    `json:"line"`
	Conversation string `json:"conversation"`
	Turns        int    `json:"turns"`
}

// Summarize lists the conversations of a script in the order in which a server tries them. source
// is the text of the script.
func Summarize(script *Script, source []byte) []ConversationSummary {
	line := func(path string) int {
		line, _ := Position(source, path)
		return line
	}
	var list []ConversationSummary
	for i, c := range script.Conversations {
		path := fmt.Sprintf("conversations[%d]", i)
		list = append(list, ConversationSummary{line(path), cmp.Or(c.Name, path), len(c.Turns)})
	}
	if script.Otherwise != nil {
		list = append(list, ConversationSummary{line("otherwise"), "otherwise", 1})
	}
	return list
}
