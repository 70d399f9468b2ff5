//! A process in a child of a cgroup with a CPU quota finds the quota and its own throttling. Needs
//! root and the CPU controller of cgroup version 1.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fathom_measure::disturbance::VisitCounters;
use fathom_measure::host;
use fathom_record::Disturbance;

/// The file for the results of the process under the quota.
const REPORT: &str = "FATHOM_TEST_QUOTA_REPORT";

/// A group of the CPU controller, removed with its child on drop.
struct Group {
    outer: PathBuf,
    inner: PathBuf,
}

impl Group {
    /// A group with half a CPU, and a child without a limit. It has the maximum weight, so that it
    /// exhausts its quota on a busy machine, too.
    fn new() -> Result<Self, String> {
        let parent = cpu_controller().ok_or("no cgroup version 1 CPU controller is mounted")?;
        let outer = parent.join(format!("fathom-test-{}", std::process::id()));
        let group = Self { inner: outer.join("inner"), outer };
        let set = |name: &str, value: &str| std::fs::write(group.outer.join(name), value);
        let made = std::fs::create_dir_all(&group.inner)
            .and_then(|()| set("cpu.cfs_period_us", "20000"))
            .and_then(|()| set("cpu.cfs_quota_us", "10000"))
            .and_then(|()| set("cpu.shares", "262144"));
        made.map_err(|error| format!("make {}: {error}", group.outer.display()))?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in [&self.inner, &self.outer] {
            // A group stays busy for a moment after its last process was reaped.
            for _ in 0..100 {
                match std::fs::remove_dir(folder) {
                    Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    _ => break,
                }
            }
        }
    }
}

/// The folder of this process's own group.
fn cpu_controller() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
    let point = mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let right = fields[2] == "cgroup" && fields[3].split(',').any(|option| option == "cpu");
        right.then(|| PathBuf::from(fields[1]))
    })?;
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        let path = fields.next()?;
        controllers.split(',').any(|name| name == "cpu").then(|| path.to_owned())
    })?;
    Some(point.join(path.trim_start_matches('/'))).filter(|folder| folder.is_dir())
}

/// Runs the test below within a group, and returns its results.
fn run_within(group: &Path, report: &Path) -> (Option<f64>, Disturbance) {
    let enter = r#"echo $$ > "$1/cgroup.procs" && shift && exec "$@""#;
    let output = Command::new("sh")
        .args(["-c", enter, "sh"])
        .arg(group)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "spins_until_it_is_throttled", "--ignored"])
        .env(REPORT, report)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap()
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that is skipped must say so")]
fn quota_of_a_parent_group_is_found() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: making a cgroup needs root");
        return;
    }
    let group = match Group::new() {
        Ok(group) => group,
        Err(reason) => {
            eprintln!("skipped: {reason}");
            return;
        }
    };
    let dir = tempfile::tempdir().unwrap();
    let (quota, delta) = run_within(&group.inner, &dir.path().join("report.json"));
    assert_eq!(quota, Some(0.5));
    assert!(delta.throttled_ns > Some(0) && delta.throttled_periods > Some(0), "{delta:?}");
    assert!(delta.quota_periods >= delta.throttled_periods, "{delta:?}");
    assert!(delta.cpu_ns < delta.wall_ns, "{delta:?}");
}

#[test]
#[ignore = "runs within the group that the test above makes"]
fn spins_until_it_is_throttled() {
    let Some(report) = std::env::var_os(REPORT) else {
        return;
    };
    let mut counters = VisitCounters::open(0);
    let start = Instant::now();
    let mut delta = counters.since_mark();
    while delta.throttled_ns.is_none_or(|ns| ns == 0) && start.elapsed() < Duration::from_secs(5) {
        let slice = Instant::now();
        while slice.elapsed() < Duration::from_millis(30) {
            std::hint::spin_loop();
        }
        delta = counters.since_mark();
    }
    let results = (host::read().cgroup.cpu_quota, delta);
    std::fs::write(report, serde_json::to_vec(&results).unwrap()).unwrap();
}
