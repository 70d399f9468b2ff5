//! Rules of the doctor and their outcomes.

use fathom_record::condition::Condition;
use fathom_record::diagnosis::{Acceptable, ClockState};
use fathom_record::{Finding, Fix, Host, Severity};

#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub host: &'a Host,
    pub condition: &'a Condition,
    pub clock: &'a ClockState,
}

impl Subject<'_> {
    /// Why what a file of the kernel has is unknown: nothing in `/proc` or `/sys` can be read, or
    /// this file cannot.
    pub(super) fn unread(&self, path: &str) -> String {
        let (mount, is_readable) = match path.starts_with("/sys") {
            true => ("/sys", self.condition.sys_readable),
            false => ("/proc", self.condition.proc_readable),
        };
        format!("{} cannot be read", if is_readable { path } else { mount })
    }
}

/// One check of the machine.
#[derive(Debug)]
pub struct Rule {
    /// Stable, in kebab-case.
    pub id: &'static str,
    /// Affected metrics: ids, or prefixes followed by `*`.
    pub touches: &'static [&'static str],
    /// The effect on these metrics if the finding is not good, in one line.
    pub effect: &'static str,
    pub(super) check: fn(&Subject<'_>) -> RuleOutcome,
}

impl Rule {
    pub fn apply(&self, subject: &Subject<'_>) -> Finding {
        let outcome = (self.check)(subject);
        Finding {
            id: self.id.to_owned(),
            severity: outcome.severity,
            unknown: outcome.unknown,
            found: outcome.found,
            read_at: outcome.read_at,
            touches: self.touches.iter().map(|pattern| (*pattern).to_owned()).collect(),
            effect: outcome.effect.unwrap_or_else(|| self.effect.to_owned()),
            remedy: outcome.remedy,
        }
    }
}

/// A finding under construction.
#[derive(Debug, Default)]
pub(super) struct RuleOutcome {
    severity: Severity,
    unknown: bool,
    found: String,
    read_at: Vec<String>,
    effect: Option<String>,
    remedy: Option<Fix>,
}

impl RuleOutcome {
    pub(super) fn found(severity: Severity, found: impl Into<String>) -> Self {
        Self { severity, found: found.into(), ..Self::default() }
    }

    pub(super) fn good(found: impl Into<String>) -> Self {
        Self::found(Severity::Good, found)
    }

    pub(super) fn note(found: impl Into<String>) -> Self {
        Self::found(Severity::Note, found)
    }

    pub(super) fn warning(found: impl Into<String>) -> Self {
        Self::found(Severity::Warning, found)
    }

    pub(super) fn severe(found: impl Into<String>) -> Self {
        Self::found(Severity::Severe, found)
    }

    /// A fact that could not be read: a note, because an unknown fact is no defect.
    pub(super) fn unknown(what: &str, because: impl std::fmt::Display) -> Self {
        Self { unknown: true, ..Self::note(format!("unknown: {what} ({because})")) }
    }

    pub(super) fn read(mut self, place: impl Into<String>) -> Self {
        let place = place.into();
        if !place.is_empty() && !self.read_at.contains(&place) {
            self.read_at.push(place);
        }
        self
    }

    /// Adds the origins of facts, by their paths in the host or the condition.
    pub(super) fn from(mut self, subject: &Subject<'_>, paths: &[&str]) -> Self {
        for path in paths {
            let origins = [&subject.host.origins, &subject.condition.origins];
            if let Some(place) = origins.iter().find_map(|origins| origins.get(*path)) {
                self = self.read(place.clone());
            }
        }
        self
    }

    /// Replaces the effect of the rule.
    pub(super) fn effect(mut self, effect: impl Into<String>) -> Self {
        self.effect = Some(effect.into());
        self
    }

    /// Adds a remedy, unless the finding is good or unknown.
    pub(super) fn fix(self, remedy: Fix) -> Self {
        let is_wanted = self.severity > Severity::Good && !self.unknown;
        Self { remedy: is_wanted.then_some(remedy).or(self.remedy), ..self }
    }

    pub(super) fn nothing_to_do(self, why: Acceptable) -> Self {
        self.fix(Fix::Nothing { why })
    }
}

/// A share in per cent: below 1 % with a decimal, as ticks are that fine.
pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent > 0.0 && percent < 0.95 {
        return format!("{percent:.1} %");
    }
    format!("{percent:.0} %")
}

/// A size in KiB, MiB or GiB.
pub(super) fn size(bytes: u64) -> String {
    let bytes = bytes as f64;
    let (kib, mib, gib) = (1024.0, 1_048_576.0, 1_073_741_824.0);
    if bytes >= gib {
        return format!("{:.1} GiB", bytes / gib);
    }
    if bytes >= mib {
        return format!("{:.0} MiB", bytes / mib);
    }
    format!("{:.0} KiB", bytes / kib)
}

/// `1 process`, `2 processes`.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    let word = if number == 1 { one } else { many };
    format!("{number} {word}")
}

/// CPUs as the kernel lists them: `0-3,8`.
pub(super) fn list(cpus: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let part = |&(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sizes_and_cpu_lists_are_formatted() {
        assert_eq!([0.0, 0.004, 0.05, 1.0].map(percent), ["0 %", "0.4 %", "5 %", "100 %"]);
        assert_eq!([0.0094, 0.0095].map(percent), ["0.9 %", "1 %"]);
        assert_eq!([0, 1, 2].map(|it| count(it, "CPU", "CPUs")), ["0 CPUs", "1 CPU", "2 CPUs"]);
        assert_eq!([64 << 10, 300 << 20, 6 << 30].map(size), ["64 KiB", "300 MiB", "6.0 GiB"]);
        assert_eq!(list(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(list(&[]), "");
    }
}
