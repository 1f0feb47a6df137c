package golden

import (
	"reflect"
	"testing"
	"time"
)

func TestAFieldWithoutANameInSnakeCaseIsFound(t *testing.T) {
	type part struct{ Deep int }
	type all struct {
		Good     int `json:"good_one" yaml:"good_one"`
		Bare     int
		Camel    string `json:"camelCase" yaml:"camelCase"`
		Nameless bool   `json:",omitempty" yaml:",omitempty"`
		Parts    []*part
		Skipped  int       `json:"-" yaml:"-"`
		Time     time.Time `json:"time" yaml:"time"`
		hidden   int
	}
	for _, key := range []string{"json", "yaml"} {
		w := walker{key: key, seen: map[reflect.Type]bool{}}
		w.walk(reflect.TypeFor[all]())
		if len(w.problems) != 5 {
			t.Errorf("%s: %d problems; want 5: bare, camel, nameless, parts and its field: %q", key, len(w.problems), w.problems)
		}
	}
	_ = all{}.hidden
}
