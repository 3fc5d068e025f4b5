//! Who may call the API server: a CA, a serving certificate, tokens, and a kubeconfig for each
//! user. All of it is made for one run, in its folder.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use meshgate::certs::issue::Authority;
use rcgen::KeyPair;

const LIFETIME: Duration = Duration::from_secs(7 * 86_400);

/// Users and their groups. `alice` may do nothing until a test binds a role to her.
/// meshgate is not `admin`, or the guard of its registration could not tell them apart.
pub(crate) const USERS: [(&str, &str); 8] = [
    ("admin", "system:masters"),
    ("alice", ""),
    ("meshgate", "system:masters"),
    ("system:kube-controller-manager", ""),
    ("system:kube-scheduler", ""),
    ("kwok", "system:masters"),
    ("kube-proxy", "system:masters"),
    ("kubelet", "system:masters"),
];

/// The files, and what of them is wanted in memory.
#[derive(Debug)]
pub(crate) struct Credentials {
    folder: PathBuf,
    pub(crate) ca_pem: String,
}

impl Credentials {
    /// Writes everything into `folder`, for an API server on that port.
    pub(crate) fn create(folder: &Path, api_server: u16) -> Result<Self> {
        let made = Self {
            folder: folder.join("credentials"),
            ca_pem: String::new(),
        };
        fs::create_dir(&made.folder)?;
        let ca_pem = made.write_certificates()?;
        let url = format!("https://127.0.0.1:{api_server}");
        let mut tokens = String::new();
        for (user, groups) in USERS {
            let token = random_token()?;
            writeln!(tokens, "{token},{user},{user},\"{groups}\"")?;
            let config = kubeconfig(&url, &made.ca_file(), &token);
            fs::write(made.kubeconfig(user), config)?;
        }
        fs::write(made.tokens(), tokens)?;
        Ok(Self { ca_pem, ..made })
    }

    fn write_certificates(&self) -> Result<String> {
        #[expect(
            clippy::disallowed_methods,
            reason = "a program of its own, with the one clock"
        )]
        let now = Timestamp::now();
        let authority = Authority::new("meshgate lab", LIFETIME, now)?;
        // In a lab with a network also the machine, and the Service of the API.
        let names = [
            "localhost",
            "kubernetes.default.svc",
            "127.0.0.1",
            "10.0.0.1",
            "10.96.0.1",
        ];
        let issued = authority.issue(&names.map(str::to_owned), LIFETIME, now)?;
        fs::write(self.ca_file(), authority.cert_pem())?;
        fs::write(self.certificate(), issued.cert_pem)?;
        fs::write(self.key(), issued.key_pem)?;
        let accounts = KeyPair::generate().context("cannot make a key")?;
        fs::write(self.account_key(), accounts.serialize_pem())?;
        fs::write(self.account_public_key(), accounts.public_key_pem())?;
        Ok(authority.cert_pem())
    }

    pub(crate) fn ca_file(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// The certificate with which every component serves.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.join("tls.crt")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.folder.join("tls.key")
    }

    /// The key that signs the tokens of ServiceAccounts.
    pub(crate) fn account_key(&self) -> PathBuf {
        self.folder.join("service-accounts.key")
    }

    /// The other half of [`Credentials::account_key`].
    pub(crate) fn account_public_key(&self) -> PathBuf {
        self.folder.join("service-accounts.pub")
    }

    pub(crate) fn tokens(&self) -> PathBuf {
        self.folder.join("tokens.csv")
    }

    pub(crate) fn kubeconfig(&self, user: &str) -> PathBuf {
        let name = user.trim_start_matches("system:");
        self.folder.join(format!("{name}.kubeconfig"))
    }
}

/// JSON is YAML.
fn kubeconfig(url: &str, ca: &Path, token: &str) -> String {
    let config = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {"server": url, "certificate-authority": ca}}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "user"}}],
        "current-context": "lab",
    });
    format!("{config:#}\n")
}

/// Others on this machine can reach the port, so the tokens are random.
fn random_token() -> Result<String> {
    let mut bytes = [0; 16];
    let mut random = File::open("/dev/urandom").context("/dev/urandom")?;
    random.read_exact(&mut bytes).context("/dev/urandom")?;
    Ok(bytes
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}")))
}
