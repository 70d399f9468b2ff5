//! A machine as a list of files.

use std::path::Path;

use fathom_measure::host::HostReader;
use fathom_record::Host;
use tempfile::TempDir;

/// Paths and contents of files.
#[derive(Clone, Default)]
pub(crate) struct HostMachine {
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

impl HostMachine {
    /// Adds a file per line, `path = content`, with escapes `\n` and `\t`.
    pub(crate) fn with(mut self, lines: &str) -> Self {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (path, content) = line.split_once(" = ").expect("path = content");
            let content = content.replace("\\n", "\n").replace("\\t", "\t") + "\n";
            self.files.push((path.trim().to_owned(), content.into_bytes()));
        }
        self
    }

    pub(crate) fn with_file(mut self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.to_owned(), content.into()));
        self
    }

    fn write(&self, root: &Path) {
        for (path, content) in &self.files {
            let place = root.join(path.trim_start_matches('/'));
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(place, content).unwrap();
        }
    }

    pub(crate) fn read(&self) -> Host {
        HostReader::at(self.folder().path()).read()
    }

    /// The id that it had in earlier versions, if that was another one.
    pub(crate) fn former_id(&self) -> Option<String> {
        HostReader::at(self.folder().path()).former_id()
    }

    /// As the user named it.
    pub(crate) fn read_as(&self, name: &str) -> Host {
        HostReader::at(self.folder().path()).named(name).read()
    }

    /// The files in a new folder.
    pub(crate) fn folder(&self) -> TempDir {
        let dir = empty_folder();
        self.write(dir.path());
        dir
    }
}

/// A new folder, in memory if possible: a machine has hundreds of files.
pub(crate) fn empty_folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// All synthetic machines.
pub(crate) fn all() -> Vec<(&'static str, HostMachine)> {
    vec![
        ("laptop", crate::laptop::machine()),
        ("server", crate::server::machine()),
        ("board", crate::board::machine()),
        ("container", crate::container::machine()),
    ]
}
