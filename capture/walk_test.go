package capture

import "testing"

func TestStackCopyKnowsWhatItLacks(t *testing.T) {
	copied := stackCopy{base: 0x7ff0, data: make([]byte, 0x2010), holes: 0b010} // 0x8000 to 0x8fff is missing
	for i := range copied.data {
		copied.data[i] = byte(i)
	}
	for _, test := range []struct {
		addr uint64
		ok   bool
	}{
		{0x7fef, false}, {0x7ff0, true}, {0x7ff8, true}, {0x7ff9, false}, {0x8000, false}, {0x8ff8, false},
		{0x8ff9, false}, {0x9000, true}, {0x9ff8, true}, {0x9ff9, false}, {0xa000, false}, {^uint64(0), false},
	} {
		copied.short = false
		value, ok := copied.ReadU64(test.addr)
		if ok != test.ok || copied.short == ok {
			t.Errorf("%#x is read: %v, short: %v", test.addr, ok, copied.short)
		}
		if ok && byte(value) != byte(test.addr-copied.base) {
			t.Errorf("%#x holds %#x", test.addr, value)
		}
	}
}
