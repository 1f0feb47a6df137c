package metrics

import "slices"

// deliveries are the results of a post to a webhook.
var deliveries = []string{"delivered", "failed", "given_up"}

// Delivered counts a post to a webhook by its result.
func (m *Metrics) Delivered(result string) {
	if !slices.Contains(deliveries, result) {
		result = "failed"
	}
	m.posts.WithLabelValues(result).Inc()
}
