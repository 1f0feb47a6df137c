package procfs

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestWhatIsConstant(t *testing.T) {
	maps := `00400000-00d7c000 r-xp 00000000 00:2b 5693466                            /usr/bin/x
00d7c000-0171a000 r--p 0097c000 00:2b 5693466                            /usr/bin/x
0171a000-01782000 rw-p 0131a000 00:2b 5693466                            /usr/bin/x
01782000-037cb000 rw-p 00000000 00:00 0
7fbb53800000-7fbb53802000 r-xp 00000000 00:00 7                          /usr/lib/x
7fbb5397b000-7fbb5397d000 r-xp 00000000 00:00 0                          [vdso]
`
	want := []mapping{{0x400000, 0xd7c000}, {0xd7c000, 0x171a000}}
	if got := constant(maps, "/usr/bin/x"); !reflect.DeepEqual(got, want) {
		t.Errorf("%x; want %x", got, want)
	}
}

// filesInMemory is what this process has in memory of files, in KiB.
func filesInMemory(t *testing.T) (kib int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "RssFile:"); ok {
			if _, err := fmt.Sscan(value, &kib); err != nil {
				t.Fatal(err)
			}
			return kib
		}
	}
	t.Skip("this kernel does not say what of a process's memory is files")
	return 0
}

func TestPagesThatAreNotNeededAreLetGo(t *testing.T) {
	before := filesInMemory(t)
	Host().LetGoOfProgram()
	if after := filesInMemory(t); after >= before {
		t.Errorf("%d KiB of files in memory, %d before", after, before)
	}
}
