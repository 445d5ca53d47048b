package unwind

import (
	"debug/elf"
	"errors"
	"fmt"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// Arch is an instruction set that stacks can be unwound for.
type Arch uint8

const (
	AMD64 Arch = iota + 1
	ARM64
)

// ErrUnsupported reports a file of another architecture, word size or byte
// order than the unwinder handles.
var ErrUnsupported = errors.New("unsupported architecture")

// DWARF register numbers. System V ABI AMD64, figure 3.36; DWARF for the Arm
// 64-bit Architecture, table "DWARF register names".
const (
	amd64BX = 3
	amd64FP = 6
	amd64SP = 7
	amd64RA = 16

	arm64FP = 29
	arm64LR = 30
	arm64SP = 31
)

// noRegister is a register number that no instruction can name.
const noRegister = 1 << 32

// registers are the DWARF numbers of the registers that a Rule describes.
type registers struct {
	sp, fp, bx, ra uint64
}

func (a Arch) String() string {
	switch a {
	case AMD64:
		return "amd64"
	case ARM64:
		return "arm64"
	}
	return fmt.Sprintf("arch %d", uint8(a))
}

func (a Arch) registers() registers {
	if a == ARM64 {
		return registers{sp: arm64SP, fp: arm64FP, bx: noRegister, ra: arm64LR}
	}
	return registers{sp: amd64SP, fp: amd64FP, bx: amd64BX, ra: amd64RA}
}

// archOf returns the architecture of f, or an error that wraps ErrUnsupported.
func archOf(f *safeelf.File) (Arch, error) {
	switch {
	case f.Class != elf.ELFCLASS64:
		return 0, fmt.Errorf("%w: %s", ErrUnsupported, f.Class)
	case f.ByteOrder.String() != "LittleEndian":
		return 0, fmt.Errorf("%w: big-endian %s", ErrUnsupported, f.Machine)
	case f.Machine == elf.EM_X86_64:
		return AMD64, nil
	case f.Machine == elf.EM_AARCH64:
		return ARM64, nil
	}
	return 0, fmt.Errorf("%w: %s", ErrUnsupported, f.Machine)
}
