//go:build !linux

package sqlite

func systemChildren() map[string]childFunc { return nil }
