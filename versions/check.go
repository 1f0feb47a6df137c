package versions

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"teleport-update/internal/regular"
	"teleport-update/versions/archive"
)

// CheckArchive names everything for which hosts would refuse the tarball at path:
// each rule of package archive that it breaks, and, as the rule "checksum", a
// checksum file beside it that is not its own. One without a checksum file is taken,
// for find servers make that themselves. The error says that the tarball could not
// be read; of what was read by then, the violations are returned.
func CheckArchive(path string, limits archive.Limits) ([]*archive.Violation, error) {
	f, _, err := regular.Open(path, 0)
	if err != nil {
		return nil, fmt.Errorf("check the tarball: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	found, err := archive.Check(io.TeeReader(f, sum), limits)
	if err == nil {
		_, err = io.Copy(sum, f) // what the check had no need of
	}
	if err != nil {
		return found, fmt.Errorf("check the tarball: %w", err)
	}
	wrong, err := checksumProblem(path+checksumSuffix, hex.EncodeToString(sum.Sum(nil)))
	if wrong != "" {
		found = append(found, &archive.Violation{Rule: "checksum", Text: wrong})
	}
	return found, err
}

// checksumProblem compares a checksum file, if there is one, with a digest.
func checksumProblem(path, got string) (problem string, err error) {
	f, _, err := regular.Open(path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if odd, ok := errors.AsType[*regular.OddError](err); ok {
		return odd.Error(), nil
	}
	if err != nil {
		return "", fmt.Errorf("check the checksum: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxChecksum))
	if err != nil {
		return "", fmt.Errorf("check the checksum: %w", err)
	}
	want, err := parseChecksum(data)
	if err != nil {
		return err.Error(), nil
	}
	if want != got {
		return fmt.Sprintf("its checksum file says sha256 %s, and it has %s", want, got), nil
	}
	return "", nil
}
