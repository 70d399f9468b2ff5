//! The `fathom` program: reads the command line, hands over to a command, and turns what comes of
//! it into an exit status.

use std::process::ExitCode;

use clap::Parser;
use fathom_cli::arguments::{self, Arguments};

fn main() -> ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => fathom_cli::main(arguments),
        Err(error) => arguments::refuse(&error),
    }
}
