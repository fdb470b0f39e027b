//go:build !linux

package fault

import (
	"context"
	"errors"
)

func peakChild(context.Context, []string) error { return errors.ErrUnsupported }
