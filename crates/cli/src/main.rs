//! The `fathom` program: reads the command line, hands over to a command, and turns what comes of
//! it into an exit status.

use std::process::ExitCode;

use clap::Parser;
use fathom_cli::arguments::Arguments;

fn main() -> ExitCode {
    fathom_cli::main(Arguments::parse())
}
