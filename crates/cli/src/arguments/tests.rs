//! The command line as a whole.

use clap::CommandFactory;
use clap::error::{ContextKind, ErrorKind};

use super::*;

#[test]
fn command_line_definition_is_consistent() {
    Arguments::command().debug_assert();
}

/// Clap does not miss what an option requires if another one conflicts with that.
#[test]
fn option_that_needs_another_is_refused_without_it() {
    let values = ["1", "1s", "4KiB", "x", "a=1", "p99<9ms", "p99>9ms", "1x1MB", "127.0.0.1"];
    let mut all = vec![(vec!["fathom".to_owned()], Arguments::command())];
    let (mut needy, mut missed) = (0, Vec::new());
    while let Some((mut words, command)) = all.pop() {
        for inner in command.get_subcommands() {
            let path = [words.clone(), vec![inner.get_name().to_owned()]].concat();
            all.push((path, inner.clone()));
        }
        let required = command.get_positionals().filter(|it| it.is_required_set());
        words.extend(required.map(|_| "x".to_owned()));
        let parse = |options: &[&String]| {
            let words = words.iter().chain(options.iter().copied());
            Arguments::command().try_get_matches_from(words)
        };
        let fails = |options: &[&String], kinds: &[ErrorKind]| {
            parse(options).err().is_some_and(|error| kinds.contains(&error.kind()))
        };
        let option = |arg: &clap::Arg| {
            let long = format!("--{}", arg.get_long()?);
            if !arg.get_action().takes_values() {
                return Some(long);
            }
            let named = arg.get_possible_values();
            let named = named.iter().map(clap::builder::PossibleValue::get_name);
            let mut all = named.chain(values).map(|value| format!("{long}={value}"));
            let bad = [ErrorKind::InvalidValue, ErrorKind::ValueValidation];
            all.find(|option| !fails(&[option], &bad))
        };
        let shown = command.get_arguments().filter(|it| !it.is_hide_set());
        let options: Vec<String> = shown.filter_map(option).collect();
        for one in &options {
            let Err(error) = parse(&[one]) else { continue };
            if error.kind() != ErrorKind::MissingRequiredArgument {
                continue;
            }
            let missing = format!("{:?}", error.get(ContextKind::InvalidArg));
            // Else what to work on is missing.
            if !missing.contains("--") {
                continue;
            }
            needy += 1;
            for other in options.iter().filter(|other| parse(&[one, other]).is_ok()) {
                let name = other.split('=').next().unwrap_or(other);
                if !missing.contains(name) {
                    missed.push(format!("{} {one} {other}: not {missing}", words.join(" ")));
                }
            }
        }
    }
    assert!(needy > 9 && missed.is_empty(), "{needy}: {missed:#?}");
}
