// Package fault contains tests that kill, race, tamper with and starve the real program, and then
// check its data.
//
// After every fault these invariants must hold:
//   - everything that was acknowledged is stored, unchanged;
//   - nothing is stored partially;
//   - at most one session holds a work item;
//   - verification finds every change of the ledger and names the first bad event;
//   - the box works again once the cause is removed.
//
// They hold for every kind of database that can hold a ledger; backends lists them.
//
// The tests run the signalbox command. Where a command is too slow or reports too little, they run
// the test binary itself as a child process. Each test has a short form, for make test, and a full
// form, for make fault, which sets SIGNALBOX_FAULT=full. Random choices come from a seed that is
// logged; set SIGNALBOX_FAULT_SEED to repeat them.
package fault
