// Package unwind turns the call frame information of ELF files into compact
// tables that answer one question: given a code address, where are the
// caller's frame and the return address. Tables are keyed by file offset, so
// one table serves every process that maps the file.
//
// Walk applies tables to registers and memory. It is the reference that the
// kernel's unwinder is held to: the same stack through both must agree.
//
// The package does no I/O beyond reading the file it is given.
package unwind
