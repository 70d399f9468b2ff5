//! The environment of a test, with a store and a folder of its own, and assertions on outputs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fathom_fileio::FileGenerator;
use fathom_record::{Document, Record};
use tempfile::TempDir;

use crate::SHORT;
use crate::group::{LabGroup, skipped};

/// A temporary folder with a store.
pub(crate) struct ProgramTestEnv(TestEnvFolder);

impl ProgramTestEnv {
    pub(crate) fn new() -> Self {
        Self(TestEnvFolder(tempfile::tempdir().expect("a folder")))
    }

    /// On a disk: only there can a file be cold.
    pub(crate) fn on_device() -> Option<Self> {
        let env = Self::new();
        let subject = fathom_fileio::inspect(env.path());
        if subject.is_ok_and(|at| at.is_on_device() == Some(true)) {
            return Some(env);
        }
        skipped("the folder for temporary files is not on a disk");
        None
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.file("fathom.db")
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn path_text(&self, name: &str) -> String {
        path_text(&self.file(name)).to_owned()
    }

    /// The program with this store, in this folder.
    pub(crate) fn fathom(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
        command.args(arguments).current_dir(self.path()).env("FATHOM_STORE", self.store());
        command.env("XDG_DATA_HOME", self.path()).env_remove("COLUMNS").env_remove("NO_COLOR");
        command
    }

    /// With a stored run.
    pub(crate) fn with_run() -> Self {
        let env = Self::new();
        env.store_run(&stored_run(1));
        env
    }

    pub(crate) fn store_run(&self, document: &Document) {
        let mut store = fathom_store::Store::open(&self.store()).expect("a store");
        assert!(store.import(&sealed(document)).expect("stored"), "the store has this id");
    }

    /// Runs the program.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.fathom(arguments).output().expect("the program starts")
    }

    /// The program with arguments separated by spaces.
    pub(crate) fn command(&self, line: &str) -> Command {
        self.fathom(&words(line))
    }

    /// Runs the program with arguments separated by spaces.
    pub(crate) fn exec(&self, line: &str) -> Output {
        self.run(&words(line))
    }

    /// The output of a run that succeeds.
    pub(crate) fn succeed(&self, line: &str) -> Output {
        let output = self.exec(line);
        assert_status(&output, 0);
        output
    }

    /// Standard output of a successful run.
    pub(crate) fn stdout(&self, line: &str) -> String {
        text(&self.succeed(line).stdout)
    }

    /// Runs the program in a control group.
    pub(crate) fn exec_in(&self, group: &LabGroup, line: &str) -> Output {
        let mut inside = group.enter(Path::new(env!("CARGO_BIN_EXE_fathom")), &words(line));
        inside.env("FATHOM_STORE", self.store()).output().expect("it starts")
    }

    /// Asserts a failure for every line of a table: arguments after `command`, then parts of the
    /// message, separated by bars.
    pub(crate) fn assert_failures(&self, command: &str, table: &str) {
        for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (arguments, parts) = line.split_once('|').expect("arguments and a message");
            let parts: Vec<&str> = parts.split('|').map(str::trim).collect();
            assert_failure(&self.exec(&format!("{command} {arguments}")), &parts);
        }
    }

    pub(crate) fn latest(&self) -> Document {
        self.document_of("latest")
    }

    pub(crate) fn document_of(&self, run: &str) -> Document {
        json(&self.run(&["show", run, "--json", "--samples"]))
    }

    /// Writes the document with valid checksums; returns the path.
    pub(crate) fn write_document(&self, name: &str, document: &Document) -> String {
        let bytes = serde_json::to_vec(&sealed(document)).expect("JSON");
        std::fs::write(self.file(name), bytes).expect("a file");
        self.path_text(name)
    }
}

/// The canned run: results of every state, some with a prediction, as a real run measured them.
pub(crate) const CANNED: &str = include_str!("../data/document.json");

pub(crate) fn canned() -> Document {
    serde_json::from_str(CANNED).expect("a document")
}

/// The two metrics of [`SHORT`] in the canned run, as if this host had measured them in its run
/// with this number.
pub(crate) fn stored_run(number: usize) -> Document {
    let mut document = canned();
    document.host = fathom_measure::host::read();
    document.run.id = format!("{number:012x}abcd");
    document.run.started = format!("2026-11-{number:02}T08:00:00.000Z");
    document.run.asked = SHORT.map(str::to_owned).to_vec();
    document.run.planned = 2;
    document.records.truncate(2);
    document
}

