//go:build !unix

package main

import "errors"

func compareRuns(settings) error { return errNoRuns }

func compareClean(settings) error { return errNoRuns }

func compareMerges(string, database, bool, settings) error { return errNoRuns }

var errNoRuns = errors.New("plans can only be run on Linux and macOS")
