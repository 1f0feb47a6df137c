//go:build hosts

package hostile

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// entry is one entry of an archive, written byte by byte: package archive/tar
// refuses to write most of what is of interest here.
type entry struct {
	name string
	kind byte // '0' where it is 0
	mode int64
	link string
	data string
	// raw fields, where they are not what mode and data say
	rawMode, rawSize string
	noData           bool // the header is all there is
	pax              map[string]string
	paxRaw           string // the records as they are
	gnuName          string // a long name in GNU's way
	gnuLink          string
	prefix           string
	uid              string
	spoil            func(header []byte) // before the checksum is made
	after            func(header []byte) // and after
}

func dir(name string) entry           { return entry{name: name, kind: '5', mode: 0o755} }
func file(name, data string) entry    { return entry{name: name, mode: 0o644, data: data} }
func program(name, data string) entry { return entry{name: name, mode: 0o755, data: data} }
func symlink(name, target string) entry {
	return entry{name: name, kind: '2', mode: 0o777, link: target}
}
func hardlink(name, target string) entry {
	return entry{name: name, kind: '1', mode: 0o755, link: target}
}

func (e entry) bytes() []byte {
	var b bytes.Buffer
	if e.pax != nil || e.paxRaw != "" {
		records := e.paxRaw
		for key, value := range e.pax {
			records += record(key, value)
		}
		b.Write(entry{name: "PaxHeaders/x", kind: 'x', mode: 0o644, data: records}.bytes())
	}
	if e.gnuName != "" {
		b.Write(entry{name: "././@LongLink", kind: 'L', data: e.gnuName + "\x00"}.bytes())
	}
	if e.gnuLink != "" {
		b.Write(entry{name: "././@LongLink", kind: 'K', data: e.gnuLink + "\x00"}.bytes())
	}
	h := make([]byte, 512)
	copy(h[:100], e.name)
	mode, size, uid := e.rawMode, e.rawSize, e.uid
	if mode == "" {
		mode = fmt.Sprintf("%07o\x00", e.mode)
	}
	if size == "" {
		size = fmt.Sprintf("%011o\x00", len(e.data))
	}
	if uid == "" {
		uid = "0000000\x00"
	}
	copy(h[100:108], mode)
	copy(h[108:116], uid)
	copy(h[116:124], uid)
	copy(h[124:136], size)
	copy(h[136:148], "14567360400\x00")
	h[156] = e.kind
	if e.kind == 0 {
		h[156] = '0'
	}
	copy(h[157:257], e.link)
	copy(h[257:265], "ustar\x0000")
	copy(h[345:500], e.prefix)
	if e.spoil != nil {
		e.spoil(h)
	}
	seal(h)
	if e.after != nil {
		e.after(h)
	}
	b.Write(h)
	if !e.noData {
		b.WriteString(e.data)
		b.Write(make([]byte, (512-len(e.data)%512)%512))
	}
	return b.Bytes()
}

// seal writes the header's checksum.
func seal(h []byte) {
	copy(h[148:156], "        ")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

// record is one of a PAX header: its own length comes first.
func record(key, value string) string {
	n := len(key) + len(value) + 3
	for n != len(key)+len(value)+3+len(fmt.Sprint(n)) {
		n = len(key) + len(value) + 3 + len(fmt.Sprint(n))
	}
	return fmt.Sprintf("%d %s=%s\n", n, key, value)
}

// endMark are the two blocks that end an archive.
var endMark = make([]byte, 1024)

func archive(entries ...entry) []byte {
	var b bytes.Buffer
	for _, e := range entries {
		b.Write(e.bytes())
	}
	b.Write(endMark)
	return b.Bytes()
}

func gz(data []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

func zst(data []byte, options ...zstd.EOption) []byte {
	w, err := zstd.NewWriter(nil, append([]zstd.EOption{zstd.WithEncoderConcurrency(1)}, options...)...)
	if err != nil {
		panic(err)
	}
	defer w.Close()
	return w.EncodeAll(data, nil)
}

// script is a program that says what version it is of.
func script(v string) string {
	return "#!/bin/sh\n[ \"$1\" = version ] && exec echo 'Teleport v" + v + " git:v" + v + "-0-gabc1234 go1.24'\nexit 1\n"
}

const unitText = `[Unit]
Description=Teleport Service

[Service]
ExecStart=/usr/local/bin/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid
ExecReload=/bin/sh -c "exec pkill -HUP -L -F /run/teleport.pid"

[Install]
WantedBy=multi-user.target
`

// release is the entries of a sound release.
func release(v string) []entry {
	return []entry{
		dir("teleport/"),
		file("teleport/VERSION", v+"\n"),
		program("teleport/install", "#!/bin/sh\nexit 1\n"),
		dir("teleport/examples/"),
		dir("teleport/examples/systemd/"),
		file("teleport/examples/systemd/teleport.service", unitText),
		program("teleport/tctl", script(v)),
		program("teleport/teleport", script(v)),
		program("teleport/tsh", script(v)),
	}
}

func sound(v string) []byte { return gz(archive(release(v)...)) }

// with adds entries to the end of a sound release.
func with(more ...entry) []byte { return gz(archive(append(release("1.1.0"), more...)...)) }

// without leaves out the entry of a sound release with that name.
func without(name string, more ...entry) []byte {
	var rest []entry
	for _, e := range release("1.1.0") {
		if strings.TrimPrefix(e.name, "teleport/") != name {
			rest = append(rest, e)
		}
	}
	return gz(archive(append(rest, more...)...))
}
