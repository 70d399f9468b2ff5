//! A env for one trial: a store, a folder for temporary files, and the program in between.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fathom_lab::processes;

/// Metrics that take well under a second together.
pub(crate) const SHORT: [&str; 3] = ["cpu.frequency", "cpu.clock.resolution", "cpu.clock.read"];

/// A folder with a env for a store.
pub(crate) struct TestEnv {
    folder: tempfile::TempDir,
    store: PathBuf,
}

impl TestEnv {
    /// Without a store yet.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = folder.path().join("share/fathom/fathom.db");
        Self::with(folder, store)
    }

    /// With its store elsewhere.
    pub(crate) fn with_store(store: &Path) -> Self {
        Self::with(tempfile::tempdir().expect("a folder"), store.to_owned())
    }

    fn with(folder: tempfile::TempDir, store: PathBuf) -> Self {
        std::fs::create_dir(folder.path().join("temporary")).expect("a folder");
        Self { folder, store }
    }

    pub(crate) fn store(&self) -> &Path {
        &self.store
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with this store, whatever the environment says.
    pub(crate) fn fathom(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
        command.args(arguments).env("FATHOM_STORE", &self.store).stdin(Stdio::null());
        // It is the default env too, whose folders alone are made.
        let data = self.store.ancestors().nth(2).expect("a folder");
        command.env("XDG_DATA_HOME", data);
        command.env("TMPDIR", self.file("temporary"));
        command.env("SQLITE_TMPDIR", self.file("temporary"));
        command.env_remove("COLUMNS").env_remove("RUST_BACKTRACE");
        command
    }

    /// A file that takes what a command says, on both of its outputs, in order.
    pub(crate) fn said_to(&self, command: &mut Command) -> PathBuf {
        let path = self.file("said");
        let file = File::create(&path).expect("a file");
        command.stderr(file.try_clone().expect("a descriptor")).stdout(file);
        path
    }

    /// What still runs of what was started here, after ten seconds to end.
    pub(crate) fn running_processes(&self) -> Vec<u32> {
        processes::left_after(&format!("FATHOM_STORE={}", self.store.display()), 10)
    }

    /// What lies about that should not, once the store was opened and closed in peace.
    pub(crate) fn stray_files(&self) -> Vec<PathBuf> {
        let list = |folder: &Path| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let beside = self.store.parent().map(list).unwrap_or_default();
        let beside = beside.into_iter().filter(|path| *path != self.store);
        beside.chain(list(&self.file("temporary"))).collect()
    }
}
