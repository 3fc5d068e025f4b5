//! The flag for the namespace that meshgate is installed in.

pub(super) const ENV: &str = "MESHGATE_NAMESPACE";
pub(super) const DEFAULT: &str = "meshgate-system";

/// The same for tools whose `--namespace` is that of pods.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct OwnNamespace {
    /// Namespace that meshgate is installed in, whose pods meshgate never looks at
    #[arg(long, value_name = "NAMESPACE", env = ENV, default_value = DEFAULT)]
    pub(super) own_namespace: String,
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct InstallNamespace {
    /// Namespace that meshgate is installed in: its Service, replicas, Secrets and Lease. meshgate
    /// never looks at its pods
    #[arg(long, short, value_name = "NAMESPACE", env = ENV, default_value = DEFAULT)]
    pub(super) namespace: String,
}
