package console

import "reflect"

// Lines turns every string below a pointer, keys of maps, too, into one line, by Line: for a value from elsewhere
// that is about to be shown, and whose author could otherwise begin lines in the program's name. Bytes stay as
// they are, and so do fields that are not exported.
func Lines(pointer any) { lines(reflect.ValueOf(pointer)) }

func lines(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			lines(v.Elem())
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString(Line(v.String()))
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return // a resource as it is, which no text shows
		}
		for i := range v.Len() {
			lines(v.Index(i))
		}
	case reflect.Map:
		linesOfMap(v)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				lines(v.Field(i))
			}
		}
	}
}

func linesOfMap(v reflect.Value) {
	if v.IsNil() {
		return
	}
	all := reflect.MakeMapWithSize(v.Type(), v.Len())
	for key, value := range v.Seq2() {
		k, e := reflect.New(key.Type()).Elem(), reflect.New(value.Type()).Elem()
		k.Set(key)
		e.Set(value)
		lines(k)
		lines(e)
		all.SetMapIndex(k, e)
	}
	if v.CanSet() {
		v.Set(all)
	}
}
