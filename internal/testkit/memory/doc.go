// Package memory keeps the temporary files of tests in memory. Tests that create repositories and
// ledgers write and sync thousands of small files, which takes half of their time on a disk.
package memory
