package baseline

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Env is what decides whether CPU use on two machines can be compared.
type Env struct {
	CPUModel       string `json:"cpu_model"`
	Cores          int    `json:"cores"`          // logical CPUs online
	MemoryBytes    uint64 `json:"memory_bytes"`   // as the kernel reports it, a little less than is built in
	Kernel         string `json:"kernel"`         // release, as of uname -r
	Arch           string `json:"arch"`           // as Go calls it: "amd64", "arm64"
	Virtualisation string `json:"virtualisation"` // "none", "kvm", "xen", …; "vm" if the hypervisor has no name
	Toolchain      string `json:"toolchain,omitempty"`
}

// KernelSeries returns the first two numbers of the kernel's release: "6.1" of "6.1.0-18-amd64".
func (e Env) KernelSeries() string {
	major, rest, ok := strings.Cut(e.Kernel, ".")
	if !ok {
		return e.Kernel
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	return major + "." + rest[:end]
}

// EnvError lists how two environments differ.
type EnvError struct {
	Differences []Difference
}

// Difference is one property of the environment that differs.
type Difference struct {
	Key        string
	Base, Head string
}

func (e *EnvError) Error() string {
	parts := make([]string, len(e.Differences))
	for i, d := range e.Differences {
		parts[i] = fmt.Sprintf("%s (%s, %s)", d.Key, orUnknown(d.Base), orUnknown(d.Head))
	}
	return "environments differ in " + strings.Join(parts, ", ")
}

// Hint says what to do.
func (e *EnvError) Hint() string {
	return "record the baseline on a machine like this one, or use tollgate compare, which runs both versions here"
}

// memoryTolerance is the relative difference in memory that kernels of one series and machines of one
// size show, by what firmware and the kernel itself reserve.
const memoryTolerance = 0.05

// Comparable returns nil if CPU use in e, the base, can be compared with that in head, else an
// *EnvError. Kernels need agree only in their series, memory within 5 %.
func (e Env) Comparable(head Env) error {
	var differences []Difference
	differ := func(key, base, head string) {
		if base != head {
			differences = append(differences, Difference{key, base, head})
		}
	}
	differ("cpu_model", e.CPUModel, head.CPUModel)
	differ("cores", strconv.Itoa(e.Cores), strconv.Itoa(head.Cores))
	a, b := float64(e.MemoryBytes), float64(head.MemoryBytes)
	if math.Abs(a-b) > memoryTolerance*math.Max(a, b) {
		differ("memory", gibibytes(e.MemoryBytes), gibibytes(head.MemoryBytes))
	}
	differ("kernel", e.KernelSeries(), head.KernelSeries())
	differ("arch", e.Arch, head.Arch)
	differ("virtualisation", e.Virtualisation, head.Virtualisation)
	differ("toolchain", e.Toolchain, head.Toolchain)
	if differences == nil {
		return nil
	}
	return &EnvError{Differences: differences}
}

// String returns e in one line for a person.
func (e Env) String() string {
	parts := []string{e.CPUModel, fmt.Sprintf("%d cores", e.Cores), gibibytes(e.MemoryBytes), "Linux " + e.Kernel}
	if e.Virtualisation != "none" && e.Virtualisation != "" {
		parts = append(parts, e.Virtualisation)
	}
	if e.Toolchain != "" {
		parts = append(parts, e.Toolchain)
	}
	return strings.Join(parts, ", ")
}

func gibibytes(n uint64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// CurrentEnv describes this machine. toolchain is what Toolchain returned, or empty.
func CurrentEnv(toolchain string) (Env, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return Env{}, fmt.Errorf("detect environment: uname: %w", err)
	}
	e := readEnv(os.DirFS("/"), runtime.GOARCH)
	e.Kernel = unix.ByteSliceToString(name.Release[:])
	e.Toolchain = toolchain
	if e.Cores == 0 {
		e.Cores = runtime.NumCPU()
	}
	return e, nil
}

// readEnv reads what /proc and /sys tell. What they do not tell stays zero.
func readEnv(root fs.FS, arch string) Env {
	e := Env{Arch: arch}
	cpu := readCPUInfo(root)
	e.CPUModel = cpu.model
	e.Cores = onlineCPUs(readLine(root, "sys/devices/system/cpu/online"))
	if e.Cores == 0 {
		e.Cores = cpu.processors
	}
	e.MemoryBytes = memTotal(root)
	e.Virtualisation = virtualisation(root, cpu)
	return e
}

type cpuInfo struct {
	model      string
	processors int
	hypervisor bool // x86 only: CPUID.1:ECX[31], which real processors leave clear
}

// readCPUInfo reads the first processor of /proc/cpuinfo, whose fields differ between architectures.
func readCPUInfo(root fs.FS) cpuInfo {
	data, err := fs.ReadFile(root, "proc/cpuinfo")
	if err != nil {
		return cpuInfo{}
	}
	var info cpuInfo
	first := make(map[string]string)
	scanner := bufio.NewScanner(bytes.NewReader(data))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		key, value, ok := strings.Cut(scanner.Text(), ":")
		if !ok {
			continue
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if key == "processor" {
			info.processors++
		}
		if _, seen := first[key]; !seen {
			first[key] = value
		}
	}
	for flag := range strings.FieldsSeq(first["flags"]) {
		if flag == "hypervisor" {
			info.hypervisor = true
		}
	}
	switch {
	case first["model name"] != "":
		info.model = strings.Join(strings.Fields(first["model name"]), " ")
		// Cloud providers hide the generation in the name ("AMD EPYC"), not in family and model.
		if first["cpu family"] != "" && first["model"] != "" {
			info.model += fmt.Sprintf(" (family %s model %s stepping %s)", first["cpu family"], first["model"], first["stepping"])
		}
	case first["CPU part"] != "":
		info.model = fmt.Sprintf("arm implementer %s part %s variant %s revision %s",
			first["CPU implementer"], first["CPU part"], first["CPU variant"], first["CPU revision"])
	}
	return info
}

// onlineCPUs counts the CPUs of a list as in "0-3,8"; 0 if it is not one.
func onlineCPUs(list string) int {
	var count int
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		a, errA := strconv.Atoi(low)
		b, errB := strconv.Atoi(high)
		if errA != nil || errB != nil || b < a {
			return 0
		}
		count += b - a + 1
	}
	return count
}

