package adminapi

// Counts are the hosts that report and that are not omitted, by their version, whatever their group, with or
// without a rollout.
type Counts struct {
	Versions map[string]int `json:"versions"`
}
