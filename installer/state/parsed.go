package state

import (
	"reflect"
	"sync"
)

// parsed is the last configuration that was read from its text. A run of the timer reads
// updates.yaml a dozen times, for others may have changed it, and to parse the same text
// again would be a quarter of all that the run does.
var parsed struct {
	sync.Mutex
	text   string
	config Config
}

// parsedBefore returns the configuration of a text that was the last one to be parsed. What
// it returns is the caller's own.
func parsedBefore(text string) (c Config, ok bool) {
	parsed.Lock()
	defer parsed.Unlock()
	if text == "" || text != parsed.text {
		return Config{}, false
	}
	return copyOf(parsed.config), true
}

// keepParsed is for the next parsedBefore.
func keepParsed(text string, c Config) {
	parsed.Lock()
	defer parsed.Unlock()
	parsed.text, parsed.config = text, copyOf(c)
}

// copyOf shares nothing with c that anybody could change.
func copyOf(c Config) Config { return copyValue(reflect.ValueOf(c)).Interface().(Config) }

func copyValue(from reflect.Value) reflect.Value {
	to := reflect.New(from.Type()).Elem()
	to.Set(from)
	switch kind := from.Kind(); kind {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		if from.IsNil() {
			return to
		}
		switch kind {
		case reflect.Pointer:
			to.Set(reflect.New(from.Type().Elem()))
			to.Elem().Set(copyValue(from.Elem()))
		case reflect.Interface:
			to.Set(copyValue(from.Elem()))
		case reflect.Slice:
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				to.Index(i).Set(copyValue(from.Index(i)))
			}
		case reflect.Map:
			to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
			for key, value := range from.Seq2() {
				to.SetMapIndex(key, copyValue(value))
			}
		}
	case reflect.Struct:
		for i := range to.NumField() {
			if field := to.Field(i); field.CanSet() { // a time.Time has none
				field.Set(copyValue(field))
			}
		}
	}
	return to
}
