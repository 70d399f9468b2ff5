//! What `make install` installs besides the program.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  fathom completions bash > ~/.local/share/bash-completion/completions/fathom
  fathom completions fish > ~/.config/fish/completions/fathom.fish";

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArguments {
    /// Shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

const MAN_EXAMPLES: &str = "\
Examples:
  fathom man ./man1 && man ./man1/fathom-run.1";

#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub struct ManArguments {
    /// Output directory; created if missing.
    #[arg(value_name = "DIRECTORY")]
    pub folder: PathBuf,
    /// Replace existing files that are not man pages of this program.
    #[arg(long)]
    pub force: bool,
}
