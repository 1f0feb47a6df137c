package golden

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	spelling = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	module   = strings.SplitN(reflect.TypeFor[walker]().PkgPath(), "/", 2)[0]
)

// Tags fails a test unless each exported field of the written values, and of all values below
// them, has a tag with a name in snake case; key is "json" or "yaml".
func Tags(t testing.TB, key string, written ...any) {
	t.Helper()
	w := walker{key: key, seen: map[reflect.Type]bool{}}
	for _, v := range written {
		w.walk(reflect.TypeOf(v))
	}
	for _, problem := range w.problems {
		t.Error(problem)
	}
	if w.fields < len(written) {
		t.Errorf("only %d fields were seen: this shows nothing", w.fields)
	}
}

type walker struct {
	key      string
	seen     map[reflect.Type]bool
	fields   int
	problems []string
}

func (w *walker) walk(t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	foreign := t.PkgPath() != "" && !strings.HasPrefix(t.PkgPath(), module)
	if t.Kind() != reflect.Struct || w.seen[t] || asText(t) || foreign {
		return
	}
	w.seen[t] = true
	for f := range t.Fields() {
		tag, tagged := f.Tag.Lookup(w.key)
		name, _, _ := strings.Cut(tag, ",")
		inlined := w.key == "yaml" && tag == ",inline"
		if w.key == "json" {
			inlined = f.Anonymous && !tagged
		}
		switch {
		case !f.IsExported() && !f.Anonymous, tag == "-":
			continue
		case inlined:
		case !spelling.MatchString(name):
			w.problems = append(w.problems, fmt.Sprintf("%v.%s has the tag %s:%q; want a name in snake case", t, f.Name, w.key, tag))
		}
		w.fields++
		w.walk(f.Type)
	}
}

// asText reports whether a type has its own written form.
func asText(t reflect.Type) bool {
	for _, as := range []reflect.Type{reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[json.Marshaler]()} {
		if t.Implements(as) || reflect.PointerTo(t).Implements(as) {
			return true
		}
	}
	return false
}

// Fill sets each exported field of the struct that v points to to a value other than zero, the
// same each time, and gives each list one element.
func Fill(v any) { fill(reflect.ValueOf(v).Elem(), "") }

func fill(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)))
			return
		}
		for n := range v.NumField() {
			if f := v.Type().Field(n); f.IsExported() {
				fill(v.Field(n), f.Name)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), name)
	case reflect.String:
		v.SetString("the " + strings.ToLower(name))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(len(name)))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(len(name)))
	}
}
