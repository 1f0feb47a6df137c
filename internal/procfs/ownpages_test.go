package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
	var on unix.Statfs_t
	if err := unix.Statfs("/proc/self/exe", &on); err != nil {
		t.Fatal(err)
	}
	if on.Type == unix.TMPFS_MAGIC {
		t.Skip("this test's program is in memory, and has no pages that could be read again")
	}
	before := filesInMemory(t)
	Host().LetGoOfProgram()
	if after := filesInMemory(t); after >= before {
		t.Errorf("%d KiB of files in memory, %d before", after, before)
	}
}

// The loader writes into the constants of a program that it relocates: pages of these cannot be had again.
func TestARelocatedProgramKeepsItsPages(t *testing.T) {
	for name, tc := range map[string]struct {
		header string
		fixed  bool
	}{
		"at fixed addresses":       {"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00", true},
		"relocated by the loader":  {"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00", false},
		"too short to be ELF":      {"\x7fELF", false},
		"that cannot be looked at": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := FS{Proc: t.TempDir()}
			if tc.header != "" {
				if err := os.Mkdir(filepath.Join(f.Proc, "self"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(f.Proc, "self/exe"), []byte(tc.header), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if got := f.atFixedAddresses(); got != tc.fixed {
				t.Errorf("it is at fixed addresses: %v", got)
			}
		})
	}
}
