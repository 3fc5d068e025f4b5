//! The `meshgate` program: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    meshgate::cli::run()
}