/// With valid checksums.
fn sealed(document: &Document) -> Document {
    let mut document = document.clone();
    document.records = document.records.into_iter().map(Record::sealed).collect();
    document
}

/// A temporary folder for test files.
pub(crate) struct TestEnvFolder(TempDir);

impl TestEnvFolder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir_in("/var/tmp").expect("a folder"))
    }

    pub(crate) fn on_disk() -> Option<Self> {
        let folder = Self::new();
        let subject = fathom_fileio::inspect(folder.path()).expect("a folder");
        if subject.is_on_device() == Some(false) {
            skipped(&format!("/var/tmp is {}", subject.file_system.name));
            return None;
        }
        Some(folder)
    }

    pub(crate) fn in_memory() -> Option<Self> {
        let folder = tempfile::tempdir_in("/dev/shm").ok().filter(|folder| {
            fathom_fileio::inspect(folder.path()).is_ok_and(|at| at.file_system.name == "tmpfs")
        });
        if folder.is_none() {
            skipped("/dev/shm is not a writable tmpfs");
        }
        folder.map(Self)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path_text(&self) -> &str {
        path_text(self.path())
    }

    /// Writes a file of generated bytes; returns its path.
    pub(crate) fn file(&self, name: &str, bytes: usize) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, generated(5, bytes)).expect("a file");
        path_text(&path).to_owned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        entries(self.path()).is_empty()
    }
}

/// Pseudo-random bytes.
pub(crate) fn generated(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    FileGenerator::new(seed).fill(0, &mut bytes);
    bytes
}

pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// The paths in a folder.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

pub(crate) fn path_text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output without line breaks.
pub(crate) fn unwrapped_stdout(output: &Output) -> String {
    words(&text(&output.stdout)).join(" ")
}

/// Standard output as JSON, whatever the exit status.
pub(crate) fn json<T: serde::de::DeserializeOwned>(output: &Output) -> T {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {} {}", text(&output.stdout), text(&output.stderr))
    })
}

/// The document of a successful command.
pub(crate) fn document(output: &Output) -> Document {
    assert!(output.status.success(), "{}", text(&output.stderr));
    json(output)
}

pub(crate) fn of_metric<'d>(document: &'d Document, metric: &str) -> Vec<&'d Record> {
    document.records.iter().filter(|record| record.metric.as_str() == metric).collect()
}

pub(crate) fn median(record: &Record) -> f64 {
    record.summary.as_ref().expect("a summary").median
}

/// Asserts that standard output conforms to a schema, which rejects `invalid`.
pub(crate) fn assert_schema(output: &Output, schema: &str, invalid: &serde_json::Value) {
    let schema = serde_json::from_str(schema).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> =
        validator.iter_errors(&json(output)).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert!(!validator.is_valid(invalid), "the schema accepts everything");
}

pub(crate) fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing: {text}");
    }
}

pub(crate) fn assert_status(output: &Output, status: i32) {
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| text(bytes));
    assert_eq!(output.status.code(), Some(status), "{stdout}{stderr}");
}

/// Asserts an exit status, and parts of what is said beside the output.
pub(crate) fn assert_message(output: &Output, status: i32, parts: &[&str]) {
    assert_status(output, status);
    assert_contains(&text(&output.stderr), parts);
}

/// Asserts exit status 2 and a one-line message with all of `parts`.
pub(crate) fn assert_usage_error(output: &Output, parts: &[&str]) {
    assert_error(output, 2, parts);
}

/// Asserts exit status 1 and a one-line message with all of `parts`.
pub(crate) fn assert_failure(output: &Output, parts: &[&str]) {
    assert_error(output, 1, parts);
}

/// Asserts an exit status, a one-line message with all of `parts`, and no other output.
pub(crate) fn assert_error(output: &Output, status: i32, parts: &[&str]) {
    assert_status(output, status);
    let message = text(&output.stderr);
    assert_eq!(message.trim_end().lines().count(), 1, "not one line: {message}");
    assert_contains(&message, parts);
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
}
