// Package monitoring holds what watches hosts and servers with programs of others: rules
// for Prometheus, each with a test of its own, that promtool runs.
package monitoring
