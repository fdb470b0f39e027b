//go:build race

package fault

// slowdown is the factor by which the race detector slows SQLite down.
const slowdown = 8
