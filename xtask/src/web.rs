//! Builds the page of `fathom report`, compares it with the packaged one, and runs its tests in a
//! browser.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Exit status of scripts/web.sh if Node or npm is missing or too old.
const UNSUPPORTED: i32 = 3;

pub(crate) enum Build {
    /// Names of steps, and whether they succeeded.
    Steps(Vec<(&'static str, bool)>),
    Skipped,
}

/// Installs the packages, checks the types (also against the schema), builds the page, and checks
/// that the packaged page, which is part of the program, is this one.
pub(crate) fn build(root: &Path) -> Build {
    let packages = Command::new(root.join("scripts/web.sh")).arg("packages").status();
    let packages = packages.ok().and_then(|status| status.code());
    if packages == Some(UNSUPPORTED) {
        println!("skipped: building and testing the page needs Node 20.19 or newer, and npm");
        return Build::Skipped;
    }
    let npm = |arguments: &[&str]| {
        let status = Command::new("npm").args(arguments).current_dir(root.join("web")).status();
        status.is_ok_and(|status| status.success())
    };
    Build::Steps(vec![
        ("packages of the page", packages == Some(0)),
        ("types of the page", npm(&["run", "--silent", "check"])),
        ("build of the page", npm(&["run", "--silent", "build", "--", "--logLevel", "warn"])),
        ("packaged page", is_packaged(root)),
    ])
}

/// Whether the packaged page equals the one just built.
fn is_packaged(root: &Path) -> bool {
    let [built, packaged] = ["dist", "packaged"]
        .map(|folder| std::fs::read(root.join("web").join(folder).join("report.html")).ok());
    let equal = built.is_some() && built == packaged;
    if !equal {
        println!("web/packaged/report.html differs from a fresh build: `make web`, then commit it");
    }
    equal
}

/// Runs the browser tests with the program in the folder of this one. Returns how many passed,
/// failed and were skipped. An incomplete run counts as one failure.
pub(crate) fn tests(root: &Path) -> [u64; 3] {
    let program = std::env::current_exe().map(|own| own.with_file_name("fathom"));
    let Ok(program) = program else { return [0, 1, 0] };
    let child = Command::new("npm")
        .args(["test", "--silent"])
        .env("FATHOM", program)
        .current_dir(root.join("web"))
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else { return [0, 1, 0] };
    let mut counts = [0; 3];
    let mut failing = false;
    for line in child.stdout.take().into_iter().flat_map(|pipe| BufReader::new(pipe).lines()) {
        let Ok(line) = line else { break };
        failing = line.starts_with("not ok ") || failing && line.starts_with(' ');
        // Passed tests: the name only. Failed tests: all lines.
        if failing || line.starts_with("ok ") {
            println!("{line}");
        }
        read_line(&mut counts, &line);
    }
    let good = child.wait().is_ok_and(|status| status.success());
    if !good && counts[1] == 0 {
        counts[1] = 1;
    }
    counts
}

/// Reads the totals at the end of TAP: `# pass 9`, `# fail 0`, `# skipped 1`.
fn read_line(counts: &mut [u64; 3], line: &str) {
    for (count, word) in counts.iter_mut().zip(["# pass ", "# fail ", "# skipped "]) {
        let number = line.strip_prefix(word).and_then(|number| number.trim().parse().ok());
        *count = number.unwrap_or(*count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_tap_are_read() {
        let mut counts = [0; 3];
        let lines = ["ok 1 - it is # SKIP no browser", "# tests 12", "# pass 9", "# fail 2"];
        lines.iter().for_each(|line| read_line(&mut counts, line));
        read_line(&mut counts, "# skipped 1");
        assert_eq!(counts, [9, 2, 1]);
    }
}
