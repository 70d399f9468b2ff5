//! The command line as a whole.

use clap::CommandFactory;

use super::*;

#[test]
fn command_line_definition_is_consistent() {
    Arguments::command().debug_assert();
}
