// Package payload parses the contents of signals: the labelled block after a line signal (Body),
// the XML block of a turn signal (ReadTurn) and the JSON object of an exit signal (ReadExit).
//
// Each function takes one complete payload whose size the caller has limited, and takes time linear
// in it. The functions are pure and do not retain their input. All text they return is valid UTF-8.
// Error messages may be shown to the agent.
package payload
