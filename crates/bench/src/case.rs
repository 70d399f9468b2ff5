//! A command for one set of values of its parameters, and its name in records.

use std::path::PathBuf;
use std::process::ExitStatus;

use fathom_metric::ProcedureError;
use fathom_record::Params;

use crate::child::ChildProgram;
use crate::request::{BenchInvocation, CommandLine};

/// What is to be run.
#[derive(Debug)]
pub(crate) struct BenchWork {
    pub(crate) cases: Vec<Case>,
    /// The shell with nothing to do.
    pub(crate) shell: Option<ChildProgram>,
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The number of its command.
    pub(crate) command: usize,
    pub(crate) name: String,
    /// By the user. A name that is made of a part of the command is of that command alone.
    pub(crate) is_named: bool,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) params: Params,
    /// The command line.
    pub(crate) text: String,
    pub(crate) program: ChildProgram,
    /// The exit statuses that a run may have.
    pub(crate) exit: Vec<i32>,
    /// What it must write.
    pub(crate) output: Option<String>,
    /// In the order of [`crate::hooks::Hook`].
    pub(crate) hooks: [Option<String>; 4],
}

impl Case {
    pub(crate) fn succeeded(&self, status: ExitStatus) -> bool {
        status.code().is_some_and(|code| self.exit.contains(&code))
    }

    pub(crate) fn metric(&self) -> String {
        metric(&self.name)
    }
}

/// The id of the metric of a command.
pub(crate) fn metric(name: &str) -> String {
    format!("bench.{name}")
}

/// The metric of ratios has this name.
const RATIO: &str = "ratio";
/// Names of metrics that are of several commands.
const RESERVED: [&str; 2] = [RATIO, "certificate"];
const NAME_MAX: usize = 40;
/// Of names that are made of a command: they head the rows of a table.
const MADE_MAX: usize = 24;

/// The names of commands: as given, else made of the program's name and its arguments, or of the
/// whole command where those are the same.
pub(crate) fn names(commands: &[CommandLine]) -> Result<Vec<String>, ProcedureError> {
    for (at, name) in
        commands.iter().enumerate().filter_map(|(at, it)| Some((at, it.name.as_ref()?)))
    {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_part) {
            return Err(ProcedureError::usage(format!(
                "name `{name}`: expected 1 to {NAME_MAX} of the letters a-z, A-Z, 0-9, - and _"
            )));
        }
        let is_taken = commands[..at].iter().any(|other| other.name.as_ref() == Some(name));
        if is_taken || RESERVED.contains(&name.as_str()) {
            let why = if is_taken { "given twice" } else { "of another result" };
            return Err(ProcedureError::usage(format!("name `{name}`: {why}; choose another")));
        }
    }
    let names_of = |whole: bool| -> Vec<MadeName> {
        commands.iter().map(|one| MadeName::new(one, whole)).collect()
    };
    let (short, whole) = (names_of(false), names_of(true));
    let mut names: Vec<String> = Vec::new();
    for (at, command) in commands.iter().enumerate() {
        let made = match [&short, &whole].into_iter().find(|all| all[at].is_own(all)) {
            Some(all) => all[at].name.clone(),
            None => whole[at].with_checksum(),
        };
        let made = command.name.clone().unwrap_or(made);
        let is_free = |name: &String| {
            !RESERVED.contains(&name.as_str())
                && !names.contains(name)
                && (command.name.as_ref() == Some(name)
                    || commands.iter().all(|other| other.name.as_ref() != Some(name)))
        };
        let numbered = (2..).map(|number| format!("{made}-{number}"));
        let free = std::iter::once(made.clone()).chain(numbered).find(is_free);
        names.push(free.expect("numbers have no end"));
    }
    Ok(names)
}

/// A name made of a command, what it is made of, and the whole command.
struct MadeName {
    name: String,
    text: String,
    command: String,
}

impl MadeName {
    /// With the folder of the program, if it is to be whole.
    fn new(command: &CommandLine, whole: bool) -> Self {
        let command = match &command.command {
            BenchInvocation::Line(line) => line.trim().to_owned(),
            BenchInvocation::Words(words) => words.join(" "),
        };
        let (program, rest) = command.split_at(command.find(' ').unwrap_or(command.len()));
        let file = program.rsplit('/').next().unwrap_or(program);
        let text = format!("{}{rest}", if whole { program } else { file });
        let mut name = String::new();
        for letter in text.chars() {
            match letter {
                _ if letter.is_ascii_alphanumeric() || letter == '_' => name.push(letter),
                _ if name.is_empty() || name.ends_with('-') => {}
                _ => name.push('-'),
            }
        }
        let name = match name.trim_end_matches('-') {
            "" => "command".to_owned(),
            name => name.to_owned(),
        };
        let made = Self { name, text, command };
        // What is cut of it is in its checksum.
        let is_long = made.name.len() > MADE_MAX;
        Self { name: if is_long { made.with_checksum() } else { made.name.clone() }, ..made }
    }

    fn with_checksum(&self) -> String {
        let kept: String = self.name.chars().take(MADE_MAX - 9).collect();
        format!("{}-{:08x}", kept.trim_end_matches('-'), crc32fast::hash(self.text.as_bytes()))
    }

    /// Whether no other command has its name.
    fn is_own(&self, all: &[Self]) -> bool {
        all.iter().all(|other| other.name != self.name || other.command == self.command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(commands: &[(&str, Option<&str>)]) -> Result<Vec<String>, String> {
        let command = |(line, name): &(&str, Option<&str>)| {
            CommandLine::new(name.map(str::to_owned), BenchInvocation::Line((*line).to_owned()))
        };
        let commands: Vec<CommandLine> = commands.iter().map(command).collect();
        names(&commands).map_err(|error| error.to_string())
    }

    #[test]
    fn names_are_made_of_the_command() {
        let made = |lines: &[&str]| {
            named(&lines.iter().map(|line| (*line, None)).collect::<Vec<_>>()).unwrap()
        };
        assert_eq!(made(&["/bin/sort -n f"]), ["sort-n-f"]);
        assert_eq!(made(&["old/prog X", "new/prog X"]), ["old-prog-X", "new-prog-X"]);
        assert_eq!(made(&["true", "true", "true"]), ["true", "true-2", "true-3"]);
        // Long ones that begin alike, and those of other signs, in any order.
        let [small, large] = ["small", "large"].map(|it| format!("./encode data-of-all/{it}.cfg"));
        let both = made(&[&small, &large]);
        assert_eq!(both, ["encode-data-of-06ed1e0d", "encode-data-of-13da9203"]);
        assert_eq!([made(&[&large]), made(&[&small])].concat(), [both[1].clone(), both[0].clone()]);
        let signs = made(&["rex 'a+' f", "rex 'a*' f"]);
        assert!(signs.iter().all(|name| name.starts_with("rex-a-f-")) && signs[0] != signs[1]);
        assert_eq!(made(&["rex 'a*' f", "rex 'a+' f"]), [signs[1].clone(), signs[0].clone()]);
        assert_eq!(made(&["ratio", "'?'"]), ["ratio-2", "command"]);
    }

    #[test]
    fn given_names_are_kept_and_checked() {
        let both = named(&[("a", Some("x")), ("x", None)]);
        assert_eq!(both.unwrap(), ["x", "x-2"]);
        for names in [["a b", "c"], ["ratio", "c"], ["", "c"], ["c", "c"]] {
            let error = named(&names.map(|name| ("true", Some(name)))).unwrap_err();
            assert!(error.starts_with("name `"), "{error}");
        }
    }
}
