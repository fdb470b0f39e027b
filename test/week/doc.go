// Package week has only a test. It follows docs/tutorial/week-one.md with the real program on a
// terminal, types what that document says, and compares every screen and every output that it
// shows.
//
// go test ./test/week -update writes what the program really shows into the document.
package week
