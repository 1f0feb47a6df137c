package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"teleport-update/internal/trust"
)

// textfile is the name of our metrics in a folder that node_exporter reads; it takes only files
// with this ending for metrics.
const textfile = "teleport-update.prom"

// CheckTextfileDir returns why root does not write metrics into a folder: it is not there, or
// others than root could exchange its files.
func CheckTextfileDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", dir)
	}
	if err == nil {
		err = trust.Path(dir)
	}
	return err
}

// WriteTextfile puts metrics into the folder, whole, for everybody to read. They are not
// synced: the next run writes them again.
func WriteTextfile(dir string, data []byte) error {
	if err := CheckTextfileDir(dir); err != nil {
		return err
	}
	return replace(filepath.Join(dir, textfile), data, 0o644)
}

// RemoveTextfile removes the metrics, if there are any. An empty dir is no folder, and
// has none.
func RemoveTextfile(dir string) error {
	err := CheckTextfileDir(dir)
	if err == nil {
		err = os.Remove(filepath.Join(dir, textfile))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
