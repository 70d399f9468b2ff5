//! `fathom man`: a man page for the program and one for each command.

use anyhow::{Context, anyhow};
use clap::CommandFactory;
use fathom_fileio::folder::write_cause;

use crate::arguments::{Arguments, ManArguments};
use crate::exit::Status;

pub(super) fn man(arguments: &ManArguments) -> anyhow::Result<Status> {
    let folder = &arguments.folder;
    let path = folder.display();
    std::fs::create_dir_all(folder)
        .map_err(|error| anyhow!("create {path}: {}", write_cause(folder, error)))?;
    let mut command = Arguments::command();
    // `help` repeats the page of each command.
    command = command.disable_help_subcommand(true);
    command = command.mut_subcommands(|one| one.disable_help_subcommand(true));
    command.build();
    let hidden = command.get_subcommands().filter(|one| one.is_hide_set());
    let hidden: Vec<String> = hidden.map(|one| one.get_name().to_owned()).collect();
    clap_mangen::generate_to(command, folder).with_context(|| format!("write to {path}"))?;
    for name in hidden {
        let _ = std::fs::remove_file(folder.join(format!("fathom-{name}.1")));
    }
    super::print_text(&format!("Wrote the man pages to {path}\n"))
}
