package versions

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"teleport-update/internal/durable"
	"teleport-update/internal/regular"
	"teleport-update/internal/space"
	"teleport-update/versions/signature"
)

// Signature returns the signature that came with the tree's tarball, byte for byte. It was good
// when the tree was fetched, and is nil if none came. After an error nobody knows.
func (t Tree) Signature() ([]byte, error) {
	data, err := regular.Read(filepath.Join(t.Dir, signatureName), signature.MaxFile, regular.NoLink|regular.Sealed)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the signature of version %s: %w", t.Release, err)
	}
	return data, nil
}

func writeSignature(record string, data []byte) error {
	if data == nil {
		return nil
	}
	if err := durable.WriteFile(filepath.Join(record, signatureName), data, 0o644); err != nil {
		return &HostError{fmt.Errorf("keep the signature of the new version: %w", space.Explain(err, filepath.Dir(record)))}
	}
	return nil
}
