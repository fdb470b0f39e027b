// Package hostile shows what the sandbox of signalbox stops: a hostile agent and a hostile check,
// run by the real program, each try everything in one table of attempts.
//
// The test binary plays all parts. As the agent and as the check it makes each attempt in a process
// of its own, and reports what it got: the text of a file that it must not read, for example. The
// test compares this with what it sees itself: files that changed, messages that arrived, signals
// that a process outside received. With the sandbox on, an attempt must neither succeed inside nor
// have an effect outside, unless sandbox.Support.Open lists it as something that this kernel cannot
// stop. With the sandbox off, the same attempt must do both, or have a reason: otherwise it proves
// nothing.
//
// TestCapture is about reviewers instead. Real agent programs, whose model is a script, review the
// work of an attacker that tries to steer them. They are installed from npm as for test/agents, and
// run in a network namespace that has only a loopback interface, for make test-agents alone.
//
// The tests need Linux. Those that exhaust memory, processes and disk are part of make fault.
package hostile
