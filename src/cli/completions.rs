//! `meshgate completions`.

use clap::Command;
use clap_complete::Shell;

use super::output::{self, Done, Exit};

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  meshgate completions bash > /etc/bash_completion.d/meshgate")]
pub(super) struct CompletionsArgs {
    /// Name of the shell
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs, mut program: Command) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "meshgate", &mut script);
    output::print(&String::from_utf8(script)?)?;
    Ok(Exit::Fine)
}
