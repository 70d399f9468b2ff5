//! A cgroup of version 1 with limits, removed when dropped.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Unmet;

/// A shell script that enters the cgroup and execs the program.
const ENTER: &str = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;
/// rmdir fails with EBUSY for a moment after the last process was reaped.
const REMOVE_ATTEMPTS: u32 = 200;
const REMOVE_PAUSE: Duration = Duration::from_millis(10);

/// A cgroup of one controller.
pub struct LabGroup(PathBuf);

/// The path of this process's cgroup `name` of a controller.
///
/// # Errors
/// If the process is not root or the version 1 controller is not mounted.
pub fn path(controller: &str, name: &str) -> Result<PathBuf, Unmet> {
    if !rustix::process::geteuid().is_root() {
        return Err(Unmet("creating a cgroup needs root".to_owned()));
    }
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let root = mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let here = fields[2] == "cgroup" && fields[3].split(',').any(|one| one == controller);
        here.then(|| PathBuf::from(fields[1]))
    });
    let missing = || Unmet(format!("no cgroup version 1 controller `{controller}` is mounted"));
    Ok(root.ok_or_else(missing)?.join(format!("fathom-lab-{name}-{}", std::process::id())))
}

impl LabGroup {
    /// Creates the cgroup at [`path`] with limits: file name and value.
    ///
    /// # Errors
    /// As [`path`], or if the kernel rejects a limit.
    pub fn new(controller: &str, name: &str, limits: &[(&str, u64)]) -> Result<Self, Unmet> {
        let group = Self(path(controller, name)?);
        std::fs::create_dir(&group.0)
            .and_then(|()| limits.iter().try_for_each(|(file, value)| group.set(file, *value)))
            .map_err(|error| Unmet(format!("create {}: {error}", group.0.display())))?;
        Ok(group)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.0.clone() } else { self.0.join(name) }
    }

    /// Writes a number to a file of the cgroup.
    ///
    /// # Errors
    /// If the kernel rejects it.
    pub fn set(&self, file: &str, value: u64) -> io::Result<()> {
        std::fs::write(self.file(file), value.to_string())
    }

    /// The number after `name` in a file of the cgroup.
    pub fn figure(&self, file: &str, name: &str) -> Option<f64> {
        let text = std::fs::read_to_string(self.file(file)).ok()?;
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    /// The command line prefix that runs a program in the cgroup.
    pub fn words(&self) -> Vec<String> {
        let folder = self.0.display().to_string();
        ["sh", "-c", ENTER, &folder].map(str::to_owned).to_vec()
    }

    pub fn enter(&self, program: &Path, arguments: &[&str]) -> Command {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program).args(arguments);
        command
    }
}

impl Drop for LabGroup {
    fn drop(&mut self) {
        for _ in 0..REMOVE_ATTEMPTS {
            match std::fs::remove_dir(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(REMOVE_PAUSE);
                }
                _ => break,
            }
        }
    }
}
