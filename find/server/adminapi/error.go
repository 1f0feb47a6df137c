package adminapi

// Error says why something was not done.
type Error struct {
	Error string `json:"error"`
}
