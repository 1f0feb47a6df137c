// Package monitoring has rules to monitor hosts and servers with Prometheus. Each rule
// has a test, which promtool runs.
package monitoring
