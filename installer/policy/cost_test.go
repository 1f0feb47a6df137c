package policy

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"teleport-update/integration/tarball"
)

const (
	// signatureCPU is how much processor time a signature may take: the goal for a whole
	// update. The time on a clock depends on what else the machine does.
	signatureCPU = 30 * time.Millisecond
	// signatureReads is how many bytes may be read more with a signature: its own file, the
	// VERSION, a few headers. A tarball that was read once more has a thousand times as many.
	signatureReads = 64 << 10
	// realistic is the size of a tarball, some tens of megabytes, that is no small one.
	realistic = 48 << 20
)

// cost is what fetching one release took.
type cost struct {
	cpu      time.Duration // of this process: the client's and the server's
	read     int64         // bytes, from files and connections
	requests string
}

func costOf(t *testing.T, m *mirror, p Policy) cost {
	t.Helper()
	cpu, read := cpuTime(t), bytesRead(t)
	_, _, err := bring(t, m, &Verifier{Policy: p}, oss("17.3.0"))
	must(t, err)
	return cost{cpuTime(t) - cpu, bytesRead(t) - read, strings.Join(m.requests, " ")}
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bytesRead is what read(2) has returned to this process so far.
func bytesRead(t *testing.T) (n int64) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/io")
	must(t, err)
	if _, err := fmt.Sscanf(string(data), "rchar: %d", &n); err != nil {
		t.Fatalf("%v in %q", err, data)
	}
	return n
}

// TestWhatASignatureCosts fetches the same release in turns without a signature and with one: a
// small one, whose time is nearly all its own, and one of a realistic size, which the signature
// must not have read again.
func TestWhatASignatureCosts(t *testing.T) {
	if testing.Short() {
		t.Skip("a release of a realistic size takes seconds to unpack")
	}
	key, pub := newKey(t)
	modes := []Policy{{Signatures: Off}, keysOf(t, pub)}
	for _, tc := range []struct {
		name    string
		tarball []byte
		turns   int
	}{
		{"some kilobytes", sound("17.3.0"), 15},
		{"a realistic size", tarball.Large("17.3.0", realistic), 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			signature := text(sign(t, key, string(tc.tarball)))
			costs := map[Mode][]cost{}
			for range tc.turns {
				for _, p := range modes {
					costs[p.Signatures] = append(costs[p.Signatures], costOf(t, &mirror{tarball: tc.tarball, signature: signature}, p))
				}
			}
			without, with := least(costs[Off]), least(costs[Require])
			t.Logf("MEASURED: a release of %d KiB: without a signature %v of processor time, %d KiB read; with one %v, %d KiB",
				len(tc.tarball)>>10, without.cpu, without.read>>10, with.cpu, with.read>>10)
			if more := with.cpu - without.cpu; more > signatureCPU+without.cpu/4 {
				t.Errorf("a signature takes %v of processor time; want %v at most", more, signatureCPU)
			}
			if more := with.read - without.read; more > signatureReads {
				t.Errorf("a signature has %d bytes read more; want %d at most", more, signatureReads)
			}
			if got, want := strings.Replace(with.requests, " .sig", "", 1), without.requests; got != want || with.requests == want {
				t.Errorf("with a signature the mirror is asked for %q, without one for %q; want one request more",
					with.requests, without.requests)
			}
		})
	}
}

// least is the lowest of each: what else the machine did is in the others.
func least(list []cost) cost {
	by := func(of func(cost) int64) int64 {
		return of(slices.MinFunc(list, func(a, b cost) int { return cmp.Compare(of(a), of(b)) }))
	}
	return cost{
		cpu:      time.Duration(by(func(c cost) int64 { return int64(c.cpu) })),
		read:     by(func(c cost) int64 { return c.read }),
		requests: list[0].requests,
	}
}
