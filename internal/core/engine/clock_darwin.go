package engine

import "golang.org/x/sys/unix"

const bootClock = unix.CLOCK_MONOTONIC // on macOS it includes sleep
