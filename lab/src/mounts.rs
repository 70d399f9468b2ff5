//! Running a test in its own mount namespace: the test program starts itself again in a namespace,
//! whose mounts the kernel removes when it ends.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::process::Command;

use crate::Unmet;

/// Set to the test's name inside the namespace.
const INSIDE: &str = "FATHOM_LAB_INSIDE";

/// Runs the calling test, whose path is `test`, in a mount namespace. Returns true inside, where
/// the test must run. Outside it passes the output, or why the test is skipped, to `say`.
///
/// # Panics
/// Outside, if the test failed inside.
pub fn inside(test: &str, say: impl Fn(&str)) -> bool {
    if std::env::var_os(INSIDE).is_some_and(|inside| inside == OsStr::new(test)) {
        return true;
    }
    match run_inside(test) {
        Ok(output) => say(&output),
        Err(why) => say(&format!("skipped: {why}")),
    }
    false
}

/// Ends the calling test unless it runs in a mount namespace of its own. Outside, it runs the test
/// there, and prints its output or why it is skipped.
#[macro_export]
macro_rules! isolate_mounts {
    () => {{
        fn here() {}
        // `crate::module::test::here`
        let path = std::any::type_name_of_val(&here).trim_end_matches("::here");
        let (_, test) = path.split_once("::").expect("a path in a crate");
        if !$crate::mounts::inside(test, |output| println!("{output}")) {
            return;
        }
    }};
}

/// Runs the test in a namespace; returns its output, indented.
fn run_inside(test: &str) -> Result<String, Unmet> {
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
    again.args(rest).arg(this).args([test, "--exact", "--include-ignored"]);
    again.args(["--nocapture", "--test-threads=1"]);
    // Its own temporary folder, removed outside: inside, mount points cannot be removed.
    let name = format!("fathom-lab-{}-{}", std::process::id(), test.replace("::", "-"));
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder).expect("a folder");
    let output = again.env(INSIDE, test).env("TMPDIR", &folder).output().expect("it starts");
    let removed = std::fs::remove_dir_all(&folder);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success(), "{test} failed in its namespace:\n{text}");
    removed.expect("the temporary folder is removed");
    assert!(text.contains("1 passed"), "{test} is not a test of this program:\n{text}");
    // Without the harness's lines, which would be counted twice.
    let harness = ["running 1 test", "test result: ", "ok", "successes:", ""];
    let prefix = format!("test {test} ... ");
    let own = text.lines().map(|line| line.strip_prefix(&prefix).unwrap_or(line)).filter(|line| {
        !harness.iter().any(|one| line == one || (one.ends_with(' ') && line.starts_with(one)))
    });
    Ok(own.map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n"))
}

/// The command line prefix that enters a mount namespace, through a user namespace if not root.
fn namespace() -> (&'static str, &'static [&'static str]) {
    match rustix::process::geteuid().is_root() {
        true => ("unshare", &["--mount"]),
        false => ("unshare", &["--user", "--map-root-user", "--mount"]),
    }
}
