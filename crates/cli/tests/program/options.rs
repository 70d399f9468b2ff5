//! Each option of the views acts, also beside each other option: it changes what is printed or
//! written, or is refused. Options of measuring commands are tried where they are parsed
//! (`arguments/requirements.rs`), and each is named by a test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, process};

use clap::{Command, CommandFactory as _};
use fathom_cli::arguments::Arguments;
use fathom_record::{Document, Record, Sample, State};

use crate::test_env::{ProgramTestEnv, json, text};

/// A quick run of all metrics, as one of this host.
fn battery(number: usize, label: &str) -> Document {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let file = golden.join(format!("quick-{number}.json.gz"));
    let unpacked = process::Command::new("gzip").arg("-dc").arg(file).output().expect("gzip");
    let mut document: Document = serde_json::from_slice(&unpacked.stdout).expect("a run");
    document.host = fathom_measure::host::read();
    document.run.label = Some(label.to_owned());
    document.records[0].samples = Some(vec![Sample::default()]);
    document
}

fn env() -> ProgramTestEnv {
    let env = ProgramTestEnv::new();
    for (number, label) in [(1, "a"), (2, "b")] {
        env.store_run(&battery(number, label));
    }
    fs::write(env.file("limits.toml"), "\"cpu.call\" = \"..1 s\"\n").expect("a file");
    let output = env.exec("doctor -o doctor.json");
    assert!(output.status.code().is_some_and(|code| code != 1), "{output:?}");
    env
}

#[test]
fn noisy_results_are_shown_alone_with_their_reasons() {
    let env = env();
    let shown = env.stdout("show --noisy");
    let noisy = battery(2, "b").records.into_iter();
    let noisy: Vec<Record> = noisy.filter(|it| it.verdict.state == State::Noisy).collect();
    assert!(shown.contains(&format!("{} of ", noisy.len())), "{shown}");
    let rows = shown.lines().filter(|line| line.ends_with("  noisy")).count();
    assert_eq!(rows, noisy.len(), "{shown}");
}

/// What a command prints and writes.
fn effect(env: &ProgramTestEnv, line: &str) -> (Option<i32>, String, Option<Vec<u8>>) {
    let output = env.exec(line);
    let written = fs::read(env.file("out")).ok();
    let _ = fs::remove_file(env.file("out"));
    (output.status.code(), text(&output.stdout) + &text(&output.stderr), written)
}

/// Each option of a command, with its value among those given.
fn words_of_options(base: &str, values: &str) -> Vec<String> {
    let mut command = Arguments::command();
    for word in base.split(' ') {
        command = command.find_subcommand(word).cloned().unwrap_or(command);
    }
    let shared = ["color", "help", "host-name", "no-migrate", "store", "version"];
    let named = command.get_arguments().filter_map(|arg| Some((arg, arg.get_long()?)));
    let words = |(arg, long): (&clap::Arg, &str)| {
        let own = values.split('|').find(|value| value.starts_with(&format!("--{long} ")));
        assert_eq!(own.is_some(), arg.get_action().takes_values(), "{base} --{long}");
        own.map_or(format!("--{long}"), str::to_owned)
    };
    named.filter(|(_, long)| !shared.contains(long)).map(words).collect()
}

#[test]
fn each_option_of_a_view_acts_beside_each_other() {
    /// Words before the options of each view, and a value for each option that takes one.
    const VIEWS: &[&str] = &[
        "compare a b|--fail-on 5%|--except core-speed|--undecided pass|--seed 7\
         |--reference 2016-i5-5257u|--like gcp/c3d-highcpu-4|--output out",
        "export a|--format csv|--margin 10%|--type x/y|--better higher|--limits limits.toml\
         |--doctor doctor.json|--output out|--to copy.db",
        "explain memory.latency|--run a|--output out",
        "history cpu.call|--host nobody|--label a|--output out",
        "list|--output out",
        "show|--run a|--reference 2016-i5-5257u|--units published|--limits limits.toml\
         |--output out",
    ];
    /// Options that act on nothing here: why.
    const EXCEPTIONS: &[(&str, &str)] = &[
        ("--force", "there is no file to replace"),
        ("--seed", "the bootstrap of two small runs has one answer"),
    ];
    let env = env();
    let mut effects = BTreeMap::new();
    let mut effect_of =
        |line: &str| effects.entry(line.to_owned()).or_insert_with(|| effect(&env, line)).clone();
    let (mut pairs, mut idle) = (0, BTreeSet::new());
    for view in VIEWS {
        let (base, values) = view.split_once('|').unwrap_or((view, ""));
        let options = words_of_options(base, values);
        let is_exception =
            |option: &str| EXCEPTIONS.iter().any(|(name, _)| option.starts_with(name));
        for option in options.iter().filter(|option| !is_exception(option)) {
            for beside in std::iter::once("").chain(options.iter().map(String::as_str)) {
                if beside == option || is_exception(beside) {
                    continue;
                }
                pairs += 1;
                let without = effect_of(format!("{base} {beside}").trim());
                let with = effect_of(format!("{base} {beside} {option}").trim());
                // An error ends a command before its other options act.
                if !matches!(without.0, Some(1 | 2)) && with == without {
                    idle.insert(format!("fathom {base} {beside} {option}"));
                }
            }
        }
    }
    assert!(pairs > 150, "{pairs}");
    assert!(idle.is_empty(), "accepted, and do nothing: {idle:#?}");
}

