package adminapi

import (
	"time"
)

// History is a list of changes and their authors, the newest first.
type History struct {
	Records []HistoryEntry `json:"records"`
}

// HistoryEntry is a change of one resource, host or token.
type HistoryEntry struct {
	Time time.Time `json:"time"`
	Who  string    `json:"who"`           // such as "uid 0", or "engine"
	What string    `json:"what"`          // the command, or the engine's steps
	Why  string    `json:"why,omitempty"` // as given by the author
	Key  string    `json:"key"`           // the changed item, such as autoupdate_version
	From int64     `json:"from_revision"` // 0: it was not there
	To   int64     `json:"to_revision"`   // 0: it was removed
}
