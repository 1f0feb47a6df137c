package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"teleport-update/internal/durable"
	"teleport-update/internal/regular"
	"teleport-update/internal/trust"
	"teleport-update/internal/version"
)

// maxMeta is far above the size of backup.yaml, in bytes.
const maxMeta = 64 << 10

// metadata is the content of backup.yaml: the Meta of the backup, and a Sum that shows a change of sqlite.db.
type metadata struct {
	Meta
	Sum
}

// Sum shows whether sqlite.db is still the file that was written.
type Sum struct {
	Size   int64
	CRC32C string // hexadecimal; empty if another program wrote the backup
}

// document is backup.yaml in the form of RFD 0169 (§On-disk layout), with edition, size and crc32c added. Unknown fields are left alone.
type document struct {
	Version string `yaml:"version"`
	Kind    string `yaml:"kind"`
	Spec    struct {
		Proxy        string `yaml:"proxy"`
		Version      string `yaml:"version"`
		CreationTime string `yaml:"creation_time"`
		Edition      string `yaml:"edition,omitempty"`
		Size         int64  `yaml:"size"`
		CRC32C       string `yaml:"crc32c,omitempty"`
	} `yaml:"spec"`
}

func (r metadata) write(dir string) error {
	var d document
	d.Version, d.Kind = "v1", "db_backup"
	d.Spec.Proxy = r.Proxy
	d.Spec.Version = r.Version
	d.Spec.CreationTime = r.Created.UTC().Format(time.RFC3339Nano)
	d.Spec.Edition = string(r.Edition)
	d.Spec.Size = r.Size
	d.Spec.CRC32C = r.CRC32C
	data, err := yaml.Marshal(d)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, metaName), data, 0o600)
}

func readMetadata(dir string) (metadata, error) {
	if err := checkDir(dir); err != nil && !isNotExist(err) {
		return metadata{}, invalid(dir, Damaged, "cannot be relied on: %v", err)
	}
	data, err := regular.Read(filepath.Join(dir, metaName), maxMeta, regular.NoLink|regular.Sealed)
	unsuitable, isUnsuitable := errors.AsType[*regular.UnsuitableError](err)
	switch {
	case isNotExist(err):
		if _, err := os.Lstat(filepath.Join(dir, FileName)); err == nil {
			return metadata{}, invalid(dir, Incomplete, "has no "+metaName+": it was restored already, is of the past, or was not finished")
		}
		return metadata{}, invalid(dir, Missing, "does not exist")
	case isUnsuitable:
		return metadata{}, invalid(dir, Damaged, "is damaged: %v", unsuitable)
	case err != nil:
		return metadata{}, err
	}

	var d document
	if err := yaml.Unmarshal(data, &d); err != nil {
		return metadata{}, invalid(dir, Damaged, "is damaged: %s: %v", metaName, err)
	}
	if d.Version != "v1" || d.Kind != "db_backup" {
		return metadata{}, invalid(dir, Damaged, "is of a kind that this version does not know: %s says %q, %q; want \"v1\", \"db_backup\"",
			metaName, d.Version, d.Kind)
	}
	created, err := time.Parse(time.RFC3339, d.Spec.CreationTime)
	if err != nil {
		return metadata{}, invalid(dir, Damaged, "is damaged: creation_time in %s is %.40q, not a time", metaName, d.Spec.CreationTime)
	}
	return metadata{
		Meta: Meta{
			Proxy:   d.Spec.Proxy,
			Version: d.Spec.Version,
			Edition: version.Edition(d.Spec.Edition),
			Created: created,
		},
		Sum: Sum{Size: d.Spec.Size, CRC32C: d.Spec.CRC32C},
	}, nil
}

// Created returns when the backup in dir was taken.
func Created(dir string) (time.Time, error) {
	r, err := readMetadata(dir)
	return r.Created, err
}

// checkDir returns an error unless a backup's folder is one that nobody else can put anything into: its files become the agent's own again.
func checkDir(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("the backup folder %s is a symbolic link; it is not followed", dir)
	case !info.IsDir():
		return fmt.Errorf("the backup folder %s is not a folder", dir)
	case !trust.Sealed(info):
		return fmt.Errorf("the backup folder %s can be written by another user", dir)
	}
	return nil
}
