// Package layout says where things are on an ordinary host.
package layout

const (
	DataDir = "/var/lib/teleport"
	// ProgramsDir is where the programs of versions are. Packages ship the data folder
	// closed to everybody but root, so they lie outside of it; in /opt, which is for software
	// that is added to a system, is not below a /usr that may be read-only, and where the
	// usual policies of SELinux let systemd execute what is in a bin. Not in /opt/teleport:
	// an agent there takes itself for the package's, or for another updater's.
	ProgramsDir = "/opt/teleport-update"
	LinkDir     = "/usr/local/bin"
	UnitDir     = "/usr/local/lib/systemd/system"
	ConfigDir   = "/etc/systemd/system" // an administrator's units, and what is enabled
	AgentConfig = "/etc/teleport.yaml"
	// SecondName is the name of the package's program that no other has.
	SecondName = "/usr/bin/teleport-updater"
	RunDir     = "/run/teleport-update" // what is known of this boot
	PolicyDir  = "/etc/teleport-update" // which versions may run, and the keys of releases
	Hooks      = PolicyDir + "/hooks"
	// EnvironmentFile holds the environment of the timer's runs and of the recovery.
	EnvironmentFile = "/etc/default/teleport-update"
	// AgentRunDir is where the agent leaves the id of its updater, for nobody but root and
	// the agent's user.
	AgentRunDir = "/run/teleport-update-agent"
	// AgentUnit is the systemd unit of the agent.
	AgentUnit = "teleport.service"
	// TeleportsDir is where Teleport's own packages and updater have their programs,
	// TeleportsUpdaterDir what that updater knows of this host.
	TeleportsDir        = "/opt/teleport"
	TeleportsUpdaterDir = TeleportsDir + "/default"
	// PackageUnitDir is where packages have their units. OldPackageUnitDir is its name of
	// before /lib became a link, and another folder on hosts where it is none.
	PackageUnitDir    = "/usr/lib/systemd/system"
	OldPackageUnitDir = "/lib/systemd/system"
)

// PackageUnitDirs are where packages have their units.
var PackageUnitDirs = []string{PackageUnitDir, OldPackageUnitDir}
