package adminapi

// Channel is the present answer of a channel.
type Channel struct {
	Name     string `json:"name"`
	Version  string `json:"version,omitempty"` // empty: it answers 404
	Critical bool   `json:"critical"`
	Source   string `json:"source"` // static, group NAME, or forward URL
	// Age is how many seconds ago a forwarded channel got its last good answer, and
	// Error why there is no newer one.
	Age   float64 `json:"age_seconds,omitempty"`
	Error string  `json:"error,omitempty"`
}

// Channels are all channels, in the order of their names.
type Channels struct {
	Channels []Channel `json:"channels"`
}
