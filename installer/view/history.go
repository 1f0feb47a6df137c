package view

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"teleport-update/installer/state"
	"teleport-update/internal/console"
)

// WriteHistory prints transactions for a person, in their order.
func WriteHistory(w io.Writer, h state.History) error {
	if len(h.Ended) == 0 {
		_, err := fmt.Fprintln(w, "This host has not switched to a version yet.")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TIME\tCAUSE\tBY\tFROM\tTO\tRESULT\tTOOK\tERROR")
	for _, s := range h.Ended {
		var took []string
		for _, part := range []string{"download", "backup", "downtime", "watch"} {
			if d := s.Took[part].Std(); d > 0 {
				took = append(took, part+" "+d.String())
			}
		}
		cells := []string{
			s.Time.Format(time.RFC3339), s.Cause, cmp.Or(s.By, "-"), cmp.Or(s.From.Short(), "-"), s.To.Short(), string(s.Result),
			cmp.Or(strings.Join(took, ", "), "-"), s.Error,
		}
		for i := range cells {
			cells[i] = console.Line(cells[i])
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}
