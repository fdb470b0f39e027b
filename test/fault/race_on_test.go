//go:build race

package fault

// slowdown is by how much the race detector makes SQLite slower.
const slowdown = 8
