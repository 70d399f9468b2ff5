//! A cgroup of version 1 with limits, for the time of a test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Tells that a test cannot run here, and why.
#[expect(clippy::print_stderr, reason = "a test that is skipped must say so")]
pub(crate) fn skipped(reason: &str) {
    eprintln!("skipped: {reason}");
}

/// A group of one controller, gone when dropped.
pub(crate) struct Group(PathBuf);

impl Group {
    /// Needs root, and the controller at its root.
    pub(crate) fn new(
        controller: &str,
        name: &str,
        limits: &[(&str, u64)],
    ) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("making a cgroup needs root".to_owned());
        }
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let point = mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let right =
                fields[2] == "cgroup" && fields[3].split(',').any(|option| option == controller);
            right.then(|| PathBuf::from(fields[1]))
        });
        let missing = format!("no cgroup version 1 controller `{controller}` is mounted");
        let parent = point.ok_or(missing)?;
        let group = Self(parent.join(format!("fathom-test-{name}-{}", std::process::id())));
        let set =
            |(file, value): &(&str, u64)| std::fs::write(group.0.join(file), value.to_string());
        let made = std::fs::create_dir(&group.0).and_then(|()| limits.iter().try_for_each(set));
        made.map_err(|error| format!("make {}: {error}", group.0.display()))?;
        Ok(group)
    }

    /// One of its files.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.0.clone() } else { self.0.join(name) }
    }

    /// A program that starts in the group.
    pub(crate) fn enter(&self, program: &Path, arguments: &[&str]) -> Command {
        let enter = r#"echo $$ > "$1/cgroup.procs" && shift && exec "$@""#;
        let mut command = Command::new("sh");
        command.args(["-c", enter, "sh"]).arg(&self.0).arg(program).args(arguments);
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group stays busy for a moment after its last process was reaped.
        for _ in 0..100 {
            match std::fs::remove_dir(&self.0) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                _ => break,
            }
        }
    }
}
