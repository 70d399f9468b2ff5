//! Options of other tools, as habits type them, and what they are called here.

/// By command: options, and what to write instead.
const HABITS: &[(&str, &[&str], &str)] = &[
    ("bench", &["-m", "-M", "--min-runs", "--max-runs"], RUNS),
    ("bench", &["--export-json"], "`--json > FILE`, or later `fathom export latest:bench`"),
    ("bench", &["--export-markdown", "--export-asciidoc", "--export-orgmode"], MARKDOWN),
    ("bench", &["--export-csv"], "later `fathom export latest:bench --format csv --output FILE`"),
    ("bench", &["--reference", "--reference-name"], "the first command is the reference"),
    ("bench", &["--parameter-scan", "-D", "--parameter-step-size"], "`-P NAME 1,2,3` or `1..8`"),
    ("bench", &["--show-output"], "`--output inherit`"),
    ("bench", &["-u", "--time-unit"], "each time has the unit that fits; `--json` has nanoseconds"),
    ("bench", &["--sort"], "rows are in the order of their times"),
    ("bench", &["--style"], "`--color never`, `--brief`"),
    ("load", &["-X", "--request"], "`--method METHOD` (-m)"),
    ("load", &["-k", "--keepalive"], KEPT),
    ("load", &["--disable-keepalive"], "`--fresh` opens a connection for each request"),
    ("load", &["-A", "--accept"], "`-H 'Accept: TYPE'`; a password: `-H 'Authorization: …'`"),
    ("load", &["-a", "-U", "--user"], "`-H 'Authorization: Basic …'`"),
    ("load", &["-C", "--cookie"], "`-H 'Cookie: NAME=VALUE'`"),
    ("load", &["--rps", "-R", "-r", "--qps"], "`--rate N` (-q N)"),
    ("load", &["-u", "--vus", "--connections", "--concurrency"], "`--clients N` (-c N)"),
    ("load", &["-i", "--iterations"], "`--requests N` (-n N); by HEAD `--method HEAD`"),
    ("load", &["-D"], "the duration is `--time TIME` (-z), a body `--data-file FILE`"),
    ("load", &["-p", "-b"], "a body is `--data-file FILE` or `--data TEXT`"),
    ("load", &["-s", "--script"], "no scripts are run; paths are `--urls FILE`"),
    ("load", &["-L", "-l", "--latency"], "percentiles are always measured"),
    ("load", &["-x", "--proxy"], "no proxy is used"),
    ("load", &["--http2"], "requests are by HTTP/1.1"),
];

const RUNS: &str =
    "a pilot sets the number of runs; `--runs N` makes N, `--time 30s` as many as fit";
const MARKDOWN: &str = "later `fathom export latest:bench --format markdown --output FILE`";
const KEPT: &str = "connections are kept; `--insecure` accepts any certificate";

/// What an option of another tool is here. `typed`: the whole word, such as `-rps=5`.
pub(super) fn hint(command: &clap::Command, option: &str, typed: &str) -> Option<String> {
    // Options of one dash and several letters, as of Go.
    let word = typed.trim_start_matches('-').split('=').next().unwrap_or_default();
    let long = format!("--{word}");
    let is_long = !typed.starts_with("--") && word.len() > 1;
    let own = command.get_arguments().find(|arg| {
        let names = arg.get_long_and_visible_aliases().unwrap_or_default();
        is_long && names.contains(&word)
    });
    if own.is_some() {
        return Some(format!("'{typed}': write `{long}`, with two dashes"));
    }
    let of = |name: &str| {
        let is_it = |(command_of, options, _): &&(&str, &[&str], &str)| {
            *command_of == command.get_name() && options.contains(&name)
        };
        HABITS.iter().find(is_it).map(|(_, _, hint)| *hint)
    };
    let (shown, hint) = match of(&long).filter(|_| is_long) {
        Some(hint) => (typed, hint),
        None => (option, of(option)?),
    };
    Some(format!("'{shown}' is of other tools; here: {hint}"))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::super::Arguments;
    use super::super::parse_error::explained;
    use super::HABITS;

    fn refused(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let all = ["fathom".to_owned()].into_iter().chain(words.clone());
        explained(&Arguments::try_parse_from(all).expect_err(line), &words)
    }

    #[test]
    fn every_habit_gets_its_line() {
        for (command, options, hint) in HABITS {
            for option in *options {
                let text = refused(&format!("{command} x {option} 3"));
                let expected = format!("'{option}' is of other tools; here: {hint}");
                assert_eq!(text, expected, "{command}");
            }
        }
    }

    #[test]
    fn options_named_in_hints_exist() {
        let all = Arguments::command();
        for (command, _, hint) in HABITS {
            let own = all.find_subcommand(command).expect("a command");
            let export = all.find_subcommand("export").expect("a command");
            let words = hint.split([' ', '`']).filter(|word| word.starts_with("--"));
            for word in words {
                let has = |it: &clap::Command| {
                    it.get_arguments().any(|arg| arg.get_long() == word.strip_prefix("--"))
                };
                assert!(has(own) || has(export) || has(&all), "{command}: {word}");
            }
        }
    }

    #[test]
    fn options_of_one_dash_are_recognised() {
        for (line, expected) in [
            ("load http://x -rate=50", "'-rate=50': write `--rate`, with two dashes"),
            ("load http://x -rps 5", "'-rps' is of other tools; here: `--rate N` (-q N)"),
        ] {
            assert_eq!(refused(line), expected);
        }
    }
}
