//! A test with mounts of its own: the test program starts itself again in a mount namespace, which
//! ends with it. Whatever it mounts is gone then, also when it fails or is killed.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::process::Command;

use crate::Unmet;

/// Tells the second start from the first, by the name of its test.
const INSIDE: &str = "FATHOM_LAB_INSIDE";

/// Runs the calling test, whose name with its modules is `test`, within mounts of its own: true
/// within, where the test is to be done. Outside, `say` is told what happened within, or that the
/// test is skipped and why.
///
/// # Panics
/// Outside, when the test failed within.
pub fn inside(test: &str, say: impl Fn(&str)) -> bool {
    if std::env::var_os(INSIDE).is_some_and(|inside| inside == OsStr::new(test)) {
        return true;
    }
    match again(test) {
        Ok(said) => say(&said),
        Err(why) => say(&format!("skipped: {why}")),
    }
    false
}

/// The test within; what it said, indented. An error is why it cannot be tried here.
fn again(test: &str) -> Result<String, Unmet> {
    let (program, rest) = namespace();
    let mut trial = Command::new(program);
    trial.args(rest).args(["mount", "-t", "tmpfs", "none", "/mnt"]);
    if !trial.output().is_ok_and(|output| output.status.success()) {
        return Err(Unmet("mounting a file system needs root or user namespaces".to_owned()));
    }
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        return Err(Unmet(format!("open /dev/fuse: {error}")));
    }
    let this = std::env::current_exe().expect("the path of this program");
    let mut again = Command::new(program);
    again.args(rest).arg(this).args([test, "--exact", "--nocapture", "--test-threads=1"]);
    // Temporary folders of its own, which are taken away when its mounts are gone: one that is
    // still mounted on cannot be, from within.
    let name = format!("fathom-lab-{}-{}", std::process::id(), test.replace("::", "-"));
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder).expect("a folder");
    let output = again.env(INSIDE, test).env("TMPDIR", &folder).output().expect("it starts");
    let removed = std::fs::remove_dir_all(&folder);
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{test} failed within its mounts:\n{said}");
    removed.expect("nothing is left of the folder");
    assert!(said.contains("1 passed"), "{test} is no test of this program:\n{said}");
    // What the harness says there would be counted twice.
    let harness = ["running 1 test", "test result: ", "ok", "successes:", ""];
    let begun = format!("test {test} ... ");
    let own = said.lines().map(|line| line.strip_prefix(&begun).unwrap_or(line)).filter(|line| {
        !harness.iter().any(|one| line == one || (one.ends_with(' ') && line.starts_with(one)))
    });
    Ok(own.map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n"))
}

/// Enters a namespace of mounts, by way of a user namespace for those who are not root.
fn namespace() -> (&'static str, &'static [&'static str]) {
    match rustix::process::geteuid().is_root() {
        true => ("unshare", &["--mount"]),
        false => ("unshare", &["--user", "--map-root-user", "--mount"]),
    }
}
