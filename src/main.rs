//! The `meshgate` program: parse, dispatch, exit code.
fn main() {}
