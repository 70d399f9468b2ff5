//! `-o` of commands that print.

use std::path::PathBuf;

use clap::Args;

// Of commands that print a result.
#[derive(Clone, Debug, Args)]
pub struct OutputFile {
    /// Print to this file, written atomically.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long, requires = "output")]
    pub force: bool,
}
