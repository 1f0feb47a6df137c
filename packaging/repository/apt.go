package repository

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
)

// Where apt's part is. The names of the suite and of the origin are those that
// hosts have in their configuration: apt asks a person when they change.
const (
	aptFolder = "apt"
	aptPool   = aptFolder + "/pool"
	aptSuite  = aptFolder + "/dists/stable"
	component = "main"
	origin    = "teleport-update"
)

// aptIndex is one file that Release names.
type aptIndex struct {
	name string // relative to the suite
	data []byte
}

// byHash is where a client looks for it: under this name it never changes.
func (i aptIndex) byHash() string {
	return path.Join(aptSuite, path.Dir(i.name), "by-hash", "SHA256", i.sha256())
}

func (i aptIndex) sha256() string { return hexSum(i.data) }

// aptIndexes describes the debs, once for each architecture, which may have none.
func aptIndexes(packages []*pkg) (all []aptIndex) {
	for _, arch := range architectures {
		var list bytes.Buffer
		for _, p := range packages {
			if p.rpm != nil || p.arch != arch.deb {
				continue
			}
			fmt.Fprintf(&list, "%sFilename: %s\nSize: %d\nSHA256: %s\n\n", p.control, strings.TrimPrefix(p.path, aptFolder+"/"), p.size, p.sha256)
		}
		name := path.Join(component, "binary-"+arch.deb, "Packages")
		all = append(all, aptIndex{name, list.Bytes()}, aptIndex{name + ".gz", zipped(list.Bytes())})
	}
	return all
}

// release is the file that is signed for apt; with a time that is not zero, apt
// refuses it from then on.
func release(indexes []aptIndex, date, validUntil time.Time) []byte {
	const layout = "Mon, 02 Jan 2006 15:04:05 UTC"
	var b bytes.Buffer
	fmt.Fprintf(&b, "Origin: %s\nLabel: %[1]s\nSuite: stable\nCodename: stable\nDate: %s\n", origin, date.UTC().Format(layout))
	if !validUntil.IsZero() {
		fmt.Fprintf(&b, "Valid-Until: %s\n", validUntil.UTC().Format(layout))
	}
	var names []string
	for _, a := range architectures {
		names = append(names, a.deb)
	}
	fmt.Fprintf(&b, "Architectures: %s\nComponents: %s\nAcquire-By-Hash: yes\nDescription: the updater of Teleport agents\nSHA256:\n", strings.Join(names, " "), component)
	for _, i := range indexes {
		fmt.Fprintf(&b, " %s %d %s\n", i.sha256(), len(i.data), i.name)
	}
	return b.Bytes()
}

// parseRelease returns what release was made from: the digests of the indexes by
// their names.
func parseRelease(text []byte) (digests map[string]string, date time.Time, err error) {
	date, err = time.Parse(time.RFC1123, field(string(text), "Date"))
	if err != nil {
		return nil, time.Time{}, err
	}
	_, list, _ := strings.Cut(string(text), "\nSHA256:\n")
	digests = make(map[string]string)
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		if !strings.HasPrefix(line, " ") || len(fields) != 3 {
			return nil, time.Time{}, fmt.Errorf("its line %q is not understood", strings.TrimSpace(line))
		}
		digests[fields[2]] = fields[0]
	}
	if len(digests) == 0 {
		return nil, time.Time{}, errors.New("it names no index")
	}
	return digests, date, nil
}

// parseIndex returns the digests of the packages in an index, by their paths in the
// repository.
func parseIndex(text []byte) map[string]string {
	digests := make(map[string]string)
	for paragraph := range strings.SplitSeq(string(text), "\n\n") {
		if name := field(paragraph, "Filename"); name != "" {
			digests[path.Join(aptFolder, name)] = field(paragraph, "SHA256")
		}
	}
	return digests
}

// zipped compresses without a name or a time.
func zipped(data []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // a valid level
	w.Write(data)
	w.Close()
	return b.Bytes()
}
