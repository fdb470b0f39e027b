// Package luatree loads behaviour trees written in Lua.
//
// A file runs once, with limits, when it is loaded. It calls functions of the global BT, which
// declare nodes, and returns a tree. Load checks the whole tree and reports all mistakes with their
// lines before anything runs. Functions written in Lua may be leaves. They keep nothing between
// calls, so that another process can resume a run; what they need to remember belongs on the
// blackboard.
//
// A file has no access to the clock, files or programs, and is limited in instructions, memory and
// time (Limits). If a function of a leaf raises an error or exceeds a limit, the leaf fails.
//
// A Source is a file that may change between runs. Test runs the tests of a tree, which are written
// in Lua too.
package luatree

import "signalbox/internal/tree/luatree/boundedlua"

// Limits bounds the resources of a file.
type Limits = boundedlua.Limits

// Error is an error in a file, with its position.
type Error = boundedlua.Error
