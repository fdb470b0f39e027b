//go:build !linux

package fault

import (
	"context"
	"errors"
)

func initChild(context.Context, []string) error { return errors.ErrUnsupported }
