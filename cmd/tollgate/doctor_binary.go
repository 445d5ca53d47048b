package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
	"github.com/tollgate-dev/tollgate/symbol"
	"github.com/tollgate-dev/tollgate/unwind"
)

// inspectBinary reports what the unwinder and the symbolizer find in a program.
func (a *app) inspectBinary(name string) ([]finding, error) {
	path, err := a.resolveBinary(name)
	if err != nil {
		return nil, err
	}
	file, err := safeelf.Open(path)
	if err != nil {
		hint := "name an ELF executable or shared library that is not cut short"
		if errors.Is(err, os.ErrNotExist) {
			hint = "check the path"
		}
		return nil, usageError(hint, "%w", err)
	}
	defer file.Close()
	return []finding{inspectUnwinding(path, file), inspectSymbols(path)}, nil
}

func inspectUnwinding(path string, file *safeelf.File) finding {
	f := finding{Status: statusOK, Name: "unwinding"}
	const mend = "compile without -fno-asynchronous-unwind-tables, or with -fno-omit-frame-pointer"
	table, err := unwind.NewTable(file, unwind.NewRuleSet())
	if err != nil {
		f.Status, f.Mend = statusWarn, mend
		f.Detail = fmt.Sprintf("%s: %v; stacks are followed by frame pointers", path, err)
		return f
	}
	stats := table.Stats
	switch {
	case stats.GoFuncs > 0:
		f.Detail = fmt.Sprintf("%s: a Go program, %d functions", path, stats.GoFuncs)
	case stats.FDEs == 0:
		f.Status, f.Mend = statusWarn, mend
		f.Detail = path + ": no unwind tables in it; stacks are followed by frame pointers"
	default:
		f.Detail = fmt.Sprintf("%s: tables for %d functions in %d KiB", path, stats.FDEs, (stats.CFIBytes+1023)/1024)
	}
	if stats.FDEs > 0 && stats.CodeBytes > 0 && 10*stats.ChainBytes > stats.CodeBytes {
		f.Detail += fmt.Sprintf("; %.0f %% of the code has none and is followed by frame pointers",
			100*float64(stats.ChainBytes)/float64(stats.CodeBytes))
	}
	if stats.Skipped > 0 {
		f.Status = statusWarn
		f.Detail += fmt.Sprintf("; %d malformed entries were skipped", stats.Skipped)
	}
	return f
}

func inspectSymbols(path string) finding {
	f := finding{Status: statusOK, Name: "symbols"}
	binary, err := symbol.Open(path, symbol.Options{})
	if err != nil {
		f.Status, f.Detail = statusWarn, err.Error()
		return f
	}
	defer binary.Close()
	id := "no build ID"
	if binary.BuildID() != "" {
		id = "build ID " + binary.BuildID()
	}
	const lines = "compile with -g, or install its debug symbols (on Debian and Ubuntu the package NAME-dbgsym)"
	switch binary.Source() {
	case "dwarf":
		f.Detail = "functions, inlined functions and lines, from DWARF"
	case "go":
		f.Detail = "functions, inlined functions and lines, from Go's tables"
	case "symtab":
		f.Status, f.Mend = statusWarn, lines
		f.Detail = "functions from the symbol table, no lines"
	case "dynsym":
		f.Status, f.Mend = statusWarn, lines
		f.Detail = "exported functions only; others are called by their address"
	case "fde":
		f.Status, f.Mend = statusWarn, lines
		f.Detail = fmt.Sprintf("stripped; functions are called %s+0x1234, the same in every run of this build", filepath.Base(path))
	default:
		f.Status, f.Mend = statusWarn, lines
		f.Detail = "none"
	}
	f.Detail += ", " + id
	return f
}
