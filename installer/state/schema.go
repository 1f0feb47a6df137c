package state

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Schema is the schema of the journals and orders that this program writes, and the
// highest that it can act on. It grows with every change of their form.
const Schema = 2

// firstSchema is the lowest schema that any program knows.
const firstSchema = 1

// A need is a part of a document that a program must not overlook. An older program ignores all
// that is not in the table: the transaction ends well without it.
type need struct {
	field string // with the fields that it is in, as in "database.plan"
	value string // the new value; empty: the field is new, whatever its value
	// schema is the first whose programs act on it.
	schema int
	// optional means that a transaction can do without, if the program that would recover it at boot
	// is older.
	optional bool
}

// needs is the table of needs by schema. A change that adds a part to the journal, or to an order,
// that an older program must not overlook raises Schema and adds a row.
//
// A field that is set when the transaction begins has to announce the needs of a later phase: the
// program that would recover the transaction at boot is asked then, and not again. So a new phase
// comes with a field that says that it will be entered.
func needs() []need {
	return []need{
		// The form that was released first is schema 1, and has no rows.

		// A program of schema 1 takes a backup with two names for a damaged one.
		{field: "database.second_dir", schema: 2, optional: true},
	}
}

// Head is the beginning of each document that another program of this name may have to act on. Its
// fields never change.
type Head struct {
	Schema int `json:"schema"` // of the program that wrote it
	// ReadableFrom is the lowest schema of a program that may act on the document.
	ReadableFrom int    `json:"readable_from"`
	Writer       string `json:"writer,omitempty"` // the file of that program
}

// Stamp completes the head of a document, which contains it, for what the document says now.
func (h *Head) Stamp(document any) error { return h.stamp(document, needs()) }

func (h *Head) stamp(document any, rows []need) error {
	fields, err := fieldsOf(document)
	if err != nil {
		return err
	}
	h.Schema, h.ReadableFrom = Schema, max(h.ReadableFrom, firstSchema)
	for _, n := range rows {
		if n.in(fields) {
			h.ReadableFrom = max(h.ReadableFrom, n.schema)
		}
	}
	return nil
}

// ForAll reports whether all programs may act on the document.
func (h Head) ForAll() bool { return h.ReadableFrom <= firstSchema }

// NewerError means that a document says something that this program does not know and must not
// overlook. Nothing was done about it.
type NewerError struct{ Head }

func (e *NewerError) Error() string {
	text := fmt.Sprintf("it was written by a newer updater (schema %d, this one knows %d)", e.ReadableFrom, Schema)
	if e.Writer != "" {
		text += fmt.Sprintf(", %.200q", e.Writer)
	}
	return text
}

// Remedy is what a person can do.
func (e *NewerError) Remedy() string {
	return "upgrade teleport-update, or run `recover` of a newer one"
}

// readHead returns the head of a document; a *NewerError for one that this program must not act on.
// A document that does not say which programs may act on it is for programs of its own schema.
func readHead(data []byte) (Head, error) {
	var h struct {
		Head
		ReadableFrom *int `json:"readable_from"`
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return Head{}, err
	}
	h.Head.ReadableFrom = h.Schema
	if h.ReadableFrom != nil {
		h.Head.ReadableFrom = *h.ReadableFrom
	}
	if h.Head.ReadableFrom > Schema {
		return h.Head, &NewerError{h.Head}
	}
	return h.Head, nil
}

// Decode reads a document. Fields that this program does not know are ignored: the head says that
// they may be. A *NewerError says that they may not.
func Decode(data []byte, document any) error {
	if _, err := readHead(data); err != nil {
		return err
	}
	return json.Unmarshal(data, document)
}

func (n need) String() string { return strings.TrimSuffix(n.field+" "+n.value, " ") }

func fieldsOf(document any) (fields map[string]any, err error) {
	data, err := json.Marshal(document)
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	return fields, err
}

// find returns the object that the field is in, nil without one.
func (n need) find(fields map[string]any) (in map[string]any, name string) {
	path := strings.Split(n.field, ".")
	for _, name := range path[:len(path)-1] {
		fields, _ = fields[name].(map[string]any)
	}
	return fields, path[len(path)-1]
}

// in reports whether a document has the field with this value.
func (n need) in(fields map[string]any) bool {
	in, name := n.find(fields)
	value, ok := in[name]
	return ok && (n.value == "" || value == n.value)
}
