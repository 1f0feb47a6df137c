package systemd

import "strings"

// NextStart is what the next start of a unit executes, and with which variables, as systemd has loaded the unit. systemd reads
// environment files with each start, and so does this. own are the variables, NAME=VALUE, that systemd gives the unit's
// processes beside those of the unit, such as HOME.
func (u Unit) NextStart(own []string) (ServiceCommand, error) {
	c := ServiceCommand{Environment: map[string]string{}, Found: true}
	for _, all := range [][]string{own, u.Environment} {
		for _, variable := range all {
			if name, value, ok := strings.Cut(variable, "="); ok {
				c.Environment[name] = value
			}
		}
	}
	for _, file := range u.EnvironmentFiles {
		if err := c.readFiles(file); err != nil {
			return c, err
		}
	}
	for _, variable := range u.UnsetEnvironment {
		c.unset(variable)
	}
	for _, word := range u.Command {
		c.add(word, u.Literal)
	}
	return c, nil
}

// environmentFiles are the files of EnvironmentFile=, with a dash before each that may be missing.
func environmentFiles(p properties) (all []string) {
	for _, fields := range property[[][]any](p, "EnvironmentFiles") {
		file := text(fields, 0)
		if len(fields) > 1 && fields[1] == true {
			file = "-" + file
		}
		all = append(all, file)
	}
	return all
}
