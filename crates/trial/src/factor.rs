//! A knob with the two values that are compared on this machine.

use std::fmt;

use crate::knob::Knob;
use crate::target::{SettingTarget, TrialMachine};

/// What is set in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SettingChange {
    pub(crate) target: SettingTarget,
    pub(crate) from: String,
    pub(crate) to: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialFactor {
    pub knob: &'static Knob,
    pub(crate) changes: Vec<SettingChange>,
}

/// States that cannot be left, of SMT.
const FIXED: [&str; 3] = ["notsupported", "notimplemented", "forceoff"];

/// Why a knob cannot be tried.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFactor {
    #[error("{0}: this machine does not have it")]
    Missing(&'static str),
    #[error("{0}: it has no other value here")]
    NoOther(&'static str),
    #[error("{0}={1}: it is that already")]
    Same(&'static str, String),
    #[error("{0}={1}: expected one of {2}")]
    NotListed(&'static str, String, String),
    #[error("{0}: {1} is read-only here")]
    ReadOnly(&'static str, SettingTarget),
    #[error("{0} ({1}) needs root: run it with sudo")]
    NeedsRoot(&'static str, SettingTarget),
}

impl TrialFactor {
    /// With this value, else with the first of the list that is not the current one.
    ///
    /// # Errors
    /// If the machine does not have it, or no other value.
    pub fn new(
        machine: &TrialMachine,
        knob: &'static Knob,
        value: Option<&str>,
    ) -> Result<Self, NoFactor> {
        let count = knob.settings[0].values.len();
        let level = |at: usize| {
            knob.settings.iter().map(|it| machine.value(it.values[at])).collect::<Vec<String>>()
        };
        let levels: Vec<Vec<String>> = (0..count).map(level).collect();
        let exists = knob
            .settings
            .iter()
            .all(|it| machine.targets(it).first().is_some_and(|target| target.read().is_ok()));
        if !exists {
            return Err(NoFactor::Missing(knob.name));
        }
        let to = |level: &Vec<String>| Self { knob, changes: changes(machine, knob, level) };
        let Some(value) = value else {
            let mut all = levels.iter().map(to);
            let other = all.find(|factor| !factor.changes.is_empty());
            return other.ok_or(NoFactor::NoOther(knob.name));
        };
        let named = levels.iter().find(|level| level.join("/") == value || level[0] == value);
        let Some(level) = named else {
            let all: Vec<String> = levels.iter().map(|level| level.join("/")).collect();
            let all = all.join(", ");
            return Err(NoFactor::NotListed(knob.name, value.to_owned(), all));
        };
        let factor = to(level);
        match factor.changes.is_empty() {
            true => Err(NoFactor::Same(knob.name, value.to_owned())),
            false => Ok(factor),
        }
    }

    /// # Errors
    /// If a part of it may not be changed.
    pub fn check_writable(&self) -> Result<(), NoFactor> {
        let refused = self.changes.iter().find(|change| !change.target.is_writable());
        let Some(SettingChange { target, .. }) = refused else { return Ok(()) };
        Err(match rustix::process::geteuid().is_root() {
            true => NoFactor::ReadOnly(self.knob.name, target.clone()),
            false => NoFactor::NeedsRoot(self.knob.name, target.clone()),
        })
    }

    /// `bbr → cubic`; of several places those of the first one of each kind.
    pub fn change(&self) -> String {
        let [from, to] = [|it: &SettingChange| it.from.clone(), |it: &SettingChange| it.to.clone()]
            .map(|value| {
                let mut values: Vec<String> = Vec::new();
                for one in self.changes.iter().map(value) {
                    if !values.contains(&one) {
                        values.push(one);
                    }
                }
                values.join("/")
            });
        format!("{from} → {to}")
    }

    /// Lines that make it permanent, to be run as root by the user.
    pub fn permanent(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.changes.iter().map(permanent).collect();
        lines.dedup();
        lines
    }
}

/// The places that have another value and take this one.
fn changes(machine: &TrialMachine, knob: &Knob, level: &[String]) -> Vec<SettingChange> {
    let mut changes = Vec::new();
    for (setting, to) in knob.settings.iter().zip(level) {
        for target in machine.targets(setting) {
            if let Ok(from) = target.read()
                && from != *to
                && !FIXED.contains(&from.as_str())
                && target.takes(to)
            {
                changes.push(SettingChange { target, from, to: to.clone() });
            }
        }
    }
    changes
}

fn permanent(change: &SettingChange) -> String {
    let SettingChange { target, to, .. } = change;
    let path = match target {
        SettingTarget::Atime(mount) => {
            let mount = mount.display();
            return format!("add `{to}` to the options of {mount} in /etc/fstab");
        }
        SettingTarget::File(path) => path.display().to_string(),
    };
    match path.split_once("/proc/sys/") {
        Some((_, key)) => {
            let key = key.replace('/', ".");
            format!("echo '{key} = {to}' | sudo tee -a /etc/sysctl.d/90-fathom.conf")
        }
        None if path.contains("/proc/self/") => {
            "TimerSlackNSec= of a systemd unit, or prctl(PR_SET_TIMERSLACK) of the program"
                .to_owned()
        }
        None => format!("echo 'w {path} - - - - {to}' | sudo tee -a /etc/tmpfiles.d/fathom.conf"),
    }
}

impl fmt::Display for TrialFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.knob.name, self.change())
    }
}
