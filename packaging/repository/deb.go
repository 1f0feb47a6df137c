package repository

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
)

// maxControl is room for any description.
const maxControl = 1 << 20

// readControl returns the control paragraph of a deb, the text that apt's index
// repeats. A deb is an ar archive; of its members only control.tar.gz is looked at,
// which nfpm makes.
func readControl(data []byte) (string, error) {
	const magic = "!<arch>\n"
	rest, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok {
		return "", errors.New("it is not a deb")
	}
	const headSize = 60
	for len(rest) >= headSize {
		head := string(rest[:headSize])
		rest = rest[headSize:]
		name := strings.TrimSuffix(strings.TrimSpace(head[:16]), "/")
		size, err := strconv.Atoi(strings.TrimSpace(head[48:58]))
		if err != nil || size < 0 || size > len(rest) {
			return "", errTruncated
		}
		if name == "control.tar.gz" {
			return controlOf(rest[:size])
		}
		if strings.HasPrefix(name, "control.tar") {
			return "", fmt.Errorf("its %s is not compressed with gzip", name)
		}
		rest = rest[min(size+size%2, len(rest)):]
	}
	return "", errors.New("it has no control.tar.gz")
}

func controlOf(archive []byte) (string, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return "", err
	}
	for files := tar.NewReader(unzipped); ; {
		head, err := files.Next()
		if err == io.EOF {
			return "", errors.New("its control.tar.gz has no control file")
		}
		if err != nil {
			return "", err
		}
		if path.Clean(head.Name) != "control" {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(files, maxControl))
		if err != nil {
			return "", err
		}
		control := strings.TrimRight(string(text), "\n") + "\n"
		if strings.Contains(control, "\n\n") {
			return "", errors.New("its control file has more than one paragraph")
		}
		return control, nil
	}
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
