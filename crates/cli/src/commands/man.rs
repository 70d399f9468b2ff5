//! `fathom man`: a man page for the program and one for each command.

use std::io;
use std::path::Path;

use anyhow::anyhow;
use clap::CommandFactory;
use clap_mangen::Man;
use fathom_fileio::folder::write_cause;

use super::output_file::{self, Replaceable};
use crate::arguments::{Arguments, EXIT_STATUS, ManArguments, RUN_NAMES};
use crate::exit::Status;

const PAGE_BYTES_MAX: u64 = 1 << 20;
const REPLACEABLE: Replaceable = Replaceable {
    is_replaceable: is_our_page,
    refusal: "file exists and is not a man page of `fathom man`",
};

pub(super) fn man(arguments: &ManArguments) -> anyhow::Result<Status> {
    let folder = &arguments.folder;
    let path = folder.display();
    std::fs::create_dir_all(folder)
        .map_err(|error| anyhow!("create {path}: {}", write_cause(folder, error)))?;
    // The head of each page has the version alone; below it is all that `--version` prints.
    let mut command = Arguments::command().version(env!("CARGO_PKG_VERSION"));
    // `help` repeats the page of each command.
    command = command.disable_help_subcommand(true);
    command = command.mut_subcommands(|one| one.disable_help_subcommand(true));
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, &mut pages)?;
    let folder = folder.canonicalize()?;
    let names = pages.iter().map(|(name, _)| name.as_str());
    output_file::check_folder(&folder, names, arguments.force, &REPLACEABLE)?;
    for (name, page) in &pages {
        output_file::write(&folder.join(name), page)?;
    }
    super::print_done(&format!("Wrote the man pages to {path}\n"))
}

/// The file names and pages of a command and of its subcommands.
fn add_pages(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let mut shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    shown.try_for_each(|one| add_pages(one, pages))?;
    let man = Man::new(command.clone());
    pages.push((man.get_filename(), page(command, &man)?));
    Ok(())
}

fn is_our_page(path: &Path) -> bool {
    let text = fathom_fileio::read_text(path, PAGE_BYTES_MAX).unwrap_or_default();
    text.lines().take(5).any(|line| line.starts_with(".TH fathom"))
}

/// The page of a command. clap_mangen fills and hyphenates examples, and omits the values of
/// options in the synopsis.
fn page(command: &clap::Command, man: &Man) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    match command.get_overridden_usage() {
        Some(_) => man.render_synopsis_section(&mut page)?,
        None => page.extend(synopsis(command).into_bytes()),
    }
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    // The program's page has what `fathom help` has apart.
    let apart = if command.has_subcommands() && command.get_name() == "fathom" {
        format!("\n\n{EXIT_STATUS}\n\n{RUN_NAMES}")
    } else {
        String::new()
    };
    page.extend(sections(&(after + &apart)).into_bytes());
    man.render_version_section(&mut page)?;
    Ok(page)
}

fn synopsis(command: &clap::Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut text = format!(".SH SYNOPSIS\n.ad l\n.nh\n{}", escaped(name));
    let shown = command.get_arguments().filter(|one| !one.is_hide_set());
    let (last, options): (Vec<_>, Vec<_>) = shown.partition(|one| one.is_positional());
    for one in options.into_iter().chain(last) {
        // Positional arguments have their own brackets.
        text += &match (one.get_short(), one.is_positional() || one.is_required_set()) {
            (_, true) => escaped(&format!(" {one}")),
            (Some(short), false) => escaped(&format!(" [-{short}|{one}]")),
            (None, false) => escaped(&format!(" [{one}]")),
        };
    }
    let commands = if command.has_subcommands() { " <COMMAND>" } else { "" };
    text + commands + "\n.hy\n.ad b\n"
}

/// The paragraphs after a help: one whose first line ends with a colon is a section of lines that
/// are printed as they are, such as examples; the others are notes.
fn sections(help: &str) -> String {
    let (mut text, mut has_notes) = (String::new(), false);
    for paragraph in help.split("\n\n").filter(|it| !it.trim().is_empty()) {
        match paragraph.split_once(":\n") {
            Some((title, lines)) if !title.contains('\n') => {
                let lines: Vec<String> = lines.lines().map(escaped).collect();
                text += &format!(".SH {}\n.nf\n", escaped(&title.to_uppercase()));
                text += &format!("{}\n.fi\n", lines.join("\n"));
            }
            _ => {
                text += if has_notes { ".PP\n" } else { ".SH NOTES\n" };
                has_notes = true;
                let lines: Vec<String> = paragraph.lines().map(escaped).collect();
                text += &(lines.join("\n") + "\n");
            }
        }
    }
    text
}

/// A line of text: no request, no escape, and no hyphen in place of a minus sign.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', r"\e").replace('-', r"\-");
    if line.starts_with(['.', '\'']) { format!(r"\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_sections_of_unfilled_lines() {
        let text = sections("Examples:\n  a --b\n\nExit status:\n  0  c\n\nSee\n.d");
        let lines = ".SH EXAMPLES\n.nf\n  a \\-\\-b\n.fi\n.SH EXIT STATUS\n.nf\n  0  c\n.fi\n";
        assert_eq!(text, format!("{lines}.SH NOTES\nSee\n\\&.d\n"));
    }

    #[test]
    fn synopsis_has_values_and_repetitions() {
        let mut command = Arguments::command();
        command.build();
        let run = command.find_subcommand("run").expect("a command");
        let text = synopsis(run);
        assert!(text.contains(r" [\-\-seed <N>]") && text.contains("[METRIC]..."), "{text}");
        assert!(text.contains(r" [\-q|\-\-quiet]"), "{text}");
    }
}
