// Package layout holds the paths of an ordinary host.
package layout

const (
	DataDir = "/var/lib/teleport"
	// ProgramsDir holds the programs of versions. Packages ship the data folder closed to everybody
	// but root, so the programs lie outside of it; in /opt, which is for software that is added to a
	// system, is not below a /usr that may be read-only, and has, under the usual policies of
	// SELinux, bin folders from which systemd may execute. Not in /opt/teleport: an agent there takes
	// itself for the package's, or for another updater's.
	ProgramsDir = "/opt/teleport-update"
	LinkDir     = "/usr/local/bin"
	UnitDir     = "/usr/local/lib/systemd/system"
	ConfigDir   = "/etc/systemd/system" // an administrator's units, and the links that enable units
	AgentConfig = "/etc/teleport.yaml"
	// SecondName is the name of the package's program that no other package has.
	SecondName = "/usr/bin/teleport-updater"
	RunDir     = "/run/teleport-update" // state of this boot
	PolicyDir  = "/etc/teleport-update" // which versions may run, and the keys of releases
	Hooks      = PolicyDir + "/hooks"
	// EnvironmentFile holds the environment of the timer's runs and of the recovery.
	EnvironmentFile = "/etc/default/teleport-update"
	// AgentRunDir is the folder in which the agent leaves the id of its updater, for nobody but root
	// and the agent's user.
	AgentRunDir = "/run/teleport-update-agent"
	// AgentUnit is the systemd unit of the agent.
	AgentUnit = "teleport.service"
	// TeleportsDir holds the programs of Teleport's own packages and updater, TeleportsUpdaterDir
	// that updater's data about this host.
	TeleportsDir        = "/opt/teleport"
	TeleportsUpdaterDir = TeleportsDir + "/default"
	// PackageUnitDir holds the units of packages. OldPackageUnitDir is its name from before /lib
	// became a link; on hosts where /lib is no link it is another folder.
	PackageUnitDir    = "/usr/lib/systemd/system"
	OldPackageUnitDir = "/lib/systemd/system"
)

// PackageUnitDirs are the folders with the units of packages.
var PackageUnitDirs = []string{PackageUnitDir, OldPackageUnitDir}
