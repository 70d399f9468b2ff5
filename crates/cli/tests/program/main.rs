//! The program as a person uses it, and misuses it.

mod bad_input;
mod comparing;
mod crosscheck;
mod doctor;
mod endings;
mod exchange;
mod file_calls;
mod file_capacity;
mod file_caps;
mod file_fast;
mod file_read;
mod file_run;
mod file_sweep;
mod file_write;
mod forbidden;
mod group;
mod laboratory;
mod memory;
mod reference;
mod report;
mod spoilt;
mod views;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fathom_record::Document;

/// Two metrics that take well under a second.
const SHORT: [&str; 2] = ["cpu.frequency", "cpu.clock.resolution"];

/// A folder with a store of its own.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("fathom.db")
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The program with this store, whatever the environment says.
    fn fathom(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
        command.args(arguments).env("FATHOM_STORE", self.store());
        command.env("XDG_DATA_HOME", self.path()).env_remove("COLUMNS").env_remove("NO_COLOR");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.fathom(arguments).output().expect("the program starts")
    }

    /// A quick run of two short metrics.
    fn short_run(&self) -> Output {
        let output = self.run(&["run", "--quick", SHORT[0], SHORT[1]]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        output
    }

    fn latest(&self) -> Document {
        let output = self.run(&["show", "--json", "--samples"]);
        serde_json::from_slice(&output.stdout).expect("a document")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asserts exit status 2 and one line that contains all of `parts`.
fn is_refused(output: &Output, parts: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "one clear line: {said}");
    for part in parts {
        assert!(said.contains(part), "`{part}` is missing: {said}");
    }
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
}
