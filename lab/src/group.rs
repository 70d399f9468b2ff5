//! A cgroup of version 1 with limits, removed when dropped.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Unmet;

/// A shell enters the group and becomes the program.
const ENTER: &str = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;
/// A group stays busy for a moment after its last process was reaped.
const REMOVE_ATTEMPTS: u32 = 200;
const REMOVE_PAUSE: Duration = Duration::from_millis(10);

/// A group of one controller.
pub struct Group(PathBuf);

/// Where this process would make the group `name` of a controller.
///
/// # Errors
/// Why it cannot: it is not root, or no such controller of version 1 is mounted.
pub fn path(controller: &str, name: &str) -> Result<PathBuf, Unmet> {
    if !rustix::process::geteuid().is_root() {
        return Err(Unmet("making a cgroup needs root".to_owned()));
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

impl Group {
    /// Makes the group at [`path`], with limits by the names of their files.
    ///
    /// # Errors
    /// As [`path`], or where a limit is refused.
    pub fn new(controller: &str, name: &str, limits: &[(&str, u64)]) -> Result<Self, Unmet> {
        let group = Self(path(controller, name)?);
        let made = std::fs::create_dir(&group.0)
            .and_then(|()| limits.iter().try_for_each(|(file, value)| group.set(file, *value)));
        made.map_err(|error| Unmet(format!("make {}: {error}", group.0.display())))?;
        Ok(group)
    }

    /// One of its files.
    pub fn file(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.0.clone() } else { self.0.join(name) }
    }

    /// Writes a number to one of its files.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub fn set(&self, file: &str, value: u64) -> io::Result<()> {
        std::fs::write(self.file(file), value.to_string())
    }

    /// The number that follows `name` in one of its files.
    pub fn figure(&self, file: &str, name: &str) -> Option<f64> {
        let text = std::fs::read_to_string(self.file(file)).ok()?;
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    /// The words before a command line that run it in the group.
    pub fn words(&self) -> Vec<String> {
        let folder = self.0.display().to_string();
        ["sh", "-c", ENTER, &folder].map(str::to_owned).to_vec()
    }

    /// A program that starts in the group.
    pub fn enter(&self, program: &Path, arguments: &[&str]) -> Command {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program).args(arguments);
        command
    }
}

impl Drop for Group {
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
