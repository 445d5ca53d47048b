package capture

import "testing"

func TestStackCopyKnowsWhatItLacks(t *testing.T) {
	copied := stackCopy{from: 0x7fc0, base: 0x7ff0, data: make([]byte, 0x2010), holes: 0b010} // 0x8000 to 0x8fff is missing
	for i := range copied.data {
		copied.data[i] = byte(i)
	}
	for _, test := range []struct {
		addr      uint64
		ok, short bool
	}{
		{0x7fbf, false, true}, {0x7fc0, false, false}, {0x7fef, false, false}, {0x7ff0, true, false}, {0x7ff8, true, false},
		{0x7ff9, false, false}, {0x8000, false, false}, {0x8ff8, false, false}, {0x8ff9, false, false},
		{0x9000, true, false}, {0x9ff8, true, false}, {0x9ff9, false, true}, {0xa000, false, true}, {^uint64(0), false, true},
	} {
		copied.short = false
		value, ok := copied.ReadU64(test.addr)
		if ok != test.ok || copied.short != test.short {
			t.Errorf("%#x is read: %v, short: %v", test.addr, ok, copied.short)
		}
		if ok && byte(value) != byte(test.addr-copied.base) {
			t.Errorf("%#x holds %#x", test.addr, value)
		}
	}
}
