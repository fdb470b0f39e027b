package agent

import (
	"os"
	"path/filepath"

	"signalbox/internal/durable"
)

// AwaitEnd waits until an owner of the register has left or is gone. It returns at once if there is no such owner here, or it
// cannot be told.
func AwaitEnd(dir, owner string) {
	file, err := os.OpenFile(filepath.Join(dir, owner+suffix), os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer file.Close()
	_ = durable.LockFile(file)
}
