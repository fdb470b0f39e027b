package durable

import "io/fs"

// nonblock is not needed: here no file has pipes or devices in its place.
const nonblock = 0

// keepOwner does nothing: a new file has the owner of its folder's files.
func keepOwner(string, fs.FileInfo) error { return nil }
