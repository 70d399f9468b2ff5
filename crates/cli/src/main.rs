//! The `fathom` program.

use std::process::ExitCode;

use clap::Parser;
use fathom_cli::arguments::{self, Arguments};

fn main() -> ExitCode {
    fathom_cli::interrupt::survive_file_size_limit();
    match Arguments::try_parse() {
        Ok(arguments) => fathom_cli::main(arguments),
        Err(error) => arguments::report_parse_error(&error),
    }
}
