package baseline

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
)

// The texts are shortened from machines of each kind.
const (
	cpuinfoGuest = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7763 64-Core Processor\nstepping\t: 1\n" +
		"flags\t\t: fpu vme hypervisor lahf_lm\n\nprocessor\t: 1\nmodel name\t: AMD EPYC 7763 64-Core Processor\nflags\t\t: fpu vme hypervisor lahf_lm\n"
	cpuinfoMetal = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R) Gold   6230 CPU @ 2.10GHz\nstepping\t: 7\nflags\t\t: fpu vme lahf_lm\n"
	cpuinfoArm   = "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\nprocessor\t: 1\n"
	meminfo      = "MemTotal:       16384000 kB\nMemFree:         1234 kB\n"
)

func TestReadEnvKnowsTheMachinesOfCI(t *testing.T) {
	const (
		cpuinfo = "proc/cpuinfo"
		vendor  = "sys/class/dmi/id/sys_vendor"
		product = "sys/class/dmi/id/product_name"
		clocks  = "sys/devices/system/clocksource/clocksource0/available_clocksource"
		online  = "sys/devices/system/cpu/online"
	)
	for _, test := range []struct {
		name  string
		arch  string
		files map[string]string
		want  Env
	}{
		{"hosted runner", "amd64",
			map[string]string{cpuinfo: cpuinfoGuest, vendor: "Microsoft Corporation\n", product: "Virtual Machine\n", online: "0-3\n"},
			Env{CPUModel: "AMD EPYC 7763 64-Core Processor (family 25 model 1 stepping 1)", Cores: 4, Virtualisation: "hyperv"}},
		{"micro-VM without DMI", "amd64",
			map[string]string{cpuinfo: cpuinfoGuest, clocks: "kvm-clock tsc acpi_pm \n"},
			Env{CPUModel: "AMD EPYC 7763 64-Core Processor (family 25 model 1 stepping 1)", Cores: 2, Virtualisation: "kvm"}},
		{"guest of an unknown hypervisor", "amd64",
			map[string]string{cpuinfo: cpuinfoGuest, online: "0,2-3"},
			Env{CPUModel: "AMD EPYC 7763 64-Core Processor (family 25 model 1 stepping 1)", Cores: 3, Virtualisation: "vm"}},
		{"VMware", "amd64",
			map[string]string{cpuinfo: cpuinfoGuest, vendor: "VMware, Inc.\n", product: "VMware7,1\n"},
			Env{CPUModel: "AMD EPYC 7763 64-Core Processor (family 25 model 1 stepping 1)", Cores: 2, Virtualisation: "vmware"}},
		{"bare metal", "amd64",
			map[string]string{cpuinfo: cpuinfoMetal, vendor: "Dell Inc.\n", product: "PowerEdge R640\n", clocks: "tsc hpet acpi_pm\n"},
			Env{CPUModel: "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz (family 6 model 85 stepping 7)", Cores: 1, Virtualisation: "none"}},
		{"bare metal of a cloud", "amd64",
			map[string]string{cpuinfo: cpuinfoMetal, vendor: "Amazon EC2\n", product: "m5.metal\n"},
			Env{CPUModel: "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz (family 6 model 85 stepping 7)", Cores: 1, Virtualisation: "none"}},
		{"arm guest", "arm64",
			map[string]string{cpuinfo: cpuinfoArm, vendor: "Amazon EC2\n", product: "m6g.large\n"},
			Env{CPUModel: "arm implementer 0x41 part 0xd0c variant 0x3 revision 1", Cores: 2, Virtualisation: "kvm"}},
		{"arm bare metal of a cloud", "arm64",
			map[string]string{cpuinfo: cpuinfoArm, vendor: "Amazon EC2\n", product: "m6g.metal\n"},
			Env{CPUModel: "arm implementer 0x41 part 0xd0c variant 0x3 revision 1", Cores: 2, Virtualisation: "none"}},
		{"Xen", "amd64",
			map[string]string{cpuinfo: cpuinfoGuest, "sys/hypervisor/type": "xen\n"},
			Env{CPUModel: "AMD EPYC 7763 64-Core Processor (family 25 model 1 stepping 1)", Cores: 2, Virtualisation: "xen"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := fstest.MapFS{"proc/meminfo": {Data: []byte(meminfo)}}
			for path, text := range test.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			test.want.MemoryBytes = 16384000 << 10
			test.want.Arch = test.arch
			if got := readEnv(root, test.arch); got != test.want {
				t.Errorf("\n got %+v\nwant %+v", got, test.want)
			}
		})
	}
	if got := readEnv(fstest.MapFS{}, "amd64"); got != (Env{Arch: "amd64", Virtualisation: "none"}) {
		t.Errorf("without /proc and /sys: %+v", got)
	}
}

func TestComparableNamesEachDifference(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Env)
		want   string // "" where both are comparable
	}{
		{"same", func(*Env) {}, ""},
		{"patch of the kernel", func(e *Env) { e.Kernel = "6.1.99-amd64" }, ""},
		{"memory as another boot reports it", func(e *Env) { e.MemoryBytes -= 200 << 20 }, ""},
		{"CPU", func(e *Env) { e.CPUModel = "Other" }, "environments differ in cpu_model (Example CPU (family 6 model 85 stepping 7), Other)"},
		{"memory", func(e *Env) { e.MemoryBytes = 8 << 30 }, "environments differ in memory (16.0 GiB, 8.0 GiB)"},
		{"kernel series", func(e *Env) { e.Kernel = "6.12.1" }, "environments differ in kernel (6.1, 6.12)"},
		{"longer number in the series", func(e *Env) { e.Kernel = "6.17-rc1" }, "environments differ in kernel (6.1, 6.17)"},
		{"virtualisation", func(e *Env) { e.Virtualisation = "none" }, "environments differ in virtualisation (kvm, none)"},
		{"two", func(e *Env) { e.Cores, e.Toolchain = 2, "" }, "environments differ in cores (4, 2), toolchain (go1.26.0 linux/amd64, unknown)"},
		{"architecture", func(e *Env) { e.Arch = "arm64" }, "environments differ in arch (amd64, arm64)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			head := testEnv()
			test.change(&head)
			err := testEnv().Comparable(head)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var env *EnvError
			if !errors.As(err, &env) || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestCurrentEnvIsComplete(t *testing.T) {
	e, err := CurrentEnv("some compiler")
	if err != nil {
		t.Fatal(err)
	}
	if e.CPUModel == "" || e.Cores < 1 || e.MemoryBytes < 64<<20 || e.Virtualisation == "" || e.Arch != runtime.GOARCH || e.Toolchain != "some compiler" {
		t.Errorf("%+v", e)
	}
	if !strings.Contains(e.KernelSeries(), ".") || !strings.HasPrefix(e.Kernel, e.KernelSeries()) {
		t.Errorf("kernel %q of series %q", e.Kernel, e.KernelSeries())
	}
	if again, err := CurrentEnv("some compiler"); err != nil || e.Comparable(again) != nil {
		t.Errorf("not comparable with itself: %v, %v", err, e.Comparable(again))
	}
}

func TestToolchainOfGoCommands(t *testing.T) {
	if got := Toolchain(t.Context(), []string{"go", "test", "./..."}, ""); !strings.HasPrefix(got, "go1.") && !strings.HasPrefix(got, "devel") {
		t.Errorf("toolchain of go test is %q", got)
	}
	if got := Toolchain(t.Context(), []string{"./bench"}, ""); got != "" {
		t.Errorf("toolchain of an unknown program is %q", got)
	}
}
