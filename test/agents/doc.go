// Package agents has real agent programs carry out a plan: codex develops, opencode reviews, gemini audits, started by signalbox run as
// anybody would start it. The model behind them is a script, served by signalbox rehearse model. It has tests only.
//
// The programs come from npm, in the versions that testdata/package-lock.json pins, into the user's cache folder. They run in a network
// namespace that has nothing but a loopback of its own, so that nothing they do can reach anything but the script. That takes Linux on x64
// and 1.2 GB of disk, so it is done only when make test-agents asks for it. What is missing is a reason to skip, but on a build server
// (CI=true) to fail.
package agents