#[test]
fn shared_options_act_in_each_measuring_command() {
    /// A short line of each measuring command.
    const MEASURING: &[&str] = &[
        "bench true --runs 3",
        "file cache data --blocks 64K --rounds 1",
        "file calls --repeat 1 data",
        "file capacity --max 8MiB --yes --folder .",
        "file contend --processes 1 --bytes 1MiB --repeat 1 --folder .",
        "file fast data",
        "file read data",
        "file size --block 4K --between 1ms..1s --max 16MiB --yes --folder .",
        "file sweep data --blocks 64K --state warm --threads 1 --each 1ms --passes 2",
        "file write new --block 4K --count 4 --force",
        "transfer --sets small --repeat 1 --send-path copy --receive-path copy --folder . \
         --io blocking",
    ];
    let Some(env) = ProgramTestEnv::on_device() else { return };
    fs::write(env.file("data"), vec![7; 1 << 20]).expect("a file");
    for line in MEASURING {
        let run = |options: &str| {
            let output = env.exec(&format!("{line} {options}"));
            assert!(matches!(output.status.code(), Some(0 | 3)), "{line} {options}: {output:?}");
            output
        };
        let has_samples =
            |document: &Document| document.records.iter().any(|record| record.samples.is_some());
        let whole: Document = json(&run("--json --samples --label x"));
        assert_eq!(whole.run.label.as_deref(), Some("x"), "{line}");
        assert!(has_samples(&whole) && !has_samples(&json(&run("--json"))), "{line}");
        if !line.starts_with("bench") {
            let _ = fs::remove_file(env.file("run.json"));
            let printed = run("--json -o run.json").stdout;
            assert!(fs::read(env.file("run.json")).is_ok_and(|it| it == printed), "{line}");
        }
        let lines = text(&run("--jsonl").stdout);
        let is_record = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
        assert!(!lines.is_empty() && lines.lines().all(is_record), "{line}: {lines}");
        let brief = text(&run("--brief").stdout);
        assert!((1..=24).contains(&brief.lines().count()), "{line}: {brief}");
        assert!(!brief.lines().any(is_record), "{line}: {brief}");
    }
}

#[test]
fn options_of_one_command_act_or_are_refused() {
    let env = ProgramTestEnv::new();
    fs::write(env.file("data"), vec![7; 1 << 20]).expect("a file");
    let run = |line: &str| env.exec(&format!("{line} --json"));
    let cases = |line: &str| {
        let document: Document = json(&run(line));
        document.records.iter().map(|record| record.name()).collect::<BTreeSet<String>>()
    };
    assert_eq!(run("file read data --depth 4").status.code(), Some(2), "without a ring");
    assert_eq!(run("crosscheck dd --cpu 100000").status.code(), Some(2), "no such CPU");
    let read = run("file read data --way ring --depth 4");
    assert!(text(&read.stdout).contains("\"depth\":") || !read.status.success(), "{read:?}");
    let sizes = cases("file cache --sizes 64K,128K --blocks 64K --rounds 1 --yes --folder .");
    assert!(["65536", "131072"].iter().all(|it| sizes.iter().any(|name| name.contains(it))));
    let sets = "transfer --sets small --repeat 1 --folder . --send-path copy";
    assert!(cases(&format!("{sets} --buffer 4K,64K --seed 5")).len() > cases(sets).len());
    assert_ne!(cases(&format!("{sets} --ack per-file")), cases(sets));
    let seed = |line: &str| json::<Document>(&run(line)).run.seed;
    assert_eq!(seed(&format!("{sets} --seed 5")), 5);
    assert_eq!(run(&format!("{sets} --bind 127.0.0.1")).status.code(), Some(2), "without --to");
}

