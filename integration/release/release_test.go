package release

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/integration/agent/stamp"
	"teleport-update/internal/version"
)

// program stands for the built agent: what is tested here is what is around it.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(path, bytes.Repeat([]byte("program"), 1000), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// list has tar, gzip and zstd of the system read the release.
func list(t *testing.T, path string) []string {
	t.Helper()
	out, err := exec.Command("tar", "--list", "--verbose", "--numeric-owner", "--file", path).CombinedOutput()
	if err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		names = append(names, fields[0]+" "+fields[5])
	}
	return names
}

func TestAReleaseHasTeleportsLayout(t *testing.T) {
	for _, tc := range []struct {
		edition version.Edition
		file    string
		top     string
	}{
		{"", "teleport-v1.1.0-linux-amd64-bin.tar.gz", "teleport/"},
		{version.Enterprise, "teleport-ent-v1.1.0-linux-amd64-bin.tar.gz", "teleport-ent/"},
		{version.FIPS, "teleport-ent-v1.1.0-linux-amd64-fips-bin.tar.gz", "teleport-ent/"},
	} {
		t.Run(tc.file, func(t *testing.T) {
			dir := t.TempDir()
			path, digest, err := Build(dir, Spec{Agent: program(t), Version: "1.1.0", Edition: tc.edition})
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Base(path) != strings.ReplaceAll(tc.file, "amd64", arch()) {
				t.Errorf("the file is %s; want %s", path, tc.file)
			}
			cmd := exec.Command("sha256sum", "--check", "--strict", path+".sha256")
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("checksum: %v: %s", err, out)
			}
			if sums, _ := os.ReadFile(path + ".sha256"); !strings.HasPrefix(string(sums), digest+"  ") {
				t.Errorf("checksum file: %s; Build returned %s", sums, digest)
			}
			want := []string{
				"drwxr-xr-x ", "-rw-r--r-- VERSION", "-rw-r--r-- README.md", "-rw-r--r-- LICENSE", "-rw-r--r-- CHANGELOG.md", "-rwxr-xr-x install",
				"drwxr-xr-x examples/", "drwxr-xr-x examples/systemd/", "-rw-r--r-- examples/systemd/README.md",
				"-rw-r--r-- examples/systemd/teleport.service", "drwxr-xr-x examples/systemd/fips/", "-rw-r--r-- examples/systemd/fips/teleport.service", "-rwxr-xr-x teleport", "-rwxr-xr-x tbot", "-rwxr-xr-x tctl", "-rwxr-xr-x tsh",
			}
			for i := range want {
				want[i] = strings.Replace(want[i], " ", " "+tc.top, 1)
			}
			if got := list(t, path); !slices.Equal(got, want) {
				t.Errorf("the release holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 2 {
				t.Errorf("the folder holds %s", names)
			}
		})
	}
}