func memTotal(root fs.FS) uint64 {
	data, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		var kib uint64
		if n, _ := fmt.Sscanf(line, "MemTotal: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// virtualisation names the hypervisor, or "vm" where it does not give itself away, or "none". The
// places looked at are those of Linux' documentation of sysfs, dmi and clocksources.
func virtualisation(root fs.FS, cpu cpuInfo) string {
	if kind := readLine(root, "sys/hypervisor/type"); kind != "" {
		return kind
	}
	dmi := readLine(root, "sys/class/dmi/id/sys_vendor") + " " + readLine(root, "sys/class/dmi/id/product_name")
	for _, known := range []struct{ text, name string }{
		{"KVM", "kvm"}, {"QEMU", "kvm"}, {"Amazon EC2", "kvm"}, {"Google Compute Engine", "kvm"},
		{"OpenStack", "kvm"}, {"VMware", "vmware"}, {"innotek", "virtualbox"}, {"VirtualBox", "virtualbox"},
		{"Xen", "xen"}, {"Parallels", "parallels"}, {"Apple Virtualization", "apple"},
	} {
		// A bare-metal cloud machine carries its provider's name too, but no hypervisor flag.
		if strings.Contains(dmi, known.text) && (cpu.hypervisor || !hasFlags(root)) && !strings.Contains(dmi, ".metal") {
			return known.name
		}
	}
	if cpu.hypervisor && strings.Contains(dmi, "Microsoft Corporation") {
		return "hyperv"
	}
	// Where the firmware has no DMI table, as in micro-VMs, the paravirtual clock names its maker.
	clocks := readLine(root, "sys/devices/system/clocksource/clocksource0/available_clocksource")
	switch {
	case strings.Contains(clocks, "kvm-clock"):
		return "kvm"
	case strings.Contains(clocks, "hyperv"):
		return "hyperv"
	case strings.Contains(clocks, "xen"):
		return "xen"
	}
	if compatible := readLine(root, "proc/device-tree/hypervisor/compatible"); compatible != "" {
		return strings.TrimPrefix(strings.TrimRight(compatible, "\x00"), "linux,")
	}
	if cpu.hypervisor {
		return "vm"
	}
	return "none"
}

// hasFlags reports whether /proc/cpuinfo is that of an x86, the only architecture with a hypervisor
// flag.
func hasFlags(root fs.FS) bool {
	data, err := fs.ReadFile(root, "proc/cpuinfo")
	return err == nil && bytes.Contains(data, []byte("\nflags\t"))
}

func readLine(root fs.FS, path string) string {
	data, err := fs.ReadFile(root, path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(line)
}

// Toolchain returns the version of the compiler that a command line will use, as in "go1.26.0
// linux/amd64", as far as its first word gives it away; otherwise "".
func Toolchain(ctx context.Context, argv []string, dir string) string {
	if len(argv) == 0 {
		return ""
	}
	var question []string
	switch filepath.Base(argv[0]) {
	case "go":
		question = []string{argv[0], "version"}
	case "cargo":
		question = []string{"rustc", "--version"}
	default:
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, question[0], question[1:]...)
	command.Dir = dir
	out, err := command.Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimPrefix(strings.TrimSpace(line), "go version ")
}
