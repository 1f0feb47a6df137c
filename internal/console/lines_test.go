package console

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestEachTextOfAValueIsOneLine(t *testing.T) {
	type inner struct{ Text string }
	type all struct {
		inner
		Text    string
		Pointer *inner
		List    []string
		Map     map[string][]inner
		Raw     json.RawMessage
		None    *inner
		Empty   map[string]string
		hidden  string
		Number  int
	}
	v := all{
		Text: "a\nb", Pointer: &inner{"\x1b[2J"}, List: []string{"\u202e", "plain"}, Map: map[string][]inner{"k\r": {{"\u2028"}}},
		Raw: json.RawMessage("{\n}"), hidden: "a\nb", Number: 3,
	}
	Lines(&v)
	want := all{
		Text: "a; b", Pointer: &inner{" [2J"}, List: []string{" ", "plain"}, Map: map[string][]inner{"k ": {{" "}}},
		Raw: json.RawMessage("{\n}"), hidden: "a\nb", Number: 3,
	}
	if !reflect.DeepEqual(v, want) {
		t.Errorf("got  %+v\nwant %+v", v, want)
	}
}
