//! The cgroup of this process, or of another one: the files of each controller, and the lowest
//! limits from its group up to the root.
//!
//! Versions 1 and 2, and both at once: each controller is searched in version 1 first, then in the
//! unified hierarchy. If a container hides the parent groups, their limits are unknown, except for
//! memory in version 1, whose statistics include them.

use fathom_record::Host;

use crate::cpulist;
use crate::tree::{FileTree, TreeFact, after, keep};

const MEMBERSHIP: &str = "/proc/self/cgroup";
const SELF: &str = "self";
const MOUNTS: &str = "/proc/self/mountinfo";

/// Larger limits are no limit: version 1 writes the largest multiple of a page below 2⁶³.
const MEMORY_NONE_BYTES: u64 = 1 << 62;

const LEVELS_MAX: usize = 256;

/// The folders of a controller for this process.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    /// 1 or 2.
    pub version: u32,
    /// From the process's own group up to the highest visible one.
    pub levels: Vec<String>,
}

impl Controller {
    /// The group of a folder in [`Controller::levels`], such as `/web`.
    pub fn group<'a>(&self, level: &'a str) -> &'a str {
        let top = self.levels.last().map_or("", String::as_str);
        match level.strip_prefix(top) {
            Some("") | None => "/",
            Some(group) => group,
        }
    }
}

pub(super) fn read(tree: &FileTree, host: &mut Host) {
    let Some(members) = tree.text(MEMBERSHIP) else {
        return;
    };
    if let Some((version, path)) = membership(&members, "cpu") {
        keep!(host.cgroup.version, Some(TreeFact::new(version, MEMBERSHIP)));
        keep!(host.cgroup.path, Some(TreeFact::new(path, MEMBERSHIP)));
    }
    keep!(host.cgroup.cpu_quota, cpu_quota(tree, SELF));
    let memory = controller(tree, "memory");
    let seen = memory.as_ref().map(|memory| TreeFact::new(sees_root(tree, memory), MOUNTS));
    keep!(host.cgroup.sees_root, seen);
    keep!(host.cgroup.memory_limit_bytes, memory.and_then(|memory| memory_limit(tree, &memory)));
    let cpuset = controller(tree, "cpuset");
    keep!(host.cgroup.cpus, cpuset.and_then(|cpuset| allowed_cpus(tree, &cpuset)));
    let pids = controller(tree, "pids");
    keep!(host.cgroup.pids_max, pids.and_then(|pids| lowest(tree, &pids, "pids.max")));
}

/// Of a process, by its number, or of `self`.
pub(super) fn cpu_quota(tree: &FileTree, process: &str) -> Option<TreeFact<f64>> {
    let cpu = controller_of(tree, process, "cpu")?;
    tightest(&cpu, |level| quota(tree, cpu.version, level))
}

/// The lowest limit of all levels.
fn tightest<T: PartialOrd>(
    controller: &Controller,
    limit: impl Fn(&str) -> Option<TreeFact<T>>,
) -> Option<TreeFact<T>> {
    let limits = controller.levels.iter().filter_map(|level| limit(level));
    limits.reduce(|a, b| if b.value < a.value { b } else { a })
}

/// The lowest limit in a file of each level. `max` and negative numbers are no limit.
fn lowest(tree: &FileTree, controller: &Controller, file: &str) -> Option<TreeFact<u64>> {
    tightest(controller, |level| tree.number(&format!("{level}/{file}")))
}

/// The quota of a level in CPUs. `None` without a limit.
pub(crate) fn quota(tree: &FileTree, version: u32, level: &str) -> Option<TreeFact<f64>> {
    let (quota, period) = if version == 1 {
        let quota = tree.fact(&format!("{level}/cpu.cfs_quota_us"))?;
        (quota, tree.line(&format!("{level}/cpu.cfs_period_us"))?)
    } else {
        let both = tree.fact(&format!("{level}/cpu.max"))?;
        let (quota, period) = both.value.split_once(' ')?;
        (TreeFact::new(quota.to_owned(), both.origin.clone()), period.to_owned())
    };
    let period: u64 = period.trim().parse().ok().filter(|&us| us > 0)?;
    // Without a limit, version 1 writes -1 and version 2 `max`.
    quota.and_then(|quota| {
        Some(quota.parse::<u64>().ok().filter(|&us| us > 0)? as f64 / period as f64)
    })
}

fn memory_limit(tree: &FileTree, memory: &Controller) -> Option<TreeFact<u64>> {
    let limit = if memory.version == 2 {
        lowest(tree, memory, "memory.max")
    } else {
        let path = format!("{}/memory.stat", memory.levels.first()?);
        let whole_way = tree.text(&path).and_then(|text| {
            let limit = after(&text, "hierarchical_memory_limit ")?.parse().ok()?;
            Some(TreeFact::new(limit, format!("{path}: hierarchical_memory_limit")))
        });
        whole_way.or_else(|| lowest(tree, memory, "memory.limit_in_bytes"))
    };
    limit.filter(|fact| fact.value < MEMORY_NONE_BYTES)
}

/// The effective cpuset, of the nearest level that has one: it is a subset of its parents'.
fn allowed_cpus(tree: &FileTree, cpuset: &Controller) -> Option<TreeFact<Vec<u32>>> {
    let names = if cpuset.version == 1 {
        ["cpuset.effective_cpus", "cpuset.cpus"]
    } else {
        ["cpuset.cpus.effective", "cpuset.cpus"]
    };
    let files = cpuset.levels.iter().flat_map(|level| names.map(|name| format!("{level}/{name}")));
    files.filter_map(|path| cpulist::read(tree, &path)).next()
}

