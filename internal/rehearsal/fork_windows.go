package rehearsal

import (
	"errors"
	"io"
)

func startSleeper(io.Writer, string, bool) (int, error) {
	return 0, errors.New("fork is not supported on Windows")
}
