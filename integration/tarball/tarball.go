// Package tarball writes tarballs as archive/tar would not: those of publishers who
// are hostile, or broken.
package tarball

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Item is one raw tar entry.
type Item struct {
	Name     string
	Kind     byte  // tar.TypeReg when zero
	Mode     int64 // 0755 when zero
	Size     int64 // of the header; len(Data) when zero
	Link     string
	Data     string
	Pax      map[string]string // in an extended header before the entry
	LongName string            // in a GNU long name before the entry
}

// Of is the tar archive of the items, with its end mark.
func Of(items ...Item) []byte {
	var out bytes.Buffer
	for _, it := range items {
		it.write(&out)
	}
	out.Write(make([]byte, 1024))
	return out.Bytes()
}

func (it Item) write(out *bytes.Buffer) {
	if it.Pax != nil {
		var records strings.Builder
		for key, value := range it.Pax {
			records.WriteString(paxRecord(key, value))
		}
		Item{Name: "pax", Kind: tar.TypeXHeader, Data: records.String()}.write(out)
	}
	if it.LongName != "" {
		Item{Name: "././@LongLink", Kind: 'L', Data: it.LongName + "\x00"}.write(out)
	}
	kind, mode, size := it.Kind, it.Mode, it.Size
	if kind == 0 {
		kind = tar.TypeReg
	}
	if mode == 0 {
		mode = 0o755
	}
	if size == 0 {
		size = int64(len(it.Data))
	}
	var h [512]byte
	copy(h[0:100], it.Name)
	copy(h[100:], fmt.Sprintf("%07o\x00", mode))
	copy(h[108:], "0000000\x00")
	copy(h[116:], "0000000\x00")
	if size < 1<<33 {
		copy(h[124:], fmt.Sprintf("%011o\x00", size))
	} else { // base-256
		h[124] = 0x80
		for i := range 8 {
			h[128+i] = byte(size >> (56 - 8*i))
		}
	}
	copy(h[136:], "00000000000\x00")
	h[156] = kind
	copy(h[157:257], it.Link)
	copy(h[257:], "ustar\x0000")
	copy(h[148:156], "        ")
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	out.Write(h[:])
	out.WriteString(it.Data)
	out.Write(make([]byte, (512-len(it.Data)%512)%512))
}

func paxRecord(key, value string) string {
	length := len(key) + len(value) + 3
	for n := length; ; n++ {
		record := fmt.Sprintf("%d %s=%s\n", n, key, value)
		if len(record) == n {
			return record
		}
	}
}

// Gzip compresses.
func Gzip(data []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(data)
	w.Close()
	return out.Bytes()
}

// Zstd compresses.
func Zstd(data []byte, opts ...zstd.EOption) []byte {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, opts...)
	if err != nil {
		panic(err)
	}
	w.Write(data)
	w.Close()
	return out.Bytes()
}
