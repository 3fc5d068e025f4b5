//! `meshgate completions`.

use clap::CommandFactory;
use clap_complete::Shell;

use super::output::{self, Exit};
use super::{Cli, Done};

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  meshgate completions bash > /etc/bash_completion.d/meshgate")]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "meshgate", &mut script);
    output::print(&String::from_utf8(script)?)?;
    Ok(Exit::Fine)
}
