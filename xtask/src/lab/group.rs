//! A cgroup of version 1 with limits, gone when dropped.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::program::Launch;

/// A group of one controller.
pub(super) struct Group(PathBuf);

/// Where a controller of version 1 is mounted.
pub(super) fn mounted(controller: &str) -> Result<PathBuf, String> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let point = mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let here = fields[2] == "cgroup" && fields[3].split(',').any(|one| one == controller);
        here.then(|| PathBuf::from(fields[1]))
    });
    point.ok_or_else(|| format!("no cgroup version 1 controller `{controller}` is mounted"))
}

impl Group {
    /// Makes it, with the launch inside.
    pub(super) fn around(
        launch: &mut Launch,
        controller: &str,
        limits: &[(&str, u64)],
    ) -> Result<Self> {
        let parent = mounted(controller).map_err(anyhow::Error::msg)?;
        let group = Self(parent.join(format!("fathom-lab-{}", std::process::id())));
        std::fs::create_dir(&group.0).with_context(|| format!("make {}", group.0.display()))?;
        for (file, value) in limits {
            group
                .set(file, *value)
                .with_context(|| format!("write {file} of {}", group.0.display()))?;
        }
        let enter = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;
        let folder = group.0.display().to_string();
        launch.before = ["sh", "-c", enter, &folder].map(str::to_owned).to_vec();
        Ok(group)
    }

    /// One figure of one of its files.
    pub(super) fn figure(&self, file: &str, name: &str) -> Option<f64> {
        let text = std::fs::read_to_string(self.0.join(file)).ok()?;
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    /// Writes one of its files.
    pub(super) fn set(&self, file: &str, value: u64) -> std::io::Result<()> {
        std::fs::write(self.0.join(file), value.to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group stays busy for a moment after its last process was reaped.
        for _ in 0..200 {
            match std::fs::remove_dir(&self.0) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                _ => break,
            }
        }
    }
}
