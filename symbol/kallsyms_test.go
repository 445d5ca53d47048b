package symbol

import (
	"errors"
	"os"
	"strings"
	"testing"
)

const kallsyms = `0000000000000000 A fixed_percpu_data
ffffffff81000000 T _text
ffffffff81000000 T _stext
ffffffff81000040 t local_alias
ffffffff81000040 T do_work
ffffffff81000040 W weak_work
ffffffff81000100 t helper.cold
ffffffff82000000 D data_start
ffffffff82000010 d more_data
ffffffffc0002000 t module_function	[ext4]
ffffffffc0001000 t other_function	[nf_tables]
ffffffffc0003000 d module_data	[ext4]
ffffffffc0004000 t bpf_prog_6deef7357e7b4530	[bpf]
`

func TestKernelLookup(t *testing.T) {
	k, err := ParseKallsyms(strings.NewReader(kallsyms))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		addr         uint64
		name, module string
	}{
		{0xffffffff80ffffff, "", ""},
		{0xffffffff81000000, "_stext", ""},
		{0xffffffff81000040, "do_work", ""},
		{0xffffffff810000ff, "do_work", ""},
		{0xffffffff81ffffff, "helper.cold", ""},
		{0xffffffff82000000, "", ""}, // data
		{0xffffffff82000020, "", ""},
		{0xffffffffc0001fff, "other_function", "nf_tables"},
		{0xffffffffc0002008, "module_function", "ext4"},
		{0xffffffffc0003000, "", ""},
		{0xffffffffc0004010, "bpf_prog_6deef7357e7b4530", "bpf"},
		{0x1000, "", ""},
	}
	for _, test := range tests {
		name, module, ok := k.Lookup(test.addr)
		if name != test.name || module != test.module || ok != (test.name != "") {
			t.Errorf("Lookup(%#x) = %q, %q, %v, want %q, %q", test.addr, name, module, ok, test.name, test.module)
		}
	}
}

func TestHiddenKernelAddresses(t *testing.T) {
	hidden := "0000000000000000 T _text\n0000000000000000 t helper\t[ext4]\n"
	_, err := ParseKallsyms(strings.NewReader(hidden))
	if !errors.Is(err, ErrKernelAddressesHidden) {
		t.Fatalf("error is %v, want ErrKernelAddressesHidden", err)
	}
	if !strings.Contains(err.Error(), "kptr_restrict") {
		t.Errorf("%q does not tell what to do", err)
	}
}

func TestMalformedKallsyms(t *testing.T) {
	for _, text := range []string{"", "x\n", "zz T name\n", "ffffffff81000000 T\n", "ffffffff81000000 Tname\n"} {
		if _, err := ParseKallsyms(strings.NewReader(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestKallsymsOfThisKernel(t *testing.T) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		t.Skipf("no /proc/kallsyms: %v", err)
	}
	defer f.Close()
	k, err := ParseKallsyms(f)
	if errors.Is(err, ErrKernelAddressesHidden) {
		t.Skip("kernel addresses are hidden from this user")
	}
	if err != nil {
		t.Fatal(err)
	}
	// Every kernel with perf events has this function.
	for _, s := range k.symbols {
		if s.code() && string(k.name(s)) == "perf_event_overflow" {
			if name, module, ok := k.Lookup(s.addr + 3); !ok || name != "perf_event_overflow" || module != "" {
				t.Errorf("Lookup of perf_event_overflow+3 = %q, %q, %v", name, module, ok)
			}
			return
		}
	}
	t.Error("perf_event_overflow is missing")
}

func BenchmarkParseKallsyms(b *testing.B) {
	data, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		b.Skipf("no /proc/kallsyms: %v", err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := ParseKallsyms(strings.NewReader(string(data))); err != nil {
			b.Skip(err)
		}
	}
}
