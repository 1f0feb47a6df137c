package adminapi

// Channel is what a channel says now.
type Channel struct {
	Name     string `json:"name"`
	Version  string `json:"version,omitempty"` // empty: it answers 404
	Critical bool   `json:"critical"`
	Source   string `json:"source"` // static, group NAME, or forward URL
	// Age is for how many seconds the last good answer of a forwarded channel has
	// been kept, and Error why there is no newer one.
	Age   float64 `json:"age_seconds,omitempty"`
	Error string  `json:"error,omitempty"`
}

// Channels are all channels, in the order of their names.
type Channels struct {
	Channels []Channel `json:"channels"`
}
