//! The page of `fathom report`: built, and looked at in a browser.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// What the packages' script ends with where this machine cannot build the page.
const CANNOT: i32 = 3;
/// The feature that puts the page into the program.
pub(crate) const FEATURE: [&str; 2] = ["--features", "fathom/page"];

/// What came of the build.
pub(crate) enum Built {
    /// These steps were done, each well or not.
    Steps(Vec<(&'static str, bool)>),
    Skipped,
}

/// Gets the packages, holds the types against the schema, checks them, and builds the page.
pub(crate) fn build(root: &Path) -> Built {
    let packages = Command::new(root.join("scripts/web.sh")).arg("packages").status();
    let packages = packages.ok().and_then(|status| status.code());
    if packages == Some(CANNOT) {
        println!("skipped: the page of `report` and its tests need Node 20.19 or newer, and npm");
        return Built::Skipped;
    }
    let npm = |arguments: &[&str]| {
        let status = Command::new("npm").args(arguments).current_dir(root.join("web")).status();
        status.is_ok_and(|status| status.success())
    };
    Built::Steps(vec![
        ("packages of the page", packages == Some(0)),
        ("types of the page", npm(&["run", "--silent", "check"])),
        ("build of the page", npm(&["run", "--silent", "build", "--", "--logLevel", "warn"])),
    ])
}

/// Runs the browser's tests with the program beside this one: how many passed, failed and were
/// skipped. Where they do not come to their end, one failed.
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
        // Of those that passed, the name; of those that failed, all.
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

/// Counts the sums at the end of TAP: `# pass 9`, `# fail 0`, `# skipped 1`.
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
    fn sums_of_tap_are_counted_once() {
        let mut counts = [0; 3];
        let lines = ["ok 1 - it is # SKIP no browser", "# tests 12", "# pass 9", "# fail 2"];
        lines.iter().for_each(|line| read_line(&mut counts, line));
        read_line(&mut counts, "# skipped 1");
        assert_eq!(counts, [9, 2, 1]);
    }
}