/// The options of a command and of those below it, each with the word of its command.
fn options(command: &Command, into: &mut BTreeSet<(String, String, Option<String>)>) {
    let hidden = |it: &&Command| !it.is_hide_set();
    for below in command.get_subcommands().filter(hidden) {
        options(below, into);
    }
    let own = command.get_arguments().filter(|arg| !arg.is_hide_set());
    // Those of all commands with a store are of one struct; others are tried in each of them.
    let shared = ["store", "no_migrate", "brief", "jsonl", "label", "samples", "document_file"];
    let own = own.filter(|arg| !shared.contains(&arg.get_id().as_str()));
    let names = own.filter_map(|arg| Some((arg.get_long()?, arg.get_short())));
    into.extend(names.map(|(long, short)| {
        (command.get_name().to_owned(), format!("--{long}"), short.map(|it| format!("-{it}")))
    }));
}

fn sources(folder: &Path, into: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, into);
        } else if path.extension().is_some_and(|it| it == "rs" || it == "txt" || it == "md") {
            into.push(fs::read_to_string(path).expect("text"));
        }
    }
}

/// Each option is in a test, golden file or executed page that has its command, too.
#[test]
fn each_option_is_in_a_test_of_its_command() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut texts = Vec::new();
    for folder in ["crates", "lab/src", "docs/labs", "docs/tutorials"] {
        sources(&root.join(folder), &mut texts);
    }
    // Of a source its tests only; of a page and a golden file its lines.
    let tests: Vec<&str> = texts
        .iter()
        .flat_map(|text| match text.contains("#[test]") {
            true => text.split("#[test]").skip(1).collect::<Vec<&str>>(),
            false if text.contains("$ fathom ") || text.contains("\nfathom ") => {
                text.lines().collect()
            }
            false => Vec::new(),
        })
        .collect();
    let mut all = BTreeSet::new();
    options(&Arguments::command(), &mut all);
    let has = |text: &str, word: &str| {
        text.match_indices(word).any(|(at, _)| {
            let next = text[at + word.len()..].chars().next();
            !next.is_some_and(|c| c.is_ascii_alphanumeric() || c == '-')
        })
    };
    let is_tested = |command: &str, option: &str| {
        // Subcommands of `fleet` share the structs of their options.
        let words = [command, if FLEET.contains(&command) { "fleet" } else { command }];
        tests.iter().any(|test| has(test, option) && words.iter().any(|word| has(test, word)))
    };
    let untested: Vec<String> = all
        .iter()
        .filter(|(command, option, short)| {
            let is_elsewhere = ELSEWHERE.iter().any(|(of, named, file, word)| {
                let text = || fs::read_to_string(root.join(file)).expect("a file");
                of == command && named == option && text().contains(word)
            });
            let by_short = short.as_ref().is_some_and(|short| is_tested(command, short));
            !is_elsewhere && !by_short && !is_tested(command, option)
        })
        .map(|(command, option, _)| format!("{command} {option}"))
        .collect();
    assert_eq!(untested, [""; 0], "in no test of the command");
}

const FLEET: &[&str] = &["facts", "judge", "load", "member", "pairs", "run"];

/// Options whose settings are tested below the command line: where, and by which word.
const ELSEWHERE: &[(&str, &str, &str, &str)] = &[
    ("fetch", "--connect-timeout", "crates/fetch/src/connection.rs", "connect_timeout"),
    ("load", "--connect-timeout", "crates/load/src/engine/tests.rs", "connect_timeout"),
    ("load", "--content-type", "crates/load/src/engine/tests/messages.rs", "content_type"),
    ("load", "--follow", "crates/load/src/engine/tests.rs", "follow"),
    ("load", "--threads", "crates/load/src/engine/tests.rs", "threads"),
    ("load", "--data", "crates/load/src/message.rs", "data"),
    ("load", "--headers", "crates/load/src/message.rs", "headers"),
    ("load", "--seed", "crates/load/src/engine/tests.rs", "seed"),
    ("load", "--think-distribution", "crates/load/src/engine/tests.rs", "Distribution::"),
    ("ui", "--name", "crates/ui/tests/ui/main.rs", "names"),
    ("serve", "--connections-per-address", "crates/service/tests/service/gate.rs", "per_address"),
    ("serve", "--fields", "crates/service/tests/service/gate.rs", "fields"),
    ("serve", "--min-rate", "crates/service/tests/service/gate.rs", "min_rate"),
];
