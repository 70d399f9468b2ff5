//! Pages of evidence in docs/evidence: each is written whole by one command, below a head with its
//! command, commit, machine and date, and with its criteria, also those that were missed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub const FOLDER: &str = "docs/evidence";

#[derive(Debug, PartialEq, Eq)]
pub struct EvidencePage {
    /// The file's name in `FOLDER`.
    pub name: &'static str,
    pub title: &'static str,
    /// The command that writes it, without parameters.
    pub command: &'static str,
}

pub const ANSWERS: EvidencePage =
    EvidencePage { name: "ANSWERS.md", title: "Known answers", command: "make lab PART=answers" };
pub const COST: EvidencePage = EvidencePage {
    name: "COST.md",
    title: "What real programs should cost",
    command: "make lab PART=cost",
};
/// By the same command, where the core was shared with others.
pub const COST_SHARED: EvidencePage = EvidencePage {
    name: "COST-SHARED.md",
    title: "What real programs should cost, on a shared core",
    command: "make lab PART=cost",
};
pub const DIFFERENCES: EvidencePage = EvidencePage {
    name: "DIFFERENCES.md",
    title: "Sabotages that a comparison names",
    command: "make lab PART=differences",
};
/// Written by a script.
pub const DIST: EvidencePage =
    EvidencePage { name: "DIST.md", title: "What is delivered", command: "make lab PART=dist" };
pub const FAULTS: EvidencePage =
    EvidencePage { name: "FAULTS.md", title: "Faults", command: "make soak" };
pub const FLAKY: EvidencePage = EvidencePage {
    name: "FLAKY.md",
    title: "Tests under load, without privileges, twice",
    command: "make flaky",
};
pub const FLEET: EvidencePage = EvidencePage {
    name: "FLEET.md",
    title: "Many members",
    command: "make lab PART=fleet-members",
};
pub const FUZZ: EvidencePage =
    EvidencePage { name: "FUZZ.md", title: "Fuzzing", command: "make fuzz" };
pub const HTTP_PEERS: EvidencePage = EvidencePage {
    name: "HTTP-PEERS.md",
    title: "Fathom and other servers on the same requests",
    command: "make http-peers",
};
pub const LOAD_LAB: EvidencePage = EvidencePage {
    name: "LOAD-LAB.md",
    title: "Known answers of a load",
    command: "make lab PART=load",
};
pub const PROFILES: EvidencePage = EvidencePage {
    name: "PROFILES.md",
    title: "Numbers by the programs of two profiles",
    command: "make bench-profiles",
};
pub const QUESTIONS: EvidencePage = EvidencePage {
    name: "QUESTIONS.md",
    title: "Questions and their first screens",
    command: "make lab PART=questions",
};
pub const REMEDIES: EvidencePage = EvidencePage {
    name: "REMEDIES.md",
    title: "Settings that are tried",
    command: "make lab PART=remedies",
};
pub const REPEATABILITY: EvidencePage = EvidencePage {
    name: "REPEATABILITY.md",
    title: "Repeatability",
    command: "make repeatability",
};
pub const SABOTAGE: EvidencePage =
    EvidencePage { name: "SABOTAGE.md", title: "Sabotage", command: "make lab PART=sabotage" };
pub const SIMULATION: EvidencePage =
    EvidencePage { name: "SIMULATION.md", title: "Simulation", command: "make simulate" };
pub const ZOO: EvidencePage =
    EvidencePage { name: "ZOO.md", title: "Emulated machines", command: "make zoo" };

pub const PAGES: [&EvidencePage; 18] = [
    &ANSWERS,
    &COST,
    &COST_SHARED,
    &DIFFERENCES,
    &DIST,
    &FAULTS,
    &FLAKY,
    &FLEET,
    &FUZZ,
    &HTTP_PEERS,
    &LOAD_LAB,
    &PROFILES,
    &QUESTIONS,
    &REMEDIES,
    &REPEATABILITY,
    &SABOTAGE,
    &SIMULATION,
    &ZOO,
];

/// The fields of a head, in their order.
pub const FIELDS: [&str; 4] = ["Command", "Commit", "Machine", "Date (UTC)"];

/// From which commit, on which machine and when a page or a part of it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceOrigin {
    /// The short hash of the last commit of other files than pages of evidence, with a `+` if such
    /// files were changed since.
    pub commit: String,
    pub machine: String,
    pub date: String,
}

/// What a page must show, and whether it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criterion {
    pub text: String,
    pub is_met: bool,
}

/// The contents of a page.
pub struct EvidenceContents<'c> {
    /// Parameters of the command.
    pub parameters: &'c [(&'c str, String)],
    /// The origin of each part, with its name; the name of a single part is not shown.
    pub origins: &'c [(&'c str, &'c EvidenceOrigin)],
    pub criteria: &'c [Criterion],
    pub body: &'c str,
}

