// Package luatree loads behaviour trees written in Lua.
//
// A file runs once, in a sandbox, when it is loaded: what it calls of the global BT declares nodes, and it returns a
// tree. Load checks all of it, so that whatever is wrong with a file is known, with its line, before anything runs.
// Functions written in Lua may be leaves. They keep nothing between calls, since a run must go on in another process
// as if nothing had happened; what they want to remember belongs on the blackboard.
//
// Nobody vouches for a file. It reads no clock and no file, starts nothing, and is bounded in instructions, memory and
// time (Limits); a function that fails or hits a limit is a leaf that fails.
//
// A Source is a file that may change between runs. Test runs the tests that stand in Lua beside a tree.
package luatree

import "signalbox/internal/tree/luatree/sandbox"

// Limits bound what a file may use.
type Limits = sandbox.Limits

// Error is what stopped a file, with its place.
type Error = sandbox.Error