func TestEqualSpecsGiveEqualBytes(t *testing.T) {
	agent := program(t)
	for _, c := range []Compression{Gzip, Zstd} {
		spec := Spec{Agent: agent, Version: "1.1.0", Compression: c, Pad: 100_000}
		_, first, err := Build(t.TempDir(), spec)
		if err != nil {
			t.Fatal(err)
		}
		path, second, err := Build(t.TempDir(), spec)
		if err != nil || first != second {
			t.Errorf("%s: %s and %s, %v", c, first, second, err)
		}
		spec.Version = "1.1.1"
		if _, third, err := Build(t.TempDir(), spec); err != nil || third == first {
			t.Errorf("%s: another version has the same digest", c)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if magic := map[Compression]string{Gzip: "\x1f\x8b", Zstd: "\x28\xb5\x2f\xfd"}[c]; !bytes.HasPrefix(data, []byte(magic)) {
			t.Errorf("%s: the file starts with %x", c, data[:4])
		}
	}
}

func TestTheBinaryCarriesItsStampBehindThePadding(t *testing.T) {
	spec := Spec{Agent: program(t), Version: "1.1.0", Edition: version.FIPS, Variant: stamp.Drains, Schema: 4, CrashAfter: time.Second}
	sizes := map[string]int64{}
	for name, pad := range map[string]func(*Spec){
		"no padding": func(*Spec) {},
		"noise":      func(s *Spec) { s.Pad = 1 << 20 },
		"text":       func(s *Spec) { s.Pad, s.PadText = 1<<20, true },
	} {
		s := spec
		pad(&s)
		path, _, err := Build(t.TempDir(), s)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		sizes[name] = info.Size()
		content, _ := read(t, path, "teleport-ent/teleport")
		if want := 7000 + s.Pad; !bytes.HasPrefix(content, []byte("programprogram")) || int64(len(content)) < want || int64(len(content)) > want+500 {
			t.Errorf("%s: the binary has %d bytes; want %d and the stamp", name, len(content), want)
		}
		binary := filepath.Join(t.TempDir(), "teleport")
		if err := os.WriteFile(binary, content, 0o755); err != nil {
			t.Fatal(err)
		}
		want := stamp.Stamp{Version: "1.1.0", Edition: version.FIPS, Variant: stamp.Drains, Schema: 4, CrashAfter: time.Second, DrainFor: 5 * time.Minute}
		if got, err := stamp.Read(binary); err != nil || got != want {
			t.Errorf("%s: stamp %+v, %v; want %+v", name, got, err, want)
		}
	}
	if sizes["noise"] < 1<<20 || sizes["text"] > sizes["no padding"]+100_000 {
		t.Errorf("compressed sizes: %v", sizes)
	}
	if _, err := stamp.Read(spec.Agent); !errors.Is(err, stamp.ErrNone) {
		t.Errorf("the stamp of a plain program: %v", err)
	}
}

func TestFilesAreAddedReplacedAndOmitted(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	path, _, err := Build(t.TempDir(), Spec{
		Agent: program(t), Version: "1.1.0", Omit: []string{"tbot"},
		Files: []File{{Name: "teleport-update", Path: other}, {Name: "tsh", Data: []byte("another"), Mode: 0o700}, {Name: "deep/er/file", Mode: 0o644}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"teleport-update": "755 from a file", "tsh": "700 another", "deep/er/file": "644 "} {
		content, mode := read(t, path, "teleport/"+name)
		if got := fmt.Sprintf("%o %s", mode, content); got != want {
			t.Errorf("%s: %s; want %s", name, got, want)
		}
	}
	names := strings.Join(list(t, path), "\n")
	if strings.Contains(names, "tbot") || !strings.Contains(names, "teleport/deep/\n") || strings.Count(names, "tsh") != 1 {
		t.Errorf("the release holds\n%s", names)
	}
	if _, _, err := Build(t.TempDir(), Spec{Agent: "/none", Version: "1.1.0"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without an agent: %v", err)
	}
}

func TestTheUnitIsTeleports(t *testing.T) {
	want := `[Unit]
Description=Teleport Service
After=network.target

[Service]
Type=simple
Restart=on-failure
RestartSec=5000ms
EnvironmentFile=-/etc/default/teleport
ExecStart=/usr/local/bin/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid
# systemd before 239 needs an absolute path
ExecReload=/bin/sh -c "exec pkill -HUP -L -F /run/teleport.pid"
PIDFile=/run/teleport.pid
LimitNOFILE=524288

[Install]
WantedBy=multi-user.target
`
	if got := (Unit{}).Text(); got != want {
		t.Errorf("the unit is\n%s\nwant\n%s", got, want)
	}
	got := Unit{Type: "notify", Restart: "always", RestartDelay: 500 * time.Millisecond, StopTimeout: 2 * time.Second, LinkDir: "/opt/bin", NoReload: true}.Text()
	for _, line := range []string{"Type=notify", "Restart=always", "RestartSec=500ms", "TimeoutStopSec=2000ms", "ExecStart=/opt/bin/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid"} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
	if strings.Contains(got, "ExecReload") {
		t.Errorf("a unit that cannot reload has ExecReload:\n%s", got)
	}
}

func read(t *testing.T, path, name string) (content []byte, mode int64) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command("gzip", "--decompress", "--stdout")
	cmd.Stdin = f
	unpacked, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(bytes.NewReader(unpacked)); ; {
		h, err := archive.Next()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if h.Name == name {
			content, err = io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			return content, h.Mode
		}
	}
}

func arch() string {
	_, after, _ := strings.Cut(Name("1.1.0", version.OSS), "linux-")
	before, _, _ := strings.Cut(after, "-")
	return before
}
