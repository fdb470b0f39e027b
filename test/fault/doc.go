// Package fault kills, races, tampers with and starves the real program, and looks at what is left. It has tests only.
//
// Whatever happens, this must hold: what was acknowledged is there, unchanged; nothing is there by half; at most one
// session holds a work item; every change of the record is found, and the first bad event is named; and when the cause
// is gone the box works again.
//
// The tests run signalbox itself as a command, and the test binary as a child process where a command would be too slow
// or could not say enough. Each test has a short form, for make test, and a full one, for make fault, which sets
// SIGNALBOX_FAULT=full. Random choices come from a seed that is logged; SIGNALBOX_FAULT_SEED repeats it.
package fault
