//! Other processes: this test program starts itself again, and plays a part.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fathom_record::{Run, RunState};
use fathom_store::Store;

use crate::{example, places};

/// What the child is to do: the part, the path, and the part's own words, by line.
const PART: &str = "FATHOM_STORE_TEST_PART";

/// Marks the lines that are meant for the parent among those of the test harness.
const MARK: &str = "child: ";

/// The entrance for children. Without a part it is an empty test.
#[test]
fn child() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let words: Vec<&str> = part.lines().collect();
    let path = Path::new(words[1]);
    match words[0] {
        "write" => write(path, words[2], words[3].parse().unwrap()),
        "fill" => places::fill(path),
        "read only" => places::read_only(path),
        "read" => read(path, words[2]),
        other => panic!("unknown part {other}"),
    }
    say("done");
}

/// Writes a run, and says so after each step that the store has acknowledged.
fn write(path: &Path, run_id: &str, records: u64) {
    say("opening");
    let mut store = Store::open(path).unwrap();
    say("open");
    let begun = store.begin(&example::head(run_id));
    begun.unwrap();
    say("begun");
    for number in 0..records {
        store.add(run_id, &example::record(number)).unwrap();
        say(&format!("added {number}"));
    }
    let run = Run { state: RunState::Complete, ..example::run(run_id) };
    store.update_run(&run).unwrap();
    say("ended");
}

/// Reads a run, and says how many records it found as they were written, or what was in the way.
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

/// Past the harness, which would keep what is printed.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{MARK}{line}").unwrap();
    out.flush().unwrap();
}

/// Past the harness too: a test that does nothing must not look like one that passed.
pub(crate) fn skipped(reason: &str) {
    let mut out = std::io::stderr().lock();
    writeln!(out, "skipped: {reason}").unwrap();
}

/// The command that plays a part, behind a command that prepares its surroundings, if any.
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

/// What the child says, line by line, until it ends.
pub(crate) fn lines_of(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // A killed child can leave half a line, which acknowledges nothing.
    lines.map_while(Result::ok).filter_map(|line| Some(line.strip_prefix(MARK)?.to_owned()))
}
