package repository

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"
)

// The places of apt's part. Hosts have the names of the suite and the origin in their
// configuration: if these change, apt asks a person.
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

// byHash is a path in which clients look for the index. A file of this name never changes.
func (i aptIndex) byHash() string {
	return path.Join(aptSuite, path.Dir(i.name), "by-hash", "SHA256", i.sha256())
}

func (i aptIndex) sha256() string { return hexSum(i.data) }

// ftparchive is a run of apt-ftparchive with only SHA-256 digests.
func (s *stage) ftparchive(args ...string) program {
	digests := []string{"-o", "APT::FTPArchive::MD5=false", "-o", "APT::FTPArchive::SHA1=false", "-o", "APT::FTPArchive::SHA512=false"}
	return program{dir: s.path(aptFolder), args: append(append([]string{"apt-ftparchive"}, digests...), args...)}
}

// aptIndexes indexes the debs, for each architecture, which may have none.
func (s *stage) aptIndexes(ctx context.Context, packages []*pkg) (all []aptIndex, err error) {
	for _, arch := range architectures {
		list, err := s.ftparchive("--arch", arch.deb, "packages", strings.TrimPrefix(aptPool, aptFolder+"/")).output(ctx)
		if err != nil {
			return nil, err
		}
		if err := compare(parseIndex(list), of(packages, false, arch.deb)); err != nil {
			return nil, fmt.Errorf("apt-ftparchive's index for %s: %w", arch.deb, err)
		}
		name := path.Join(component, "binary-"+arch.deb, "Packages")
		for _, i := range []aptIndex{{name, list}, {name + ".gz", zipped(list)}} {
			if err := os.WriteFile(s.path(path.Join(aptSuite, i.name)), i.data, 0o644); err != nil {
				return nil, err
			}
			all = append(all, i)
		}
	}
	return all, nil
}

// of returns the packages of one kind for one architecture.
func of(packages []*pkg, rpms bool, arch string) (some []*pkg) {
	for _, p := range packages {
		if p.isRPM == rpms && p.arch == arch {
			some = append(some, p)
		}
	}
	return some
}

// release returns the file to sign for apt. After validFor, apt refuses the repository;
// 0 means never.
func (s *stage) release(ctx context.Context, indexes []aptIndex, date time.Time, validFor time.Duration) ([]byte, error) {
	var archs []string
	for _, a := range architectures {
		archs = append(archs, a.deb)
	}
	const layout = "Mon, 02 Jan 2006 15:04:05 UTC"
	fields := [][2]string{
		{"Origin", origin}, {"Label", origin}, {"Suite", "stable"}, {"Codename", "stable"},
		{"Date", date.UTC().Format(layout)}, {"Architectures", strings.Join(archs, " ")}, {"Components", component},
		{"Acquire-By-Hash", "yes"}, {"Description", "the updater of Teleport agents"},
	}
	if validFor > 0 {
		// The field is only written with ValidTime, and ValidTime alone would count from the present time.
		fields = append(fields, [2]string{"ValidTime", "1"}, [2]string{"Valid-Until", date.Add(validFor).UTC().Format(layout)})
	}
	var args []string
	for _, f := range fields {
		args = append(args, "-o", "APT::FTPArchive::Release::"+f[0]+"="+f[1])
	}
	run := s.ftparchive(append(args, "release", strings.TrimPrefix(aptSuite, aptFolder+"/"))...)
	text, err := run.output(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkRelease(text, indexes, date, validFor); err != nil {
		return nil, fmt.Errorf("apt-ftparchive's Release: %w", err)
	}
	return text, nil
}

// checkRelease checks that Release has the wanted content: another version of
// apt-ftparchive may write less.
func checkRelease(text []byte, indexes []aptIndex, date time.Time, validFor time.Duration) error {
	digests, dated, err := parseRelease(text)
	if err != nil {
		return err
	}
	if !dated.Equal(date) {
		return fmt.Errorf("its date is %s, not %s", dated, date)
	}
	if until := field(string(text), "Valid-Until"); validFor > 0 || until != "" {
		end, err := time.Parse(time.RFC1123, until)
		if err != nil || !end.Equal(date.Add(validFor)) {
			return fmt.Errorf("it is valid until %q, not until %s", until, date.Add(validFor))
		}
	}
	for _, i := range indexes {
		if digests[i.name] != i.sha256() {
			return fmt.Errorf("it does not name %s as it is", i.name)
		}
	}
	if len(digests) != len(indexes) {
		return fmt.Errorf("it names %d indexes, not %d", len(digests), len(indexes))
	}
	return nil
}

// parseRelease returns the digests of the indexes by their names.
func parseRelease(text []byte) (digests map[string]string, date time.Time, err error) {
	date, err = time.Parse(time.RFC1123, field(string(text), "Date"))
	if err != nil {
		return nil, time.Time{}, err
	}
	_, list, _ := strings.Cut(string(text), "\nSHA256:\n")
	digests = make(map[string]string)
	for line := range strings.Lines(list) {
		if !strings.HasPrefix(line, " ") {
			break // the next field
		}
		fields := strings.Fields(line)
		if len(fields) != 3 {
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

// field returns the first line of a field of a control paragraph.
func field(paragraph, name string) string {
	for line := range strings.Lines(paragraph) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// zipped compresses reproducibly, without a name or a time.
func zipped(data []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // a valid level
	w.Write(data)
	w.Close()
	return b.Bytes()
}
