package state

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"teleport-update/internal/golden"
	"teleport-update/internal/version"
)

func TestWhatIsWrittenHasNamesInOneSpelling(t *testing.T) {
	golden.Tags(t, "json", Journal{}, LastAnswer{})
	golden.Tags(t, "yaml", Config{})
}

// Each field that a journal can have; which ones are there in which phase, the golden
// files of package transaction say.
func TestTheJournalKeepsItsForm(t *testing.T) {
	var j, again Journal
	golden.Fill(&j)
	j.To.Version, j.From.Version, j.ReadableFrom = "1.1.0", "1.0.0", firstSchema
	path := filepath.Join(t.TempDir(), "journal.json")
	if err := j.Save(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, "testdata/journal.json", string(data))
	if err := json.Unmarshal(data, &again); err != nil || !reflect.DeepEqual(again, j) {
		t.Errorf("it is read as %+v, %v; it was %+v", again, err, j)
	}
}

// full is an updates.yaml with each field that it can have.
func full() Config {
	var c Config
	golden.Fill(&c)
	c.Version, c.Kind = configVersion, configKind
	c.Spec.ActiveVersion, c.Status.PreviousVersion = "1.1.0", "1.0.0"
	c.Spec.ProgramsDir = "/srv/programs"
	c.Status.ActiveEdition, c.Status.PreviousEdition = version.Enterprise, version.OSS
	c.Spec.Health.Window, c.Spec.Backup.MaxAge = Duration(30*time.Second), Duration(DefaultMaxAge)
	return c
}

func TestTheConfigurationKeepsItsForm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "updates.yaml")
	if err := full().Save(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, "testdata/updates.yaml", string(data))
	if c, err := LoadConfig(path); err != nil || !reflect.DeepEqual(c, full()) {
		t.Errorf("it is read as %+v, %v", c, err)
	}
}

func TestTheLastAnswerKeepsItsForm(t *testing.T) {
	var a LastAnswer
	golden.Fill(&a)
	path := filepath.Join(t.TempDir(), "find.json")
	if err := a.Save(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, "testdata/find.json", string(data))
	if got := LoadAnswer(path, a.Proxy, a.Group); !reflect.DeepEqual(got, &a) {
		t.Errorf("it is read as %+v; it was %+v", got, a)
	}
}

// A newer updater may have added to any part of updates.yaml; what this one writes
// keeps it all.
func TestEveryPartOfTheConfigurationKeepsWhatItDoesNotKnow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "updates.yaml")
	var doc yaml.Node
	data, err := yaml.Marshal(full())
	if err == nil {
		err = yaml.Unmarshal(data, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	added := 0
	var add func(n *yaml.Node)
	add = func(n *yaml.Node) {
		for _, c := range n.Content {
			add(c)
		}
		if n.Kind == yaml.MappingNode {
			added++
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "from_the_future"}, &yaml.Node{Kind: yaml.ScalarNode, Value: "kept"})
		}
	}
	add(&doc)
	if data, err = yaml.Marshal(&doc); err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, string(data))
	c, err := LoadConfig(path)
	if err == nil {
		err = c.Save(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	written, _ := os.ReadFile(path)
	if n := strings.Count(string(written), "from_the_future: kept"); n != added || added < 9 {
		t.Errorf("%d of %d fields were kept:\n%s", n, added, written)
	}

	// What crosses to another process comes back to where it was.
	other := full().Spec
	other.Proxy = "another"
	other.KeepUnknown(c.Spec)
	if other.Unknown == nil || other.Health.Unknown == nil || other.Backup.Unknown == nil || other.Proxy != "another" {
		t.Errorf("taken over: %+v", other)
	}
}
