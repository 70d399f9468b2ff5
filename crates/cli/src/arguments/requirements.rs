//! clap drops what an option requires where that conflicts with another option that is given, so
//! that the first one is accepted and does nothing. All pairs of options of all commands are tried.

use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, Command, CommandFactory, Parser};

use super::Arguments;

/// Values that parsers of options take: each gets the first that it accepts.
const VALUES: &str = "1|10|1s|5%|1K|20K|1..2|1s..9s|5..|36h|10x2MB|a=b|a: b|p99<50ms|throughput<500\
    |127.0.0.1|127.0.0.1:8000|host:80:127.0.0.1|auto|os.syscall|x|1/2|GET|1GB|/x|copy|small|\
    aws/m9g.large|core-speed|blocking|persistent|per-file|ssh host|a,b|none|1..100";

/// All commands without subcommands, with their words.
fn leaves(command: &Command, words: &[String]) -> Vec<(Vec<String>, Command)> {
    let of = |one: &Command| leaves(one, &[words, &[one.get_name().to_owned()]].concat());
    let below: Vec<_> = command
        .get_subcommands()
        .filter(|it| !it.is_hide_set() && it.get_name() != "help")
        .flat_map(of)
        .collect();
    if below.is_empty() { vec![(words.to_vec(), command.clone())] } else { below }
}

#[test]
fn commands_are_few() {
    let mut all = Arguments::command();
    all.build();
    let names: Vec<String> = leaves(&all, &[]).iter().map(|(words, _)| words.join(" ")).collect();
    assert!(names.len() <= 35, "{}: {names:?}", names.len());
    for kept in ["file calls", "file contend", "file capacity", "file size"] {
        assert!(names.iter().any(|name| name == kept), "{kept}");
    }
}

fn refusal(words: &[String]) -> Option<clap::Error> {
    Arguments::try_parse_from(words).err()
}

/// The words of an argument with a value that its parser takes.
fn words_of(arg: &Arg, base: &[String]) -> Vec<String> {
    let name = arg.get_long().map(|long| format!("--{long}"));
    if !arg.get_action().takes_values() {
        return Vec::from_iter(name);
    }
    let possible = arg.get_possible_values();
    let possible = possible.iter().map(|one| one.get_name().to_owned());
    let values = possible.chain(VALUES.split('|').map(str::to_owned));
    let count = arg.get_num_args().map_or(1, |range| range.min_values().max(1));
    let all = values.map(|value| {
        let value = match &name {
            Some(name) if count == 1 => vec![format!("{name}={value}")],
            name => name.iter().cloned().chain(vec![value; count]).collect(),
        };
        let whole = [base, &value].concat();
        let is_wrong = refusal(&whole).is_some_and(|error| {
            matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue)
        });
        (!is_wrong).then_some(value)
    });
    let none = || panic!("no value for {} of {base:?}", arg.get_id());
    all.flatten().next().unwrap_or_else(none)
}

#[test]
fn required_option_is_missed_beside_any_other() {
    let (mut pairs, mut wrong) = (0, Vec::new());
    let mut all = Arguments::command();
    all.build();
    for (words, command) in leaves(&all, &["fathom".to_owned()]) {
        let mut base = words;
        for arg in command.get_positionals().filter(|arg| arg.is_required_set()) {
            base.extend(words_of(arg, &base));
        }
        if refusal(&base).is_some_and(|it| it.kind() == ErrorKind::MissingRequiredArgument) {
            let all = command.get_positionals().flat_map(|arg| words_of(arg, &base));
            base = base.iter().cloned().chain(all).collect();
        }
        let others = |arg: &&Arg| !arg.is_required_set() && !arg.is_hide_set();
        let all: Vec<(&Arg, Vec<String>)> = command
            .get_arguments()
            .filter(|arg| others(arg) && arg.get_long() != Some("help"))
            .map(|arg| (arg, words_of(arg, &base)))
            .collect();
        for (arg, own) in &all {
            let alone = refusal(&[&base[..], own].concat());
            let Some(error) = alone.filter(|it| it.kind() == ErrorKind::MissingRequiredArgument)
            else {
                continue;
            };
            let missing = error.get(ContextKind::InvalidArg).map(ToString::to_string);
            let missing = missing.unwrap_or_default();
            for (other, beside) in all.iter().filter(|(other, _)| other.get_id() != arg.get_id()) {
                pairs += 1;
                // A positional argument is named by its value.
                let value = other.get_value_names().and_then(|names| names.first());
                let name = other.get_long().map(|long| format!("--{long}"));
                let name = name.or(value.map(ToString::to_string)).unwrap_or_default();
                let provides = missing.contains(&name);
                if !provides && refusal(&[&base[..], own, beside].concat()).is_none() {
                    wrong.push(format!(
                        "{} {} {}",
                        base.join(" "),
                        own.join(" "),
                        beside.join(" ")
                    ));
                }
            }
        }
    }
    assert!(pairs > 400, "{pairs}");
    assert_eq!(wrong, [""; 0], "accepted without what the first option requires");
}
