package find

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfter says in an error when a server wants to be asked again: after a number of
// seconds, or at a moment (RFC 9110 10.2.3). The timer asks every ten minutes whatever it
// says. What is neither is left out.
func retryAfter(header string) string {
	header = strings.TrimSpace(header)
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return fmt.Sprintf(" (it wants to be asked again after %s)", time.Duration(seconds)*time.Second)
	}
	if at, err := http.ParseTime(header); err == nil {
		return fmt.Sprintf(" (it wants to be asked again at %s)", at.UTC().Format(time.RFC3339))
	}
	return ""
}
