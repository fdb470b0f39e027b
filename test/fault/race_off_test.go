//go:build !race

package fault

const slowdown = 1
