//go:build !unix

package main

import "errors"

func compareRuns(settings) error {
	return errors.New("plans can only be run on Linux and macOS")
}
