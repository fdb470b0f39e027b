// Package forkchain makes a program that is hard to end: a chain of processes, each of which starts
// the next one and exits at once. A look at the list of processes nearly always finds one that has
// ended.
//
// A chain ends by itself after a number of processes, and only one or two of them exist at a time.
// Run it only below a process that reaps orphans quickly: those of a chain that escapes stay as
// zombies until they are reaped, and there are only so many ids of processes.
package forkchain

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
)

// Write writes a program that is a chain of processes. Each is in a system session of its own. The
// chain inherits ignored signals and open files, and needs no arguments, environment or libraries.
// If it ends by itself, it writes a byte to descriptor 4, if that is open. On a processor that it
// does not know Write returns errors.ErrUnsupported.
func Write(name string, processes uint32) error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return errors.ErrUnsupported
	}
	code := binary.LittleEndian.AppendUint32([]byte{0xbb}, processes) // mov ebx, processes
	code = append(code,
		// again:
		0xb8, 0x70, 0x00, 0x00, 0x00, 0x0f, 0x05, // setsid()
		0xb8, 0x39, 0x00, 0x00, 0x00, 0x0f, 0x05, // fork()
		0x85, 0xc0, // test eax, eax
		0x75, 0x1a, // jnz end
		0xff, 0xcb, // dec ebx
		0x75, 0xea, // jnz again
		0xb8, 0x01, 0x00, 0x00, 0x00, 0xbf, 0x04, 0x00, 0x00, 0x00, 0xbe, 0x00, 0x00, 0x40, 0x00,
		0xba, 0x01, 0x00, 0x00, 0x00,
		0x0f, 0x05, // write(4, base, 1)
		// end:
		0xb8, 0xe7, 0x00, 0x00, 0x00, 0x31, 0xff, 0x0f, 0x05, // exit_group(0)
	)
	const base, headers = 0x400000, 64 + 56
	size := uint64(headers + len(code))
	var program bytes.Buffer
	for _, part := range []any{
		[]byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, // 64 bits, little-endian
		struct {
			kind, machine                               uint16
			version                                     uint32
			entry, segments, sections                   uint64
			flags                                       uint32
			size, segmentSize, segmentCount, a, b, name uint16
		}{kind: 2, machine: 62, version: 1, entry: base + headers, segments: 64, size: 64, segmentSize: 56, segmentCount: 1},
		struct {
			kind, flags                                                uint32
			offset, address, physical, fileSize, memorySize, alignment uint64
		}{kind: 1, flags: 5, address: base, physical: base, fileSize: size, memorySize: size, alignment: 0x1000},
		code,
	} {
		if err := binary.Write(&program, binary.LittleEndian, part); err != nil {
			return err
		}
	}
	return os.WriteFile(name, program.Bytes(), 0o755)
}
