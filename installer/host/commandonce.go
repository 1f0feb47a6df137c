package host

import "teleport-update/systemd"

// commandOnce is what the files of the agent's unit said when they were first asked for. It is for one goroutine.
type commandOnce struct {
	read    bool
	command systemd.ServiceCommand
	err     error
}

// get reads the files each time if c is nil.
func (c *commandOnce) get(read func() (systemd.ServiceCommand, error)) (systemd.ServiceCommand, error) {
	if c == nil {
		return read()
	}
	if !c.read {
		c.read = true
		c.command, c.err = read()
	}
	return c.command, c.err
}
