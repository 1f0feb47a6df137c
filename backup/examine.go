package backup

import (
	"context"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"sync"
)

// examine reads a copy twice, side by side: for the findings of SQLite's quick_check, and for its checksum.
func examine(ctx context.Context, f *os.File) (problems, crc string, err error) {
	var wait sync.WaitGroup
	var sumErr error
	wait.Go(func() { crc, sumErr = sum(ctx, f) })
	problems, err = settled(ctx, f.Name(), quickCheckOn)
	wait.Wait()
	return problems, crc, errors.Join(err, sumErr)
}

// castagnoli is the polynomial that processors compute themselves.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum returns the file's CRC-32C in hexadecimal. It finds damage by a disk, not by an enemy, who could as well write a new sum beside it: a
// cryptographic digest would only take longer, on processors without instructions for it longer than all the rest.
func sum(ctx context.Context, f *os.File) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	hash := crc32.New(castagnoli)
	err = copyOpened(ctx, io.NewSectionReader(f, 0, info.Size()), info, hash, nil)
	return hex.EncodeToString(hash.Sum(nil)), err
}
