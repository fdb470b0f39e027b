// Package agents contains a test that runs a plan with real agent programs: codex develops,
// opencode reviews and gemini audits, started by signalbox run. Their model is a script, served by
// signalbox rehearse model. It also interrupts each program in the middle of a turn, and checks
// that the next run continues the program's own conversation. With SIGNALBOX_AGENTS=all it also has
// the server refuse to serve each program, and claude, and counts the tokens of work that comes
// back.
//
// The test installs the programs from npm into the user's cache folder, in the versions that
// testdata/package-lock.json pins. They run in a network namespace with only a loopback interface,
// so they can reach nothing but the model server. The test needs Linux on x64 and 1.6 GB of disk
// space, so it runs only for make test-agents. If something is missing it is skipped, but in CI
// (CI=true) it fails.
package agents