impl EvidenceOrigin {
    /// Of what is measured now; `root` is the folder of the project.
    pub fn here(root: &Path) -> Self {
        let host = fathom_measure::host::read();
        let machine = format!(
            "{}, {} logical CPUs, kernel {}, hypervisor {}",
            host.cpu.model,
            host.cpu.logical,
            host.kernel,
            host.virtualization.as_deref().unwrap_or("unknown")
        );
        let date = output(Command::new("date").args(["-u", "+%F"]));
        Self { commit: commit(root), machine, date: date.unwrap_or_else(|| "unknown".to_owned()) }
    }
}

fn commit(root: &Path) -> String {
    let git = |words: &[&str]| {
        // The owner of the folder may be another user: the lab needs root.
        output(Command::new("git").args(["-c", "safe.directory=*"]).args(words).current_dir(root))
    };
    let others = format!(":(exclude){FOLDER}");
    let changes = git(&["status", "--porcelain", "--", ".", &others]);
    // A page that is committed makes no other program.
    let last = git(&["log", "-1", "--format=%h", "--abbrev=8", "--", ".", &others]);
    match last.filter(|hash| !hash.is_empty()) {
        Some(hash) if changes.is_some_and(|it| it.is_empty()) => hash,
        Some(hash) => hash + "+",
        None => "unknown".to_owned(),
    }
}

/// What a program prints, if it succeeds.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Criterion {
    pub fn new(text: impl Into<String>, is_met: bool) -> Self {
        Self { text: text.into(), is_met }
    }

    /// `MISSED` is searched for.
    fn word(&self) -> &'static str {
        if self.is_met { "met" } else { "**MISSED**" }
    }
}

impl EvidencePage {
    /// The path below the folder of the project.
    pub fn path(&self) -> String {
        format!("{FOLDER}/{}", self.name)
    }

    pub fn text(&self, contents: &EvidenceContents) -> String {
        let EvidenceContents { parameters, origins, criteria, body } = contents;
        let mut command = self.command.to_owned();
        for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
            let quote = if value.contains(' ') { "'" } else { "" };
            command += &format!(" {name}={quote}{value}{quote}");
        }
        let values = [
            format!("`{command}`"),
            of_parts(origins, |origin| &origin.commit),
            of_parts(origins, |origin| &origin.machine),
            of_parts(origins, |origin| &origin.date),
        ];
        let mut text = format!("# {}\n\n", self.title);
        for (field, value) in FIELDS.iter().zip(values) {
            text += &format!("- {field}: {value}\n");
        }
        if !criteria.is_empty() {
            text += "\n| criterion | |\n|---|---|\n";
        }
        for criterion in *criteria {
            text += &format!("| {} | {} |\n", criterion.text, criterion.word());
        }
        format!("{text}\n{}\n", body.trim())
    }

    /// Writes it, and returns the missed criteria.
    pub fn write(&self, root: &Path, contents: &EvidenceContents) -> io::Result<Vec<String>> {
        let path = root.join(self.path());
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{path:?}: {error}"));
        std::fs::write(&path, self.text(contents)).map_err(named)?;
        let missed = contents.criteria.iter().filter(|criterion| !criterion.is_met);
        Ok(missed.map(|criterion| format!("{}: MISSED: {}", self.path(), criterion.text)).collect())
    }
}

/// A value of all parts, or each value with the names of its parts.
fn of_parts(origins: &[(&str, &EvidenceOrigin)], of: impl Fn(&EvidenceOrigin) -> &str) -> String {
    let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
    for &(name, origin) in origins {
        match values.iter_mut().find(|(value, _)| *value == of(origin)) {
            Some((_, names)) => names.push(name),
            None => values.push((of(origin), vec![name])),
        }
    }
    match values.as_slice() {
        [(value, _)] => (*value).to_owned(),
        several => {
            let each =
                several.iter().map(|(value, names)| format!("{value} ({})", names.join(", ")));
            each.collect::<Vec<_>>().join("; ")
        }
    }
}

/// Results of the parts of a page, kept in the target folder: the page is written when it has all.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "T: Serialize + DeserializeOwned")]
pub struct EvidenceParts<T> {
    #[serde(skip)]
    path: PathBuf,
    /// Parts with other parameters belong to another page.
    parameters: Vec<String>,
    parts: BTreeMap<String, (EvidenceOrigin, T)>,
}

impl<T: Serialize + DeserializeOwned> EvidenceParts<T> {
    /// The kept parts with these parameters.
    pub fn load(path: PathBuf, parameters: &[String]) -> Self {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let kept = serde_json::from_str::<Self>(&text).ok();
        let kept = kept.filter(|kept| kept.parameters == parameters);
        let parts = kept.map(|kept| kept.parts).unwrap_or_default();
        Self { path, parameters: parameters.to_vec(), parts }
    }

