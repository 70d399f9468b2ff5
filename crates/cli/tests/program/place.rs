//! Where a test runs the program: a store and a folder of its own; and what it reads of an output.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fathom_fileio::Generator;
use fathom_record::{Document, Record};
use tempfile::TempDir;

use crate::SHORT;
use crate::group::{Group, skipped};

/// A folder with a store of its own.
pub(crate) struct Place(Folder);

impl Place {
    pub(crate) fn new() -> Self {
        Self(Folder(tempfile::tempdir().expect("a folder")))
    }

    /// One whose files lie on a device, from which alone a file can be cold.
    pub(crate) fn on_device() -> Option<Self> {
        let place = Self::new();
        let subject = fathom_fileio::inspect(place.path());
        if subject.is_ok_and(|at| at.is_on_device() == Some(true)) {
            return Some(place);
        }
        skipped("files for temporary use lie on no device here");
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

    /// The path of a file, as text.
    pub(crate) fn name(&self, name: &str) -> String {
        text_of(&self.file(name)).to_owned()
    }

    /// The program with this store, whatever the environment says.
    pub(crate) fn fathom(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
        command.args(arguments).env("FATHOM_STORE", self.store());
        command.env("XDG_DATA_HOME", self.path()).env_remove("COLUMNS").env_remove("NO_COLOR");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.fathom(arguments).output().expect("the program starts")
    }

    /// The program with the words of a line, which spaces separate.
    pub(crate) fn asked(&self, line: &str) -> Command {
        self.fathom(&words(line))
    }

    pub(crate) fn ask(&self, line: &str) -> Output {
        self.run(&words(line))
    }

    /// What the program prints when it ends well.
    pub(crate) fn said(&self, line: &str) -> String {
        let output = self.ask(line);
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    /// The program in a control group.
    pub(crate) fn ask_within(&self, group: &Group, line: &str) -> Output {
        let mut inside = group.enter(Path::new(env!("CARGO_BIN_EXE_fathom")), &words(line));
        inside.env("FATHOM_STORE", self.store()).output().expect("it starts")
    }

    /// Asserts wrong usage for every line of a table: the arguments after `command`, and what the
    /// answer contains, between bars.
    pub(crate) fn refuses(&self, command: &str, table: &str) {
        self.complains(command, table, is_refused);
    }

    /// The same for a failure.
    pub(crate) fn fails(&self, command: &str, table: &str) {
        self.complains(command, table, fails);
    }

    fn complains(&self, command: &str, table: &str, check: fn(&Output, &[&str])) {
        for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (arguments, parts) = line.split_once('|').expect("arguments and an answer");
            let parts: Vec<&str> = parts.split('|').map(str::trim).collect();
            check(&self.ask(&format!("{command} {arguments}")), &parts);
        }
    }

    /// A quick run of two short metrics.
    pub(crate) fn short_run(&self) -> Output {
        let output = self.run(&["run", "--quick", SHORT[0], SHORT[1]]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        output
    }

    pub(crate) fn latest(&self) -> Document {
        json(&self.run(&["show", "--json", "--samples"]))
    }

    /// The document as a file, its records sealed again; the path.
    pub(crate) fn keep(&self, name: &str, document: &Document) -> String {
        let mut document = document.clone();
        document.records = document.records.into_iter().map(Record::sealed).collect();
        std::fs::write(self.file(name), serde_json::to_vec(&document).expect("JSON"))
            .expect("a file");
        self.name(name)
    }
}

/// A folder for files that the program reads and writes.
pub(crate) struct Folder(TempDir);

impl Folder {
    /// Where files usually lie on a disk.
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir_in("/var/tmp").expect("a folder"))
    }

    /// One that lies on a disk, as temporary files want it.
    pub(crate) fn on_disk() -> Option<Self> {
        let folder = Self::new();
        let subject = fathom_fileio::inspect(folder.path()).expect("a folder");
        if subject.is_on_device() == Some(false) {
            skipped(&format!("/var/tmp is {}", subject.file_system.name));
            return None;
        }
        Some(folder)
    }

    /// One in memory.
    pub(crate) fn in_memory() -> Option<Self> {
        let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
            skipped("there is no /dev/shm to write to");
            return None;
        };
        if fathom_fileio::inspect(folder.path()).is_ok_and(|at| at.file_system.name != "tmpfs") {
            skipped("/dev/shm is no tmpfs here");
            return None;
        }
        Some(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn name(&self) -> &str {
        text_of(self.path())
    }

    /// A file of so many bytes, none of them alike; its path.
    pub(crate) fn file(&self, name: &str, bytes: usize) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, generated(5, bytes)).expect("a file");
        text_of(&path).to_owned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        left(self.path()).is_empty()
    }
}

/// Bytes that nothing else has.
pub(crate) fn generated(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Generator::new(seed).fill(0, &mut bytes);
    bytes
}

/// The words of a line, which spaces separate.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// What lies in a folder.
pub(crate) fn left(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// A path as text.
pub(crate) fn text_of(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What was printed, without its breaks of lines.
pub(crate) fn unwrapped(output: &Output) -> String {
    words(&text(&output.stdout)).join(" ")
}

/// What was printed as JSON, whatever the exit status.
pub(crate) fn json<T: serde::de::DeserializeOwned>(output: &Output) -> T {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {} {}", text(&output.stdout), text(&output.stderr))
    })
}

/// The document of a command that ends well.
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

/// Asserts that what was printed fits a schema, which does not let `broken` pass.
pub(crate) fn fits_schema(output: &Output, schema: &str, broken: &serde_json::Value) {
    let schema = serde_json::from_str(schema).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> =
        validator.iter_errors(&json(output)).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert!(!validator.is_valid(broken), "a schema that everything fits is none");
}

/// Asserts that all of `parts` were said.
pub(crate) fn says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "`{part}` is missing: {said}");
    }
}

/// Asserts an exit status.
pub(crate) fn ends_with(output: &Output, status: i32) {
    let [said, complaint] = [&output.stdout, &output.stderr].map(|bytes| text(bytes));
    assert_eq!(output.status.code(), Some(status), "{said}{complaint}");
}

/// Asserts wrong usage: exit status 2 and one line that contains all of `parts`.
pub(crate) fn is_refused(output: &Output, parts: &[&str]) {
    complains(output, 2, parts);
}

/// Asserts a failure: exit status 1 and one line that contains all of `parts`.
pub(crate) fn fails(output: &Output, parts: &[&str]) {
    complains(output, 1, parts);
}

/// Asserts an exit status, one line that contains all of `parts`, and nothing else.
pub(crate) fn complains(output: &Output, status: i32, parts: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "one clear line: {said}");
    says(&said, parts);
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
}
