// Package power cuts the power under the real updater, at every call by which it
// changes something, and looks at what the host is after that.
//
// In each scene of package faults the updater runs on file systems of its own
// (package powercut) and is stopped after each of its calls in turn. There the
// power is cut; the file systems come up again, as at the next boot; the recovery
// runs as its unit runs it before the agent starts. Then one version must be
// there, whole, with its links, its unit and its database: the one before or the
// one after. The next ordinary run must bring the host to where it would be had
// nothing happened. Each of these outcomes is put to the test by one more cut
// before it is looked at: what a recovery or a finished run has not made durable
// does not count.
//
// The second campaign works on a recorded disk (package blocklog): one run of each
// scene, and from its log every state that the disk went through, and such in
// which the drive lost a part of what it had not been told to flush.
package power
