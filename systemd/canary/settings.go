package canary

import "strings"

// kept are the settings of a service that its canary has, too: those that systemd applies to the process itself (systemd.exec(5),
// systemd.resource-control(5)), of all versions of systemd. systemd ignores a name that it does not know.
//
// Left out on purpose, although they are about the process: LimitNPROC= counts all processes of the user, so the service that runs would
// count against its canary. RemoveIPC= removes what the service uses. LogNamespace= starts a journal that stays. TTYPath= and its kin
// hang up a terminal. RootEphemeral= copies a whole root. Delegate= and DelegateSubgroup= give a group of processes away.
var kept = setOf(
	// identity
	"User Group SupplementaryGroups DynamicUser PAMName SetLoginEnvironment",
	// environment, and files that systemd opens or reads for the process
	"Environment EnvironmentFile PassEnvironment UnsetEnvironment ExecSearchPath StandardInput",
	"LoadCredential LoadCredentialEncrypted SetCredential SetCredentialEncrypted ImportCredential",
	// view of files
	"WorkingDirectory RootDirectory RootImage RootImageOptions RootImagePolicy RootHash RootHashSignature RootVerity MountAPIVFS",
	"ReadWritePaths ReadOnlyPaths InaccessiblePaths ExecPaths NoExecPaths",
	"ReadWriteDirectories ReadOnlyDirectories InaccessibleDirectories",
	"BindPaths BindReadOnlyPaths TemporaryFileSystem MountImages MountImagePolicy MountFlags",
	"ExtensionImages ExtensionImagePolicy ExtensionDirectories BindLogSockets",
	// namespaces
	"PrivateTmp PrivateDevices PrivateNetwork PrivateIPC PrivateUsers PrivateMounts PrivatePIDs PrivateBPF",
	"NetworkNamespacePath IPCNamespacePath UserNamespacePath",
	"ProtectHostname ProtectClock ProtectKernelTunables ProtectKernelModules ProtectKernelLogs ProtectControlGroups",
	"ProtectHome ProtectSystem ProtectProc ProcSubset",
	// privileges
	"NoNewPrivileges SecureBits CapabilityBoundingSet AmbientCapabilities Capabilities",
	"SystemCallFilter SystemCallErrorNumber SystemCallArchitectures SystemCallLog",
	"RestrictAddressFamilies RestrictFileSystems RestrictNamespaces RestrictRealtime RestrictSUIDSGID LockPersonality",
	"MemoryDenyWriteExecute Personality KeyringMode AppArmorProfile SELinuxContext SmackProcessLabel UMask",
	// limits
	"LimitCPU LimitFSIZE LimitDATA LimitSTACK LimitCORE LimitRSS LimitNOFILE LimitAS LimitMEMLOCK LimitLOCKS LimitSIGPENDING",
	"LimitMSGQUEUE LimitNICE LimitRTPRIO LimitRTTIME",
	// scheduling
	"Nice OOMScoreAdjust CoredumpFilter TimerSlackNSec IgnoreSIGPIPE MemoryKSM MemoryTHP",
	"CPUSchedulingPolicy CPUSchedulingPriority CPUSchedulingResetOnFork CPUAffinity NUMAPolicy NUMAMask",
	"IOSchedulingClass IOSchedulingPriority",
	// control group
	"Slice CPUAccounting CPUWeight StartupCPUWeight CPUShares StartupCPUShares CPUQuota CPUQuotaPeriodSec",
	"AllowedCPUs StartupAllowedCPUs AllowedMemoryNodes StartupAllowedMemoryNodes DisableControllers",
	"MemoryAccounting MemoryMin MemoryLow MemoryHigh MemoryMax MemorySwapMax MemoryZSwapMax MemoryZSwapWriteback MemoryLimit",
	"DefaultMemoryMin DefaultMemoryLow DefaultStartupMemoryLow StartupMemoryLow StartupMemoryHigh StartupMemoryMax",
	"StartupMemorySwapMax StartupMemoryZSwapMax",
	"TasksAccounting TasksMax IOAccounting IOWeight StartupIOWeight IODeviceWeight IODeviceLatencyTargetSec",
	"IOReadBandwidthMax IOWriteBandwidthMax IOReadIOPSMax IOWriteIOPSMax",
	"BlockIOAccounting BlockIOWeight StartupBlockIOWeight BlockIODeviceWeight BlockIOReadBandwidth BlockIOWriteBandwidth",
	"IPAccounting IPAddressAllow IPAddressDeny SocketBindAllow SocketBindDeny RestrictNetworkInterfaces",
	"IPIngressFilterPath IPEgressFilterPath BPFProgram DeviceAllow DevicePolicy",
)

// pathLists are the settings with a list of paths, of which some may be optional.
var pathLists = setOf("ReadWritePaths ReadOnlyPaths InaccessiblePaths ExecPaths NoExecPaths ReadWriteDirectories ReadOnlyDirectories",
	"InaccessibleDirectories BindPaths BindReadOnlyPaths")

func setOf(lines ...string) map[string]bool {
	all := map[string]bool{}
	for _, line := range lines {
		for name := range strings.FieldsSeq(line) {
			all[name] = true
		}
	}
	return all
}
