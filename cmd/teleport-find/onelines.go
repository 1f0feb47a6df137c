package main

import (
	"reflect"

	"teleport-update/internal/console"
)

// oneLines makes one line of every string below a pointer, of keys of maps, too: for text, in which
// whoever chooses the words of an answer would else begin lines of the program's.
func oneLines(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			oneLines(v.Elem())
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString(console.Line(v.String()))
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return // a resource as it is, which no text shows
		}
		for i := range v.Len() {
			oneLines(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() {
			return
		}
		lines := reflect.MakeMapWithSize(v.Type(), v.Len())
		for key, value := range v.Seq2() {
			k, e := reflect.New(key.Type()).Elem(), reflect.New(value.Type()).Elem()
			k.Set(key)
			e.Set(value)
			oneLines(k)
			oneLines(e)
			lines.SetMapIndex(k, e)
		}
		if v.CanSet() {
			v.Set(lines)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				oneLines(v.Field(i))
			}
		}
	}
}
