//! The `fathom` program.

use std::process::ExitCode;

use clap::Parser;
use fathom_cli::arguments::{self, Arguments};

/// The kernel's loader calls this before the runtime of Rust.
// SAFETY: the section has pointers to functions without arguments.
#[unsafe(link_section = ".init_array")]
#[used]
static AT_START: extern "C" fn() = fathom_cli::note_closed_output;

fn main() -> ExitCode {
    fathom_cli::use_built_in_lookup();
    fathom_cli::interrupt::survive_file_size_limit();
    // Building the parser of all commands takes longer than the rest of a worker's start.
    if std::env::args_os().skip(1).eq(["worker"]) {
        return fathom_cli::worker();
    }
    let status = parsed_and_run();
    let words = || std::env::args_os().skip(1).take_while(|word| word != "--");
    let is_bisecting = words().any(|word| word == "bench") && words().any(|it| it == "--bisect");
    if is_bisecting { fathom_cli::for_bisect(status) } else { status }
}

fn parsed_and_run() -> ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => fathom_cli::main(arguments),
        // Help and version are not errors.
        Err(error) if !error.use_stderr() => {
            fathom_cli::print_help(&error.render().ansi().to_string())
        }
        Err(error) => {
            let status = arguments::report_parse_error(&error);
            // The status 2 would be "critical" for a monitoring plugin.
            if std::env::args_os().nth(1).is_some_and(|it| it == "check") {
                return fathom_cli::unknown_health("wrong command line, see `fathom check --help`");
            }
            status
        }
    }
}
