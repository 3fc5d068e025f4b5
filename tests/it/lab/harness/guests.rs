//! Programs that a test adds to its control plane: they go with it, however it ends.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::Lab;

/// A program as it is started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guest {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    /// Where it works; the lab's folder if nothing is said.
    pub(crate) folder: Option<PathBuf>,
}

impl Lab {
    /// Free ports of this machine, for no other guest of this lab.
    pub(crate) async fn ports<const COUNT: usize>(&self) -> [u16; COUNT] {
        let answer = self.order(&format!("ports {COUNT}")).await;
        let ports: Vec<u16> = serde_json::from_value(answer["ports"].clone()).unwrap();
        ports.try_into().unwrap()
    }

    /// Starts a program; `stop NAME`, `start NAME` and so on are orders for it from then on. Its
    /// output is in `logs/NAME.log`.
    pub(crate) async fn add(&self, name: &str, guest: &Guest) -> Value {
        let Guest {
            program,
            args,
            env,
            folder,
        } = guest;
        let guest = json!({"program": program, "args": args, "env": env, "folder": folder});
        self.order(&format!("add {name} {guest}")).await
    }

    /// A folder of the lab for the files of one guest.
    pub(crate) fn folder_of(&self, name: &str) -> PathBuf {
        let folder = self.supervisor().folder().join("guests").join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// What a guest or a component has written so far.
    pub(crate) fn log_of(&self, name: &str) -> String {
        let file = format!("logs/{name}.log");
        fs::read_to_string(self.supervisor().folder().join(file)).unwrap()
    }
}
