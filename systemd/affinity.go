package systemd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"teleport-update/internal/regular"
)

// onlineCPUs is where the kernel lists the CPUs that are online, as in "0-3,6".
const onlineCPUs = "/sys/devices/system/cpu/online"

// parseCPUs are the CPUs of CPUAffinity=, which systemd has as a mask: bit n of byte m is CPU 8m+n. Those of NUMA nodes are left out.
func parseCPUs(p properties) (all []int) {
	if property[bool](p, "CPUAffinityFromNUMA") {
		return nil
	}
	for m, bits := range property[[]byte](p, "CPUAffinity") {
		for n := range 8 {
			if bits>>n&1 == 1 {
				all = append(all, 8*m+n)
			}
		}
	}
	return all
}

// lacksCPUs is the setting of CPUs none of which is online; empty if it is no such setting. One CPU is enough for the kernel.
// systemd starts no process otherwise (215/CPUAFFINITY).
func lacksCPUs(cpus []int) string {
	if len(cpus) == 0 {
		return ""
	}
	content, err := regular.Read(onlineCPUs, 64<<10, 0)
	if err != nil {
		return ""
	}
	online, err := cpuList(string(content))
	if err != nil || slices.ContainsFunc(cpus, func(cpu int) bool { return slices.Contains(online, cpu) }) {
		return ""
	}
	return "CPUAffinity=" + strings.Trim(fmt.Sprint(cpus), "[]")
}

// mostCPUs bounds a list of CPUs; the kernel has at most 8192.
const mostCPUs = 1 << 16

// cpuList reads a list of CPUs as the kernel writes it: numbers and ranges, with commas between them.
func cpuList(text string) (all []int, err error) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			return nil, err
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(to); err != nil {
				return nil, err
			}
		}
		for cpu := first; cpu <= min(last, mostCPUs); cpu++ {
			all = append(all, cpu)
		}
	}
	return all, nil
}
