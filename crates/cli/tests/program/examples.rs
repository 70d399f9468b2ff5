//! The examples of every `--help`: all are valid, and those that take a moment succeed.

use std::fs;

use clap::{CommandFactory as _, Parser as _};
use fathom_cli::arguments::Arguments;

use crate::ProgramTestEnv;
use crate::test_env::{stored_run, text};

/// Commands of examples that take longer, need another program or other hosts, or change settings
/// of the machine.
const LONG: [&str; 25] = [
    "run",
    "bench",
    "bisect",
    "crosscheck",
    "doctor --try",
    "report",
    "import",
    "load",
    "fetch",
    "transfer",
    "serve",
    "ui",
    "fleet run",
    "fleet load",
    "fleet pairs",
    "fleet member",
    "fleet judge --facts --hosts",
    "file calls",
    "file contend",
    "file capacity",
    "file sweep",
    "file cache",
    "file size",
    "file read /dev/vda",
    "file write",
];

/// The examples of a command and its subcommands, without their descriptions.
fn examples(command: &clap::Command) -> Vec<String> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    // What comes before `fathom` or after its arguments is the shell's.
    let own = lines.filter_map(|line| line.split_once("fathom ")).map(|(_, line)| {
        let end = ["  ", " | ", " > ", " && "].iter().filter_map(|end| line.find(end)).min();
        line[..end.unwrap_or(line.len())].to_owned()
    });
    own.chain(command.get_subcommands().flat_map(examples)).collect()
}

/// As a shell splits it; single quotes only.
fn words(example: &str) -> Vec<String> {
    let (mut words, mut is_quoted, mut is_open) = (Vec::<String>::new(), false, false);
    for letter in example.chars() {
        match letter {
            '\'' => (is_quoted, is_open) = (!is_quoted, is_open || !is_quoted && push(&mut words)),
            ' ' if !is_quoted => is_open = false,
            letter => {
                is_open = is_open || push(&mut words);
                words.last_mut().expect("an open word").push(letter);
            }
        }
    }
    words
}

/// Begins a word.
fn push(words: &mut Vec<String>) -> bool {
    words.push(String::new());
    true
}

#[test]
fn examples_of_help_are_valid() {
    let all = examples(&Arguments::command());
    assert!(all.len() > 70, "{}", all.len());
    for example in all {
        let words = [vec!["fathom".to_owned()], words(&example)].concat();
        let parsed = Arguments::try_parse_from(words);
        assert!(parsed.is_ok(), "{example}: {}", parsed.expect_err("an error"));
    }
}

#[test]
fn short_examples_of_help_succeed() {
    // Cold reads need a disk.
    let Some(env) = ProgramTestEnv::on_device() else { return };
    for (number, label) in (1..).zip(["rack1", "before", "after", "before-upgrade", "b", "c", "d"])
    {
        let mut document = stored_run(number);
        document.run.label = Some(label.to_owned());
        env.store_run(&document);
    }
    // `compare` alone takes runs of all metrics.
    for number in [11, 12] {
        let mut battery = stored_run(number);
        battery.run.asked.clear();
        env.store_run(&battery);
    }
    env.store_run(&stored_run(13));
    env.stdout("export latest --output before.json");
    fs::write(env.file("FILE"), vec![7; 100_000]).expect("a file");
    fs::write(env.file("limits.toml"), "'cpu.call{args=0}' = '..1 s'").expect("a file");
    fs::create_dir(env.file("FOLDER")).expect("a folder");
    for name in ["FOLDER/a", "a.iso"] {
        fs::write(env.file(name), "content").expect("a file");
    }
    let ids = [env.latest().run.id, env.document_of("before-upgrade").run.id];
    let mut count = 0;
    for example in examples(&Arguments::command()) {
        let is_long = |long: &&str| example == **long || example.starts_with(&format!("{long} "));
        let needs_a_server = example.contains("postgres://");
        if needs_a_server || LONG.iter().any(is_long) {
            continue;
        }
        let given = example.replace("0195c3", &ids[0]).replace("0195d0", &ids[1]);
        let given = given
            .replace("db1 db2", "latest~1 latest")
            .replace("vm1 vm2 vm3", "latest~1 latest")
            .replace(" db3 db4 db5", "");
        let given = given.replace("*.json", "before.json");
        let given = given.replace("nightly", "b").replace("fleet-k3x9qa", "c");
        let given =
            given.replace("show memory", "show cpu").replace("latest~1 os.syscall cpu", "c cpu");
        let words = words(&given);
        let output = env.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        // 3 and 4: `doctor` warns, or there is nothing to compare. 5: `--fail-on` is undecided.
        let status = output.status.code();
        let is_allowed = match given.starts_with("check ") {
            // Of a monitoring plugin.
            true => matches!(status, Some(0..=3)),
            false => matches!(status, Some(0 | 3..=5)),
        };
        assert!(is_allowed, "{given}: {}", text(&output.stderr));
        count += 1;
    }
    assert!(count > 35, "{count}");
}
