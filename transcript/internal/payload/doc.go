// Package payload reads what a signal carries: the labelled block after a line signal (Body), the XML block of a turn
// signal (ReadTurn) and the JSON object of an exit signal (ReadExit).
//
// Each function takes the whole of one payload, found and bounded by the caller, and needs time linear in it. It does
// no I/O, keeps nothing of its input and has no state. All text it returns is valid UTF-8. An error says what is wrong
// in words that may be shown to the agent.
package payload
