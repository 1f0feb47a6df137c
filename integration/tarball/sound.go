package tarball

import (
	"archive/tar"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Unit is what the unit of a release holds.
const Unit = "[Service]\nExecStart=/usr/local/bin/teleport start\n"

// Agent is a program that answers "teleport version" as the real one does.
func Agent(version string) string {
	return "#!/bin/sh\necho \"Teleport v" + version + " git:v" + version + "-0-gabcdef go1.22\"\n"
}

// Enterprise has the agent of a release say that it is of an enterprise edition.
func Enterprise(items []Item) []Item {
	items = slices.Clone(items)
	for i := range items {
		if items[i].Name == "teleport/teleport" {
			items[i].Data = strings.Replace(items[i].Data, "Teleport v", "Teleport Enterprise v", 1)
		}
	}
	return items
}

// Sound is a release with everything that a real one has.
func Sound(version string) []Item {
	return []Item{
		{Name: "teleport/", Kind: tar.TypeDir},
		{Name: "teleport/VERSION", Mode: 0o644, Data: version + "\n"},
		{Name: "teleport/README.md", Mode: 0o644, Data: "read me"},
		{Name: "teleport/install", Data: "#!/bin/sh\n"},
		{Name: "teleport/tsh", Data: "tsh " + version},
		{Name: "teleport/teleport", Data: Agent(version)},
		{Name: "teleport/tctl", Mode: 0o700, Data: "tctl " + version},
		{Name: "teleport/examples/", Kind: tar.TypeDir},
		{Name: "teleport/examples/systemd/teleport.service", Mode: 0o600, Data: Unit},
		{Name: "teleport/examples/systemd/README.md", Data: "executable by mistake"},
	}
}

// Large is a sound release with a program of so many random bytes, which no
// compression makes smaller.
func Large(version string, size int) []byte {
	noise := make([]byte, size)
	rand.NewChaCha8(sha256.Sum256(fmt.Append(nil, version, size))).Read(noise)
	return Gzip(Of(append(Sound(version), Item{Name: "teleport/tbot", Data: string(noise)})...))
}

// Under gives the items another top folder.
func Under(top string, items []Item) []Item {
	items = slices.Clone(items)
	for i := range items {
		items[i].Name = strings.Replace(items[i].Name, "teleport/", top+"/", 1)
	}
	return items
}

// Without leaves out the item of that name.
func Without(items []Item, name string) []Item {
	return slices.DeleteFunc(items, func(it Item) bool { return it.Name == name })
}
