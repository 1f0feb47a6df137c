package systemd

// Need is a unit without which systemd does not start another one.
type Need struct {
	Setting string // "Requires", "BindsTo" or "Requisite"
	Unit    string
}

// needing are the settings that make a need. systemd starts what the first two name along with the unit.
var needing = []string{"Requires", "BindsTo", requisite}

const requisite = "Requisite"

func parseNeeds(p properties) (all []Need) {
	for _, setting := range needing {
		for _, unit := range property[[]string](p, setting) {
			all = append(all, Need{setting, unit})
		}
	}
	return all
}
