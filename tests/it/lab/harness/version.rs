//! Which Kubernetes the API servers of the lab are: the newest, or an older one that `make compat` asks for.

use std::env;
use std::io::{Write as _, stderr};

/// The minor version, as in 37; `lab::control_plane` holds it against what an API server says of itself.
pub(crate) fn minor() -> u32 {
    let version = env::var_os("MESHGATE_LAB_KUBERNETES").unwrap_or_else(|| "1.37".into());
    let (_, minor) = version.to_str().unwrap().split_once('.').unwrap();
    minor.parse().unwrap()
}

/// Whether it serves MutatingAdmissionPolicy without being told to.
pub(crate) fn has_mutating_policies() -> bool {
    minor() >= 36
}

/// The same for a test that has no meaning without it. Written directly, the line is shown for tests that pass.
pub(crate) fn is_left_out_without_mutating_policies(test: &str) -> bool {
    let is_left_out = !has_mutating_policies();
    if is_left_out {
        let minor = minor();
        let line =
            format!("left out: {test}: Kubernetes 1.{minor} has no MutatingAdmissionPolicy\n");
        stderr().write_all(line.as_bytes()).unwrap();
    }
    is_left_out
}

/// Flags that make an API server one that has no MutatingAdmissionPolicy. Its admission plugin would wait
/// for the API and refuse every write meanwhile. One that has none takes no such flags.
pub(crate) fn without_mutating_policies() -> &'static [&'static str] {
    match has_mutating_policies() {
        true => &[
            "--runtime-config=admissionregistration.k8s.io/v1/mutatingadmissionpolicies=false",
            "--disable-admission-plugins=MutatingAdmissionPolicy",
        ],
        false => &[],
    }
}
