package contain

import (
	"os"

	"golang.org/x/sys/unix"
)

// shareContent makes an empty file, or a new one in its place, share the content of another one
// until one of them is changed. It reports whether the file system can do that.
func shareContent(target, source *os.File) bool {
	return unix.IoctlFileClone(int(target.Fd()), int(source.Fd())) == nil
}
