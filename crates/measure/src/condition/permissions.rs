//! Permissions of this process, checked without changing anything.

use fathom_record::Condition;
use rustix::fs::Access;
use rustix::io::Errno;

use crate::tree::{FileTree, TreeFact, after, keep};

const STATUS: &str = "/proc/self/status";

/// Relevant capabilities by number (`include/uapi/linux/capability.h`).
const CAPABILITIES: &[(u32, &str)] =
    &[(14, "ipc_lock"), (21, "sys_admin"), (23, "sys_nice"), (24, "sys_resource"), (38, "perfmon")];

/// Prefixes of core PMUs other than `cpu`. A hybrid CPU has one for each kind.
const CORE_COUNTERS: &[&str] = &["cpu_", "armv", "apple_", "cpum_cf"];

pub(super) fn read(tree: &FileTree, live: bool, condition: &mut Condition) {
    let status = tree.text(STATUS).unwrap_or_default();
    let user = after(&status, "Uid:").and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok());
    let root = user.map(|user: u32| TreeFact::new(user == 0, format!("{STATUS}: Uid")));
    keep!(condition.permissions.root, root);
    let held = after(&status, "CapEff:").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let held = held.map(|held| TreeFact::new(named(held), format!("{STATUS}: CapEff")));
    keep!(condition.permissions.capabilities, held);
    let sysctl = "/proc/sys/kernel";
    let paranoid = tree.number::<i32>(&format!("{sysctl}/perf_event_paranoid"));
    keep!(condition.permissions.perf_event_paranoid, paranoid);
    keep!(condition.permissions.pmu, pmu(tree));
    let disabled = tree.number::<u32>(&format!("{sysctl}/io_uring_disabled"));
    keep!(condition.permissions.io_uring_disabled, disabled);
    let io_uring = live.then(|| TreeFact::new(io_uring(), "io_uring_setup(2) without arguments"));
    keep!(condition.permissions.io_uring, io_uring);
    keep!(condition.permissions.drop_caches, drop_caches(tree));
}

fn named(held: u64) -> Vec<String> {
    let has = |(bit, _): &&(u32, &str)| held >> bit & 1 == 1;
    CAPABILITIES.iter().filter(has).map(|(_, name)| (*name).to_owned()).collect()
}

fn pmu(tree: &FileTree) -> Option<TreeFact<bool>> {
    let folder = "/sys/bus/event_source/devices";
    let sources = tree.names(folder);
    let of_a_core =
        |name: &String| name == "cpu" || CORE_COUNTERS.iter().any(|start| name.starts_with(start));
    (!sources.is_empty()).then(|| TreeFact::new(sources.iter().any(of_a_core), folder))
}

/// Whether vm.drop_caches is writable.
fn drop_caches(tree: &FileTree) -> Option<TreeFact<bool>> {
    let path = "/proc/sys/vm/drop_caches";
    let place = tree.place(path);
    rustix::fs::access(&place, Access::EXISTS).ok()?;
    let allowed = rustix::fs::access(&place, Access::WRITE_OK).is_ok();
    Some(TreeFact::new(allowed, format!("access(2) of {path}")))
}

/// Why `io_uring_setup` fails. `allowed` if it fails because of its invalid arguments only.
fn io_uring() -> String {
    // SAFETY: the kernel rejects 0 entries and null parameters, and accesses no memory of ours.
    let answer =
        unsafe { libc::syscall(libc::SYS_io_uring_setup, 0, std::ptr::null_mut::<libc::c_void>()) };
    match std::io::Error::last_os_error().raw_os_error().map(Errno::from_raw_os_error) {
        _ if answer >= 0 => "allowed".to_owned(),
        Some(Errno::FAULT | Errno::INVAL) => "allowed".to_owned(),
        Some(Errno::PERM | Errno::ACCESS) => "permission denied".to_owned(),
        Some(Errno::NOSYS) => "not in this kernel".to_owned(),
        Some(error) => error.to_string(),
        None => "refused without a reason".to_owned(),
    }
}
