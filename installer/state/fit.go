package state

import (
	"encoding/json"
	"fmt"
)

// Fit makes a journal say no more than a program of a schema acts on, by leaving out optional
// parts. An error names the parts that cannot be left out. All programs know the first schema, even
// if they do not say so.
func (j *Journal) Fit(schema int) error { return j.fit(max(schema, firstSchema), needs()) }

func (j *Journal) fit(schema int, rows []need) error {
	fields, err := fieldsOf(j)
	if err != nil {
		return err
	}
	var stays []string
	for _, n := range rows {
		switch {
		case n.schema <= schema || !n.in(fields):
		case n.optional:
			in, name := n.find(fields)
			delete(in, name)
			fields["readable_from"] = firstSchema
		default:
			stays = append(stays, n.String())
		}
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	*j = Journal{}
	if err := json.Unmarshal(data, j); err != nil {
		return err
	}
	if err := j.stamp(j, rows); err != nil {
		return err
	}
	if j.ReadableFrom > schema {
		return fmt.Errorf("acting on it takes schema %d %q", j.ReadableFrom, stays)
	}
	return nil
}
