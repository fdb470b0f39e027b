package process

import (
	"fmt"

	"golang.org/x/sys/unix"

	"signalbox/internal/sandbox"
)

// Conceal keeps the programs that this process starts from reading its memory and its environment,
// which has keys, through /proc. Programs in namespaces of their own do not see this process, and
// it could not create such namespaces any more, so then nothing is done. Programs that are started
// in the sandbox that this process is in itself do see it.
func Conceal() error {
	if !sandbox.Contained() && Support().Namespaces {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("protect the memory of this process: %w", err)
	}
	return nil
}
