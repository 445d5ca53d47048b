// Package symbol turns addresses into functions, source lines and inlined
// frames: from DWARF, Go's line tables, symbol tables, and where a binary is
// stripped of all of these from the boundaries its unwind information gives.
// Addresses are ELF addresses (vaddr); callers that hold process addresses
// convert them.
package symbol
