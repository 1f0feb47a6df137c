package release

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"teleport-update/integration/agent/stamp"
)

// entry is one file of the release: the file at path, if there is one, and then
// what follows reads.
type entry struct {
	name    string
	mode    int64
	size    int64
	path    string
	follows io.Reader
}

func text(name string, mode int64, content string) entry {
	return entry{name: name, mode: mode, size: int64(len(content)), follows: strings.NewReader(content)}
}

func fromFile(name string, mode int64, path string) (entry, error) {
	info, err := os.Stat(path)
	if err != nil {
		return entry{}, err
	}
	return entry{name: name, mode: mode, size: info.Size(), path: path, follows: strings.NewReader("")}, nil
}

func (e entry) writeTo(w io.Writer) error {
	if e.path != "" {
		f, err := os.Open(e.path)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := io.Copy(w, f); err != nil {
			return err
		}
	}
	_, err := io.Copy(w, e.follows)
	return err
}

// entries lists the files of the release, in the order they are written.
func (s *Spec) entries() ([]entry, error) {
	agent, err := s.agent()
	if err != nil {
		return nil, err
	}
	fips := s.Unit
	fips.FIPS = true
	list := []entry{
		text("VERSION", 0o644, s.Version+"\n"),
		text("README.md", 0o644, "# Teleport (stand-in)\n\nThis release is for tests of the updater. It is not Teleport.\n"),
		text("LICENSE", 0o644, "For tests only.\n"),
		text("CHANGELOG.md", 0o644, "# Changelog\n\n## "+s.Version+"\n"),
		text("install", 0o755, "#!/bin/sh\necho 'The updater has no use for this script.' >&2\nexit 1\n"),
		text("examples/systemd/README.md", 0o644, "Copy teleport.service to /etc/systemd/system.\n"),
		text("examples/systemd/teleport.service", 0o644, s.Unit.Text()),
		text("examples/systemd/fips/teleport.service", 0o644, fips.Text()),
		agent,
	}
	for _, name := range []string{"tbot", "tctl", "tsh"} {
		script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = version ] && exec echo 'Teleport v%s git:v%s-0-gabc1234'\nexit 1\n", s.Version, s.Version)
		list = append(list, text(name, 0o755, script))
	}
	for _, f := range s.Files {
		e := text(f.Name, cmp.Or(f.Mode, 0o755), string(f.Data))
		if f.Path != "" {
			if e, err = fromFile(f.Name, e.mode, f.Path); err != nil {
				return nil, err
			}
		}
		list = slices.DeleteFunc(list, func(old entry) bool { return old.name == f.Name })
		list = append(list, e)
	}
	return slices.DeleteFunc(list, func(e entry) bool { return slices.Contains(s.Omit, e.name) }), nil
}

// agent is the built program, the padding and the stamp.
func (s *Spec) agent() (entry, error) {
	e, err := fromFile("teleport", 0o755, s.Agent)
	if err != nil {
		return e, err
	}
	var tail bytes.Buffer
	if err := stamp.Append(&tail, stamp.Stamp{
		Version: s.Version, Edition: s.Edition, Variant: s.Variant, Schema: s.Schema,
		CrashAfter: s.CrashAfter, DrainFor: s.DrainFor,
	}); err != nil {
		return e, err
	}
	e.size += s.Pad + int64(tail.Len())
	e.follows = io.MultiReader(io.LimitReader(s.padding(), s.Pad), &tail)
	return e, nil
}

func (s *Spec) padding() io.Reader {
	if s.PadText {
		return &repeated{text: strings.Repeat("padding of release "+s.Version+"\n", 1000)}
	}
	var seed [32]byte
	copy(seed[:], s.Version)
	return rand.NewChaCha8(seed)
}

// repeated reads the same text again and again.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(b []byte) (int, error) {
	n := copy(b, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}
