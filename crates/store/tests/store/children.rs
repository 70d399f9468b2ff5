//! Child processes: this test program starts itself again with a part to play.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fathom_record::{Run, RunState};
use fathom_store::Store;

use crate::{example, file_systems};

/// The part of the child, the path, and the arguments of the part, one per line.
const PART: &str = "FATHOM_STORE_TEST_PART";

/// Prefix of the lines for the parent, among those of the test harness.
const MARK: &str = "child: ";

/// The entry point of children. Without a part it is an empty test.
#[test]
fn child() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let words: Vec<&str> = part.lines().collect();
    let path = Path::new(words[1]);
    match words[0] {
        "write" => write(path, words[2], words[3].parse().unwrap()),
        "fill" => file_systems::fill(path),
        "read only" => file_systems::read_only(path),
        "read" => read(path, words[2]),
        other => panic!("unknown part {other}"),
    }
    say("done");
}

/// Writes a run and prints each step that the store has acknowledged.
fn write(path: &Path, run_id: &str, records: u64) {
    let mut store = Store::open(path).unwrap();
    store.begin(&example::head(run_id)).unwrap();
    say("begun");
    for number in 0..records {
        example::add(&mut store, run_id, &example::record(number)).unwrap();
        say(&format!("added {number}"));
    }
    let run = Run { state: RunState::Complete, ..example::run(run_id) };
    store.update_run(&run).unwrap();
    say("ended");
}

/// Reads a run; prints the number of unchanged records, or the error.
fn read(path: &Path, run_id: &str) {
    match Store::open_existing(path).and_then(|store| store.document(run_id, true)) {
        Ok(document) => {
            let good = document.records.iter().enumerate();
            let good = good.filter(|(number, one)| **one == example::record(*number as u64));
            say(&format!("read {}", good.count()));
        }
        Err(error) => say(&format!("error {error}")),
    }
}

/// Writes to the real stdout, because the harness captures `println`.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{MARK}{line}").unwrap();
    out.flush().unwrap();
}

/// Writes to the real stderr: a skipped test must not look like one that passed.
pub(crate) fn skipped(reason: &str) {
    let mut out = std::io::stderr().lock();
    writeln!(out, "skipped: {reason}").unwrap();
}

/// The command that plays a part, as an argument of the command `before` if there is one.
pub(crate) fn command(before: &[&str], part: &[&str]) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut command = match before {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    command
        .args(["children::child", "--exact", "--nocapture", "--test-threads=1"])
        .env(PART, part.join("\n"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// The lines printed by the child, until it ends.
pub(crate) fn lines_of(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // A killed child can leave half a line, which acknowledges no step.
    lines.map_while(Result::ok).filter_map(|line| Some(line.strip_prefix(MARK)?.to_owned()))
}