/// Whether the highest visible level is the root of the hierarchy: `release_agent` exists only in
/// the root, `cgroup.type` everywhere else.
pub(crate) fn sees_root(tree: &FileTree, controller: &Controller) -> bool {
    let Some(top) = controller.levels.last() else {
        return false;
    };
    if controller.version == 1 {
        tree.exists(&format!("{top}/release_agent"))
    } else {
        tree.exists(&format!("{top}/cgroup.controllers"))
            && !tree.exists(&format!("{top}/cgroup.type"))
    }
}

/// Finds the files of a controller. `None` if the hierarchy, or the part of it with this process,
/// is not mounted.
pub(crate) fn controller(tree: &FileTree, name: &str) -> Option<Controller> {
    controller_of(tree, SELF, name)
}

/// Of a process, by its number, or of `self`. The kernel writes the group of another process as
/// seen from the cgroup namespace of this one, whose mounts apply, too.
pub(crate) fn controller_of(tree: &FileTree, process: &str, name: &str) -> Option<Controller> {
    let (version, path) = membership(&tree.text(&format!("/proc/{process}/cgroup"))?, name)?;
    let mounts = tree.text(MOUNTS)?;
    let is_of_controller = |mount: &CgroupMount| match version {
        1 => mount.kind == "cgroup" && mount.options.split(',').any(|option| option == name),
        _ => mount.kind == "cgroup2",
    };
    let mut mounts = mounts.lines().filter_map(CgroupMount::parse).filter(is_of_controller);
    let levels = mounts.find_map(|mount| {
        let levels = levels(&mount, &path)?;
        tree.exists(levels.first()?).then_some(levels)
    });
    Some(Controller { version, levels: levels? })
}

/// The version of a controller's hierarchy, and the path of this process in it.
fn membership(text: &str, name: &str) -> Option<(u32, String)> {
    // `4:cpu,cpuacct:/path` is version 1, `0::/path` is the unified hierarchy.
    let mut unified = None;
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (id, controllers, path) = (fields.next()?, fields.next(), fields.next());
        let (Some(controllers), Some(path)) = (controllers, path) else {
            continue;
        };
        if controllers.split(',').any(|controller| controller == name) {
            return Some((1, path.to_owned()));
        }
        if id == "0" && controllers.is_empty() {
            unified = Some((2, path.to_owned()));
        }
    }
    unified
}

/// The folders of a path up to the mount point. `None` for a path outside of the mounted part of
/// the hierarchy.
fn levels(mount: &CgroupMount, path: &str) -> Option<Vec<String>> {
    let inside = if mount.root == "/" {
        path
    } else {
        path.strip_prefix(&mount.root).filter(|rest| rest.is_empty() || rest.starts_with('/'))?
    };
    let folders: Vec<&str> = inside.split('/').filter(|folder| !folder.is_empty()).collect();
    if folders.len() > LEVELS_MAX || folders.contains(&"..") {
        return None;
    }
    let point = mount.point.trim_end_matches('/');
    let level = |depth: usize| {
        folders[..depth].iter().fold(point.to_owned(), |path, folder| format!("{path}/{folder}"))
    };
    Some((0..=folders.len()).rev().map(level).collect())
}

/// A line of `/proc/self/mountinfo`, proc(5).
struct CgroupMount {
    root: String,
    point: String,
    kind: String,
    options: String,
}

impl CgroupMount {
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let mut after = after.split(' ');
        let root = unescape(before.next()?);
        let point = unescape(before.next()?);
        let kind = after.next()?.to_owned();
        let options = after.nth(1)?.to_owned();
        Some(Self { root, point, kind, options })
    }
}

/// The kernel writes space, tab, newline and backslash as octal escapes.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(root: &str, point: &str) -> CgroupMount {
        let line = format!("30 23 0:26 {root} {point} rw,nosuid shared:9 - cgroup cgroup rw,cpu");
        CgroupMount::parse(&line).unwrap()
    }

    #[test]
    fn levels_end_at_the_mount_point() {
        let all = mount("/", "/sys/fs/cgroup/cpu");
        let way = ["/sys/fs/cgroup/cpu/a/b", "/sys/fs/cgroup/cpu/a", "/sys/fs/cgroup/cpu"];
        assert_eq!(levels(&all, "/a/b").unwrap(), way);
        assert_eq!(levels(&all, "/").unwrap(), ["/sys/fs/cgroup/cpu"]);
    }

    #[test]
    fn partial_cgroup_mount_is_not_left() {
        let part = mount("/docker/abc", "/my\\040cgroup");
        assert_eq!(levels(&part, "/docker/abc/x").unwrap(), ["/my cgroup/x", "/my cgroup"]);
        assert_eq!(levels(&part, "/docker/abcd"), None);
        assert_eq!(levels(&part, "/"), None);
        assert_eq!(levels(&mount("/", "/c"), "/../other"), None);
    }

    #[test]
    fn version_1_controller_wins_over_unified() {
        let text = "4:cpu,cpuacct:/a:b\n3:cpuset:/\n0::/user\n";
        assert_eq!(membership(text, "cpu"), Some((1, "/a:b".to_owned())));
        assert_eq!(membership(text, "memory"), Some((2, "/user".to_owned())));
        assert_eq!(membership("4:cpuset:/\n", "cpu"), None);
    }
}
