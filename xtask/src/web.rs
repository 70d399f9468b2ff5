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

/// Whether the packaged page, and the licences of what is in it, equal those just built.
fn is_packaged(root: &Path) -> bool {
    ["report.html", "licences.md"].into_iter().all(|name| {
        let [built, packaged] = ["dist", "packaged"]
            .map(|folder| std::fs::read(root.join("web").join(folder).join(name)).ok());
        let equal = built.is_some() && built == packaged;
        if !equal {
            println!("web/packaged/{name} differs from a fresh build: `make web`, then commit it");
        }
        equal
    })
}

/// How the browser tests ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WebEnded {
    pub(crate) passed: u64,
    pub(crate) skipped: u64,
    /// Their names.
    pub(crate) failed: Vec<String>,
}

impl WebEnded {
    /// Reads a line of TAP: `not ok 3 - table is sorted`, and the totals at its end, `# pass 9`.
    fn read(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("not ok ") {
            self.failed.push(name.to_owned());
        }
        for (count, word) in [(&mut self.passed, "# pass "), (&mut self.skipped, "# skipped ")] {
            let number = line.strip_prefix(word).and_then(|number| number.trim().parse().ok());
            *count = number.unwrap_or(*count);
        }
    }
}

/// Runs the browser tests with the program in the folder of this one. An incomplete run is a
/// failure.
pub(crate) fn tests(root: &Path) -> WebEnded {
    let mut ended = WebEnded::default();
    let is_complete = (|| {
        let program = std::env::current_exe()?.with_file_name("fathom");
        let mut command = Command::new("npm");
        command.args(["test", "--silent"]).env("FATHOM", program).current_dir(root.join("web"));
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut failing = false;
        for line in child.stdout.take().into_iter().flat_map(|pipe| BufReader::new(pipe).lines()) {
            let line = line?;
            failing = line.starts_with("not ok ") || failing && line.starts_with(' ');
            // Passed tests: the name only. Failed tests: all lines.
            if failing || line.starts_with("ok ") {
                println!("{line}");
            }
            ended.read(&line);
        }
        Ok::<bool, std::io::Error>(child.wait()?.success())
    })();
    if !is_complete.unwrap_or(false) && ended.failed.is_empty() {
        ended.failed.push("tests of the page".to_owned());
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_and_failures_of_tap_are_read() {
        let mut ended = WebEnded::default();
        let lines = ["ok 1 - it is # SKIP no browser", "not ok 2 - table is sorted", "# tests 12"];
        lines.iter().for_each(|line| ended.read(line));
        ["# pass 9", "# fail 1", "# skipped 1"].iter().for_each(|line| ended.read(line));
        let failed = vec!["2 - table is sorted".to_owned()];
        assert_eq!(ended, WebEnded { passed: 9, skipped: 1, failed });
    }
}
