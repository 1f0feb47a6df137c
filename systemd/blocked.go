package systemd

import (
	"fmt"
	"strings"
)

// BlockedError is what keeps systemd from beginning a job.
type BlockedError struct {
	Unit string
	By   []string
}

func (e *BlockedError) Error() string {
	if len(e.By) == 0 {
		return fmt.Sprintf("systemd does not begin a job of %s; `systemctl list-jobs` shows what it waits for", e.Unit)
	}
	return fmt.Sprintf("%s waits for %s, which has a job in progress that comes first; `systemctl list-jobs` shows it", e.Unit,
		strings.Join(e.By, ", "))
}
