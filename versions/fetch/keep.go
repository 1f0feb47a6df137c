package fetch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
	"teleport-update/internal/regular"
	"teleport-update/internal/space"
	"teleport-update/internal/trust"
	"teleport-update/versions"
)

// keepBytes is how much of a download is received before it is judged slow or
// fast.
const keepBytes = 8 << 20

// keeper writes a download to partial/ as well. If this run does not complete the download,
// the next run continues it. A fast download is not worth the writes: its file is removed
// after the first bytes, before the kernel has written them to the disk. (The bytes could
// wait in memory instead; they would be a third of the memory that an update may use.)
//
// Nothing here is synced, and no error here fails the download: bytes that are read back
// are checked with all others.
type keeper struct {
	log   *slog.Logger
	path  string        // partial/DIGEST.part
	after time.Duration // slower than this for keepBytes is slow
	need  int64         // bytes that the release itself will take

	f       *os.File // nil: nothing is kept
	have    int64    // bytes of an earlier run, not yet replayed
	size    int64
	started time.Time
	slow    bool // decided: worth keeping
	info    partInfo
}

// partInfo is the content of partial/DIGEST.json: where the bytes of a partial download come from.
type partInfo struct {
	Total  int64  `json:"total"`  // bytes of the whole tarball; -1 when not known
	Source string `json:"source"` // the SHA-256 of the URL, which may hold a secret
	validator
}

func openKeeper(dir, digest string, after time.Duration, log *slog.Logger) *keeper {
	k := &keeper{log: log, path: filepath.Join(dir, digest+versions.PartSuffix), after: after, info: partInfo{Total: -1}}
	f, err := os.OpenFile(k.path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return k
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || !trust.Ours(info) {
		f.Close()
		return k
	}
	k.f, k.have, k.size = f, info.Size(), info.Size()
	if k.have > 0 {
		k.slow = true
		if data, err := regular.Read(k.infoPath(), 64<<10, regular.NoLink); err == nil && json.Unmarshal(data, &k.info) != nil {
			k.info = partInfo{Total: -1}
		}
	}
	return k
}

func (k *keeper) infoPath() string {
	return strings.TrimSuffix(k.path, versions.PartSuffix) + versions.InfoSuffix
}

// replay reads bytes that an earlier run kept; 0 and nil when all of them were read.
func (k *keeper) replay(p []byte) (int, error) {
	if k == nil || k.f == nil || k.have == 0 {
		return 0, nil
	}
	n, err := k.f.Read(p[:min(int64(len(p)), k.have)])
	k.have -= int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // somebody cut it while we read
	}
	return n, err
}

// write keeps received bytes.
func (k *keeper) write(p []byte) {
	if k == nil || k.f == nil {
		return
	}
	if k.started.IsZero() {
		k.started = time.Now()
	}
	if _, err := k.f.Write(p); err != nil {
		k.drop()
		return
	}
	k.size += int64(len(p))
	switch {
	case k.slow:
	case time.Since(k.started) > k.after:
		k.slow = true
		if free, err := space.At(filepath.Dir(k.path)); err != nil || free.Bytes < k.need+max(k.info.Total, 0) {
			k.drop()
			return
		}
		k.save()
	case k.size >= keepBytes:
		k.drop()
	}
}

// describe notes the source of the bytes.
func (k *keeper) describe(at place, v validator, total int64) {
	if k == nil {
		return
	}
	info := partInfo{Total: total, Source: sourceID(at), validator: v}
	if info == k.info {
		return
	}
	k.info = info
	if k.slow && k.f != nil {
		k.save()
	}
}

// known returns the validator and the length from an earlier run if it used the same place.
func (k *keeper) known(at place) (v validator, total int64) {
	if k.have > 0 && k.info.Source == sourceID(at) {
		return k.info.validator, k.info.Total
	}
	return validator{}, -1
}

func (k *keeper) save() {
	data, err := json.Marshal(k.info)
	if err == nil {
		err = durable.WriteFile(k.infoPath(), data, 0o600)
	}
	if err != nil {
		k.log.Debug("cannot keep the download", "error", err)
		k.drop()
	}
}

// end leaves the kept bytes to the next run.
func (k *keeper) end() {
	if k.size == 0 {
		k.drop()
	} else if k.f != nil {
		k.f.Close()
		k.f = nil
	}
}

// drop removes the kept bytes; nothing is kept any more.
func (k *keeper) drop() {
	if k.f != nil {
		k.f.Close()
		k.f = nil
	}
	k.have = 0
	for _, path := range []string{k.path, k.infoPath()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			k.log.Debug("cannot remove a kept download", "error", err)
		}
	}
}

func sourceID(at place) string {
	id := sha256.Sum256([]byte(at.url.String()))
	return hex.EncodeToString(id[:])
}