    /// Replaces a part, and keeps it.
    pub fn set(&mut self, name: &str, origin: &EvidenceOrigin, result: T) -> io::Result<()> {
        self.parts.insert(name.to_owned(), (origin.clone(), result));
        std::fs::write(&self.path, serde_json::to_string_pretty(self)?)
    }

    /// These parts, in their order; `None` if one is missing.
    pub fn all(&self, names: &[&'static str]) -> Option<Vec<(&'static str, &EvidenceOrigin, &T)>> {
        let part = |name: &&'static str| {
            self.parts.get(*name).map(|(origin, result)| (*name, origin, result))
        };
        names.iter().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(commit: &str) -> EvidenceOrigin {
        let [machine, date] = ["A CPU", "2026-11-25"].map(str::to_owned);
        EvidenceOrigin { commit: commit.to_owned(), machine, date }
    }

    #[test]
    fn head_has_the_commit_of_each_part() {
        let (one, other) = (origin("1a2b3c4d"), origin("5e6f7a8b+"));
        let parameters = [("RUNS", "10".to_owned()), ("ONLY", String::new())];
        let criteria = [Criterion::new("no error", false), Criterion::new("no end", true)];
        let origins = [("a", &one), ("b", &other), ("c", &one)];
        let contents = EvidenceContents {
            parameters: &parameters,
            origins: &origins,
            criteria: &criteria,
            body: "x\n\n",
        };
        assert_eq!(
            SABOTAGE.text(&contents),
            "# Sabotage\n\n- Command: `make lab PART=sabotage RUNS=10`\n\
             - Commit: 1a2b3c4d (a, c); 5e6f7a8b+ (b)\n\
             - Machine: A CPU\n- Date (UTC): 2026-11-25\n\n\
             | criterion | |\n|---|---|\n| no error | **MISSED** |\n| no end | met |\n\nx\n"
        );
    }

    #[test]
    fn missed_criteria_are_written_and_returned() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(root.path().join(FOLDER)).expect("the folder of the pages");
        let (one, criteria) = (origin("1a2b3c4d"), [Criterion::new("no error", false)]);
        let contents = EvidenceContents {
            parameters: &[],
            origins: &[("", &one)],
            criteria: &criteria,
            body: "x",
        };
        let missed = FAULTS.write(root.path(), &contents).expect("it is written");
        assert_eq!(missed, ["docs/evidence/FAULTS.md: MISSED: no error"]);
        let text = std::fs::read_to_string(root.path().join(FAULTS.path())).expect("a page");
        assert!(text.contains("| no error | **MISSED** |"), "{text}");
        assert!(FAULTS.write(&root.path().join("missing"), &contents).is_err());
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "a skipped test prints why")]
    fn changed_tree_has_a_plus() {
        if output(Command::new("git").arg("--version")).is_none() {
            println!("skipped: needs git");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let git = |words: &[&str]| {
            let mut command = Command::new("git");
            command.args([
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b",
                "-c",
                "commit.gpgsign=false",
            ]);
            let output = command.args(words).current_dir(root).output();
            assert!(output.expect("git").status.success(), "{words:?}");
        };
        assert_eq!(commit(root), "unknown");
        git(&["init", "--quiet"]);
        std::fs::write(root.join("program"), "x").expect("a file");
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", "a"]);
        let clean = commit(root);
        assert_eq!(clean.len(), 8, "{clean}");
        std::fs::create_dir_all(root.join(FOLDER)).expect("the folder of the pages");
        std::fs::write(root.join(FAULTS.path()), "x").expect("a page");
        assert_eq!(commit(root), clean, "a page that is being written is no change");
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", "a page"]);
        assert_eq!(commit(root), clean, "nor is one that is committed");
        std::fs::write(root.join("source"), "x").expect("a file");
        assert_eq!(commit(root), clean + "+");
    }

    #[test]
    fn page_is_complete_with_all_parts_of_its_parameters() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("parts.json");
        let load = |runs: &str| EvidenceParts::<u32>::load(path.clone(), &[runs.to_owned()]);
        load("10").set("a", &origin("1"), 7).expect("it is kept");
        let mut parts = load("10");
        assert_eq!(parts.all(&["a", "b"]), None, "b is missing");
        parts.set("b", &origin("2"), 8).expect("it is kept");
        let (one, other) = (origin("1"), origin("2"));
        assert_eq!(load("10").all(&["b", "a"]), Some(vec![("b", &other, &8), ("a", &one, &7)]));
        assert_eq!(load("20").all(&["a"]), None, "other parameters");
    }
}
