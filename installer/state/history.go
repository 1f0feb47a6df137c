package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"teleport-update/internal/failure"
	"teleport-update/internal/regular"
	"teleport-update/internal/version"
)

// HistoryLength is how many transactions are remembered.
const HistoryLength = 100

// Ended is a transaction that has ended, and its outcome.
type Ended struct {
	Time   time.Time       `json:"time"`           // when it ended
	Cause  string          `json:"cause"`          // the command, or "recovery"
	By     string          `json:"by"`             // "timer", or the user who gave the command
	From   version.Release `json:"from,omitzero"`  // zero before the first enable
	To     version.Release `json:"to"`             // that was tried
	Result Result          `json:"result"`         // as in updates.yaml
	Error  string          `json:"error,omitzero"` // why it was undone
	// Took are the durations of its parts that are known: download, backup, downtime,
	// watch.
	Took map[string]Duration `json:"took,omitempty"`
}

// History is history.json: the last transactions, the newest last. It is not synced: the outcome of the
// last one is in updates.yaml, too.
type History struct {
	Ended []Ended `json:"switches"`
}

// LoadHistory returns the history for a caller that adds to it or decides by it: nothing if the
// file is damaged, or not ours. An error says that the file could not be read this time: its
// content is not known, and it must not be written over.
func LoadHistory(path string) (History, error) {
	data, err := readHistory(path)
	if err != nil && !failure.Is[*regular.UnsuitableError](err) {
		return History{}, fmt.Errorf("read the history %s: %w", path, err)
	}
	h, _ := decodeHistory(data)
	return h, nil
}

// ReadHistory returns the history; nothing if there is no file. An error says why the file cannot
// be read.
func ReadHistory(path string) (h History, err error) {
	data, err := readHistory(path)
	if err == nil {
		h, err = decodeHistory(data)
	}
	if err != nil {
		err = fmt.Errorf("read the history %s: %w", path, err)
	}
	if h.Ended == nil {
		h.Ended = []Ended{} // JSON readers loop over it
	}
	return h, err
}

// readHistory returns the content of the file; an empty history without a file.
func readHistory(path string) ([]byte, error) {
	data, err := regular.Read(path, MaxConfigSize, regular.NoLink|regular.Sealed)
	if errors.Is(err, fs.ErrNotExist) {
		return []byte("{}"), nil
	}
	return data, err
}

// decodeHistory returns the history in a file's content; an empty one with an error.
func decodeHistory(data []byte) (h History, err error) {
	if err := json.Unmarshal(data, &h); err != nil {
		return History{}, err
	}
	return h, nil
}

// DropSame removes the newest entry if it is of the same attempt, which failed in the same way: a
// mirror that is away for a day does not push everything else out.
func (h *History) DropSame(e Ended) {
	if len(h.Ended) == 0 {
		return
	}
	newest := h.Ended[len(h.Ended)-1]
	same := newest.From == e.From && newest.To == e.To && newest.Result == e.Result
	if same && newest.Cause == e.Cause && newest.By == e.By && newest.Error == e.Error {
		h.Ended = h.Ended[:len(h.Ended)-1]
	}
}

// Add appends an ended transaction and writes the history. The oldest ones go.
func (h *History) Add(e Ended, path string) error {
	h.Ended = append(h.Ended, e)
	h.Ended = slices.Clone(h.Ended[max(0, len(h.Ended)-HistoryLength):])
	data, err := json.MarshalIndent(h, "", " ")
	if err != nil {
		return err
	}
	return replace(path, append(data, '\n'), 0o600)
}

// LastSuccess returns when a version was last changed with success, nil if that is not remembered.
func (h History) LastSuccess() *time.Time {
	for _, s := range slices.Backward(h.Ended) {
		if s.Result == Succeeded {
			return &s.Time
		}
	}
	return nil
}
