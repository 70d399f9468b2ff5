//! What is asked, checked as a whole, and expanded into trials.

use std::path::PathBuf;

use fathom_metric::ProcedureError;
use fathom_record::shell_word;

use crate::factor::TrialFactor;
use crate::knob::{self, KNOBS, Knob, ShownBy};
use crate::target::TrialMachine;

/// All knobs that this machine has.
pub const ALL: &str = "all";

/// What the effect is measured on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialSubject {
    Metrics(Vec<String>),
    Command(String),
    Load(String),
}

impl TrialSubject {
    pub fn words(&self) -> String {
        match self {
            Self::Metrics(metrics) => metrics.join(", "),
            Self::Command(line) | Self::Load(line) => format!("`{line}`"),
        }
    }
}

/// One or two factors that are measured together, at each combination of their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    pub factors: Vec<TrialFactor>,
    pub subject: TrialSubject,
}

impl Trial {
    /// Combinations: the level of each factor.
    pub fn cells(&self) -> Vec<Vec<u32>> {
        match self.factors.len() {
            1 => vec![vec![0], vec![1]],
            _ => vec![vec![0, 0], vec![1, 0], vec![0, 1], vec![1, 1]],
        }
    }

    pub fn words(&self) -> String {
        let all: Vec<String> = self.factors.iter().map(TrialFactor::to_string).collect();
        all.join(" and ")
    }
}

/// Settings that a process has from its start on.
const AT_START: [&str; 2] = ["somaxconn", "timer-slack"];

#[derive(Clone, Debug)]
pub struct TrialRequest {
    /// `NAME` or `NAME=VALUE`.
    pub names: Vec<String>,
    /// Whether it was not the user who named them: what is missing here is then left out.
    pub is_offer: bool,
    pub subject: Option<TrialSubject>,
    pub time_s: f64,
    pub seed: Option<u64>,
    pub machine: TrialMachine,
    /// The folder of the journal.
    pub state: PathBuf,
}

impl TrialRequest {
    pub(crate) fn text(&self) -> String {
        let names = self.names.iter().map(|name| shell_word(name));
        let subject = self.subject.iter().flat_map(|subject| match subject {
            TrialSubject::Metrics(metrics) => metrics.iter().map(|it| shell_word(it)).collect(),
            TrialSubject::Command(line) | TrialSubject::Load(line) => vec![shell_word(line)],
        });
        let option = self.subject.iter().map(|_| "--for".to_owned());
        let words = std::iter::once("--try".to_owned()).chain(names).chain(option).chain(subject);
        words.collect::<Vec<String>>().join(" ")
    }

    /// # Errors
    /// If a name is none of the list, or the machine does not have it.
    pub fn trials(&self) -> Result<Vec<Trial>, ProcedureError> {
        let is_all = self.names.iter().any(|name| name == ALL);
        let names: Vec<&str> = match is_all {
            true => KNOBS.iter().map(|knob| knob.name).collect(),
            false => self.names.iter().map(String::as_str).collect(),
        };
        let mut factors: Vec<TrialFactor> = Vec::new();
        for name in names {
            let (name, value) = name.split_once('=').map_or((name, None), |(a, b)| (a, Some(b)));
            let Some(knob) = knob::find(name) else {
                return Err(ProcedureError::usage(format!("--try {name}: no such setting")));
            };
            if factors.iter().any(|known| known.knob == knob) {
                return Err(ProcedureError::usage(format!("--try {name}: given twice")));
            }
            let factor = self.subject_of(knob).and_then(|_| {
                let new = TrialFactor::new(&self.machine, knob, value);
                new.map_err(|error| ProcedureError::usage(format!("--try {error}")))
            });
            match factor {
                Ok(factor) => factors.push(factor),
                Err(_) if is_all || self.is_offer => {}
                Err(error) => return Err(error),
            }
        }
        if factors.is_empty() {
            return Err(ProcedureError::failed("this machine has none of these settings to try"));
        }
        for factor in &factors {
            factor.check_writable().map_err(ProcedureError::failed)?;
        }
        self.together(factors)
    }

    fn subject_of(&self, knob: &Knob) -> Result<TrialSubject, ProcedureError> {
        let owned = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect();
        match (&self.subject, knob.shown_by) {
            (Some(TrialSubject::Load(_)), _) if AT_START.contains(&knob.name) => {
                Err(ProcedureError::usage(format!(
                    "--try {}: a server has the value with which it was started; name a command \
                     that starts it: --for 'CMD'",
                    knob.name
                )))
            }
            (Some(subject), _) => Ok(subject.clone()),
            (None, ShownBy::Metrics(all)) => Ok(TrialSubject::Metrics(owned(all))),
            (None, ShownBy::Command(line)) => Ok(TrialSubject::Command(line.to_owned())),
            (None, ShownBy::Named) => Err(ProcedureError::usage(format!(
                "--try {}: no metric shows its effect; name a program or a service: --for",
                knob.name
            ))),
        }
    }

    /// Those that interact become one trial.
    fn together(&self, mut factors: Vec<TrialFactor>) -> Result<Vec<Trial>, ProcedureError> {
        let mut trials = Vec::new();
        while !factors.is_empty() {
            let first = factors.remove(0);
            let interacts = |other: &TrialFactor| {
                first.knob.interacts == Some(other.knob.name)
                    || other.knob.interacts == Some(first.knob.name)
            };
            let subject = self.subject_of(first.knob)?;
            let second = factors.iter().position(interacts).map(|at| factors.remove(at));
            trials.push(Trial { factors: std::iter::once(first).chain(second).collect(), subject });
        }
        Ok(trials)
    }
}
