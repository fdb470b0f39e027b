// Package week runs programs on a terminal, as a user does: it types, and reads the screen. Its test follows docs/week-one.md with the real
// program, types what that document says, and compares every screen and every output that it shows.
//
// go test ./test/week -update writes what the program really shows into the document.
package week
