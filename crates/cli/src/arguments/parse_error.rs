//! What a parser error says: one line, with a hint that clap does not have.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use fathom_engine::{group_of_synonym, nearest_names};

use super::by_hand::is_metric;
use super::{Arguments, QUESTIONS};

/// Prints a parser error as one line for exit status 2.
pub fn report_parse_error(error: &clap::Error) -> ExitCode {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // If standard error is closed, nothing is left to do.
        let _ = match std::env::args_os().len() {
            0 | 1 => std::io::Write::write_all(&mut std::io::stderr(), QUESTIONS.as_bytes()),
            _ => error.print(),
        };
        return ExitCode::from(2);
    }
    let words = std::env::args_os().skip(1);
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    crate::terminal::warn(&explained(error, &words));
    ExitCode::from(2)
}

/// The message in one line, with a hint that clap does not have.
pub(super) fn explained(error: &clap::Error, words: &[String]) -> String {
    let line = one_line(&error.render().to_string());
    let command = Arguments::command();
    let of = |command: &clap::Command, word: &String| command.find_subcommand(word).cloned();
    let command = words.iter().fold(command, |command, word| of(&command, word).unwrap_or(command));
    if let Some(ContextValue::String(got)) = error.get(ContextKind::InvalidSubcommand) {
        return no_such_command(got, &command);
    }
    let Some(ContextValue::String(got)) =
        error.get(ContextKind::InvalidArg).filter(|_| error.kind() == ErrorKind::UnknownArgument)
    else {
        return line;
    };
    if got[1..].starts_with(|c: char| c.is_ascii_digit()) {
        // Joined with its option, that option's parser says what it takes.
        let (mut joined, mut with_option) = (words.to_vec(), String::new());
        if let Some(at) = words.iter().skip(1).position(|word| word.starts_with(got)) {
            let value = joined.remove(at + 1);
            joined[at] += &format!("={value}");
            with_option.clone_from(&joined[at]);
        }
        let again = ["fathom"].into_iter().chain(joined.iter().map(String::as_str));
        return match Arguments::try_parse_from(again) {
            Err(wrong) if wrong.kind() == ErrorKind::ValueValidation => {
                one_line(&wrong.render().to_string())
            }
            Ok(_) => format!("'{got}' is taken for an option; write `{with_option}`"),
            _ => format!("'{got}' is not a value: none is negative; try `--help`"),
        };
    }
    let typed = words.iter().find(|word| word.starts_with(got)).map_or(&got[..], String::as_str);
    if let Some(hint) = super::habits::hint(&command, got, typed) {
        return hint;
    }
    // An option that is the value of another one, as in `--direct` for `--path direct`.
    let value = got.trim_start_matches('-');
    let takes = |option: &&clap::Arg| {
        option.get_possible_values().iter().any(|possible| possible.matches(value, false))
    };
    match command.get_arguments().find(takes).and_then(clap::Arg::get_long) {
        Some(option) => {
            format!("unexpected argument '{got}' found; did you mean `--{option} {value}`?")
        }
        None => match command.get_subcommands().find(|it| has_option(it, value)) {
            Some(of) => format!(
                "'{got}' is an option of a command; did you mean `fathom {} {got}`?",
                of.get_name()
            ),
            None => line,
        },
    }
}

fn has_option(command: &clap::Command, name: &str) -> bool {
    !command.is_hide_set() && command.get_arguments().any(|it| it.get_long() == Some(name))
}

/// What users take for commands.
const TAKEN_FOR_COMMANDS: &[(&str, &str)] = &[
    ("benchmark", "bench -- PROGRAM"),
    // As they were called before.
    ("fleet facts", "fleet judge --facts"),
    ("store copy", "export --store FROM --to TO"),
    ("diff", "compare A B"),
    ("hosts", "show --runs"),
    ("metrics", "list"),
    ("runs", "show --runs"),
    ("version", "--version"),
];

/// Commands of earlier versions that no other command replaces.
const REMOVED: &[(&str, &str)] = &[
    ("fleet manifest", "the jobs for Kubernetes are in docs/recipes/kubernetes-fleet.yml"),
    ("store migrate", "every command migrates an older store when it opens it"),
];

