package backup

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"teleport-update/internal/golden"
	"teleport-update/internal/version"
)

// backup.yaml is RFD 0169's (§On-disk layout), and more.
func TestTheRecordOfABackupKeepsItsForm(t *testing.T) {
	golden.Tags(t, "yaml", document{})
	dir := t.TempDir()
	r := metadata{
		Meta: Meta{Proxy: "mytenant.teleport.sh", Version: "15.1.1", Edition: version.Enterprise, Created: time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC)},
		Sum:  Sum{Size: 4096, CRC32C: "e3069283"},
	}
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, metaName))
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, "testdata/backup.yaml", string(data))
	if err := os.WriteFile(filepath.Join(dir, metaName), append(data, "from_the_future: 1\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := readMetadata(dir); err != nil || again != r {
		t.Errorf("with a field that it does not know it is read as %+v, %v; want %+v", again, err, r)
	}
}
