// Package terminal runs programs on a pseudo-terminal, as a user does: it types, and reads the
// screen. It works on Linux only.
//
// Nothing in it waits for a fixed time: a wait ends when the program has written what was waited
// for, and its context only decides when the test fails.
package terminal