fn no_such_command(got: &str, command: &clap::Command) -> String {
    let of = match command.get_name() {
        "fathom" => "fathom".to_owned(),
        name => format!("fathom {name}"),
    };
    let is_top = of == "fathom";
    let typed = format!("{of} {got}");
    let known = TAKEN_FOR_COMMANDS.iter().find(|(word, _)| typed == format!("fathom {word}"));
    let group = group_of_synonym(got).or(is_metric(got).then_some(got)).filter(|_| is_top);
    if let Some((_, hint)) = REMOVED.iter().find(|(word, _)| typed == format!("fathom {word}")) {
        return format!("no command is called '{got}'; {hint}");
    }
    let suggestion = match (known, group) {
        (Some((_, rest)), _) => format!("`fathom {rest}`"),
        (None, Some(group)) => format!("`fathom run {group}`"),
        (None, None) => {
            let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
            let near = nearest_names(got, shown.map(clap::Command::get_name).collect());
            let near: Vec<String> = near.into_iter().map(|name| format!("`{of} {name}`")).collect();
            near.join(" or ")
        }
    };
    let suggestion = match suggestion.is_empty() {
        true => suggestion,
        false => format!("did you mean {suggestion}? "),
    };
    format!("no command is called '{got}'; {suggestion}`{of} --help` lists the commands")
}

/// The parser's message in one line, without its usage.
fn one_line(message: &str) -> String {
    let mut is_usage = false;
    let lines = message
        .lines()
        .map(str::trim)
        // A usage of several lines ends with an empty one.
        .filter(|line| {
            is_usage = line.starts_with("Usage:") || (is_usage && !line.is_empty());
            !is_usage
        })
        // No argument begins with `-`, so that clap's tip to pass one after `--` is wrong.
        .filter(|line| !line.is_empty())
        .filter(|line| !line.starts_with("tip: to pass"))
        .map(|line| line.strip_prefix("error: ").unwrap_or(line))
        .map(|line| if line.starts_with("For more") { "try `--help`" } else { line });
    let mut text = String::new();
    for line in lines {
        text += match text.chars().last() {
            None => "",
            Some(':') => " ",
            Some(_) => "; ",
        };
        text += line;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_error_is_one_line_with_tip() {
        let line = |words: &[&str]| {
            let error = Arguments::try_parse_from([&["fathom", "run"], words].concat());
            explained(&error.unwrap_err(), &[])
        };
        let unknown = line(&["--quik"]);
        assert!(unknown.contains("'--quik'") && unknown.contains("'--quick'"), "{unknown}");
        assert!(!unknown.contains('\n') && !unknown.contains("Usage"), "{unknown}");
        let incomplete = line(&["--keep", "99"]);
        assert!(incomplete.contains("not provided: --protocol <PROTOCOL>; try"), "{incomplete}");
        let several = "error: no\n\nUsage: a b\n       a c <X>\n\nFor more information, x\n";
        assert_eq!(one_line(several), "no; try `--help`");
        let negative = line(&["-1"]);
        assert!(negative.contains("'-1'") && !negative.contains("-- -1"), "{negative}");
    }

    #[test]
    fn what_is_taken_for_a_command_gets_the_right_one() {
        for (line, suggested) in [
            ("runs", "`fathom show --runs`"),
            ("fleet facts", "`fathom fleet judge --facts`"),
            ("rnu", "`fathom run`"),
            ("disk", "`fathom run file`"),
            ("os.syscall", "`fathom run os.syscall`"),
            ("file raed", "`fathom file read`"),
            ("--quick", "`fathom run --quick`"),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let all = ["fathom".to_owned()].into_iter().chain(words.clone());
            let text = explained(&Arguments::try_parse_from(all).unwrap_err(), &words);
            assert!(text.contains(&format!("did you mean {suggested}")), "{line}: {text}");
        }
    }

    #[test]
    fn removed_command_names_what_replaces_it() {
        for (line, hint) in REMOVED {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let all = ["fathom".to_owned()].into_iter().chain(words.clone());
            let text = explained(&Arguments::try_parse_from(all).unwrap_err(), &words);
            assert!(text.ends_with(hint) && !text.contains("did you mean"), "{text}");
        }
    }

    #[test]
    fn value_given_as_option_is_recognised() {
        let words = ["file", "fast", "x", "--direct"].map(str::to_owned);
        let error = Arguments::try_parse_from([&["fathom".to_owned()], &words[..]].concat());
        let text = explained(&error.unwrap_err(), &words);
        assert!(text.ends_with("did you mean `--path direct`?"), "{text}");
    }
}
