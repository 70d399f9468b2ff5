//! The environment of a trial: a store, a folder for temporary files, and the program.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use fathom_lab::processes;
use rustix::process::{Pid, Signal, kill_process};

/// The smallest run.
pub(crate) const RUN: [&str; 4] = ["run", "--quick", "--processes", "3"];
/// Metrics that take well under a second together.
pub(crate) const SHORT: [&str; 3] = ["cpu.frequency", "cpu.clock.resolution", "cpu.clock.read"];

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

    /// With the store at a path.
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

    /// The program with this store.
    pub(crate) fn fathom(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
        command.args(arguments).env("FATHOM_STORE", &self.store).stdin(Stdio::null());
        // So that it is the default store too: the program creates only the folders of that one.
        let data = self.store.ancestors().nth(2).expect("a folder");
        command.env("XDG_DATA_HOME", data);
        command.env("TMPDIR", self.file("temporary"));
        command.env("SQLITE_TMPDIR", self.file("temporary"));
        command.env_remove("COLUMNS").env_remove("RUST_BACKTRACE");
        command
    }

    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        self.fathom(arguments).output().expect("it starts")
    }

    /// Starts the program with a pipe for its standard output.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.fathom(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts")
    }

    /// Redirects both outputs of a command into one file; its path.
    pub(crate) fn redirect(&self, command: &mut Command) -> PathBuf {
        let path = self.file("output");
        let file = File::create(&path).expect("a file");
        command.stderr(file.try_clone().expect("a descriptor")).stdout(file);
        path
    }

    /// The processes of this environment that are left after a minute.
    pub(crate) fn running_processes(&self) -> Vec<u32> {
        processes::left_after(&format!("FATHOM_STORE={}", self.store.display()), 60)
    }

    /// Kills the processes that are left, and asserts that there were none.
    pub(crate) fn assert_no_process_left(&self) {
        let left = self.running_processes();
        left.iter().for_each(|pid| signal(*pid, Signal::KILL));
        assert!(left.is_empty(), "{left:?} are left");
    }

    /// Temporary files, and files beside the store: a closed store leaves none of either.
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

/// Makes this process the parent of orphans. It is in their session: if they were reparented to
/// init, the kernel would end stopped ones with SIGHUP, and a test would show nothing.
pub(crate) fn adopt_orphans() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("a subreaper");
}

/// Whether a process is a worker that has begun its program.
pub(crate) fn is_worker(pid: &u32) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.ends_with(b"\0worker\0")
}

/// Polls every millisecond for five minutes.
pub(crate) fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    (0..300_000).find_map(|_| {
        let result = look();
        if result.is_none() {
            // mood: the one wait for the state of other processes
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        result
    })
}

/// Stops a child, and waits until none of its threads runs.
pub(crate) fn stop(child: &Child) {
    signal(child.id(), Signal::STOP);
    let pid = Pid::from_child(child);
    rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED).expect("a child");
}

/// Sends a signal to a process, which may have ended.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let _ = Pid::from_raw(pid as i32).map(|pid| kill_process(pid, signal));
}
