package engine

import "golang.org/x/sys/unix"

const bootClock = unix.CLOCK_MONOTONIC // which runs on during sleep there
