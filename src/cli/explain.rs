//! stub
use super::Done;
#[derive(Debug, clap::Args)]
pub(super) struct ExplainArgs {}
pub(super) fn run(_: &ExplainArgs) -> Done {
    Ok(super::output::Exit::Fine)
}
